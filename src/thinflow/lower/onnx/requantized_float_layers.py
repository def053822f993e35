"""Float layers between quantized values as integer ones, where that is within one step.

ONNX Runtime would do that, too, with one scale for all channels and however many steps results are off then:
a layer that has to stay in float is kept from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.ir.types import UINT8
from thinflow.lower.onnx.accumulators import Layer, planned
from thinflow.lower.onnx.builder import TO_CHANNELS_FIRST, TO_CHANNELS_LAST, Builder
from thinflow.lower.onnx.integers import Conv, border_of_zeros
from thinflow.lower.onnx.quantized_context import Join, QuantizedTensor, TargetTensors, clamped_to, quantized
from thinflow.lower.quantized.accumulators import before_bias, recent_producer
from thinflow.onnx.operators import Trait, has
from thinflow.onnx.program import Operator, Tensor

_FUSED = ("Add", "Clip", "Relu", "Reshape", "Transpose")
_LOWEST = float(np.finfo(np.float32).min)


def requantized_layer(b: Builder, x: Tensor, to: TargetTensors) -> tuple[Tensor, Join | None]:
    """Real values, quantized with known parameters, and what makes a bias part of the layer, if there is one.

    Args:
        x: float, perhaps the result of a layer of dequantized values.
    """
    found = _layer(b, x)
    if found is not None:
        layer, clamp = found
        wanted = replace(to, clamped=clamp is not None, top=np.inf if clamp is None else clamp)
        values = layer.narrow(b, wanted)
        if values is not None:
            return clamped_to(b, values, wanted), layer.joining(b, to) if clamp is None else None
    if _ends_a_layer(b, x):  # a Max that changes nothing: ONNX Runtime does not know what to make of it
        x = b.step("Max", x, b.const(np.float32(_LOWEST), "lowest"), shape=x.shape)
    return quantized(b, x, to), None


def _ends_a_layer(b: Builder, x: Tensor | None) -> bool:
    """True if real values are the result of a layer with weights, or of what is fused with one."""
    operator = recent_producer(b.operators, x)
    while operator is not None and operator.code in _FUSED:
        operator = recent_producer(b.operators, operator.inputs[0])
    return operator is not None and has(operator.code, Trait.PRODUCT)


def _layer(b: Builder, x: Tensor) -> tuple[Layer, float | None] | None:
    """The layer that makes real values, and what clamps them: DequantizeLinear, Conv, Add and a clamp."""
    operator, clamp = recent_producer(b.operators, x), None
    if operator is not None and operator.code in ("Relu", "Clip"):
        clamp = _top(operator)
        operator = None if clamp is None else recent_producer(b.operators, operator.inputs[0])
    operator, bias = before_bias(b.operators, operator, "Add")
    # Rules write each convolution between two Transposes.
    if operator is None or tuple(operator.options.get("perm", ())) != TO_CHANNELS_LAST[4]:
        return None
    conv = recent_producer(b.operators, operator.inputs[0])
    layer = None if conv is None or conv.code != "Conv" else _of_codes(b, conv, operator.outputs[0])
    if layer is None or bias.size not in (1, layer.plan.weights.shape[-1]):
        return None
    return layer.plus(bias), clamp


def _of_codes(b: Builder, operator: Operator, y: Tensor) -> Layer | None:
    """A float convolution of dequantized values, without anything behind it. y: its result [n,oh,ow,k]."""
    weights = operator.inputs[1]
    found = _source(b, operator.inputs[0])
    if found is None or weights is None or not weights.is_constant or len(operator.inputs) > 2:
        return None
    x, border = found
    filters = weights.array().astype(np.float64)
    options = dict(operator.options)
    groups = options.get("group", 1)
    # All channels together, or each by itself: groups in between have no such kernel.
    is_plain = groups == 1 or (groups == filters.shape[0] and filters.shape[1] == 1)
    if not is_plain or "auto_pad" in options or not np.isfinite(filters).all():
        return None
    if None in (*(x.values.shape or (None,))[1:], *(y.shape or (None,))[1:]):
        return None
    own = options.get("pads", (0, 0, 0, 0))
    options["pads"] = tuple(a + c for a, c in zip(own, border, strict=True))
    conv = Conv(x.values, options, y.shape or ())
    # [k,c,kh,kw] back to [kh,kw,c,k]; per channel [c,1,kh,kw] to [kh,kw,c,1].
    order = (2, 3, 1, 0) if groups == 1 else (2, 3, 0, 1)
    return planned(conv, x, filters.transpose(order))


def _source(b: Builder, x: Tensor | None) -> tuple[QuantizedTensor, tuple[int, ...]] | None:
    """The quantized values that real ones [n,c,h,w] come from, and the border of zeros around them."""
    operator = recent_producer(b.operators, x)
    border: tuple[int, ...] = (0, 0, 0, 0)
    if operator is None or tuple(operator.options.get("perm", ())) != TO_CHANNELS_FIRST[4]:
        return None
    operator = recent_producer(b.operators, operator.inputs[0])
    if operator is not None and operator.code == "Pad":
        found = border_of_zeros(operator)
        operator = None if found is None else recent_producer(b.operators, operator.inputs[0])
        border = found or border
    if operator is None or operator.code != "DequantizeLinear":
        return None
    values, scale, zero = operator.inputs
    if values is None or scale is None or zero is None or values.dtype is not UINT8 or values.is_constant:
        return None
    if not (scale.is_constant and zero.is_constant) or scale.shape != ():
        return None
    # The ends are of no interest to a layer; scales stand in for them.
    return QuantizedTensor(values, scale, zero, scale, scale), border


def _top(clamp: Operator) -> float | None:
    """The most that a clamp from 0 leaves; None if it is another clamp."""
    if clamp.code == "Relu":
        return float("inf")
    ends: list[Any] = [None if t is None or not t.is_constant else t.array() for t in clamp.inputs[1:]]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or float(ends[0]) != 0:
        return None
    return float(ends[1])
