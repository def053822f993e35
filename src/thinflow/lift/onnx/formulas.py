"""Lifting rules that are formulas: terms over the graph that grows, and sizes that may be open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from thinflow.decompose.terms import Body, Term, concat
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, DType
from thinflow.lift.lifter import Call

Size: TypeAlias = "int | Term"
"""A number that is known, or an int32 scalar that the run computes."""


class Formula(Body):
    """Terms over the operands of a call.

    Attributes:
        call: the op that is written as a formula.
    """

    def __init__(self, call: Call) -> None:
        super().__init__(call.name)
        self.call, self.functions = call, call.lifter.made

    def add(
        self, op: str, inputs: Sequence[Value], /, *, ports: int = 1, **attrs: Attr | str
    ) -> tuple[Term, ...]:
        """A new node's first outputs, in the graph that grows."""
        node = self.call.many(op, *inputs, **attrs)
        return tuple(Term(self, node.output(port)) for port in range(ports))

    def constant(self, content: object, element: DType) -> Term:
        """A new constant of a type."""
        import numpy as np

        array = np.asarray(content, element.numpy())
        return Term(self, self.call.constant(array), array)

    def term(self, value: Value) -> Term:
        """A value of the graph that grows."""
        return Term(self, value, self.call.content(value))

    def operand(self, place: int) -> Term:
        """An operand of the call.

        Raises:
            UnsupportedOp: it is absent.
        """
        return self.term(self.call[place])


def size(x: Term, axis: int) -> Size:
    """The size of an axis."""
    known = x.shape[axis]
    return x.sizes().at(0, axis % len(x.shape)) if known is None else known


def sizes_of(x: Term) -> list[Size]:
    """The sizes of all axes."""
    return [size(x, n) for n in range(len(x.shape))]


def scalar(body: Body, number: Size) -> Term:
    """A size as a term, int32 []."""
    return number if isinstance(number, Term) else body.constant(number, INT32)


def vector(body: Body, numbers: Sequence[Size]) -> Term:
    """Sizes side by side, int32 [n]; a constant where all are known."""
    known = [n for n in numbers if not isinstance(n, Term)]
    if len(known) == len(numbers):
        return body.constant(known, INT32)
    return concat([scalar(body, n).reshape([1]) for n in numbers], 0)


def product(numbers: Sequence[Size]) -> Size:
    """The product of sizes."""
    y: Size = math.prod(n for n in numbers if not isinstance(n, Term))
    for n in numbers:
        if isinstance(n, Term):
            y = n * y if y != 1 else n
    return y


def reshaped(x: Term, sizes: Sequence[Size]) -> Term:
    """The same elements in another shape; a single open size is what is left."""
    if all(s == n for s, n in zip(sizes, x.shape, strict=False)) and len(sizes) == len(x.shape):
        return x
    open_sizes = [s for s in sizes if isinstance(s, Term)]
    # What is left is not defined where another size is 0.
    if len(open_sizes) == 1 and 0 not in sizes:
        return x.reshape([-1 if isinstance(s, Term) else s for s in sizes])
    return x.reshape(vector(x.body, sizes))


def ranked(x: Term, sizes: Sequence[int | None]) -> Term:
    """A tensor of which not even the rank is known, in the only form that its reader takes.

    Args:
        sizes: None for one that stays what it is.
    """
    if x.value.spec.shape is not None:
        return x
    own = x.sizes()
    return x.reshape(vector(x.body, [own.at(0, n) if s is None else s for n, s in enumerate(sizes)]))


def counted(body: Body, count: Size) -> Term:
    """0, 1, ... count - 1, int32."""
    import numpy as np

    if not isinstance(count, Term):
        return body.constant(np.arange(count), INT32)
    ends = body.constant(0, INT32), count, body.constant(1, INT32)
    return body.add("Range", [t.value for t in ends])[0]
