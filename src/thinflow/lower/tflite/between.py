"""Float layers between two eight-bit grids: integer ones, where that is within one code.

`quantize_nodes` leaves some layers in float, depthwise convolutions above all. Where both their input and
their result are codes on known grids, nothing but their weights has to be rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, INT8, INT32
from thinflow.lower.channel_codes import channel_codes, is_close
from thinflow.lower.tflite.coding import landed, own_codes, zero_of
from thinflow.lower.tflite.program import Operator, Quantization, Tensor
from thinflow.lower.tflite.sums import Landing, Products

if TYPE_CHECKING:
    from thinflow.lower.tflite.builder import Builder

_CHANNELS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
"""Code -> the axis of its weights that counts output channels."""
_ACTIVATIONS = ("RELU", "RELU6")
_FAR = 64  # operators back to look for the one in front


@dataclass(frozen=True, eq=False)
class Layer(Products):
    """What a layer of real weights adds up. `weights` are float64 [taps,m], `scale` is the step of the input.

    Attributes:
        operator: the float one.
        pads: what pads its input, constants [rank,2], the first one first.
    """

    operator: Operator = None  # type: ignore[assignment]
    pads: tuple[Tensor, ...] = field(default=())

    def rounded(self, b: Builder, to: Landing) -> Tensor:
        """The result as codes.

        Raises:
            UnsupportedOp: it would be more than a code off.
        """
        step = to.grid.scale / self.scale
        assert self.tensor.quantization is not None
        parts = channel_codes(self.weights, zero_of(self.tensor) + 128, to.grid.scale / self.scale)
        if not is_close(parts, step):
            raise UnsupportedOp("its weights do not fit into eight bits within one code of its result")
        units = self.scale * parts.scales.astype(np.float64)  # the real that a sum of 1 stands for
        real = np.asarray(self.bias, np.float64) + to.offset * to.grid.scale + parts.shift * self.scale
        bias = np.rint(real / units)
        if np.abs(bias).max(initial=0) >= 2**31:
            raise UnsupportedOp("its bias does not fit 32 bits in steps of its products")
        y = landed(b, to.grid)
        addend = _constant(b, bias.astype(np.int32), "bias", units, 0)
        inputs = [self._padded(b), self._filter(b, parts.weights, parts.scales), addend]
        options = self.operator.options | {"fused_activation_function": self.activation}
        b.append(self.operator.code, inputs, [y], options)
        b.coding.sums[y] = (self, to)
        return y

    def _padded(self, b: Builder) -> Tensor:
        x = self.tensor
        for pads in self.pads:
            pairs = np.asarray(pads.array()).sum(axis=1).tolist()
            shape = None if x.shape is None else tuple(
                None if n is None else n + more for n, more in zip(x.shape, pairs, strict=True)
            )  # fmt: skip
            y = own_codes(b, "pad", shape, x)
            b.append("PAD", [x, pads], [y], {})
            x = y
        return x

    def _filter(self, b: Builder, codes: np.ndarray, scales: np.ndarray) -> Tensor:
        axis = _CHANNELS[self.operator.code]
        old = _shape_of(self.operator.inputs[1])
        if axis == 0:
            codes = codes.T
        return _constant(b, np.ascontiguousarray(codes.reshape(old)), "filter", scales, axis)


def _constant(b: Builder, array: np.ndarray, suffix: str, scales: np.ndarray, axis: int) -> Tensor:
    tensor = b.const(array, suffix, INT8 if array.dtype == np.int8 else INT32)
    zeros = np.zeros(len(scales), np.int64)
    tensor.quantization = Quantization(scales.astype(np.float32), zeros, axis if len(scales) > 1 else 0)
    return tensor


def coded_layer(b: Builder, x: Tensor, to: Landing) -> Tensor | None:
    """Reals on a grid, computed in integers from the codes that they come from; None if that is not possible.

    Args:
        b: holds the operators that make the reals.
        x: float, the result of a layer of codes turned into floats.
        to: where the current node rounds to.
    """
    layer = _layer(b, x)
    if layer is None:
        return None
    try:
        return layer.rounded(b, to)
    except UnsupportedOp:
        return None


def _layer(b: Builder, x: Tensor) -> Layer | None:
    """The layer that makes reals from codes: DEQUANTIZE, PAD, a sum of products, ADD, and a clamp."""
    operator, activation, bias = _producer(b, x), "NONE", np.zeros(())
    if operator is not None and operator.code in _ACTIVATIONS:
        activation = operator.code
        operator = _producer(b, operator.inputs[0])
    if operator is not None and operator.code == "ADD":
        left, right = operator.inputs
        value, addend = (left, right) if _is_vector(right) else (right, left)
        operator = _producer(b, value) if _is_vector(addend) and not _has_clamp(operator) else None
        bias = _numbers(addend) if operator is not None else bias
    if operator is None or operator.code not in _CHANNELS or _has_clamp(operator):
        return None
    weights, own = _weights(operator)
    source, pads = _source(b, operator.inputs[0])
    if weights is None or source is None or source.quantization is None or bias.size not in (1, len(own)):
        return None
    return Layer(
        source,
        x.shape,
        activation=activation,
        weights=weights,
        scale=float(source.quantization.scale[0]),
        bias=own + bias,
        operator=operator,
        pads=pads,
    )


def _producer(b: Builder, x: Tensor | None) -> Operator | None:
    """The operator that makes a tensor, if it was emitted lately."""
    return next((o for o in b.operators[: -_FAR - 1 : -1] if x in o.outputs), None)


def _has_clamp(operator: Operator) -> bool:
    return operator.options.get("fused_activation_function", "NONE") != "NONE"


def _is_vector(x: Tensor | None) -> bool:
    """Whether a tensor is a float constant with one number per channel, or one for all."""
    return x is not None and x.is_constant and x.dtype is FLOAT and all(n == 1 for n in _shape_of(x)[:-1])


def _numbers(x: Tensor | None) -> np.ndarray:
    assert x is not None
    return np.asarray(x.array()).astype(np.float64).reshape(-1)


def _shape_of(x: Tensor | None) -> tuple[int, ...]:
    assert x is not None
    return tuple(np.asarray(x.array()).shape)


def _weights(operator: Operator) -> tuple[np.ndarray | None, np.ndarray]:
    """Constant weights [taps,m] and the bias [m]; None if there are none, or not all are numbers."""
    _, filters, *rest = operator.inputs
    bias = rest[0] if rest else None
    known = filters is not None and filters.is_constant and filters.dtype is FLOAT
    if filters is None or not known or (bias is not None and not bias.is_constant):
        return None, np.zeros(0)
    array = np.asarray(filters.array()).astype(np.float64)
    axis = _CHANNELS[operator.code]
    count = array.shape[axis]
    array = array.reshape(count, -1).T if axis == 0 else array.reshape(-1, count)
    own = np.zeros(count) if bias is None else _numbers(bias)
    return (array if np.isfinite(array).all() and np.isfinite(own).all() else None), own


def _source(b: Builder, x: Tensor | None) -> tuple[Tensor | None, tuple[Tensor, ...]]:
    """The codes that reals come from, and the padding in between."""
    pads: list[Any] = []
    operator = _producer(b, x)
    while operator is not None and operator.code == "PAD":
        if operator.inputs[1] is None or not operator.inputs[1].is_constant:
            return None, ()
        pads.insert(0, operator.inputs[1])
        operator = _producer(b, operator.inputs[0])
    if operator is None or operator.code != "DEQUANTIZE" or operator.inputs[0] is None:
        return None, ()
    source = operator.inputs[0]
    grid = source.quantization
    is_codes = source.dtype is INT8 and grid is not None and not grid.is_per_channel
    return (source if is_codes and not source.is_constant else None), tuple(pads)
