"""From 32-bit codes back to eight bits."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT, INT32, INT64, QUINT8, DType
from thinflow.lower.onnx.builder import Builder, shape_of
from thinflow.lower.onnx.quantization_formulas import (
    Range,
    decoded,
    encoded,
    numbers,
    range_of,
    real_of,
)
from thinflow.lower.onnx.quantized_context import (
    note_measured,
    requantized,
    wide_of,
)
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops._quantized import codes_of

Three = tuple[Tensor, Tensor, Tensor]


def _three(b: Builder, codes: Term, low: Term, high: Term) -> Three:
    return b.result(codes.tensor), b.result(low.tensor, 1), b.result(high.tensor, 2)


def _measured(b: Builder, q: Tensor, r: Range) -> tuple[Term, Term]:
    """The reals of the least and the greatest code in use; 0 is kept in reach from below only."""
    axes = range(len(shape_of(q, "the codes")))
    least, most = (real_of(Term(b, q).reduced(code, *axes), r) for code in ("ReduceMin", "ReduceMax"))
    return least.least(0), most


def _to_bytes(b: Builder, q: Tensor, r: Range, low: Term, high: Term) -> Term:
    """Fixed-point arithmetic with 16 fractional bits."""
    width_in, width = r.high - r.low, high - low
    flat = width.equals(0)
    safe = choose(flat, Term(b, b.scalar(1, width.tensor)), width)
    nothing = Term(b, b.int64(0))
    scaling = width_in.cast(DOUBLE) * (255.0 * 65536.0) / safe.cast(DOUBLE)
    scale = choose(flat, nothing, scaling.cast(INT64))
    reciprocal = choose(flat, width * 0, 255.0 / safe)
    exact = (low.cast(DOUBLE) * 255.0) * 65536.0 / safe.cast(DOUBLE)
    offset = choose(flat, nothing, exact.rounded_away().cast(INT64))
    middle = ((r.low + r.high).cast(DOUBLE) / 2.0).cast(FLOAT)
    in_offset = (middle * reciprocal * 65536.0).cast(INT64)
    scaled = numbers(Term(b, q), r).cast(INT64) * scale
    fixed = _shifted(scaled, 32) + (in_offset - offset + 32768)
    return _shifted(fixed, 16).most(0).least(255).cast("uint8")


def _shifted(x: Term, bits: int) -> Term:
    """x >> bits, which rounds down."""
    return (x - x.apply("Mod", 1 << bits)) / (1 << bits)


@lower("RequantizationRange", to="onnx")
def requantization_range(
    b: Builder, node: Node, q: Tensor, low: Tensor, high: Tensor
) -> tuple[Tensor, Tensor]:
    least, most = _measured(b, q, range_of(b, low, high, INT32))
    note_measured(b, q, least.tensor, most.tensor)
    return b.result(least.tensor), b.result(most.tensor, 1)


@lower("QuantizeDownAndShrinkRange", to="onnx")
def quantize_down(b: Builder, node: Node, q: Tensor, low: Tensor, high: Tensor) -> Three:
    r = range_of(b, low, high, INT32)
    least, most = _measured(b, q, r)
    wide = wide_of(b, q, low, high)
    if wide is not None:
        note_measured(b, q, least.tensor, most.tensor)
        found = requantized(b, q, wide, least.tensor, most.tensor, QUINT8)
        assert found is not None, "a measured range is always taken"
        return found
    return _three(b, _to_bytes(b, q, r, least, most), least, most)


@lower("Requantize", to="onnx")
def requantize(
    b: Builder,
    node: Node,
    q: Tensor,
    low: Tensor,
    high: Tensor,
    wanted_low: Tensor,
    wanted_high: Tensor,
    *,
    out_type: DType = QUINT8,
) -> Three:
    source = wide_of(b, q, low, high)
    try:
        found = None if source is None else requantized(b, q, source, wanted_low, wanted_high, out_type)
    except UnsupportedOp:  # no kernel of ONNX Runtime is near enough
        found = None
    if found is not None:
        return found
    r, wanted = range_of(b, low, high, INT32), range_of(b, wanted_low, wanted_high, out_type)
    codes = (
        _to_bytes(b, q, r, wanted.low, wanted.high)
        if out_type is QUINT8
        else encoded(decoded(Term(b, q), r), wanted)
    )
    return _three(b, codes, wanted.low, wanted.high)


@lower("RequantizePerChannel", to="onnx")
def requantize_per_channel(
    b: Builder,
    node: Node,
    q: Tensor,
    low: Tensor,
    high: Tensor,
    wanted_low: Tensor,
    wanted_high: Tensor,
    *,
    out_type: DType = QUINT8,
) -> Three:
    wanted = range_of(b, wanted_low, wanted_high, out_type)
    t = codes_of(wanted.dtype.numpy())
    each = Term(b, low).magnitude().most(Term(b, high).magnitude())
    k = each / wanted.low.magnitude().most(wanted.high.magnitude()) / float(2**31) * float(t.high)
    codes = (Term(b, b.cast(q, FLOAT)) * k).rounded().most(float(t.low)).least(float(t.high))
    return _three(b, codes.cast(INT32).cast(wanted.dtype), wanted.low, wanted.high)


@lower("RequantizationRangePerChannel", to="onnx")
def requantization_range_per_channel(
    b: Builder, node: Node, q: Tensor, low: Tensor, high: Tensor, *, clip_value_max: float
) -> tuple[Tensor, Tensor]:
    rank = len(shape_of(q, "the codes"))
    largest = Term(b, b.cast(q, INT64)).magnitude().reduced("ReduceMax", *range(rank - 1)).cast(FLOAT)
    each = Term(b, low).magnitude().most(Term(b, high).magnitude())
    used = (each * largest / float(2**31)).reduced("ReduceMax", 0)
    most = used.most(float(np.finfo(np.float32).tiny)).least(clip_value_max)
    lowest = Term(b, b.cast(q, INT64)).reduced("ReduceMin", *range(rank))
    least = choose(lowest < 0, -most, 0)
    return b.result(least.tensor), b.result(most.tensor, 1)
