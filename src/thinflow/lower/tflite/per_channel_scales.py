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
from thinflow.lower.tflite.wiring import Match, Rewrite, Wiring, activation, plain
from thinflow.program import fusion
from thinflow.program.fusion import const, need, only_if, op
from thinflow.typing import Array

_CONVOLUTIONS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3}
"""Code -> the axis of its filter that counts results."""
_SLACK = 0.5
"""Steps of the scale by which the end of a channel may lie elsewhere: rounding takes them away."""
_LARGEST = 128.0
"""Quantized values that a sum of 1 may stand for; XNNPACK takes multipliers of less than 256."""


def _is_quantized(operator: Operator) -> bool:
    """True for an integer convolution with constants."""
    x, filters, bias = (*operator.inputs, None)[:3]
    y = operator.outputs[0]
    known = filters is not None and bias is not None and filters.is_constant and bias.is_constant
    quantized = all(t is not None and t.dtype is INT8 and t.quantization is not None for t in (x, filters, y))
    return known and quantized


def _is_simple(operator: Operator) -> bool:
    return operator.options.get("depth_multiplier", 1) == 1 and _is_quantized(operator)


_SUM = op(
    "ADD",
    op("|".join(_CONVOLUTIONS), name="front", when=_is_quantized, where=plain),
    const("addend"),
    name="add",
    any_order=True,
)


class MergeAddend(Rewrite):
    """dw(clamp(conv(x) + b)) -> dw'(conv'(x)), with int8 values between that have a scale per channel.

    A border between both is the zero point, which is the same real 0 whatever the scales.
    """

    patterns = (
        op("DEPTHWISE_CONV_2D", op("PAD", _SUM), when=_is_simple),
        op("DEPTHWISE_CONV_2D", _SUM, when=_is_simple),
    )

    def replace(self, m: Match) -> None:
        front, add, reader = m.operator("front"), m.operator("add"), m.head
        addend = _real_addend(m.tensor("addend"), len(_numbers(front)))
        # What the front kernel's filters get coarser by, the reader's get finer by: products stay.
        ratio = _steps(front, add, addend) / _grid(add.outputs[0])[0]
        # In front the unit of the bias grows with that of the filters, and so does the value of a result: the
        # number stays. In the reader the unit shrinks and results stay: the number grows.
        scaled = (
            # The convolution in front writes what the addition wrote, not its sums.
            (_Scaled(front, 1 / ratio, _numbers(front) + addend / _units(front)), add.outputs[0]),
            (_Scaled(reader, ratio, _numbers(reader) / ratio), reader.outputs[0]),
        )
        fits = all(convolution.is_possible(result) for convolution, result in scaled)
        need(fits, "the kernels do not have the numbers that scales per channel need")
        for convolution, _ in scaled:
            convolution.apply(m.wiring)
        front.options["fused_activation_function"] = activation(add)
        m.wiring.absorb(add, front)


_RULES = fusion.by_code(MergeAddend())


def merge_addends(subgraph: Subgraph) -> None:
    """Make additions of constants to int8 tensors part of the convolution in front. O(operators)."""
    fusion.fuse(subgraph, _RULES, rounds=1)


def _real_addend(constant: Tensor, count: int) -> Array:
    """The real values of a quantized constant, one per channel, float64 [count].

    Raises:
        Refuse: it differs by pixel, or is not quantized.
    """
    values, params = constant.array(), constant.quantization
    only_if(params is not None)
    assert params is not None
    is_row = values.size in (1, count) and values.size == (values.shape or (1,))[-1]
    need(is_row, "the addend differs along more than the channels")
    centred = values.astype(np.float64).reshape(-1) - float(params.zero_point[0])
    return np.broadcast_to(centred * float(params.scale[0]), (count,))


def _grid(x: Tensor | None) -> tuple[float, int]:
    """Scale and zero point."""
    assert x is not None
    assert x.quantization is not None
    return float(x.quantization.scale[0]), int(x.quantization.zero_point[0])


def _steps(front: Operator, add: Operator, addend: Array) -> Array:
    """The scale of each channel, float64 [m].

    Raises:
        Refuse: channels cannot end where one tensor of int8 does.
    """
    sums, zero_of_sums = _grid(front.outputs[0])
    step, zero = _grid(add.outputs[0])
    clamp = activation(add)
    need(
        clamp in ("RELU", "RELU6") or (clamp == "NONE" and zero == -128),
        "the sum is not clamped at 0, so that its low end would differ by channel, too",
    )
    # Behind a clamp at 6 values end there, not at 127.
    highest = min(127, zero + round(6 / step)) if clamp == "RELU6" else 127
    # Where the sums of each channel saturate, with the bias that follows.
    least, most = ((value - zero_of_sums) * sums + addend for value in (-128, 127))
    # No scale can say a low end above 0.
    need(
        highest > zero and least.max() <= _SLACK * step,
        "sums that saturate at their low end show in the result",
    )
    # The lower limit is for channels that end at 0 or below it, whose scale would not be positive; the upper
    # one keeps those as they are that the result's own end cuts off first.
    return np.asarray(np.clip(most / (highest - zero), _SLACK * step / (highest - zero), step))


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
