"""Sums and element-wise products of 8-bit quantized values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.onnx.quantized_context import (
    Accumulators,
    QuantizedTensor,
    TargetTensors,
    constant_reals,
    dequantized,
    dynamically_quantized,
    quantized,
    real_values_of,
)
from thinflow.lower.onnx.terms import Term
from thinflow.lower.quantized.accumulators import COARSEST_OPERAND, NEGLIGIBLE
from thinflow.lower.quantized.addends import STRAIGHT, Addend, middle_of
from thinflow.lower.quantized.int8_weights import TOLERANCE
from thinflow.onnx.program import Tensor
from thinflow.typing import Array

_LARGE = 100_000
"""Elements from which on measuring a range channel by channel pays: it takes more operators, of less work."""
_HAS_NOT = 18
"""The first op set with BitwiseNot."""


def combined(
    b: Builder,
    code: str,
    x: QuantizedTensor,
    y: QuantizedTensor,
    low: Tensor,
    high: Tensor,
    offset: Term | None = None,
    addends: Sequence[Addend] = (),
) -> Accumulators:
    """Add or Mul of quantized values.

    Args:
        offset: what TensorFlow's kernel adds to all sums by rounding, float [].
        addends: what it adds for the values of both, where their ranges are known; the offset is its middle.
    """
    pair = Pair(b, code, x, y, offset, tuple(addends))
    return Accumulators(low, high, pair.narrow, pair.reals, pair.ends if pair.is_by_channel else None)


@dataclass(frozen=True)
class Pair:
    """Two operands, and Add or Mul as `code`."""

    b: Builder
    code: str
    x: QuantizedTensor
    y: QuantizedTensor
    offset: Term | None
    addends: tuple[Addend, ...] = ()

    def reals(self) -> Tensor:
        """The results as float."""
        widest = max((a.params.scale for a in self.addends), default=0.0)
        # What the kernel rounds off differs between values by more than may be neglected.
        if self.addends and middle_of(self.addends)[1] > NEGLIGIBLE * widest:
            return self._exactly(NEGLIGIBLE * widest)
        x, other = real_values_of(self.b, self.x), self._other(0.0)
        if self.code == "Add":
            joined = scaled_and_moved(self.b, x, other) or moved_in_blocks(self.b, x, other)
            if joined is not None:
                return joined
        return self.b.step(self.code, x, other)

    def _other(self, more: float) -> Tensor:
        """The second operand as float, with what is to be added to the results."""
        known = _vector(self.y)
        if known is not None and (self.offset is None or self._known_offset is not None):
            # In double until here, so that the offset is rounded once, with the addend.
            total = known.reshape(known.shape[-1:]) + (self._known_offset or 0.0) + more
            return self.b.const(total.astype(np.float32), "reals")
        if self.offset is None and not more:
            return real_values_of(self.b, self.y)
        offset = Term(self.b, self.b.const(np.float32(more), "more"))
        offset = offset if self.offset is None else offset + self.offset
        if known is not None:
            result: Tensor = (offset + known.reshape(known.shape[-1:])).tensor
            return result
        return (Term(self.b, real_values_of(self.b, self.y)) + offset).tensor

    def narrow(self, to: TargetTensors) -> Tensor:
        """The results as uint8 values."""
        if self.addends and to.scale.is_constant:
            return self._frozen(to)
        known = 0.0 if self.offset is None else self._known_offset
        joined = None if known is None or not to.scale.is_constant else self._in_layer(known, to)
        if joined is not None:
            return joined
        if not self.b.extended:
            shift = to.shift if self.code == "Add" else 0.0
            return quantized(
                self.b, self.b.step(self.code, dequantized(self.b, self.x), self._other(shift)), to
            )
        if known is not None and to.scale.is_constant:
            pair, target, _ = _moved(self, to, known + to.shift)
            # An offset of whole steps costs nothing: it goes into a zero point.
            return pair.emit(target)
        if self.offset is None:
            return self.emit(to)
        if to.scale.is_constant:
            return quantized(
                self.b, self.b.step(self.code, dequantized(self.b, self.x), self._other(to.shift)), to
            )
        # An offset known only at run time is added to the second operand, which is quantized anew.
        values, scale, zero = dynamically_quantized(self.b, self._other(0.0))
        return replace(self, y=replace(self.y, values=values, scale=scale, zero_point=zero)).emit(to)

    def _frozen(self, to: TargetTensors) -> Tensor:
        """A sum over known ranges: by one op on 8-bit values, or in float if that may be over a step off."""
        step = float(to.scale.array())
        middle, blur = middle_of(self.addends)
        joined = self._in_layer(middle, to, blur) if blur <= STRAIGHT * step else None
        if joined is not None:
            return joined
        pair, target, left = _moved(self, to, middle + to.shift)
        # An operand in steps far coarser than the result's would show its own rounding in it.
        is_fine = max(a.params.scale for a in self.addends) <= COARSEST_OPERAND * step
        if self.b.extended and is_fine and left + blur <= TOLERANCE * step:
            return pair.emit(target)
        total = self._exactly(step)
        if abs(to.shift) > NEGLIGIBLE * step:
            total = self.b.step("Add", total, self.b.const(np.float32(to.shift), "shift"))
        return quantized(self.b, total, to)

    def _exactly(self, step: float) -> Tensor:
        """The sums as float, as exact as a result of these steps shows."""
        pairs = zip((self.x, self.y), self.addends, strict=True)
        return self.b.step("Add", *(_expressed(self.b, q, a, step) for q, a in pairs))

    def _in_layer(self, offset: float, to: TargetTensors, blur: float = 0.0) -> Tensor | None:
        """The results of a constant per channel, added to by the layer in front; None if there is none.

        That leaves out the rounding of the layer. Where that may show, it has to save much.
        """
        for join, other in ((self.x.join, self.y), (self.y.join, self.x)):
            reals = None if self.code != "Add" or join is None else _vector(other)
            if join is not None and reals is not None:
                found = join(reals.reshape(-1) + offset, to, blur)
                if found is not None:
                    return found
        return None

    @property
    def _known_offset(self) -> float | None:
        found = None if self.offset is None else self.offset.tensor
        return float(found.array()) if found is not None and found.is_constant else None

    def emit(self, to: TargetTensors) -> Tensor:
        """By ONNX Runtime's own op, whatever the offset."""
        x, y = self.x, self.y
        inputs = (x.values, x.scale, x.zero_point, y.values, y.scale, y.zero_point, to.scale, to.zero_point)
        return self.b.step(f"com.microsoft.QLinear{self.code}", *inputs)

    @cached_property
    def is_by_channel(self) -> bool:
        """True if x [n,h,w,c] is large and not there as float, and y holds a number or one per channel."""
        shape, other = self.x.values.shape, self.y.values.shape
        if self.x.reals is not None or shape is None or other is None or len(shape) != 4 or None in shape[1:]:
            return False
        is_vector = len(other) == 0 or (other[-1] in (1, shape[3]) and all(n == 1 for n in other[:-1]))
        is_allowed = self.b.extended and self.b.opset >= _HAS_NOT
        return is_allowed and is_vector and math.prod(n or 1 for n in shape) >= _LARGE

    def ends(self) -> tuple[Tensor, Tensor]:
        """The least and the greatest result: where a channel of x has its least or greatest value."""
        b, (n, height, width, depth) = self.b, self.x.values.shape or (None,) * 4
        # ~x is 255 - x: the greatest of that is the least of x, and pools know only greatest ones.
        turned = b.step("BitwiseNot", self.x.values)
        most, least = (
            b.step("com.microsoft.NhwcMaxPool", values, shape=(n, 1, 1, depth), kernel_shape=(height, width))
            for values in (self.x.values, turned)
        )
        least = b.step("BitwiseNot", least)
        # Both ends go through the same sum as the values would: rounding is monotonic, so they stay the ends.
        other = self._other(0.0)
        top, bottom = (
            Term(b, b.step(self.code, dequantized(b, replace(self.x, values=q)), other))
            for q in (most, least)
        )
        if self.code == "Mul":  # by a number below 0 the order turns
            top, bottom = top.most(bottom), top.least(bottom)
        axes = range(4)
        return bottom.reduced("ReduceMin", *axes).tensor, top.reduced("ReduceMax", *axes).tensor


