"""Formulas over tensors, written as formulas: every operation emits an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from thinflow.ir.types import BOOL, DOUBLE, FLOAT, INT32, INT64, DType, dtype
from thinflow.lower.onnx.builder import Builder, Dims
from thinflow.onnx.operators import facts_of
from thinflow.onnx.program import Tensor
from thinflow.typing import Array


def known_sizes(shape: Dims) -> list[int]:
    """Sizes that are known to be known."""
    return [n or 0 for n in shape or ()]


Operand: TypeAlias = "Term | Tensor | float | Array"


@dataclass(frozen=True, eq=False)
class Term:
    """A tensor with arithmetic. Numbers and arrays become constants of its type."""

    b: Builder
    tensor: Tensor

    @property
    def shape(self) -> Dims:
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def of(self, other: Operand) -> Tensor:
        """An operand as a tensor of this one's type."""
        if isinstance(other, Term):
            return other.tensor
        if isinstance(other, Tensor):
            return other
        # In the type of the other operand: ONNX promotes none.
        return self.b.const(np.asarray(other, self.dtype.numpy()), "const", self.dtype)

    def apply(self, code: str, *others: Operand) -> Term:
        """The result of an operator of broadcasting operands; computed now if they are small constants."""
        return Term(self.b, _applied(self.b, code, self.tensor, *(self.of(o) for o in others)))

    def __add__(self, other: Operand) -> Term:
        return self.apply("Add", other)

    def __sub__(self, other: Operand) -> Term:
        return self.apply("Sub", other)

    def __rsub__(self, other: Operand) -> Term:
        return Term(self.b, self.of(other)).apply("Sub", self)

    def __mul__(self, other: Operand) -> Term:
        return self.apply("Mul", other)

    def __truediv__(self, other: Operand) -> Term:
        return self.apply("Div", other)

    def __rtruediv__(self, other: Operand) -> Term:
        return Term(self.b, self.of(other)).apply("Div", self)

    def __neg__(self) -> Term:
        return self.apply("Neg")

    def __lt__(self, other: Operand) -> Term:
        return self.apply("Less", other)

    def __le__(self, other: Operand) -> Term:
        return self.apply("LessOrEqual", other)

    def __gt__(self, other: Operand) -> Term:
        return self.apply("Greater", other)

    def __ge__(self, other: Operand) -> Term:
        return self.apply("GreaterOrEqual", other)

    def __and__(self, other: Operand) -> Term:
        return self.apply("And", other)

    def __or__(self, other: Operand) -> Term:
        return self.apply("Or", other)

    def __invert__(self) -> Term:
        return self.apply("Not")

    def equals(self, other: Operand) -> Term:
        return self.apply("Equal", other)

    def least(self, other: Operand) -> Term:
        """The smaller of both."""
        return self.apply("Min", other)

    def most(self, other: Operand) -> Term:
        """The larger of both."""
        return self.apply("Max", other)

    def floor(self) -> Term:
        return self.apply("Floor")

    def ceil(self) -> Term:
        return self.apply("Ceil")

    def rounded(self) -> Term:
        """To the nearest integer, halves to even."""
        return self.apply("Round")

    def truncated(self) -> Term:
        """Without the fraction."""
        # ONNX has no Trunc.
        return choose(self < 0, self.ceil(), self.floor())

    def rounded_away(self) -> Term:
        """To the nearest integer, halves away from zero."""
        # x - trunc(x) is exact; floor(x + 0.5) would round the largest number below a half up.
        whole = self.truncated()
        return whole + choose((self - whole).magnitude() >= 0.5, self.apply("Sign"), whole * 0)

    def magnitude(self) -> Term:
        return self.apply("Abs")

    def cast(self, element: DType | str) -> Term:
        return Term(self.b, self.b.cast(self.tensor, dtype(element) if isinstance(element, str) else element))

    def index(self) -> Term:
        return self.cast(INT64)

    def reduced(self, code: str, *axes: int, keep: bool = False) -> Term:
        return Term(self.b, self.b.reduce(code, self.tensor, axes, keep=keep))

    def unsqueezed(self, *axes: int) -> Term:
        return Term(self.b, self.b.unsqueezed(self.tensor, axes))

    def reshaped(self, *sizes: int | None) -> Term:
        return Term(self.b, self.b.reshaped(self.tensor, sizes))

    def gathered(self, places: Tensor | Array, axis: int = 0) -> Term:
        """The slices at some places of an axis."""
        at = places if isinstance(places, Tensor) else self.b.const(np.asarray(places, np.int64), "places")
        shape: Dims = None
        if self.shape is not None and at.shape is not None:
            axis %= len(self.shape)
            shape = (*self.shape[:axis], *at.shape, *self.shape[axis + 1 :])
        return Term(self.b, self.b.step("Gather", self.tensor, at, shape=shape, axis=axis))


def choose(condition: Term, x: Term, y: Operand) -> Term:
    """x where the condition holds, else y."""
    return Term(x.b, _applied(x.b, "Where", condition.tensor, x.tensor, x.of(y)))


_TYPES = (FLOAT, DOUBLE, INT32, INT64, BOOL)
_MOST = 64
"""Elements of what is computed ahead."""


def _applied(b: Builder, code: str, *operands: Tensor) -> Tensor:
    """The result of an operator that rounds as IEEE arithmetic does: a constant where the operands are."""
    # Functions such as Exp are left to the runtime, whose last bits are its own; Div of integers to its rule.
    is_float = all(t.dtype.is_floating for t in operands)
    facts = facts_of(code)
    function = facts.exact if is_float or facts.exact_for == "any" else None
    small = all(t.is_constant and t.dtype in _TYPES and t.array().size <= _MOST for t in operands)
    if function is None or not small:
        return b.step(code, *operands)
    with np.errstate(all="ignore"):
        return b.const(function(*(t.array() for t in operands)), code.lower())
