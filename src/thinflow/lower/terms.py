"""Formulas over tensors of a program, written as formulas: every operation emits an operator of the target.

Formulas that are the same for all targets are better written in `decompose`, in TensorFlow's words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from thinflow.ir.types import BOOL, DType, dtype
from thinflow.lower.building import B
from thinflow.program import model
from thinflow.program.model import Dims, T
from thinflow.typing import Array

Operand: TypeAlias = "Term[Any, Any] | model.Tensor | float | Array"
E = TypeVar("E", bound="Term[Any, Any]")


@dataclass(frozen=True, eq=False)
class Term(Generic[B, T]):
    """A tensor with arithmetic. Numbers and arrays become constants of its type."""

    b: B
    tensor: T

    @property
    def shape(self) -> Dims:
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def of(self, other: Operand) -> Any:
        """An operand as a tensor of this one's type."""
        if isinstance(other, Term):
            return other.tensor
        if isinstance(other, model.Tensor):
            return other
        # In the type of the other operand: runtimes promote none.
        return self.b.const(np.asarray(other, self.dtype.numpy()), "const", self.dtype)

    def apply(self: E, code: str, *others: Operand, element: DType | None = None) -> E:
        """The result of an operator of the target, whose operands broadcast; default: of this one's type."""
        operands = [self.tensor, *(self.of(o) for o in others)]
        return type(self)(self.b, self.b.formula(code, *operands, element=element or self.dtype))

    def op(self: E, op: str, *others: Operand, element: DType | None = None) -> E:
        """The result of the target's operator for an op of TensorFlow."""
        return self.apply(self.b.code_of(op), *others, element=element)

    def __add__(self: E, other: Operand) -> E:
        return self.op("AddV2", other)

    def __sub__(self: E, other: Operand) -> E:
        return self.op("Sub", other)

    def __rsub__(self: E, other: Operand) -> E:
        return type(self)(self.b, self.of(other)).op("Sub", self)

    def __mul__(self: E, other: Operand) -> E:
        return self.op("Mul", other)

    def __truediv__(self: E, other: Operand) -> E:
        return self.op("RealDiv", other)

    def __rtruediv__(self: E, other: Operand) -> E:
        return type(self)(self.b, self.of(other)).op("RealDiv", self)

    def __neg__(self: E) -> E:
        return self.op("Neg")

    def __lt__(self: E, other: Operand) -> E:
        return self.op("Less", other, element=BOOL)

    def __le__(self: E, other: Operand) -> E:
        return self.op("LessEqual", other, element=BOOL)

    def __gt__(self: E, other: Operand) -> E:
        return self.op("Greater", other, element=BOOL)

    def __ge__(self: E, other: Operand) -> E:
        return self.op("GreaterEqual", other, element=BOOL)

    def __and__(self: E, other: Operand) -> E:
        return self.op("LogicalAnd", other)

    def __or__(self: E, other: Operand) -> E:
        return self.op("LogicalOr", other)

    def __invert__(self: E) -> E:
        return self.op("LogicalNot")

    def equals(self: E, other: Operand) -> E:
        return self.op("Equal", other, element=BOOL)

    def least(self: E, other: Operand) -> E:
        """The smaller of both."""
        return self.op("Minimum", other)

    def most(self: E, other: Operand) -> E:
        """The larger of both."""
        return self.op("Maximum", other)

    def floor(self: E) -> E:
        return self.op("Floor")

    def ceil(self: E) -> E:
        return self.op("Ceil")

    def rounded(self: E) -> E:
        """To the nearest integer, halves to even."""
        return self.op("Rint")

    def truncated(self: E) -> E:
        """Without the fraction."""
        # Not every target has an operator for that.
        return choose(self < 0, self.ceil(), self.floor())

    def rounded_away(self: E) -> E:
        """To the nearest integer, halves away from zero."""
        # x - trunc(x) is exact; floor(x + 0.5) would round the largest number below a half up.
        whole = self.truncated()
        return whole + choose((self - whole).magnitude() >= 0.5, self.sign(), whole * 0)

    def magnitude(self: E) -> E:
        return self.op("Abs")

    def sign(self: E) -> E:
        return self.op("Sign")

    def cast(self: E, element: DType | str) -> E:
        element = dtype(element) if isinstance(element, str) else element
        return type(self)(self.b, self.b.cast(self.tensor, element))

    def index(self: E) -> E:
        """In the type of places."""
        return type(self)(self.b, self.b.index(self.tensor))

    def reshaped(self: E, *sizes: int | None) -> E:
        return type(self)(self.b, self.b.reshaped(self.tensor, sizes))


def choose(condition: Term[Any, Any], x: E, y: Operand) -> E:
    """x where the condition holds, else y."""
    b = x.b
    operands = condition.tensor, x.tensor, x.of(y)
    return type(x)(b, b.formula(b.code_of("SelectV2"), *operands, element=x.dtype))
