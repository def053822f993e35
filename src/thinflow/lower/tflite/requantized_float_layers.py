"""Float layers between int8 tensors as integer ones, where that is within one step."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, INT8
from thinflow.lower.quantized.accumulators import (
    LayerPlan,
    RequantTarget,
    before_bias,
    reals,
    recent_producer,
)
from thinflow.lower.tflite.accumulators import LayerAccumulators
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.quantized_context import quantized_step
from thinflow.tflite.model import Operator, Quantization, Tensor
from thinflow.typing import Array

_CHANNELS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
"""Code -> the axis of its weights that counts output channels."""
_ACTIVATIONS = ("RELU", "RELU6")


def requantized_layer(b: Builder, x: Tensor, to: RequantTarget) -> Tensor | None:
    """Real values quantized, computed in integers from int8 values; None if that is not possible.

    Args:
        b: holds the operators that make the real values.
        x: float, the result of a layer of dequantized values.
        to: what the current node quantizes to.
    """
    layer = _layer(b, x)
    if layer is None:
        return None
    try:
        return layer.requantized(b, to)
    except UnsupportedOp:
        return None


def _layer(b: Builder, x: Tensor) -> LayerAccumulators | None:
    """The layer that makes real values: DEQUANTIZE, PAD, a sum of products, ADD, and a clamp."""
    operator, activation = recent_producer(b.operators, x), "NONE"
    if operator is not None and operator.code in _ACTIVATIONS:
        activation = operator.code
        operator = recent_producer(b.operators, operator.inputs[0])
    # `activation` is an operator behind the addition; a clamp inside of it would be a second one.
    if operator is not None and operator.code == "ADD" and _has_clamp(operator):
        return None
    operator, bias = before_bias(b.operators, operator, "ADD")
    if operator is None or operator.code not in _CHANNELS or _has_clamp(operator):
        return None
    weights, own = _weights(operator)
    source, pads = _source(b, operator.inputs[0])
    if weights is None or source is None or source.quantization is None or bias.size not in (1, len(own)):
        return None
    plan = LayerPlan(
        # A layer's taps and channels make no difference once its weights are real: [taps,1,m].
        weights=weights[:, None],
        input_scale=float(source.quantization.scale[0]),
        input_zero=int(source.quantization.zero_point[0]) + 128,
        is_real=True,
        bias=own + bias,
    )
    finish = partial(_finish, operator, pads)
    return LayerAccumulators(tensor=source, shape=x.shape, activation=activation, plan=plan, finish=finish)


def _has_clamp(operator: Operator) -> bool:
    return bool(operator.options.get("fused_activation_function", "NONE") != "NONE")


def _weights(operator: Operator) -> tuple[Array | None, Array]:
    """Constant weights [taps,m] and the bias [m]; None if there are none, or not all are numbers."""
    _, filters, *rest = operator.inputs
    bias = rest[0] if rest else None
    known = filters is not None and filters.is_constant and filters.dtype is FLOAT
    if filters is None or not known or (bias is not None and not bias.is_constant):
        return None, np.zeros(0)
    array = np.asarray(filters.array()).astype(np.float64)
    axis = _CHANNELS[operator.code]
    count = array.shape[axis]
    # Depthwise filters [1,kh,kw,m] have the results last, the others first.
    array = array.reshape(count, -1).T if axis == 0 else array.reshape(-1, count)
    own = np.zeros(count) if bias is None else reals(bias)
    # int8 cannot hold a NaN or an infinity.
    return (array if np.isfinite(array).all() and np.isfinite(own).all() else None), own


def _source(b: Builder, x: Tensor | None) -> tuple[Tensor | None, tuple[Tensor, ...]]:
    """The int8 values that real ones come from, and the padding in between, the first one first."""
    pads: list[Any] = []
    operator = recent_producer(b.operators, x)
    while operator is not None and operator.code == "PAD":
        if operator.inputs[1] is None or not operator.inputs[1].is_constant:
            return None, ()
        pads.insert(0, operator.inputs[1])
        operator = recent_producer(b.operators, operator.inputs[0])
    if operator is None or operator.code != "DEQUANTIZE" or operator.inputs[0] is None:
        return None, ()
    source = operator.inputs[0]
    own = source.quantization
    is_known = source.dtype is INT8 and own is not None and not own.is_per_channel
    return (source if is_known and not source.is_constant else None), tuple(pads)


def _finish(
    operator: Operator,
    pads: tuple[Tensor, ...],
    b: Builder,
    x: Tensor,
    weights: Array,
    scales: Array,
    bias: Tensor,
    y: Tensor,
    activation: str,
) -> None:
    """The float operator with int8 tensors; weights int8 [taps,m]."""
    for amounts in pads:
        # PAD of int8 fills with the zero point, so the border is still real 0.
        pairs = np.asarray(amounts.array()).sum(axis=1).tolist()
        shape = None if x.shape is None else tuple(
            None if n is None else n + more for n, more in zip(x.shape, pairs, strict=True)
        )  # fmt: skip
        padded = quantized_step(b, "pad", shape, x)
        b.append("PAD", [x, amounts], [padded], {})
        x = padded
    axis, old = _CHANNELS[operator.code], operator.inputs[1]
    assert old is not None
    array = (weights.T if axis == 0 else weights).reshape(np.asarray(old.array()).shape)
    filters = b.const(np.ascontiguousarray(array), "filter", INT8)
    zeros = np.zeros(len(scales), np.int64)
    filters.quantization = Quantization(scales, zeros, axis if len(scales) > 1 else 0)
    options = operator.options | {"fused_activation_function": activation}
    b.append(operator.code, [x, filters, bias], [y], options)