def _expressed(b: Builder, x: QuantizedTensor, addend: Addend, step: float) -> Tensor:
    """The numbers that the kernel adds for quantized values, float; `step` is the scale of the result."""
    if x.values.is_constant:
        return b.const(addend.reals[x.values.array().astype(np.int16)].astype(np.float32), "addend")
    first = float(addend.params.zero_point - addend.zero_point)
    return addend.expressed(
        lambda: Term(b, dequantized(b, x)), lambda: Term(b, b.cast(x.values, FLOAT)) + first, step
    ).tensor


def _vector(x: QuantizedTensor) -> Array | None:
    """The real values of a constant with one vector along the last axis, float64 [...]; None for others."""
    reals = constant_reals(x)
    return reals if reals is not None and reals.size == (reals.shape or (1,))[-1] else None


def _moved(pair: Pair, to: TargetTensors, offset: float) -> tuple[Pair, TargetTensors, float]:
    """The pair and its target, one zero point moved so as to add the offset, and what is left of that."""
    best, left = (pair, to), abs(offset)
    # The result's zero point, and each operand's: whichever comes nearest to the offset in whole steps.
    target = _zero_moved(pair.b, to.scale, to.zero_point, offset)
    if target is not None and target[1] < left:
        best, left = (pair, replace(to, zero_point=target[0])), target[1]
    for operand in (pair.x, pair.y) if pair.code == "Add" else ():
        # (q - (zero - k)) * scale is k steps more, so that an operand's zero point moves the other way.
        found = _zero_moved(pair.b, operand.scale, operand.zero_point, -offset)
        if found is not None and found[1] < left:
            changed = replace(operand, zero_point=found[0])
            is_x = operand is pair.x
            best, left = (replace(pair, x=changed) if is_x else replace(pair, y=changed), to), found[1]
    return *best, left


