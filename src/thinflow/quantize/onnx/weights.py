"""int8 weights and int32 biases of an ONNX program, each behind a DequantizeLinear."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from thinflow.ir.types import FLOAT, INT8, INT32, DType
from thinflow.onnx.program import Operator, Tensor
from thinflow.quantize.onnx.kernels import bias_of, weight_axis, weights_of
from thinflow.quantize.ranges import Range
from thinflow.quantize.weights import (
    WEIGHT_MAX,
    quantize_bias,
    quantize_weights,
    usable_scales,
    weight_scales,
)
from thinflow.typing import Array


class Writer(Protocol):
    """Where the weights go."""

    operators: list[Operator]

    def tensor(self, name: str, shape: tuple[int | None, ...] | None, element: DType) -> Tensor: ...

    def constant(self, name: str, array: Array, element: DType) -> Tensor: ...

    def record(self, tensor: Tensor, parameters: Any, wanted: Range, observer: str, reason: str) -> None: ...


class Weights:
    """Quantizes weights once for all who share them."""

    def __init__(self, writer: Writer, per_channel: bool, weight_max: int) -> None:
        self._writer, self._per_channel, self._max = writer, per_channel, weight_max
        self._made: dict[tuple[Any, ...], Tensor] = {}

    def of(self, operator: Operator, s_x: float) -> dict[int, Tensor]:
        """What an operator reads instead of its weights and bias, by input number.

        Args:
            s_x: scale of its input. A bias has the scale s_x * s_w, and fits into 32 bits with it.
        """
        w, b = weights_of(operator), bias_of(operator)
        assert w is not None, "placement has looked at the weights"
        axis = weight_axis(operator) if self._per_channel else None
        raw = weight_scales(w.array(), axis) * (WEIGHT_MAX / self._max)
        bias = None if b is None else _row(b.array(), raw.size)
        scales = usable_scales(raw, bias, s_x, 0.0)
        new = {1: self._weight(w, scales, axis)}
        if b is not None and bias is not None:
            new[2] = self._bias(b, bias, np.float32(s_x) * scales)
        return new

    def _weight(self, w: Tensor, scales: Array, axis: int | None) -> Tensor:
        data = w.array()
        # Steps of an unrolled network share their weights: several tensors, one memory.
        memory = data.__array_interface__["data"][0], data.shape, data.strides, str(data.dtype)
        key = (memory, axis, scales.tobytes())
        if key not in self._made:
            codes = self._writer.constant(f"{w.name}/codes", quantize_weights(data, scales, axis), INT8)
            how = "per tensor" if axis is None else f"per channel of axis {axis}"
            extremes = Range(float(data.min(initial=0)), float(data.max(initial=0)), "weights")
            self._writer.record(codes, scales, extremes, "weights", f"weights: symmetric, {how}")
            self._made[key] = self._dequantized(w.name, codes, scales, axis)
        return self._made[key]

    def _bias(self, b: Tensor, bias: Array, scales: Array) -> Tensor:
        codes = self._writer.constant(f"{b.name}/codes", quantize_bias(bias, scales), INT32)
        extremes = Range(float(bias.min(initial=0)), float(bias.max(initial=0)), "weights")
        self._writer.record(codes, scales, extremes, "weights", "bias: scale of input times weights")
        return self._dequantized(b.name, codes, scales, 0)

    def _dequantized(self, name: str, codes: Tensor, scales: Array, axis: int | None) -> Tensor:
        one = axis is None or scales.size == 1 != codes.array().shape[axis]
        shape = () if one else scales.shape
        scale = self._writer.constant(f"{name}/scale", scales.reshape(shape), FLOAT)
        zero = self._zeros(codes.dtype, shape)
        result = self._writer.tensor(f"{name}/rounded", codes.shape, FLOAT)
        options = {} if one else {"axis": axis}
        self._writer.operators.append(Operator("DequantizeLinear", [codes, scale, zero], [result], options))
        return result

    def _zeros(self, element: DType, shape: tuple[int, ...]) -> Tensor | None:
        """Zero points, which all weights of as many channels share; biases do without."""
        if element is INT32:
            return None
        key = ("zero points", shape)
        if key not in self._made:
            zeros = np.zeros(shape, element.numpy())
            self._made[key] = self._writer.constant("weights/zero_point", zeros, element)
        return self._made[key]


def _row(bias: Array, count: int) -> Array:
    """A bias as one number per output channel, or as one that fits the one scale there is."""
    flat = bias.reshape(-1)
    return np.broadcast_to(flat, (count,)) if flat.size == 1 and count > 1 else flat
