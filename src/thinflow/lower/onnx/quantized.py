"""Products and sums of quantized values, in 32 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT, INT32, INT64
from thinflow.lower.onnx.accumulators import convolution, matrix_product
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.integers import conv_of, plane, seen_by_windows, whole_conv
from thinflow.lower.onnx.quantization_formulas import (
    Range,
    Three,
    dequantize_exactly,
    known_parameters,
    quantize_exactly,
    quantized_value,
    range_of,
    real_value,
    scale_of,
    three,
    unclamped_value,
    wrapped,
    zero_point,
)
from thinflow.lower.onnx.quantized_context import (
    QuantizedTensor,
    in_own_type,
    note_accumulators,
    quantized_of,
    weights_of,
)
from thinflow.lower.onnx.quantized_sums import combined
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.quantized.addends import Addend, addends, decoding_excess, is_single, middle_of
from thinflow.lower.quantized.geometry import centred_windows
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.typing import Array


def _centred(b: Builder, q: Tensor, r: Range) -> Term:
    """Values less the zero point, in double: their products and sums are exact."""
    # Sums of products of whole numbers are exact in double below 2**53.
    return (Term(b, b.cast(q, INT64)) - zero_point(r)).cast(DOUBLE)


def _product_range(x: Term, y: Term) -> tuple[Term, Term]:
    c = x * y
    # The real values of the ends of int32; as float32 its 2**31 - 1 is 2**31.
    return c * -(2.0**31), c * 2.0**31


@lower("QuantizedMatMul", to="onnx")
def quantized_mat_mul(
    b: Builder,
    node: Node,
    x: Tensor,
    w: Tensor,
    min_x: Tensor,
    max_x: Tensor,
    min_w: Tensor,
    max_w: Tensor,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Three:
    x_range, w_range = range_of(b, min_x, max_x, x.dtype), range_of(b, min_w, max_w, w.dtype)
    limits = _product_range(scale_of(x_range), scale_of(w_range))
    params, weights = quantized_of(b, x, min_x, max_x), weights_of(b, w, min_w, max_w)
    if params is not None and weights is not None:
        params, weights = (
            replace(c, values=b.transposed(c.values, (1, 0))) if is_turned else c
            for c, is_turned in ((in_own_type(b, x, params), transpose_a), (weights, transpose_b))
        )
        y, sums = matrix_product(b, params, weights, *(t.tensor for t in limits))
        return three(b, Term(b, note_accumulators(b, y, sums)), *limits)
    left, right = _centred(b, x, x_range).tensor, _centred(b, w, w_range).tensor
    left = b.transposed(left, (1, 0)) if transpose_a else left
    right = b.transposed(right, (1, 0)) if transpose_b else right
    product = Term(b, b.step("MatMul", left, right, shape=b.result_spec().shape))
    return three(b, wrapped(product), *limits)


def _code_level(r: Range) -> Term:
    """The scale of an operand: signed filters are symmetric and never use the lowest value."""
    return scale_of(r, 254 if r.dtype.name == "int8" else None)


@lower("QuantizedConv2D", "QuantizedDepthwiseConv2D", to="onnx")
def quantized_conv_2d(
    b: Builder,
    node: Node,
    x: Tensor,
    w: Tensor,
    min_x: Tensor,
    max_x: Tensor,
    min_w: Tensor,
    max_w: Tensor,
    *,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> Three:
    """By kernels for integers where zero points are known, else as products of windows, in double.

    Zero points are 0 next to signed filters, and where filters are per channel.
    """
    x_range, w_range = range_of(b, min_x, max_x, x.dtype), range_of(b, min_w, max_w, w.dtype)
    kh, kw, depth, count = (n or 0 for n in shape_of(w, "the filter", 4))
    require(depth > 0, "the size of the filter is not known")
    limits = _product_range(_code_level(x_range), _code_level(w_range))
    per_channel = node.op == "QuantizedDepthwiseConv2D"
    is_plain = per_channel or w.dtype.name == "int8"
    require(is_plain or tuple(dilations) == (1, 1, 1, 1), "quantized convolutions have no dilations")
    both: tuple[QuantizedTensor | None, QuantizedTensor | None]
    if is_plain:
        both = _raw(b, x, x_range), _raw(b, w, w_range)
    else:
        both = quantized_of(b, x, min_x, max_x), weights_of(b, w, min_w, max_w)
    gaps = dilations if is_plain else None
    whole = _whole(b, x, *both, limits, strides, padding, gaps, per_channel=per_channel)
    if whole is not None:
        return three(b, whole, *limits)
    if is_plain:
        flat, inside = plane(x, (kh, kw), strides, dilations, padding)
        values, border = Term(b, b.cast(x, DOUBLE)), Term(b, b.const(np.float64(0), "border"))
        weights = Term(b, b.cast(w, DOUBLE))
    else:
        flat, inside = _moved_plane(x, (kh, kw), strides, padding)
        zero = zero_point(x_range)
        values, weights = _centred(b, x, x_range), _centred(b, w, w_range)
        # The border is the zero point cut to eight bits, which for one beyond 255 is another value.
        border = choose(zero > 255, zero.apply("Mod", 256) - zero, 0).cast(DOUBLE)
    seen = choose(
        Term(b, b.const(inside[..., None], "inside")), seen_by_windows(b, values.tensor, flat), border
    )
    outer = (shape_of(x)[0], *flat.shape[:2])
    if per_channel:
        total = (seen.unsqueezed(6) * weights).reduced("ReduceSum", 3, 4)
        y = b.reshaped(total.tensor, (*outer, depth * count))
    else:
        taps = kh * kw * depth
        patches, filters = b.reshaped(seen.tensor, (*outer, taps)), b.reshaped(weights.tensor, (taps, count))
        y = b.step("MatMul", patches, filters, shape=(*outer, count))
    return three(b, wrapped(Term(b, y)), *limits)


def _raw(b: Builder, q: Tensor, r: Range) -> QuantizedTensor:
    """The parameters of values next to a signed filter: their zero point is 0."""
    scale, zero = _code_level(r).tensor, b.const(np.array(0, q.dtype.numpy()), "zero")
    return QuantizedTensor(q, scale, zero, r.low.tensor, r.high.tensor)


def _whole(
    b: Builder,
    q: Tensor,
    x: QuantizedTensor | None,
    w: QuantizedTensor | None,
    limits: tuple[Term, Term],
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int] | None,
    *,
    per_channel: bool = False,
) -> Term | None:
    """A convolution of q by kernels for integers; None if zero points or the sizes are not known.

    Its sums are those of q; its other forms may take the values in x, which are within one of q.
    """
    if x is None or w is None:
        return None
    found = (
        conv_of(b, values, w.values, strides, padding, dilations, per_channel=per_channel)
        # The first is exact, the last is quick; they are one where q itself has kernels.
        for values in dict.fromkeys((q, x.values))
    )
    convs = [conv for conv in found if conv is not None]
    if not convs:
        return None
    conv, quick = convs[0], convs[-1]
    zeros = x.zero_point, w.zero_point
    y = whole_conv(b, conv, w.values, zeros)

    def exact_sums() -> Tensor:
        return y if quick is conv else whole_conv(b, quick, w.values, zeros)

    sums = convolution(b, quick, x, w, exact_sums, limits[0].tensor, limits[1].tensor)
    return Term(b, note_accumulators(b, y, sums))


def _moved_plane(
    x: Tensor, window: Sequence[int], strides: Sequence[int], padding: str
) -> tuple[Array, Array]:
    """As `plane`, where windows move to the centre when the stride leaves pixels over."""
    h, w = shape_of(x, "x", 4)[1:3]
    require(h is not None and w is not None, "the size of the image is not known")
    axes = centred_windows((h or 0, w or 0), window, strides[1:3], padding)
    rows, columns = (
        np.arange(axis.count)[:, None] * stride + np.arange(k) - axis.before + axis.start
        for axis, k, stride in zip(axes, window, strides[1:3], strict=True)
    )
    return plane(x, window, strides, (1, 1, 1, 1), padding, (rows, columns))


@lower("QuantizedBiasAdd", to="onnx")
def quantized_bias_add(
    b: Builder,
    node: Node,
    x: Tensor,
    bias: Tensor,
    min_x: Tensor,
    max_x: Tensor,
    min_b: Tensor,
    max_b: Tensor,
) -> Three:
    x_range, b_range = range_of(b, min_x, max_x, x.dtype), range_of(b, min_b, max_b, bias.dtype)
    # TensorFlow's headroom: in a range 2**17 times as wide no sum of two operands saturates.
    most = x_range.high.most(-x_range.low).most(b_range.high).most(-b_range.low) * float(1 << 17)
    sums = range_of(b, -most, most, INT32)
    zero = quantized_value(Term(b, b.const(np.float64(0), "zero")), sums)
    parts = [
        quantize_exactly(dequantize_exactly(Term(b, q), r), sums).cast(INT64)
        for q, r in ((x, x_range), (bias, b_range))
    ]
    total = wrapped(parts[0] + parts[1] + zero)
    params = _to_join(node, quantized_of(b, x, min_x, max_x))
    other = quantized_of(b, bias, min_b, max_b)
    known = _addends(node, (params, other), (x, bias))
    offset = None if params is None or params.is_measured else _bias_offset(sums)
    offset = offset if known else _with_excess(b, offset, (params, x), (other, bias))
    _note_combined(b, "Add", total, params, other, sums, offset, known)
    return three(b, total, sums.low, sums.high)


def _to_join(node: Node, x: QuantizedTensor | None, number: int = 0) -> QuantizedTensor | None:
    """An operand, which may become part of what follows if nobody else reads its values."""
    is_shared = len(set(node.inputs[number].readers)) > 1
    return replace(x, join=None) if x is not None and is_shared else x


def _bias_offset(sums: Range) -> Term:
    """The sum of nothing and nothing in a 32-bit range, of which float cannot tell the zero point.

    Up to 4 of 255 values, depending on the last bits of the range.
    """
    k = (float(2**32 - 1) / sums.width).cast(FLOAT)
    # In steps the upper end is off 2**31 by what float rounds. A step is worth high * 2**-31, and both
    # operands have the error.
    return (sums.high * k - 2.0**31) * sums.high * 2.0**-30


def _constant(b: Builder, offset: float) -> Term:
    return Term(b, b.const(np.float32(offset), "offset"))


def _with_excess(
    b: Builder, offset: Term | None, *operands: tuple[QuantizedTensor | None, Tensor]
) -> Term | None:
    """The offset of sums, and what the kernel's decoding adds for an operand whose range is known."""
    for x, values in operands:
        params = None if x is None else known_parameters(x.low, x.high, values.dtype)
        excess = 0.0 if params is None else decoding_excess(params)
        # Half a step is what rounding may be off in any case; more is a step by which 0 is another value.
        if params is not None and abs(excess) > params.scale / 2:
            offset = _constant(b, excess) if offset is None else offset + excess
    return offset


