"""From reals to codes and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT32, QINT8, QINT32, QUINT8, UINT8, DType
from thinflow.lower.onnx import quantized_context
from thinflow.lower.onnx.borders import inside_border, with_border
from thinflow.lower.onnx.builder import Builder, number, require, shape_of
from thinflow.lower.onnx.fake_quant import noted_grid
from thinflow.lower.onnx.quantization_formulas import as_codes, decoded, encoded, range_of
from thinflow.lower.onnx.quantized_context import Coded, Wide, coded_of, coded_over, is_exact, known_grid
from thinflow.lower.onnx.requantized_float_layers import requantized_layer
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops._quantized import codes_of, is_native

_LIMIT = float(np.finfo(np.float32).max)
_LAYERS = ("Conv2D", "DepthwiseConv2dNative")
_MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")


def _along(b: Builder, values: Tensor, x: Tensor, axis: int) -> Term:
    """Ends of ranges, shaped to broadcast against x."""
    if axis < 0:
        return Term(b, b.reshaped(values, ()))
    rank = len(shape_of(x, "x"))
    require(axis < rank, f"axis {axis} is out of range for rank {rank}")
    return Term(b, b.unsqueezed(values, range(1, rank - axis)))


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
    ends = [_along(b, t, x, axis) for t in (low, high)]
    margin = ends[0].magnitude().most(ends[1].magnitude()).most(1) * ensure_minimum_range
    least = ends[0].least(0)
    most = ends[1].most(least + margin).most(0)
    value, plain = Term(b, x), b.plain(T)
    even = round_mode == "HALF_TO_EVEN"
    is_onednn = (mode == "MIN_FIRST" and T is QUINT8) or (mode == "SCALED" and even and T in (QUINT8, QINT8))
    if axis < 0 and not narrow_range and not is_native() and is_onednn:
        codes, least, most = _onednn(value, least, most, mode, plain)
    elif mode == "MIN_FIRST":
        codes = encoded(value, range_of(b, least, most, T))
    elif mode == "MIN_COMBINED":
        codes = _min_combined(value, least, most, plain)
    else:
        codes, least, most = _scaled(value, least, most, plain, even, narrow_range)
    shape = (None,) if axis >= 0 else ()
    results = [b.reshaped(t.tensor, shape) for t in (least, most)]
    if mode == "MIN_FIRST" and x.dtype is FLOAT and x.shape != ():
        whole = _is_end_of(b, low, "ReduceMin", x) and _is_end_of(b, high, "ReduceMax", x)
        _note_kernel(b, x, codes.tensor, results[0], results[1], T, whole)
    return b.result(codes.tensor), b.result(results[0], 1), b.result(results[1], 2)


def _note_kernel(
    b: Builder, x: Tensor, q: Tensor, low: Tensor, high: Tensor, T: DType, is_whole: bool
) -> None:
    """Let readers that need not have these very codes have those of ONNX's own ops.

    Args:
        is_whole: whether the range is what x uses. It is then not widened, should it be narrow.
    """
    if T is QINT32:
        wide = Wide(low, high, lambda to: quantized_context.encoded(b, x, to), lambda: x)
        quantized_context.note_wide(b, q, wide)
    is_known = low.is_constant and high.is_constant
    if T not in (QUINT8, QINT8) or (is_known and known_grid(low, high, UINT8) is None):
        return
    inner, border = inside_border(b, x)
    source = None
    if is_whole:
        codes, scale, zero = quantized_context.quantized(b, inner)
    else:
        to = coded_over(b, Term(b, low), Term(b, high))
        codes, source = (
            requantized_layer(b, inner, to) if is_known else (quantized_context.encoded(b, inner, to), None)
        )
        scale, zero = to.scale, to.zero
    codes = with_border(b, codes, zero, border, x.shape)
    coded = Coded(codes, scale, zero, low, high)
    if border is None:
        coded = replace(coded, source=source, reals=(lambda: x) if is_whole else None)
    quantized_context.note_coded(b, q, coded)


def _is_end_of(b: Builder, end: Tensor, code: str, x: Tensor) -> bool:
    """Whether a number is the least or the greatest of x."""
    found = b.producer(end, code)
    return found is not None and found.inputs[0] is x and end.shape == ()


def _min_combined(x: Term, least: Term, most: Term, element: DType) -> Term:
    t = codes_of(element.numpy())
    k = (float(t.high - t.low) / (most - least).cast("double")).cast(FLOAT)
    scaled = (x.least(most).most(least) - least) * k
    whole = (scaled + 0.5).truncated() if not t.low else (scaled - float(t.half)).rounded_away()
    return as_codes(whole, element)


def _scaled(
    x: Term, least: Term, most: Term, element: DType, even: bool, narrow: bool
) -> tuple[Term, Term, Term]:
    """Codes on a grid on which 0 is 0, and the range that they really span."""
    t = codes_of(element.numpy())
    low, high = float(t.low + (1 if narrow else 0)), float(t.high)
    by_low = choose(least * low > 0, low / least, _LIMIT)
    by_high = choose(most * high > 0, high / most, _LIMIT)
    scale = by_low.least(by_high)
    least, most = low / scale, high / scale
    v = x.least(most).most(least) * scale
    return as_codes(v.rounded() if even else v.rounded_away(), element), least, most


def _onednn(x: Term, least: Term, most: Term, mode: str, element: DType) -> tuple[Term, Term, Term]:
    """Codes as oneDNN rounds them: to even, on a grid that is not moved to hold zero."""
    t = codes_of(element.numpy())
    if mode == "SCALED":
        limit = least.magnitude().most(most.magnitude())
        codes = (x * ((127.5 if t.low else 255.0) / limit)).rounded().most(float(t.low)).least(float(t.high))
        return as_codes(codes, element), -limit if t.low else limit * 0, limit
    k = 255.0 / (most - least)
    if x.shape == ():
        return as_codes(((x - least) * k).truncated(), element), least, most
    codes = (x * k + (-least) * k).rounded()
    return as_codes(codes.most(0).least(255), element), least, most


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
    codes, ends = Term(b, q), [_along(b, e, q, axis) for e in (low, high)]
    if mode == "MIN_FIRST":
        require(axis < 0, "MIN_FIRST decodes the whole tensor")
        coded = coded_of(b, q, low, high)
        if coded is not None and not q.is_constant and not is_exact(q):
            is_inner = coded.is_measured and _is_for_layers(node)
            return b.typed((quantized_context.reals_of if is_inner else quantized_context.decoded)(b, coded))
        return b.typed(decoded(codes, range_of(b, low, high, q.dtype)).tensor)
    if mode == "MIN_COMBINED":
        span = float(np.float32(t.high) - np.float32(t.low))
        k = (ends[1] - ends[0]) / span
        return b.typed(((codes.cast(FLOAT) + float(t.half)) * k + ends[0]).tensor)
    k = ends[1] / float(t.high)
    if t.low or (narrow_range and q.dtype.name == "uint8" and not is_native()):
        k = (ends[0] / float(t.low + (1 if narrow_range else 0))).most(k)
    values = codes.cast(FLOAT)
    if q.dtype is INT32 and axis < 0:
        values = values.cast(INT32).cast(FLOAT)
    return b.typed((values * k).tensor)


def _is_for_layers(node: Node) -> bool:
    """Whether only layers with weights read the result, whose sums are rounded again."""
    readers = node.output().readers
    return bool(readers) and all(reader.op in _LAYERS for reader in readers)


# --- rounding to a grid without leaving the reals -----------------------------------------------------------


def _rounded(
    b: Builder,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    bits: int,
    signed: bool,
    given: bool,
    half_up: bool,
    narrow: bool,
    axis: int,
    note: bool,
) -> Tensor:
    """x on the grid that some bits span over the range, in the type of x."""
    require(1 <= bits <= (61 if signed else 62), f"num_bits is {bits}")
    require(x.dtype.name in ("float", "double"), f"a grid of {x.dtype} has no ONNX form")
    value = Term(b, x)
    if note and given and low.is_constant and high.is_constant:
        ends_now = [_along(b, t, x, axis).tensor.array() for t in (low, high)]
        return noted_grid(b, x, ends_now[0], ends_now[1], bits, signed=signed, narrow=narrow, half_up=half_up)
    if given:
        ends = [_along(b, t, x, axis) for t in (low, high)]
    else:
        rank = len(shape_of(x, "x"))
        others = [a for a in range(rank) if a != axis]
        ends = [value.reduced(code, *others, keep=axis >= 0) for code in ("ReduceMin", "ReduceMax")]
    least = float(-(1 << (bits - 1)) + (1 if narrow else 0)) if signed else 0.0
    most = float((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    limit = float(np.finfo(x.dtype.numpy()).max)
    by_low = choose(ends[0] * least > 0, least / ends[0], limit)
    by_high = choose(ends[1] * most > 0, most / ends[1], limit)
    decides = by_low < by_high
    scale = choose(decides, by_low, by_high)
    inverse = choose(decides, ends[0] / least, ends[1] / most) if least else ends[1] / most
    if given:
        bottom = choose(decides, ends[0], inverse * least)
        top = choose(decides, inverse * most, ends[1])
        value = value.least(top).most(bottom)
    scaled = value * scale
    whole = (scaled + 0.5).floor() if half_up else scaled.rounded()
    return b.result((whole * inverse).tensor)


@lower("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4", to="onnx")
def quantize_and_dequantize(
    b: Builder,
    node: Node,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    narrow_range: bool = False,
    axis: int = -1,
    _range_only: bool = False,
) -> Tensor:
    up = round_mode == "HALF_UP"
    return _rounded(b, x, low, high, num_bits, signed_input, range_given, up, narrow_range, axis, _range_only)


@lower("QuantizeAndDequantizeV3", to="onnx")
def quantize_and_dequantize_v3(
    b: Builder,
    node: Node,
    x: Tensor,
    low: Tensor,
    high: Tensor,
    bits: Tensor,
    *,
    signed_input: bool = True,
    range_given: bool = True,
    narrow_range: bool = False,
    axis: int = -1,
    _range_only: bool = False,
) -> Tensor:
    count = int(number(bits, "num_bits"))
    return _rounded(b, x, low, high, count, signed_input, range_given, False, narrow_range, axis, _range_only)


@lower("QuantizeAndDequantize", to="onnx")
def quantize_and_dequantize_v1(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    input_min: float = 0.0,
    input_max: float = 0.0,
    _range_only: bool = False,
) -> Tensor:
    low, high = b.scalar(input_min, x, "low"), b.scalar(input_max, x, "high")
    return _rounded(b, x, low, high, num_bits, signed_input, range_given, False, False, -1, _range_only)
