"""Arithmetic on codes: products and sums in 32 bits, and back to eight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT, INT32, INT64
from thinflow.lower.onnx.accumulators import convolution, matrix_product
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.integers import conv_of, whole_conv
from thinflow.lower.onnx.quantization_formulas import (
    Range,
    code_of,
    decoded,
    encoded,
    level,
    range_of,
    real_of,
    unclamped_code,
    wrapped,
    zero_code,
)
from thinflow.lower.onnx.quantized_context import (
    Coded,
    coded_of,
    known_grid,
    note_wide,
    these_very,
    weights_of,
)
from thinflow.lower.onnx.quantized_sums import combined
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.onnx.windows import plane, seen_by_windows
from thinflow.lower.quantized.addends import Addend, addends, is_single, middle_of
from thinflow.lower.quantized.geometry import centred_windows
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.typing import Array

Three = tuple[Tensor, Tensor, Tensor]


def _three(b: Builder, codes: Term, low: Term, high: Term) -> Three:
    return b.result(codes.tensor), b.result(low.tensor, 1), b.result(high.tensor, 2)


def _centred(b: Builder, q: Tensor, r: Range) -> Term:
    """Codes less the code of 0, in double: their products and sums are exact."""
    return (Term(b, b.cast(q, INT64)) - zero_code(r)).cast(DOUBLE)


def _product_range(x: Term, y: Term) -> tuple[Term, Term]:
    c = x * y
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
    of_x, of_w = range_of(b, min_x, max_x, x.dtype), range_of(b, min_w, max_w, w.dtype)
    limits = _product_range(level(of_x), level(of_w))
    coded, weights = coded_of(b, x, min_x, max_x), weights_of(b, w, min_w, max_w)
    if coded is not None and weights is not None:
        coded, weights = (
            replace(c, codes=b.transposed(c.codes, (1, 0))) if is_turned else c
            for c, is_turned in ((these_very(b, x, coded), transpose_a), (weights, transpose_b))
        )
        y, wide = matrix_product(b, coded, weights, *(t.tensor for t in limits))
        return _three(b, Term(b, note_wide(b, y, wide)), *limits)
    left, right = _centred(b, x, of_x).tensor, _centred(b, w, of_w).tensor
    left = b.transposed(left, (1, 0)) if transpose_a else left
    right = b.transposed(right, (1, 0)) if transpose_b else right
    product = Term(b, b.step("MatMul", left, right, shape=b.result_spec().shape))
    return _three(b, wrapped(product), *limits)


def _code_level(r: Range) -> Term:
    """Signed filters are symmetric and never use the lowest code."""
    return level(r, 254 if r.dtype.name == "int8" else None)


@lower("QuantizedConv2D", to="onnx")
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
    """By kernels for integers where the codes of 0 are known, else as products of windows, in double."""
    of_x, of_w = range_of(b, min_x, max_x, x.dtype), range_of(b, min_w, max_w, w.dtype)
    kh, kw, depth, count = (n or 0 for n in shape_of(w, "the filter", 4))
    require(depth > 0, "the size of the filter is not known")
    limits = _product_range(_code_level(of_x), _code_level(of_w))
    is_signed = w.dtype.name == "int8"
    require(is_signed or tuple(dilations) == (1, 1, 1, 1), "quantized convolutions have no dilations")
    both: tuple[Coded | None, Coded | None]
    if is_signed:
        both = _raw(b, x, of_x), _raw(b, w, of_w)
    else:
        both = coded_of(b, x, min_x, max_x), weights_of(b, w, min_w, max_w)
    whole = _whole(b, x, *both, limits, strides, padding, dilations if is_signed else None)
    if whole is not None:
        return _three(b, whole, *limits)
    if w.dtype.name == "int8":
        flat, inside = plane(x, (kh, kw), strides, dilations, padding)
        codes, border = Term(b, b.cast(x, DOUBLE)), Term(b, b.const(np.float64(0), "border"))
        weights = Term(b, b.cast(w, DOUBLE))
    else:
        flat, inside = _moved_plane(x, (kh, kw), strides, padding)
        zero = zero_code(of_x)
        codes, weights = _centred(b, x, of_x), _centred(b, w, of_w)
        border = choose(zero > 255, zero.apply("Mod", 256) - zero, 0).cast(DOUBLE)
    seen = seen_by_windows(b, codes.tensor, flat)
    seen = choose(Term(b, b.const(inside[..., None], "inside")), seen, border)
    rows, columns = flat.shape[:2]
    n = shape_of(x)[0]
    patches = b.reshaped(seen.tensor, (n, rows, columns, kh * kw * depth))
    y = b.step("MatMul", patches, b.reshaped(weights.tensor, (kh * kw * depth, count)),
               shape=(n, rows, columns, count))  # fmt: skip
    return _three(b, wrapped(Term(b, y)), *limits)


def _raw(b: Builder, q: Tensor, r: Range) -> Coded:
    """Codes next to a signed filter: 0 is code 0."""
    scale, zero = _code_level(r).tensor, b.const(np.array(0, q.dtype.numpy()), "zero")
    return Coded(q, scale, zero, r.low.tensor, r.high.tensor)


def _whole(
    b: Builder,
    q: Tensor,
    x: Coded | None,
    w: Coded | None,
    limits: tuple[Term, Term],
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int] | None,
    *,
    per_channel: bool = False,
) -> Term | None:
    """A convolution of q by kernels for integers; None if the codes of 0 or the sizes are not known.

    Its sums are those of q; its other forms may take the codes in x, which are within one of q.
    """
    if x is None or w is None:
        return None
    found = (
        conv_of(b, codes, w.codes, strides, padding, dilations, per_channel=per_channel)
        for codes in dict.fromkeys((q, x.codes))
    )
    convs = [conv for conv in found if conv is not None]
    if not convs:
        return None
    conv, quick = convs[0], convs[-1]
    zeros = x.zero, w.zero
    y = whole_conv(b, conv, w.codes, zeros)

    def sums() -> Tensor:
        return y if quick is conv else whole_conv(b, quick, w.codes, zeros)

    wide = convolution(b, quick, x, w, sums, limits[0].tensor, limits[1].tensor)
    return Term(b, note_wide(b, y, wide))


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


@lower("QuantizedDepthwiseConv2D", to="onnx")
def quantized_depthwise(
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
    """Sums of products per channel; 0 is code 0."""
    of_x, of_w = range_of(b, min_x, max_x, x.dtype), range_of(b, min_w, max_w, w.dtype)
    kh, kw, depth, count = (n or 0 for n in shape_of(w, "the filter", 4))
    require(depth > 0, "the size of the filter is not known")
    limits = _product_range(_code_level(of_x), _code_level(of_w))
    both = _raw(b, x, of_x), _raw(b, w, of_w)
    whole = _whole(b, x, *both, limits, strides, padding, dilations, per_channel=True)
    if whole is not None:
        return _three(b, whole, *limits)
    flat, inside = plane(x, (kh, kw), strides, dilations, padding)
    seen = seen_by_windows(b, b.cast(x, DOUBLE), flat)
    seen = choose(Term(b, b.const(inside[..., None], "inside")), seen, 0).unsqueezed(6)
    total = (seen * b.cast(w, DOUBLE)).reduced("ReduceSum", 3, 4)
    y = b.reshaped(total.tensor, (shape_of(x)[0], *flat.shape[:2], depth * count))
    return _three(b, wrapped(Term(b, y)), *limits)


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
    of_x, of_b = range_of(b, min_x, max_x, x.dtype), range_of(b, min_b, max_b, bias.dtype)
    most = of_x.high.most(-of_x.low).most(of_b.high).most(-of_b.low) * float(1 << 17)
    wide = range_of(b, -most, most, INT32)
    zero = code_of(Term(b, b.const(np.float64(0), "zero")), wide)
    parts = [encoded(decoded(Term(b, q), r), wide).cast(INT64) for q, r in ((x, of_x), (bias, of_b))]
    total = wrapped(parts[0] + parts[1] + zero)
    coded = _to_join(node, coded_of(b, x, min_x, max_x))
    other = coded_of(b, bias, min_b, max_b)
    known = _addends(node, (coded, other), (x, bias))
    offset = None if coded is None or coded.is_measured else _bias_offset(wide)
    _note_combined(b, "Add", total, coded, other, wide, offset, known)
    return _three(b, total, wide.low, wide.high)


def _to_join(node: Node, x: Coded | None, number: int = 0) -> Coded | None:
    """An operand, which may become part of what follows if nobody else reads its codes."""
    is_shared = len(set(node.inputs[number].readers)) > 1
    return replace(x, source=None) if x is not None and is_shared else x


def _bias_offset(wide: Range) -> Term:
    """What the sum of nothing and nothing is in a 32-bit range, of which float cannot tell the middle code.

    Up to 4 of 255 codes, depending on the last bits of the range.
    """
    k = (float(2**32 - 1) / wide.width).cast(FLOAT)
    return (wide.high * k - 2.0**31) * wide.high * 2.0**-30


def _note_combined(
    b: Builder,
    code: str,
    q: Term,
    x: Coded | None,
    y: Coded | None,
    r: Range,
    offset: Term | None = None,
    known: Sequence[Addend] = (),
) -> None:
    if x is not None and y is not None:
        note_wide(b, q.tensor, combined(b, code, x, y, r.low.tensor, r.high.tensor, offset, known))


def _addends(node: Node, coded: Sequence[Coded | None], codes: Sequence[Tensor]) -> tuple[Addend, ...]:
    """What the kernel adds for the codes of two operands; nothing if their ranges are not known."""
    pairs = zip(coded, codes, strict=True)
    grids = [None if c is None else known_grid(c.low, c.high, q.dtype) for c, q in pairs]
    first, second = grids
    if first is None or second is None:
        return ()
    return addends(node.op, (first, second), [is_single(q.shape) for q in codes])


@lower("QuantizedMul", to="onnx")
def quantized_mul(
    b: Builder, node: Node, x: Tensor, y: Tensor, min_x: Tensor, max_x: Tensor, min_y: Tensor, max_y: Tensor
) -> Three:
    of_x, of_y = range_of(b, min_x, max_x, x.dtype), range_of(b, min_y, max_y, y.dtype)
    product = wrapped(_centred(b, x, of_x) * _centred(b, y, of_y))
    limits = range_of(b, *_product_range(level(of_x), level(of_y)), INT32)
    _note_combined(b, "Mul", product, coded_of(b, x, min_x, max_x), coded_of(b, y, min_y, max_y), limits)
    return _three(b, product, limits.low, limits.high)


@lower("QuantizedAdd", to="onnx")
def quantized_add(
    b: Builder, node: Node, x: Tensor, y: Tensor, min_x: Tensor, max_x: Tensor, min_y: Tensor, max_y: Tensor
) -> Three:
    require(all(t.shape is not None and None not in t.shape for t in (x, y)), "the sizes are not known")
    of_x, of_y = range_of(b, min_x, max_x, x.dtype), range_of(b, min_y, max_y, y.dtype)
    most = of_x.low.least(of_y.low).magnitude().most(of_x.high.most(of_y.high).magnitude()) * float(1 << 14)
    wide = range_of(b, -most, most, INT32)
    x_alone, y_alone = (int(np.prod([n or 0 for n in shape_of(t)])) == 1 for t in (x, y))
    parts = _widened(b, x, of_x, wide, x_alone), _widened(b, y, of_y, wide, y_alone and not x_alone)
    total = wrapped(parts[0] + parts[1])
    coded = [
        _to_join(node, coded_of(b, q, least, most), number)
        for number, (q, least, most) in enumerate(((x, min_x, max_x), (y, min_y, max_y)))
    ]
    known = _addends(node, coded, (x, y))
    offset = Term(b, b.const(np.float32(middle_of(known)[0]), "offset")) if known else None
    _note_combined(b, "Add", total, coded[0], coded[1], wide, offset, known)
    return _three(b, total, wide.low, wide.high)


def _widened(b: Builder, q: Tensor, r: Range, wide: Range, alone: bool) -> Term:
    """Codes moved to a 32-bit range, int64."""
    if alone:
        return code_of(real_of(Term(b, q), r).cast(DOUBLE), wide)
    zero, one = (
        unclamped_code(real_of(Term(b, b.const(np.array(c, r.dtype.numpy()), "code")), r).cast(DOUBLE), wide)
        for c in (0, 1)
    )
    y = Term(b, b.cast(q, INT64)) * (one - zero) + zero
    return y.most(-(2**31)).least(2**31 - 1)
