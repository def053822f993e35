"""Quantize, requantize and dequantize."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT, INT32, INT64, QINT8, QINT32, QUINT8, UINT8, DType
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.integers import inside_border, with_border
from thinflow.lower.onnx.quantization_formulas import (
    Range,
    Three,
    along,
    as_type,
    dequantize_exactly,
    in_double,
    known_parameters,
    quantize_exactly,
    range_of,
    real_value,
    three,
)
from thinflow.lower.onnx.quantized_context import (
    Accumulators,
    QuantizedTensor,
    accumulators_of,
    dequantized,
    dynamically_quantized,
    is_exact,
    note_accumulators,
    note_measured,
    note_quantized,
    quantized,
    quantized_of,
    real_values_of,
    requantized,
    target_over,
)
from thinflow.lower.onnx.requantized_float_layers import requantized_layer
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops._quantized import codes_of, is_native
from thinflow.ops.traits import Trait, has

_LIMIT = float(np.finfo(np.float32).max)
_MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")


@lower("QuantizeV2", to="onnx")
def quantize_v2(
    b: Builder,
    node: Node,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    T: DType = QUINT8,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int = -1,
    ensure_minimum_range: float = 0.01,
) -> tuple[Tensor, Tensor, Tensor]:
    """The range is first widened to hold 0 and not to be too small."""
    require(mode in _MODES, f"the mode {mode} is not known")
    require(mode != "MIN_FIRST" or axis < 0, "MIN_FIRST quantizes the whole tensor")
    ends = [along(b, t, x, axis) for t in (low, high)]
    # At least `ensure_minimum_range` of the larger end, or of 1.
    margin = ends[0].magnitude().most(ends[1].magnitude()).most(1) * ensure_minimum_range
    least = ends[0].least(0)
    most = ends[1].most(least + margin).most(0)
    value, plain = Term(b, x), b.plain(T)
    even = round_mode == "HALF_TO_EVEN"
    # The cases that TensorFlow hands to oneDNN, where that is switched on: they round differently.
    is_onednn = (mode == "MIN_FIRST" and T is QUINT8) or (mode == "SCALED" and even and T in (QUINT8, QINT8))
    if axis < 0 and not narrow_range and not is_native() and is_onednn:
        values, least, most = _onednn(value, least, most, mode, plain)
    elif mode == "MIN_FIRST":
        values = quantize_exactly(value, range_of(b, least, most, T))
    elif mode == "MIN_COMBINED":
        values = _min_combined(value, least, most, plain)
    else:
        values, least, most = _scaled(value, least, most, plain, even, narrow_range)
    shape = (None,) if axis >= 0 else ()
    results = [b.reshaped(t.tensor, shape) for t in (least, most)]
    if mode == "MIN_FIRST" and x.dtype is FLOAT and x.shape != ():
        # Ends that are measured of x itself are what DynamicQuantizeLinear measures, too.
        whole = _is_end_of(b, low, "ReduceMin", x) and _is_end_of(b, high, "ReduceMax", x)
        _note_kernel(b, x, values.tensor, results[0], results[1], T, whole)
    return b.result(values.tensor), b.result(results[0], 1), b.result(results[1], 2)


def _note_kernel(
    b: Builder, x: Tensor, q: Tensor, low: Tensor, high: Tensor, T: DType, is_whole: bool
) -> None:
    """Note a form by ONNX's own ops, for readers that need not have these very values.

    Args:
        is_whole: whether the range is what x uses. It is then not widened, should it be narrow.
    """
    if T is QINT32:
        sums = Accumulators(low, high, lambda to: quantized(b, x, to), lambda: x)
        note_accumulators(b, q, sums)
    is_known = low.is_constant and high.is_constant
    if T not in (QUINT8, QINT8) or (is_known and known_parameters(low, high, UINT8) is None):
        return
    # The border is added to the values, where it is the zero point: a quarter of the bytes.
    inner, border = inside_border(b, x)
    join = None
    if is_whole:
        values, scale, zero = dynamically_quantized(b, inner)
    else:
        to = target_over(b, Term(b, low), Term(b, high))
        values, join = requantized_layer(b, inner, to) if is_known else (quantized(b, inner, to), None)
        scale, zero = to.scale, to.zero_point
    values = with_border(b, values, zero, border, x.shape)
    params = QuantizedTensor(values, scale, zero, low, high)
    if border is None:
        params = replace(params, join=join, reals=(lambda: x) if is_whole else None)
    note_quantized(b, q, params)


def _is_end_of(b: Builder, end: Tensor, code: str, x: Tensor) -> bool:
    """True if a number is the least or the greatest of x."""
    found = b.producer(end, code)
    return found is not None and found.inputs[0] is x and end.shape == ()


def _min_combined(x: Term, least: Term, most: Term, element: DType) -> Term:
    t = codes_of(element.numpy())
    k = (float(t.high - t.low) / (most - least).cast("double")).cast(FLOAT)
    scaled = (x.least(most).most(least) - least) * k
    # Signed values lie around 0: half of the steps is taken off before rounding, with TensorFlow's two ways
    # to round.
    whole = (scaled + 0.5).truncated() if not t.low else (scaled - float(t.half)).rounded_away()
    return as_type(whole, element)


def _scaled(
    x: Term, least: Term, most: Term, element: DType, even: bool, narrow: bool
) -> tuple[Term, Term, Term]:
    """Values whose zero point is 0, and the range that they really span."""
    t = codes_of(element.numpy())
    low, high = float(t.low + (1 if narrow else 0)), float(t.high)
    by_low = choose(least * low > 0, low / least, _LIMIT)
    by_high = choose(most * high > 0, high / most, _LIMIT)
    scale = by_low.least(by_high)
    least, most = low / scale, high / scale
    v = x.least(most).most(least) * scale
    return as_type(v.rounded() if even else v.rounded_away(), element), least, most


def _onednn(x: Term, least: Term, most: Term, mode: str, element: DType) -> tuple[Term, Term, Term]:
    """Values as oneDNN rounds them: to even, by parameters that are not moved to make 0 exact."""
    t = codes_of(element.numpy())
    if mode == "SCALED":
        limit = least.magnitude().most(most.magnitude())
        # A symmetric range has 255 steps for 2 * limit.
        values = (x * ((127.5 if t.low else 255.0) / limit)).rounded().most(float(t.low)).least(float(t.high))
        return as_type(values, element), -limit if t.low else limit * 0, limit
    k = 255.0 / (most - least)
    if x.shape == ():
        return as_type(((x - least) * k).truncated(), element), least, most
    values = (x * k + (-least) * k).rounded()
    return as_type(values.most(0).least(255), element), least, most


@lower("Dequantize", to="onnx")
def dequantize(
    b: Builder,
    node: Node,
    q: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    mode: str = "MIN_COMBINED",
    narrow_range: bool = False,
    axis: int = -1,
) -> Tensor:
    require(mode in _MODES, f"the mode {mode} is not known")
    t = codes_of(q.dtype.numpy())
    values, ends = Term(b, q), [along(b, e, q, axis) for e in (low, high)]
    if mode == "MIN_FIRST":
        require(axis < 0, "MIN_FIRST decodes the whole tensor")
        params = quantized_of(b, q, low, high)
        if params is not None and not q.is_constant and not is_exact(q):
            is_inner = params.is_measured and _is_for_layers(node)
            return b.typed((real_values_of if is_inner else dequantized)(b, params))
        return b.typed(dequantize_exactly(values, range_of(b, low, high, q.dtype)).tensor)
    if mode == "MIN_COMBINED":
        span = float(np.float32(t.high) - np.float32(t.low))
        k = (ends[1] - ends[0]) / span
        return b.typed(((values.cast(FLOAT) + float(t.half)) * k + ends[0]).tensor)
    k = ends[1] / float(t.high)
    if t.low or (narrow_range and q.dtype.name == "uint8" and not is_native()):
        k = (ends[0] / float(t.low + (1 if narrow_range else 0))).most(k)
    floats = values.cast(FLOAT)
    if q.dtype is INT32 and axis < 0:
        floats = floats.cast(INT32).cast(FLOAT)
    return b.typed((floats * k).tensor)


def _is_for_layers(node: Node) -> bool:
    """True if only convolutions read the result, whose sums are rounded again."""
    readers = node.output().readers
    return bool(readers) and all(has(reader.op, Trait.CONVOLUTION) for reader in readers)


# --- from 32 bits to eight -----------------------------------------------------------------------------


def _measured(b: Builder, q: Tensor, r: Range) -> tuple[Term, Term]:
    """The real values of the least and the greatest sum; 0 is kept in reach from below only."""
    axes = range(len(shape_of(q, "the quantized values")))
    least, most = (real_value(Term(b, q).reduced(code, *axes), r) for code in ("ReduceMin", "ReduceMax"))
    return least.least(0), most


def _to_bytes(b: Builder, q: Tensor, r: Range, low: Term, high: Term) -> Term:
    """Fixed-point arithmetic with 16 fractional bits."""
    width_in, width = r.high - r.low, high - low
    flat = width.equals(0)
    # An empty range would divide by 0 here; its scale is chosen to be 0 below.
    safe = choose(flat, Term(b, b.scalar(1, width.tensor)), width)
    nothing = Term(b, b.int64(0))
    scaling = width_in.cast(DOUBLE) * (255.0 * 65536.0) / safe.cast(DOUBLE)
    scale = choose(flat, nothing, scaling.cast(INT64))
    reciprocal = choose(flat, width * 0, 255.0 / safe)
    exact = (low.cast(DOUBLE) * 255.0) * 65536.0 / safe.cast(DOUBLE)
    offset = choose(flat, nothing, exact.rounded_away().cast(INT64))
    middle = ((r.low + r.high).cast(DOUBLE) / 2.0).cast(FLOAT)
    in_offset = (middle * reciprocal * 65536.0).cast(INT64)
    scaled = in_double(Term(b, q), r).cast(INT64) * scale
    # q divides its range into 2**32 steps: q * scale is 2**32 times the result with 16 fractional bits. 32768
    # is half a step.
    fixed = _shifted(scaled, 32) + (in_offset - offset + 32768)
    return _shifted(fixed, 16).most(0).least(255).cast("uint8")


def _shifted(x: Term, bits: int) -> Term:
    """x >> bits, which rounds down."""
    # Mod of integers has the sign of the divisor, so the rest is never below 0, also for negative x.
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
    sums = accumulators_of(b, q, low, high)
    if sums is not None:
        note_measured(b, q, least.tensor, most.tensor)
        found = requantized(b, q, sums, least.tensor, most.tensor, QUINT8)
        assert found is not None, "a measured range is always taken"
        return found
    return three(b, _to_bytes(b, q, r, least, most), least, most)


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
    source = accumulators_of(b, q, low, high)
    try:
        found = None if source is None else requantized(b, q, source, wanted_low, wanted_high, out_type)
    except UnsupportedOp:  # no kernel of ONNX Runtime is near enough
        found = None
    if found is not None:
        return found
    r, wanted = range_of(b, low, high, INT32), range_of(b, wanted_low, wanted_high, out_type)
    values = (
        _to_bytes(b, q, r, wanted.low, wanted.high)
        if out_type is QUINT8
        else quantize_exactly(dequantize_exactly(Term(b, q), r), wanted)
    )
    return three(b, values, wanted.low, wanted.high)


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
    # 32-bit sums use the range -2**31 ... 2**31 symmetrically.
    k = each / wanted.low.magnitude().most(wanted.high.magnitude()) / float(2**31) * float(t.high)
    values = (Term(b, b.cast(q, FLOAT)) * k).rounded().most(float(t.low)).least(float(t.high))
    return three(b, values.cast(INT32).cast(wanted.dtype), wanted.low, wanted.high)


@lower("RequantizationRangePerChannel", to="onnx")
def requantization_range_per_channel(
    b: Builder, node: Node, q: Tensor, low: Tensor, high: Tensor, *, clip_value_max: float
) -> tuple[Tensor, Tensor]:
    rank = len(shape_of(q, "the quantized values"))
    # In int64: the magnitude of the least int32 is no int32.
    largest = Term(b, b.cast(q, INT64)).magnitude().reduced("ReduceMax", *range(rank - 1)).cast(FLOAT)
    each = Term(b, low).magnitude().most(Term(b, high).magnitude())
    used = (each * largest / float(2**31)).reduced("ReduceMax", 0)
    most = used.most(float(np.finfo(np.float32).tiny)).least(clip_value_max)
    lowest = Term(b, b.cast(q, INT64)).reduced("ReduceMin", *range(rank))
    # Without negative sums the result is unsigned: its range starts at 0.
    least = choose(lowest < 0, -most, 0)
    return b.result(least.tensor), b.result(most.tensor, 1)