def _note_combined(
    b: Builder,
    code: str,
    q: Term,
    x: QuantizedTensor | None,
    y: QuantizedTensor | None,
    r: Range,
    offset: Term | None = None,
    known: Sequence[Addend] = (),
) -> None:
    if x is not None and y is not None:
        note_accumulators(b, q.tensor, combined(b, code, x, y, r.low.tensor, r.high.tensor, offset, known))


def _addends(
    node: Node, params: Sequence[QuantizedTensor | None], values: Sequence[Tensor]
) -> tuple[Addend, ...]:
    """The numbers that the kernel adds for two operands; none if their ranges are not known."""
    pairs = zip(params, values, strict=True)
    grids = [None if c is None else known_parameters(c.low, c.high, q.dtype) for c, q in pairs]
    first, second = grids
    if first is None or second is None:
        return ()
    return addends(node.op, (first, second), [is_single(q.shape) for q in values])


@lower("QuantizedMul", to="onnx")
def quantized_mul(
    b: Builder, node: Node, x: Tensor, y: Tensor, min_x: Tensor, max_x: Tensor, min_y: Tensor, max_y: Tensor
) -> Three:
    x_range, y_range = range_of(b, min_x, max_x, x.dtype), range_of(b, min_y, max_y, y.dtype)
    product = wrapped(_centred(b, x, x_range) * _centred(b, y, y_range))
    limits = range_of(b, *_product_range(scale_of(x_range), scale_of(y_range)), INT32)
    _note_combined(
        b, "Mul", product, quantized_of(b, x, min_x, max_x), quantized_of(b, y, min_y, max_y), limits
    )
    return three(b, product, limits.low, limits.high)


