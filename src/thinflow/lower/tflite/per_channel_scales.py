"""Scales per channel between a convolution and the depthwise one that reads it.

TensorFlow requantizes the sums of a convolution before it adds a bias, so that what is too large for that
range saturates: each channel at another real value, by its bias. A convolution with the bias in it would
saturate all channels at the end of one range. So the addition remained an operator, if that shows.

A depthwise convolution multiplies each channel by weights of its own, which can have any scale. So the values
in front of it may mean something else in each channel: here the highest value of channel c is where that one
saturates, and the zero point stays. Scales become finer, or remain what they are.

    dw(clamp(conv(x) + b))  with one scale s   ->   dw'(conv'(x))  with the scales s_c
    scales of the filters:   conv' = conv s / s_c,   dw' = dw s_c / s
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.ir.types import INT8, INT32
from thinflow.lower.tflite.program import Operator, Quantization, Subgraph, Tensor
from thinflow.lower.tflite.wiring import Wiring, activation
from thinflow.program.wiring import with_constant
from thinflow.typing import Array

_CONVOLUTIONS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3}
"""Code -> the axis of its filter that counts results."""
_SLACK = 0.5
"""Steps of the scale by which the end of a channel may lie elsewhere: rounding takes them away."""
_LARGEST = 128.0
"""Quantized values that a sum of 1 may stand for; XNNPACK takes multipliers of less than 256."""


@dataclass(frozen=True)
class _Place:
    """An addition of a constant per channel between two convolutions.

    Attributes:
        front: makes the sums.
        add: adds the constant.
        reader: the depthwise convolution.
        addend: real [m].
    """

    front: Operator
    add: Operator
    reader: Operator
    addend: Array


def merge_addends(subgraph: Subgraph) -> None:
    """Make additions of constants to int8 tensors part of the convolution in front. O(operators)."""
    wiring = Wiring(subgraph)
    for operator in subgraph.operators:
        place = _place(wiring, operator) if operator.code == "DEPTHWISE_CONV_2D" else None
        steps = None if place is None else _steps(place)
        if place is not None and steps is not None:
            _merge(wiring, place, steps)
    wiring.finish()


def _place(wiring: Wiring, reader: Operator) -> _Place | None:
    """An addition that can be merged in front of a depthwise convolution; None without one."""
    # A border between both is the zero point, which is the same real 0 whatever the scales.
    pad = wiring.sole_producer(reader.inputs[0], "PAD")
    add = wiring.sole_producer((pad or reader).inputs[0], "ADD")
    if add is None or reader.options.get("depth_multiplier", 1) != 1 or not _is_quantized(reader):
        return None
    x, values = with_constant(add)
    front = wiring.sole_producer(x, *_CONVOLUTIONS)
    constant = add.inputs[1] if add.inputs[0] is x else add.inputs[0]
    if front is None or values is None or activation(front) != "NONE" or not _is_quantized(front):
        return None
    count = len(_numbers(front))
    params = None if constant is None else constant.quantization
    # One number per channel along the last axis, or one for all; other shapes differ by pixel.
    if params is None or values.size not in (1, count) or values.size != (values.shape or (1,))[-1]:
        return None
    real_values = (values.astype(np.float64).reshape(-1) - float(params.zero_point[0])) * float(
        params.scale[0]
    )
    return _Place(front, add, reader, np.broadcast_to(real_values, (count,)))


def _is_quantized(operator: Operator) -> bool:
    """True for an integer convolution with constants."""
    x, filters, bias = (*operator.inputs, None)[:3]
    y = operator.outputs[0]
    known = filters is not None and bias is not None and filters.is_constant and bias.is_constant
    quantized = all(t is not None and t.dtype is INT8 and t.quantization is not None for t in (x, filters, y))
    return known and quantized


def _grid(x: Tensor | None) -> tuple[float, int]:
    """Scale and zero point."""
    assert x is not None
    assert x.quantization is not None
    return float(x.quantization.scale[0]), int(x.quantization.zero_point[0])


def _steps(place: _Place) -> Array | None:
    """The scale of each channel, float64 [m]; None if channels cannot end where one tensor of int8 does."""
    sums, zero_of_sums = _grid(place.front.outputs[0])
    step, zero = _grid(place.add.outputs[0])
    clamp = activation(place.add)
    if clamp not in ("NONE", "RELU", "RELU6") or (clamp == "NONE" and zero != -128):
        return None  # below 0 there is an end that would differ by channel, too
    # Behind a clamp at 6 values end there, not at 127.
    highest = min(127, zero + round(6 / step)) if clamp == "RELU6" else 127
    # Where the sums of each channel saturate, with the bias that follows.
    least, most = ((code - zero_of_sums) * sums + place.addend for code in (-128, 127))
    # Sums that saturate at their low end above 0 would show in the result, and no scale can say that.
    if highest <= zero or least.max() > _SLACK * step:
        return None
    # The lower limit is for channels that end at 0 or below it, whose scale would not be positive; the upper
    # one keeps those as they are that the result's own end cuts off first.
    return np.asarray(np.clip(most / (highest - zero), _SLACK * step / (highest - zero), step))


def _merge(wiring: Wiring, place: _Place, steps: Array) -> None:
    """Take the addition out, unless the kernels do not have the numbers that this needs."""
    # What the front kernel's filters get coarser by, the reader's get finer by: products are what they were.
    ratio = steps / _grid(place.add.outputs[0])[0]
    # In front the unit of the bias grows with that of the filters, and so does the value of a result: the
    # number stays. In the reader the unit shrinks and results stay: the number grows.
    front = _Scaled(place.front, 1 / ratio, _numbers(place.front) + place.addend / _units(place.front))
    reader = _Scaled(place.reader, ratio, _numbers(place.reader) / ratio)
    # The convolution in front writes what the addition wrote, not its sums.
    if not (front.is_possible(place.add.outputs[0]) and reader.is_possible(place.reader.outputs[0])):
        return
    for scaled in (front, reader):
        scaled.apply(wiring)
    place.front.options["fused_activation_function"] = activation(place.add)
    wiring.absorb(place.add, place.front)


def _units(operator: Operator) -> Array:
    """The real values that sums of 1 stand for, float64 [m] or [1]."""
    filters = operator.inputs[1]
    assert filters is not None
    assert filters.quantization is not None
    return _grid(operator.inputs[0])[0] * filters.quantization.scale.astype(np.float64)


def _numbers(operator: Operator) -> Array:
    """The bias as it is stored, float64 [m]."""
    bias = operator.inputs[2]
    assert bias is not None
    return np.asarray(bias.array()).astype(np.float64)


@dataclass(frozen=True)
class _Scaled:
    """A convolution whose filters stand for other real values.

    Attributes:
        operator: as it is.
        factors: of its scales [m].
        bias: in sums, not yet rounded [m].
    """

    operator: Operator
    factors: Array
    bias: Array

    def is_possible(self, result: Tensor) -> bool:
        # What the kernel multiplies its sums by: scale(input) * scale(filter) / scale(result).
        multipliers = _units(self.operator) * self.factors / _grid(result)[0]
        return bool(multipliers.max() < _LARGEST and np.abs(self.bias).max() < 2**31 - 1)

    def apply(self, wiring: Wiring) -> None:
        _, filters, bias = self.operator.inputs
        assert filters is not None
        assert filters.quantization is not None
        assert bias is not None
        scales = (filters.quantization.scale * self.factors).astype(np.float32)
        zeros = np.zeros(len(scales), np.int64)
        params = Quantization(scales, zeros, _CONVOLUTIONS[self.operator.code] if len(scales) > 1 else 0)
        weights = Tensor(f"{filters.name}/steps", filters.shape, filters.dtype, filters.data, params)
        wiring.set_input(self.operator, 1, weights)
        units = Quantization(_units(self.operator).astype(np.float32), zeros)
        values = np.rint(self.bias).astype(np.int32)
        wiring.set_input(self.operator, 2, Tensor(f"{bias.name}/steps", values.shape, INT32, values, units))
