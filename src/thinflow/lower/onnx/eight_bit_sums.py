"""Sums and element-wise products of what eight-bit codes stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from thinflow.lower.onnx.builder import Builder
from thinflow.lower.onnx.eight_bit import Coded, Target, Wide, decoded, encoded, quantized
from thinflow.lower.onnx.program import Tensor
from thinflow.lower.onnx.terms import Term

_LARGE = 100_000
"""Elements from which on finding out a range channel by channel pays."""
_HAS_NOT = 18
"""The first op set with BitwiseNot."""


def combined(
    b: Builder, code: str, x: Coded, y: Coded, low: Tensor, high: Tensor, offset: Term | None = None
) -> Wide:
    """Add or Mul of what codes stand for.

    Args:
        offset: what TensorFlow's kernel adds to all sums by rounding, float [].
    """
    pair = Pair(b, code, x, y, offset)
    return Wide(low, high, pair.narrow, pair.reals, pair.ends if pair.is_by_channel else None)


@dataclass(frozen=True)
class Pair:
    """Two operands, and Add or Mul as `code`."""

    b: Builder
    code: str
    x: Coded
    y: Coded
    offset: Term | None

    def reals(self) -> Tensor:
        """The results as float."""
        return self.b.step(self.code, decoded(self.b, self.x), self._other(0.0))

    def _other(self, more: float) -> Tensor:
        """The second operand as float, with what is to be added to the results."""
        if self.offset is None and not more:
            return decoded(self.b, self.y)
        offset = Term(self.b, self.b.const(np.float32(more), "more"))
        return (
            Term(self.b, decoded(self.b, self.y)) + (offset if self.offset is None else offset + self.offset)
        ).tensor

    def narrow(self, to: Target) -> Tensor:
        """The results as uint8 codes."""
        known = 0.0 if self.offset is None else self._known_offset
        if not self.b.extended:
            shift = to.shift if self.code == "Add" else 0.0
            return encoded(self.b, self.b.step(self.code, decoded(self.b, self.x), self._other(shift)), to)
        if known is not None and to.scale.is_constant:
            pair, target = _moved(self, to, known + to.shift)
            return pair.emit(target)
        if self.offset is None:
            return self.emit(to)
        codes, scale, zero = quantized(self.b, self._other(0.0))
        return replace(self, y=replace(self.y, codes=codes, scale=scale, zero=zero)).emit(to)

    @property
    def _known_offset(self) -> float | None:
        found = None if self.offset is None else self.offset.tensor
        return float(found.array()) if found is not None and found.is_constant else None

    def emit(self, to: Target) -> Tensor:
        """By ONNX Runtime's own op, whatever the offset."""
        x, y = self.x, self.y
        inputs = (x.codes, x.scale, x.zero, y.codes, y.scale, y.zero, to.scale, to.zero)
        return self.b.step(f"com.microsoft.QLinear{self.code}", *inputs)

    @cached_property
    def is_by_channel(self) -> bool:
        """Whether x [n,h,w,c] is large, and y holds a number or one per channel."""
        shape, other = self.x.codes.shape, self.y.codes.shape
        if shape is None or other is None or len(shape) != 4 or None in shape[1:]:
            return False
        is_vector = len(other) == 0 or (other[-1] in (1, shape[3]) and all(n == 1 for n in other[:-1]))
        is_allowed = self.b.extended and self.b.opset >= _HAS_NOT
        return is_allowed and is_vector and math.prod(n or 1 for n in shape) >= _LARGE

    def ends(self) -> tuple[Tensor, Tensor]:
        """The least and the greatest result: they are where a channel of x has its least or greatest code."""
        b, (n, height, width, depth) = self.b, self.x.codes.shape or (None,) * 4
        turned = b.step("BitwiseNot", self.x.codes)
        most, least = (
            b.step("com.microsoft.NhwcMaxPool", codes, shape=(n, 1, 1, depth), kernel_shape=(height, width))
            for codes in (self.x.codes, turned)
        )
        least = b.step("BitwiseNot", least)
        other = self._other(0.0)
        top, bottom = (
            Term(b, b.step(self.code, decoded(b, replace(self.x, codes=q)), other)) for q in (most, least)
        )
        if self.code == "Mul":  # by a number below 0 the order turns
            top, bottom = top.most(bottom), top.least(bottom)
        axes = range(4)
        return bottom.reduced("ReduceMin", *axes).tensor, top.reduced("ReduceMax", *axes).tensor


def _moved(pair: Pair, to: Target, offset: float) -> tuple[Pair, Target]:
    """The pair and its target, one code of 0 moved so as to add the offset, as near as whole codes come."""
    best, left = (pair, to), abs(offset)
    target = _zero_moved(pair.b, to.scale, to.zero, offset)
    if target is not None and target[1] < left:
        best, left = (pair, replace(to, zero=target[0])), target[1]
    for operand in (pair.x, pair.y) if pair.code == "Add" else ():
        found = _zero_moved(pair.b, operand.scale, operand.zero, -offset)
        if found is not None and found[1] < left:
            changed = replace(operand, zero=found[0])
            of_x = operand is pair.x
            best, left = (replace(pair, x=changed) if of_x else replace(pair, y=changed), to), found[1]
    return best


def _zero_moved(b: Builder, scale: Tensor, zero: Tensor, offset: float) -> tuple[Tensor, float] | None:
    """The code of 0 that is an offset higher, and how much that is off; None if there is none."""
    if not (scale.is_constant and zero.is_constant):
        return None
    unit = float(scale.array())
    steps = round(offset / unit)
    code = int(zero.array()) + steps
    if not 0 <= code <= 255:
        return None
    return b.const(np.array(code, np.uint8), "zero"), abs(offset - steps * unit)
