"""Quantization parameters of tensors in .tflite and .onnx files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.analysis.foreign import operands
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Node, Value
from thinflow.ir.vocabulary import ONNX
from thinflow.onnx.operators import Trait, has

# By the op definitions of ONNX and of ONNX Runtime's contrib domain.
_ONNX_RESULT = {
    "onnx.QuantizeLinear": 1,
    "onnx.com.microsoft.QuantizeLinear": 1,
    "onnx.QLinearConv": 6,
    "onnx.QLinearMatMul": 6,
    "onnx.com.microsoft.QLinearAdd": 6,
    "onnx.com.microsoft.QLinearMul": 6,
    "onnx.com.microsoft.QLinearConcat": 0,
    "onnx.com.microsoft.QLinearAveragePool": 3,
    "onnx.com.microsoft.QLinearGlobalAveragePool": 3,
    "onnx.com.microsoft.QLinearSigmoid": 3,
    "onnx.com.microsoft.QLinearLeakyRelu": 3,
    "onnx.com.microsoft.QLinearSoftmax": 3,
    "onnx.com.microsoft.QGemm": 7,
}
"""Op -> the input with the scale of its result; the next one is the zero point."""
# Integers come out as they went in, so that they keep their scale and zero point.
_ONNX_KEPT = frozenset(
    {
        *("onnx.MaxPool", "onnx.Reshape", "onnx.Transpose", "onnx.Flatten", "onnx.Squeeze"),
        *("onnx.Unsqueeze", "onnx.Slice", "onnx.Gather", "onnx.Identity", "onnx.Split"),
        *("onnx.DepthToSpace", "onnx.SpaceToDepth", "onnx.Expand", "onnx.Tile", "onnx.Relu", "onnx.Clip"),
        *("onnx.Pad", "onnx.com.microsoft.NhwcMaxPool"),
    }
)


def moves_codes(op: str) -> bool:
    """True if an op of ONNX moves elements of its first operand, codes or numbers alike.

    Elementwise ones that keep a scale compute with codes as plain numbers.
    """
    is_plain = op != "onnx.Identity" and has(op.removeprefix("onnx."), Trait.ELEMENTWISE)
    return op in _ONNX_KEPT and not is_plain


# Ops that are looked through; a damaged file may lead round in circles.
_MOST_STEPS = 64


@brief_repr
@dataclass(frozen=True)
class TensorParams:
    """real = scale * (stored - zero_point).

    Attributes:
        scale, zero_point: one entry per tensor, or one per slice of dimension `axis`.
        axis: of the slices; 0 for one entry.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = 0

    @property
    def is_per_channel(self) -> bool:
        return len(self.scale) > 1

    def real(self, array: np.ndarray) -> np.ndarray:
        """The real numbers, float32, of stored integers of any shape that has the axis."""
        sides = [1] * array.ndim
        if self.is_per_channel:
            sides[self.axis] = len(self.scale)
        scale = np.array(self.scale, np.float64).reshape(sides if self.is_per_channel else ())
        zero = np.array(self.zero_point or (0,), np.float64)
        # In float64: a 32-bit integer less its zero point does not fit into
        # float32, and float32 scales are exact.
        steps = array.astype(np.float64) - (zero.reshape(sides) if len(zero) > 1 else zero[0])
        return np.asarray(steps * scale, np.float32)


def params_of(value: Value) -> TensorParams | None:
    """Quantization parameters of a value; None if its integers are plain numbers, or they are not known.

    A .tflite file says so of each tensor, an .onnx file by the constants that its quantized ops read.
    """
    if value.node.op.startswith(ONNX.prefix):
        return _onnx_params(value)
    if value.node.tensor is not None and "quantization_scale" not in value.node.attrs:
        return _onnx_constant_params(value)
    suffix = f"_{value.port}" if value.port else ""
    scale = value.node.attrs.get(f"quantization_scale{suffix}")
    if (
        not isinstance(scale, tuple)
        or not scale
        # A step of 0 says nothing: every integer would stand for the same number.
        or 0 in scale
        or (value.dtype is not None and not value.dtype.is_integer)
    ):
        return None
    zero = value.node.attrs.get(f"quantization_zero_point{suffix}", ())
    axis = value.node.attrs.get(f"quantization_axis{suffix}", 0)
    assert isinstance(zero, tuple)
    assert isinstance(axis, int)
    params = TensorParams(_floats(scale), _ints(zero), axis)
    return params if _makes_sense(params, value) else None


