"""Ops on quantized values that keep the quantization parameters, and joining."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.rules import lower
from thinflow.lower.tflite.accumulators import Accumulators, QuantizedValue
from thinflow.lower.tflite.builder import Builder, Float, ints, require, shape_of
from thinflow.lower.tflite.dynamic_ranges import DynamicallyQuantized, FloatAccumulators
from thinflow.lower.tflite.quantized import stored_tensor, with_range
from thinflow.lower.tflite.quantized_context import (
    as_int8,
    parameters_of,
    params_of,
    quantized_result,
    quantized_step,
)
from thinflow.ops._interpolate import linear
from thinflow.tflite.model import Tensor

Three = tuple[Any, ...]
_MEANS = ("AVERAGE_POOL_2D", "RESIZE_BILINEAR")
"""Operators whose results of whole numbers have fractions."""


def _same_parameters(
    b: Builder, node: Node, code: str, x: QuantizedValue, *more: Tensor, **options: Any
) -> Three:
    """An operator whose result has the quantization parameters of its first input."""
    if isinstance(x, FloatAccumulators):
        return with_range(
            b, FloatAccumulators(b.step(code, x.tensor, *more, shape=b.result_spec().shape, **options))
        )
    if isinstance(x, DynamicallyQuantized):
        # Means of whole numbers have fractions; oneDNN's pooling takes halves to the even number, as ROUND
        # does.
        made = Float(b, b.step(code, x.tensor, *more, shape=b.result_spec().shape, **options))
        return with_range(b, x.with_values(made.rounded() if code in _MEANS else made))
    value = node.inputs[0]
    values = as_int8(b, stored_tensor(b, x, value), params_of(b, value, node))
    y = quantized_result(b, params_of(b, node.output()))
    b.append(code, [values, *more], [y], options)
    return with_range(b, y)


@lower("QuantizedRelu", "QuantizedRelu6", to="tflite")
def quantized_relu(b: Builder, node: Node, x: QuantizedValue, low: Tensor, high: Tensor) -> Three:
    """Part of the operator that requantizes, where nobody else reads its result."""
    code = "RELU" if node.op == "QuantizedRelu" else "RELU6"
    if isinstance(x, Accumulators):
        return with_range(b, x.activated(b, code))
    if isinstance(x, DynamicallyQuantized):
        values = Float(b, x.tensor).most(x.zero(b))
        return with_range(b, x.with_values(values.least(x.quantized(b, 6.0)) if code == "RELU6" else values))
    value = node.inputs[0]
    made = b.quantized.sums.get(x) if isinstance(x, Tensor) else None
    if made is not None and len(value.uses) == 1 and not value.is_graph_output:
        # The operator in front is made anew with the clamp in it, and the first one is dead.
        sums, to = made
        return with_range(b, sums.activated(b, code).requantized(b, to))
    return _same_parameters(b, node, code, x)


@lower("QuantizedMaxPool", "QuantizedAvgPool", to="tflite")
def quantized_pool(
    b: Builder,
    node: Node,
    x: QuantizedValue,
    low: Tensor,
    high: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
) -> Three:
    """The border counts in neither, as in TensorFlow."""
    require(len(ksize) == 4 and len(strides) == 4, "ksize and strides need four values")
    outer = (ksize[0], ksize[3], strides[0], strides[3])
    require(outer == (1, 1, 1, 1), "TFLite does not pool over batch or channels")
    options = {
        "padding": padding,
        "stride_h": strides[1],
        "stride_w": strides[2],
        "filter_height": ksize[1],
        "filter_width": ksize[2],
    }
    code = "MAX_POOL_2D" if node.op == "QuantizedMaxPool" else "AVERAGE_POOL_2D"
    return _same_parameters(b, node, code, x, **options)


@lower("QuantizedReshape", to="tflite")
def quantized_reshape(
    b: Builder, node: Node, x: QuantizedValue, shape: Tensor, low: Tensor, high: Tensor
) -> Three:
    result = b.result_spec().shape
    if result is not None and result.count(None) <= 1:
        sizes = [-1 if n is None else n for n in result]
        inputs, options = b.reshape_operands(sizes, shape)
        return _same_parameters(b, node, "RESHAPE", x, *inputs[1:], **options)
    return _same_parameters(b, node, "RESHAPE", x, b.index(shape))


@lower("QuantizedResizeBilinear", to="tflite")
def quantized_resize(
    b: Builder,
    node: Node,
    x: QuantizedValue,
    size: Tensor,
    low: Tensor,
    high: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Three:
    """RESIZE_BILINEAR where the op's weights, which have 7 bits, are not cut off."""
    sides = shape_of(x if isinstance(x, Tensor) else Tensor("", x.shape, x.dtype), "the images", 4)[1:3]
    require(None not in sides, "the size of the images is not known")
    for side, new in zip(sides, ints(size, "the size"), strict=True):
        # The kernel's fractions have 7 bits: only where they are whole numbers of 1/128 do both interpolate
        # alike.
        steps = linear(side or 1, new, align_corners, half_pixel_centers).fraction * np.float32(128)
        require(
            bool((np.abs(steps - np.rint(steps)) < 0.01).all()),
            f"resizing {side} to {new} pixels by weights of 7 bits is more than a step off LiteRT's",
        )
    options = {"align_corners": align_corners, "half_pixel_centers": half_pixel_centers}
    return _same_parameters(b, node, "RESIZE_BILINEAR", x, b.index(size), **options)


@lower("QuantizedConcat", to="tflite")
def quantized_concat(b: Builder, node: Node, axis: Tensor, *rest: QuantizedValue) -> Three:
    """Parts with other quantization parameters are requantized to those of the result first."""
    (place,) = ints(axis, "the axis")
    params = params_of(b, node.output())
    count = len(rest) // 3
    parts = []
    for x, value in zip(rest[:count], node.inputs[1 : 1 + count], strict=True):
        own = params_of(b, value, node)
        values = as_int8(b, stored_tensor(b, x, value), own)
        # LiteRT's CONCATENATION of int8 only copies: it refuses inputs with other parameters than the
        # result's.
        parts.append(
            values if (own.low, own.high) == (params.low, params.high) else _moved(b, values, params)
        )
    rank = len(shape_of(parts[0], "the first input"))
    require(0 <= place < rank, f"axis {place} is out of range for rank {rank}")
    y = quantized_result(b, params)
    b.append("CONCATENATION", parts, [y], {"axis": place})
    return with_range(b, y)


def _moved(b: Builder, x: Tensor, params: Any) -> Tensor:
    y = quantized_step(b, "moved", x.shape, x)
    y.quantization = parameters_of(params)
    b.append("QUANTIZE", [x], [y], {})
    return y
