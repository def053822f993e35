"""Ops on quantized values that hand their range on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT, INT8, INT32, UINT8
from thinflow.lower.onnx.array import reshape
from thinflow.lower.onnx.builder import END, Builder, ints, require, shape_of
from thinflow.lower.onnx.conv import geometry
from thinflow.lower.onnx.integers import plane, seen_by_windows
from thinflow.lower.onnx.layers import max_pool
from thinflow.lower.onnx.quantization_formulas import (
    Three,
    dequantize_exactly,
    is_same,
    quantize_exactly,
    quantized_value,
    range_of,
)
from thinflow.lower.onnx.quantized_context import (
    QuantizedTensor,
    accumulators_of,
    dequantized,
    is_exact,
    note_accumulators,
    note_quantized,
    quantized,
    quantized_of,
    target_over,
    with_parameters,
)
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops._quantized import is_native


def _clamped(b: Builder, q: Tensor, low: Tensor, high: Tensor, top: Term | None) -> Three:
    """Values between the zero point and that of `top`."""
    is_known = top is None or (top.tensor.is_constant and bool(top.tensor.array() >= 0))
    most = float(top.tensor.array()) if top is not None and is_known else math.inf
    params = None if q.dtype is not UINT8 or is_exact(q) else quantized_of(b, q, low, high)
    if params is not None and is_known:
        return b.result(with_parameters(b, _limited(b, params, most), params)), low, high
    r = range_of(b, low, high, q.dtype)
    values = Term(b, b.cast(q, INT32)).most(
        quantized_value(Term(b, b.const(np.float64(0), "zero")), r).cast(INT32)
    )
    if top is not None:
        values = values.least(quantized_value(top.cast(DOUBLE), r).cast(INT32))
    y = b.cast(values.tensor, q.dtype)
    sums = accumulators_of(b, q, low, high)
    if sums is not None and is_known:
        note_accumulators(b, y, replace(sums, clamped=True, top=min(sums.top, most)))
    return b.result(y), low, high


def _limited(b: Builder, x: QuantizedTensor, top: float) -> Tensor:
    """Values of at least the zero point, and at most that of a real value."""
    ends = [x.zero_point]
    if top < math.inf:
        # The value that stands for `top`, saturated as quantizing it would be.
        code = (top / Term(b, x.scale)).rounded() + b.cast(x.zero_point, FLOAT)
        ends.append(b.cast(code.least(255.0).most(0.0).tensor, UINT8))
    return b.step("Clip", x.values, *ends, shape=x.values.shape)


@lower("QuantizedRelu", to="onnx")
def quantized_relu(b: Builder, node: Node, q: Tensor, low: Tensor, high: Tensor) -> Three:
    return _clamped(b, q, low, high, None)


@lower("QuantizedRelu6", to="onnx")
def quantized_relu6(b: Builder, node: Node, q: Tensor, low: Tensor, high: Tensor) -> Three:
    return _clamped(b, q, low, high, Term(b, b.const(np.float64(6), "six")))


@lower("QuantizedReluX", to="onnx")
def quantized_relu_x(b: Builder, node: Node, q: Tensor, top: Tensor, low: Tensor, high: Tensor) -> Three:
    return _clamped(b, q, low, high, Term(b, b.reshaped(top, ())))


@lower("QuantizedReshape", to="onnx")
def quantized_reshape(b: Builder, node: Node, q: Tensor, shape: Tensor, low: Tensor, high: Tensor) -> Three:
    return with_parameters(b, reshape(b, node, q, shape), quantized_of(b, q, low, high)), low, high


@lower("QuantizedMaxPool", "QuantizedAvgPool", to="onnx")
def quantized_pool(
    b: Builder,
    node: Node,
    q: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
) -> Three:
    """The greatest value of each window, or the mean of those inside the image."""
    require((ksize[0], ksize[3]) == (1, 1), "windows over batch and channels have no form")
    params = quantized_of(b, q, low, high)
    if node.op == "QuantizedMaxPool":
        # The pool of channels-last bytes needs no Transpose around it.
        if b.extended and q.dtype in (UINT8, INT8):
            options = geometry(shape_of(q, "x", 4)[1:3], ksize[1:3], strides[1:3], (1, 1), padding)
            y = b.step("com.microsoft.NhwcMaxPool", q, shape=b.result_spec().shape, **options)
        else:
            y = max_pool(b, node, q, ksize=ksize, strides=strides, padding=padding)
        reals = None if params is None or tuple(ksize[1:3]) != (1, 1) else _thinned(b, params, strides)
        return with_parameters(b, b.result(y), params, reals=reals), low, high
    if params is not None and q.dtype is UINT8 and not is_exact(q):
        mean = _mean(b, params, geometry(shape_of(q, "x", 4)[1:3], ksize[1:3], strides[1:3], (1, 1), padding))
        return with_parameters(b, b.result(mean), params), low, high
    flat, inside = plane(q, ksize[1:3], strides, (1, 1, 1, 1), padding)
    seen = seen_by_windows(b, b.cast(q, DOUBLE), flat)
    there = Term(b, b.const(inside[..., None], "inside"))
    counts = inside.sum(axis=(2, 3))[None, :, :, None].astype(np.float64)
    exact = choose(there, seen, 0).reduced("ReduceSum", 3, 4) / counts
    # TensorFlow's own kernel cuts off, oneDNN's rounds.
    whole = exact.truncated() if is_native() else exact.rounded()
    return b.result(b.cast(b.cast(whole.tensor, INT32), q.dtype)), low, high


def _thinned(b: Builder, x: QuantizedTensor, strides: Sequence[int]) -> Callable[[], Tensor] | None:
    """Emits what was rounded to values [n,h,w,c], for the pixels that are some steps apart."""
    whole, shape = x.reals, b.result_spec().shape
    if whole is None:
        return None
    return cache(lambda: b.sliced(whole(), [0, 0], [END, END], [1, 2], list(strides[1:3]), shape=shape))


def _mean(b: Builder, x: QuantizedTensor, options: dict[str, Any]) -> Tensor:
    """The mean of each window; the border does not count."""
    if b.extended:
        # In and out by the same quantization parameters: means lie within the range.
        inputs, options = (
            (x.values, x.scale, x.zero_point, x.scale, x.zero_point),
            {"channels_last": 1, **options},
        )
        return b.step("com.microsoft.QLinearAveragePool", *inputs, shape=b.result_spec().shape, **options)
    n, rows, columns, depth = b.result_spec().shape or (None,) * 4
    reals = b.channels_first(dequantized(b, x))
    y = b.step("AveragePool", reals, shape=(n, depth, rows, columns), count_include_pad=0, **options)
    return b.transposed(quantized(b, y, x), (0, 2, 3, 1))


@lower("QuantizedConcat", to="onnx")
def quantized_concat(b: Builder, node: Node, axis: Tensor, *rest: Tensor) -> Three:
    """In the union of the ranges; what has that range already stays as it is."""
    n = len(rest) // 3
    require(n > 0 and len(rest) == 3 * n, "it needs as many ranges as tensors")
    parts = rest[:n]
    params = [quantized_of(b, rest[k], rest[n + k], rest[2 * n + k]) for k in range(n)]
    # By scales and zero points if all parts have them, unless all are so small that exact values take no
    # time.
    known = [c for c in params if c is not None]
    if len(known) == n and not all(is_exact(q) for q in parts):
        return _joined(b, axis, known)
    ranges = [range_of(b, rest[n + k], rest[2 * n + k], parts[k].dtype) for k in range(n)]
    low, high = ranges[0].low, ranges[0].high
    for r in ranges[1:]:
        low, high = low.least(r.low), high.most(r.high)
    # TensorFlow makes the range of 32-bit values symmetric, so that 0 is exact.
    if parts[0].dtype is INT32:
        high = low.magnitude().most(high.magnitude())
        low = -high
    sums = range_of(b, low, high, parts[0].dtype)
    moved = []
    for q, r in zip(parts, ranges, strict=True):
        same = r.low.equals(low) & r.high.equals(high)
        again = quantize_exactly(dequantize_exactly(Term(b, q), r), sums).cast(INT32)
        moved.append(b.cast(choose(same, Term(b, b.cast(q, INT32)), again).tensor, q.dtype))
    (place,) = ints(axis, "the axis")
    y = b.step("Concat", *moved, shape=b.result_spec().shape, axis=place)
    return b.result(y), b.result(low.tensor, 1), b.result(high.tensor, 2)


def _joined(b: Builder, axis: Tensor, parts: list[QuantizedTensor]) -> Three:
    """Values one after the other, in the union of their ranges."""
    low, high = (Term(b, b.reshaped(end, ())) for end in (parts[0].low, parts[0].high))
    for part in parts[1:]:
        low, high = low.least(b.reshaped(part.low, ())), high.most(b.reshaped(part.high, ()))
    to = target_over(b, low, high)
    moved = [
        part.values if is_same(part.low, low.tensor) and is_same(part.high, high.tensor)
        else quantized(b, dequantized(b, part), to)
        for part in parts
    ]  # fmt: skip
    (place,) = ints(axis, "the axis")
    y = b.result(b.step("Concat", *moved, shape=b.result_spec().shape, axis=place))
    params = QuantizedTensor(y, to.scale, to.zero_point, low.tensor, high.tensor)
    return note_quantized(b, y, params), b.result(low.tensor, 1), b.result(high.tensor, 2)


@lower("QuantizedInstanceNorm", to="onnx")
def quantized_instance_norm(
    b: Builder,
    node: Node,
    q: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    output_range_given: bool = False,
    given_y_min: float = 0.0,
    given_y_max: float = 0.0,
    variance_epsilon: float = 1e-5,
    min_separation: float = 1e-3,
) -> Three:
    """(x - mean) / sqrt(variance + epsilon) per image and channel."""
    shape_of(q, "the quantized values", 4)
    r = range_of(b, low, high, q.dtype)
    scale = (r.high - r.low) / float(r.codes.high - r.codes.low)
    values = Term(b, b.cast(q, DOUBLE))
    # The zero point cancels out in the difference to the mean.
    deviation = (values - values.reduced("ReduceMean", 1, 2, keep=True)).cast(FLOAT) * scale
    variance = (deviation * deviation).cast(DOUBLE).reduced("ReduceMean", 1, 2, keep=True)
    y = (deviation.cast(DOUBLE) / (variance + variance_epsilon).apply("Sqrt")).cast(FLOAT)
    if output_range_given:
        least, most = (Term(b, b.const(np.float32(v), "given")) for v in (given_y_min, given_y_max))
    else:
        least, most = y.reduced("ReduceMin", 0, 1, 2, 3), y.reduced("ReduceMax", 0, 1, 2, 3)
    most = choose(most - least < min_separation, least + min_separation, most)
    found = quantize_exactly(y, range_of(b, least, most, q.dtype))
    return b.result(found.tensor), b.result(least.tensor, 1), b.result(most.tensor, 2)
