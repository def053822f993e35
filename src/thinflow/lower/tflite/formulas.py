"""Float tensors under construction, so that formulas look like formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from thinflow.ir.types import FLOAT
from thinflow.lower.building import Dims
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.program import Tensor

Number: TypeAlias = "Float | Tensor | float"


@dataclass(frozen=True, eq=False)
class Float:
    """A float tensor; operators emit LiteRT's own. Other operands are floats, and have its shape or none."""

    b: Builder
    tensor: Tensor

    def __add__(self, other: Number) -> Float:
        return self.apply("ADD", other)

    def __sub__(self, other: Number) -> Float:
        return self.apply("SUB", other)

    def __mul__(self, other: Number) -> Float:
        return self.apply("MUL", other)

    def __truediv__(self, other: Number) -> Float:
        return self.apply("DIV", other)

    def __neg__(self) -> Float:
        return self.apply("NEG")

    def __rtruediv__(self, other: float) -> Float:
        return self._of(other) / self

    def __rsub__(self, other: float) -> Float:
        return self._of(other) - self

    def most(self, other: Number) -> Float:
        """The greater of both."""
        return self.apply("MAXIMUM", other)

    def least(self, other: Number) -> Float:
        """The lesser of both."""
        return self.apply("MINIMUM", other)

    def floor(self) -> Float:
        return self.apply("FLOOR")

    def rounded(self) -> Float:
        """The nearest whole number, halves to the even one."""
        return self.apply("ROUND")

    def rounded_away(self) -> Float:
        """The nearest whole number, halves away from 0."""
        # ROUND would take halves to the even number.
        return (self.magnitude() + 0.5).floor() * self.apply("SIGN")

    def magnitude(self) -> Float:
        return self.apply("ABS")

    def apply(self, code: str, *others: Number) -> Float:
        """An operator whose first input this is."""
        inputs = [self.tensor, *(self._of(other).tensor for other in others)]
        return Float(self.b, self.b.step(code, *inputs, shape=_widest([t.shape for t in inputs])))

    def _of(self, other: Number) -> Float:
        if isinstance(other, Float):
            return other
        if isinstance(other, Tensor):
            return Float(self.b, other)
        return Float(self.b, self.b.const(np.float32(other), "const", FLOAT))


def _widest(shapes: Sequence[Dims]) -> Dims:
    """Of operands that are alike but for those with fewer axes."""
    return None if None in shapes else max(shapes, key=lambda s: len(s or ()))