@lower("QuantizedAdd", to="onnx")
def quantized_add(
    b: Builder, node: Node, x: Tensor, y: Tensor, min_x: Tensor, max_x: Tensor, min_y: Tensor, max_y: Tensor
) -> Three:
    require(all(t.shape is not None and None not in t.shape for t in (x, y)), "the sizes are not known")
    x_range, y_range = range_of(b, min_x, max_x, x.dtype), range_of(b, min_y, max_y, y.dtype)
    # As above, with the 14 bits that TensorFlow's QuantizedAdd leaves.
    most = x_range.low.least(y_range.low).magnitude().most(
        x_range.high.most(y_range.high).magnitude()
    ) * float(1 << 14)
    sums = range_of(b, -most, most, INT32)
    x_alone, y_alone = (int(np.prod([n or 0 for n in shape_of(t)])) == 1 for t in (x, y))
    parts = _widened(b, x, x_range, sums, x_alone), _widened(b, y, y_range, sums, y_alone and not x_alone)
    total = wrapped(parts[0] + parts[1])
    params = [
        _to_join(node, quantized_of(b, q, least, most), number)
        for number, (q, least, most) in enumerate(((x, min_x, max_x), (y, min_y, max_y)))
    ]
    known = _addends(node, params, (x, y))
    pairs = zip(params, (x, y), strict=True)
    offset = _constant(b, middle_of(known)[0]) if known else _with_excess(b, None, *pairs)
    _note_combined(b, "Add", total, params[0], params[1], sums, offset, known)
    return three(b, total, sums.low, sums.high)


def _widened(b: Builder, q: Tensor, r: Range, sums: Range, alone: bool) -> Term:
    """Values requantized to a 32-bit range, int64."""
    if alone:
        return quantized_value(real_value(Term(b, q), r).cast(DOUBLE), sums)
    zero, one = (
        unclamped_value(
            real_value(Term(b, b.const(np.array(c, r.dtype.numpy()), "code")), r).cast(DOUBLE), sums
        )
        for c in (0, 1)
    )
    # TensorFlow's vector kernel draws a line through what the values 0 and 1 become.
    y = Term(b, b.cast(q, INT64)) * (one - zero) + zero
    return y.most(-(2**31)).least(2**31 - 1)