def _makes_sense(params: TensorParams, value: Value) -> bool:
    """True if a damaged file did not say nonsense: finite scales, as many as there are slices."""
    # Either may be one for all slices; if both are several, they must agree.
    counts = {len(params.scale), len(params.zero_point) or len(params.scale)} - {1}
    shape = value.shape
    if not all(map(math.isfinite, params.scale)) or len(counts) > 1:
        return False
    if not params.is_per_channel:
        return not counts
    return (
        shape is not None
        and 0 <= params.axis < len(shape)
        and shape[params.axis] in (None, len(params.scale))
    )


def _floats(numbers: tuple[object, ...]) -> tuple[float, ...]:
    return tuple(float(n) for n in numbers if isinstance(n, int | float))


def _ints(numbers: tuple[object, ...]) -> tuple[int, ...]:
    return tuple(int(n) for n in numbers if isinstance(n, int | float))


def step_of(value: Value) -> float:
    """Distance of the real numbers that a quantized value can take, or what was made of one; else 0."""
    source = value.node.inputs[0] if value.node.op in _DEQUANTIZERS and value.node.inputs else value
    params = params_of(source)
    return max(params.scale) if params is not None else 0.0


_DEQUANTIZERS = frozenset({"tfl.DEQUANTIZE", "onnx.DequantizeLinear", "onnx.com.microsoft.DequantizeLinear"})


def _onnx_constant_params(value: Value) -> TensorParams | None:
    """The quantization parameters of a constant in an .onnx file, which the ops that read it state."""
    for use in value.uses:
        node = use.node
        if node.op in _DEQUANTIZERS and use.index == 0:
            # The default of DequantizeLinear.
            axis = node.get("axis", 1)
            return _per_axis(value, _placed(node, 1), axis if isinstance(axis, int) else 1)
        # Its weights stand behind x, the scale of x and the zero point of x.
        if node.op == "onnx.QLinearConv" and operands(node, node.inputs)[3] is value:
            # Per output channel, which comes first in ONNX's weights.
            return _per_axis(value, _placed(node, 4), 0)
    return None


def _placed(node: Node, place: int) -> list[Value]:
    """The scale at a place of the op's definition, and the zero point behind it if there is one."""
    return [v for v in operands(node, node.inputs)[place : place + 2] if v is not None]


def _per_axis(value: Value, ends: Sequence[Value], axis: int) -> TensorParams | None:
    tensors = [v.node.tensor for v in ends]
    shape = value.shape
    if not tensors or shape is None or any(t is None or len(t.shape) > 1 for t in tensors):
        return None
    scale, *zero = [t.numpy().reshape(-1).astype(np.float64).tolist() for t in tensors if t is not None]
    if not scale or (len(scale) > 1 and not shape):
        return None
    params = TensorParams(tuple(scale), tuple(int(z) for z in (zero or [[0]])[0]), axis % max(len(shape), 1))
    return params if _makes_sense(params, value) else None


def _onnx_params(value: Value) -> TensorParams | None:
    for _ in range(_MOST_STEPS):
        node = value.node
        place = _ONNX_RESULT.get(node.op)
        if place is not None:
            return _constants(_placed(node, place))
        if not (node.op in _ONNX_KEPT and node.inputs):
            return None
        value = node.inputs[0]
    return None


def _constants(ends: Sequence[Value]) -> TensorParams | None:
    """The parameters that a scale and perhaps a zero point give, if they are constants of one element."""
    tensors = [v.node.tensor for v in ends]
    if not tensors or any(t is None or t.size != 1 for t in tensors):
        return None
    numbers = [t.numpy().reshape(-1)[0] for t in tensors if t is not None]
    return TensorParams((float(numbers[0]),), (int(numbers[1]) if len(numbers) > 1 else 0,))