def _zero_moved(b: Builder, scale: Tensor, zero: Tensor, offset: float) -> tuple[Tensor, float] | None:
    """The zero point that is an offset higher, and how much that is off; None if there is none."""
    if not (scale.is_constant and zero.is_constant):
        return None
    unit = float(scale.array())
    steps = round(offset / unit)
    code = int(zero.array()) + steps
    if not 0 <= code <= 255:
        return None
    return b.const(np.array(code, np.uint8), "zero"), abs(offset - steps * unit)


# ---- A product and a sum with one number per channel, in one pass over the data.


def scaled_and_moved(b: Builder, product: Tensor, shift: Tensor) -> Tensor | None:
    """x * scale + shift of a product x * scale that was emitted before, float [...,c], as one operator.

    ONNX's BatchNormalization with a mean of 0 and a variance of 1 is that, for one row of channels per pixel.

    Args:
        shift: float [c], [1] or [].

    Returns:
        None if the product is none by constants per channel, or sizes are not known.
    """
    found = b.producer(product, "Mul")
    shape = product.shape
    if found is None or shape is None or len(shape) < 2 or shape[-1] is None or shape.count(None) > 1:
        return None
    x, factor = found.inputs
    count = shape[-1]
    numbers = [_by_channel(t, count) for t in (factor, shift)]
    if x is None or x.shape != shape or numbers[0] is None or numbers[1] is None:
        return None
    # ONNX's channels are axis 1: with all axes before them joined they are that without a Transpose.
    pixels = b.reshaped(x, (None, count))
    ends = (*numbers, np.zeros(count), np.ones(count))
    rest = [b.const(np.asarray(n, np.float32), "by_channel") for n in ends]
    # (x - 0) / sqrt(1 + epsilon) is exactly x for an epsilon of 0.
    y = b.step("BatchNormalization", pixels, *rest, shape=pixels.shape, epsilon=0.0)
    return b.reshaped(y, shape)


def moved_in_blocks(b: Builder, x: Tensor, shift: Tensor) -> Tensor | None:
    """reshape(y) + shift as reshape(y + shift) for y that has several pixels a row; None if x is no such.

    What has made y may then add the numbers itself.
    """
    found = b.producer(x, "Reshape")
    shape = x.shape
    blocks = None if found is None else found.inputs[0]
    if blocks is None or not blocks.shape or not shape or not shape[-1] or not blocks.shape[-1]:
        return None
    times = blocks.shape[-1] // shape[-1]
    numbers = _by_channel(shift, shape[-1])
    if numbers is None or times < 2 or blocks.shape[-1] % shape[-1]:
        return None
    row = b.const(np.tile(numbers, times).astype(np.float32), "by_channel")
    return b.reshaped(b.step("Add", blocks, row, shape=blocks.shape), shape)


def _by_channel(x: Tensor | None, count: int) -> Array | None:
    """The numbers [c] of a constant that has one per channel, or one for all."""
    if x is None or not x.is_constant or x.dtype is not FLOAT:
        return None
    numbers = x.array()
    is_row = numbers.size == (numbers.shape or (1,))[-1] and numbers.size in (1, count)
    return np.broadcast_to(numbers.reshape(-1), (count,)) if is_row else None
