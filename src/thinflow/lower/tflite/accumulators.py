"""Stand-ins for 32-bit accumulators until they are requantized.

LiteRT has no tensors of 32-bit quantized values: its kernels round sums to eight bits as they make them. So
nothing is emitted for the op that adds up, but for the one that requantizes, which knows the scale wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias

import numpy as np

from thinflow.analysis.quant_params import params_of_range
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT8, INT32, QINT8, QINT32
from thinflow.lower.quantized.accumulators import (
    COARSEST_OPERAND,
    NEGLIGIBLE,
    LayerPlan,
    RequantTarget,
)
from thinflow.lower.quantized.addends import Addend
from thinflow.lower.quantized.int8_weights import INT8_MOST, TOLERANCE, Int8Weights, in_channels, split
from thinflow.lower.tflite.builder import Builder, Float
from thinflow.lower.tflite.dynamic_ranges import DynamicallyQuantized, FloatAccumulators
from thinflow.lower.tflite.quantized_context import (
    parameters_of,
    quantized_result,
    quantized_step,
    unfixed_range,
)
from thinflow.program.model import Dims
from thinflow.tflite.model import Quantization, Tensor
from thinflow.typing import Array

_FEW_CHANNELS = 0.05
"""Share of the channels whose weights may be rounded to scales of their own, where copies of input channels
would move nothing: copies cost a pass over the whole input, however few weights they are for."""
_TOP = {"NONE": np.inf, "RELU": np.inf, "RELU6": 6.0}
"""Activation -> the greatest value it leaves, from the mildest to the strictest."""

Finish: TypeAlias = Callable[[Builder, Tensor, Array, Array, Tensor, Tensor, str], None]
"""Emits a layer, given input, weights int8 [taps,c',m], their scales [1] or [m], bias int32 [m], the result
and the activation."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Accumulators:
    """32-bit quantized values. Activations clamp them.

    Attributes:
        tensor: something they are computed from.
        shape: theirs.
        activation: NONE, RELU or RELU6.
    """

    tensor: Tensor
    shape: Dims
    activation: str = "NONE"

    # What the walk over the graph asks of tensors.
    is_constant = False
    dtype = QINT32
    element = QINT32

    def stored(self, b: Builder, value: Value) -> NoReturn:
        """Refuse to hand the values out.

        Raises:
            UnsupportedOp: always.
        """
        # A reader that measures the range is the cause, and has a remedy: it is named rather than the type.
        for node in value.readers:
            if node.op == "RequantizationRange" or (
                node.op == "Requantize" and b.quantized.params(node.output()) is None
            ):
                raise unfixed_range(node.output())
        raise UnsupportedOp(
            "its 32-bit values are wanted as such, and LiteRT's kernels round them to eight bits at once",
            hint="ask for the result of the Requantize behind it",
        )

    def requantized(self, b: Builder, to: RequantTarget) -> Tensor:
        """The current node's result: the sums as int8 values."""
        raise NotImplementedError

    def activated(self, b: Builder, code: str) -> Accumulators:
        """Clamped from below, and with RELU6 from above."""
        return replace(self, activation=max(self.activation, code, key=list(_TOP).index))

    def clamped(self, to: RequantTarget) -> RequantTarget:
        """The target with the ends of the activation."""
        low = -np.inf if self.activation == "NONE" else 0.0
        return replace(to, low=low, high=_TOP[self.activation])


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerAccumulators(Accumulators):
    """The sums of a convolution or a product with constant weights.

    Attributes:
        plan: of the layer.
        finish: emits the operator.
    """

    plan: LayerPlan
    finish: Finish

    def requantized(self, b: Builder, to: RequantTarget) -> Tensor:
        """The result by one operator.

        Raises:
            UnsupportedOp: int8 weights or a bias of 32 bits would be more than a step off.
        """
        weights = self._int8_weights(to)
        bias = self.plan.whole_bias(weights, to)
        if np.abs(bias).max(initial=0) >= 2**31:
            raise UnsupportedOp("its bias does not fit 32 bits in steps of its products")
        x = _with_copies(b, self.tensor, weights)
        y = quantized_result(b, to)
        addend = b.const(bias.astype(np.int32), "bias", INT32)
        zeros = np.zeros(len(weights.scales), np.int64)
        # LiteRT's kernels want scale(bias) = scale(input) * scale(weights), channel by channel, and 0 for 0.
        addend.quantization = Quantization((weights.scales * self.plan.scale).astype(np.float32), zeros)
        scales = (weights.scales * self.plan.unit).astype(np.float32)
        self.finish(b, x, weights.values, scales, addend, y, self.activation)
        # What reads y may still join: it makes the operator anew, and this one is dead then.
        b.quantized.sums[y] = (self, to)
        return y

    def _int8_weights(self, to: RequantTarget) -> Int8Weights:
        plan = self.plan
        step = to.scale / plan.scale
        if plan.is_real:
            found = in_channels(plan.columns, plan.input_zero, step, step, all_channels=True)
            if found is None:
                raise UnsupportedOp("its weights do not fit into eight bits within one step of its result")
            return found
        step -= plan.blur / plan.scale  # what joined ops have left of it
        # Copies of channels move no result, but cost a pass over the input; scales per channel cost nothing.
        parts, _ = split(plan.weights, plan.input_zero, TOLERANCE * step)
        if not parts.copies:
            return parts
        is_wide = np.abs(plan.columns).max(axis=0, initial=0) > INT8_MOST
        found = None
        if is_wide.mean() <= _FEW_CHANNELS:
            found = in_channels(plan.columns, plan.input_zero, step, step, all_channels=False)
        return parts if found is None else replace(found, values=found.values.reshape(plan.weights.shape))

    def plus(self, bias: Array, to: RequantTarget, blur: float = 0.0) -> LayerAccumulators | None:
        """The sums and a bias, without the requantization in between; None behind a clamp.

        Args:
            bias: real values [m].
            to: where the sums would be requantized.
            blur: how far the results of the op that adds are beside these sums, in real values.
        """
        if self.activation != "NONE":
            return None
        return replace(self, plan=self.plan.requantized(to).plus(bias, blur))


def _with_copies(b: Builder, x: Tensor, weights: Int8Weights) -> Tensor:
    """x with some of its channels once more."""
    if not weights.copies:
        return x
    shape = x.shape or ()
    rank, depth = len(shape), shape[-1]
    pieces = [x]
    for start, count in weights.copies:
        if (start, count) == (0, depth):
            pieces.append(x)
            continue
        piece = quantized_step(b, "channels", (*shape[:-1], count), x)
        first, size = (*(0,) * (rank - 1), start), (*(-1,) * (rank - 1), count)
        b.append("SLICE", [x, b.ints(first, "begin"), b.ints(size, "size")], [piece], {})
        pieces.append(piece)
    joined = quantized_step(b, "channels", (*shape[:-1], weights.values.shape[1]), x)
    b.append("CONCATENATION", pieces, [joined], {"axis": rank - 1})
    return joined


# --- element by element ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class PairAccumulators(Accumulators):
    """Sums or products of two tensors, element by element.

    Attributes:
        code: ADD or MUL.
        other: the second tensor.
        addends: what TensorFlow's kernel adds for the values of both; none for products.
        joined: the sums as those of the layer in front of it; None where that is not possible.
    """

    other: Tensor
    code: str = "ADD"
    addends: tuple[Addend, ...] = ()
    joined: LayerAccumulators | None = None

    def requantized(self, b: Builder, to: RequantTarget) -> Tensor:
        """The result by one operator on int8 values, or in float where that is more than a step off.

        Raises:
            UnsupportedOp: both are.
        """
        found = self._in_layer(b, to)
        if found is not None:
            return found
        if self.code == "MUL":
            return self._by_operator(b, self.other, to)
        # Sums commute; a constant goes second, where its values can take up what the kernel adds beside.
        if self.tensor.is_constant:
            return replace(self, tensor=self.other, other=self.tensor, addends=self.addends[::-1])._added(
                b, to
            )
        return self._added(b, to)

    def _in_layer(self, b: Builder, to: RequantTarget) -> Tensor | None:
        """The result by the layer in front; None if there is none, or its scale is too coarse for that."""
        if self.joined is None or not self.joined.plan.is_faithful(self.clamped(to)):
            return None
        try:
            # Its int8 weights or bias may not do for this scale; the operator behind the layer still may.
            return replace(self.joined, activation=self.activation).requantized(b, to)
        except UnsupportedOp:
            return None

    def _by_operator(self, b: Builder, other: Tensor, to: RequantTarget) -> Tensor:
        y = quantized_result(b, to)
        b.append(self.code, [self.tensor, other], [y], {"fused_activation_function": self.activation})
        return y

    def _added(self, b: Builder, to: RequantTarget) -> Tensor:
        # A constant can hold all that the kernel adds beside the exact sum; two tensors cannot.
        off, moved = self._off(to), self._moved(b, to)
        # Beyond this ratio of scales no accelerated kernel takes the operator.
        if max(a.params.scale for a in self.addends) > COARSEST_OPERAND * to.scale:
            off, moved = np.inf, None
        if moved is not None and off > NEGLIGIBLE * to.scale and moved[1] < min(off, TOLERANCE * to.scale):
            return self._by_operator(b, moved[0], to)
        if off <= TOLERANCE * to.scale:
            return self._by_operator(b, self.other, to)
        return self._in_float(b, to)

    def _off(self, to: RequantTarget) -> float:
        """The largest difference between sums of exact real values and those of TensorFlow's kernel."""
        operands = zip(self.addends, (self.tensor, self.other), strict=True)
        # Only values that a constant really has count; any of the 256 may come from a tensor.
        found = [a.excess[_values(t)] if t.is_constant else a.excess for a, t in operands]
        if not all(excess.size for excess in found):
            return 0.0  # an empty constant: there are no sums
        first, second = found
        return float(max(first.max() + second.max() + to.shift, -first.min() - second.min() - to.shift))

    def _moved(self, b: Builder, to: RequantTarget) -> tuple[Tensor, float] | None:
        """A constant that holds all that the kernel adds, and how far sums are off then; None without one."""
        if not self.other.is_constant or not np.asarray(self.other.array()).size:
            return None
        excess = self.addends[0].excess
        # The constant takes the middle of what the first operand is off, so only half of its spread remains.
        middle = float(excess.max() + excess.min()) / 2
        reals = self._constant(to) + middle
        # It gets quantization parameters of its own, as narrow as its values allow; 0 has to be one of them.
        own = params_of_range(float(min(reals.min(), 0)), float(max(reals.max(), 0)), QINT8)
        if own is None:
            return None
        values = np.clip(np.rint(reals / own.scale) + own.zero_point, -128, 127).astype(np.int8)
        y = b.const(values, "codes", INT8)
        y.quantization = parameters_of(own)
        rest = (values.astype(np.float64) - own.zero_point) * own.scale - reals
        return y, float(np.abs(rest).max() + (excess.max() - excess.min()) / 2)

    def _constant(self, to: RequantTarget) -> Array:
        """TensorFlow's addends for the constant, and the target's shift, float64."""
        reals: Array = self.addends[1].reals[_values(self.other)] + to.shift
        return reals

    def _in_float(self, b: Builder, to: RequantTarget) -> Tensor:
        x = _expressed(b, self.tensor, self.addends[0], to)
        if self.other.is_constant:
            other = b.const(self._constant(to).astype(np.float32), "addend", FLOAT)
        else:
            other = (_expressed(b, self.other, self.addends[1], to) + to.shift).tensor
        total = b.step("ADD", x.tensor, other, shape=self.shape)
        if self.activation != "NONE":
            total = b.step(self.activation, total, shape=self.shape)
        y = quantized_result(b, to)
        b.append("QUANTIZE", [total], [y], {})
        return y


def _values(x: Tensor) -> Array:
    """The values of an int8 constant, counted from the lowest."""
    # int16, or 127 + 128 would wrap around.
    return np.asarray(x.array()).astype(np.int16) + 128


def _expressed(b: Builder, x: Tensor, addend: Addend, to: RequantTarget) -> Float:
    """TensorFlow's addends for int8 values, float."""
    real = Float(b, b.step("DEQUANTIZE", x, shape=x.shape, element=FLOAT))
    own = addend.params
    # LiteRT has no operator that shows int8 values as numbers: dequantizing and dividing by the scale gives
    # them back but for float32's roundings, which ROUND takes away.
    return addend.expressed(
        lambda: real, lambda: (real * (1 / own.scale) + float(own.zero_point)).rounded(), to.scale
    )


QuantizedValue: TypeAlias = Tensor | Accumulators | FloatAccumulators | DynamicallyQuantized
"""Stand-in for quantized values."""
