"""Formulas of lifting rules, written as formulas: terms over operands, whose nodes go where the op's do."""

from __future__ import annotations

from thinflow.decompose.terms import Body, Term
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.lifter import Call


class _Place(Body):
    """Where the nodes of an op go, and the functions that they call."""

    def __init__(self, c: Call) -> None:
        super().__init__(c.name)
        self.graph, self.functions = c.lifter.graph, c.lifter.made
        # Loops of the graph name their functions, and inference finds them in its table.
        if not self.graph.functions:
            self.graph.functions = self.functions


def term(c: Call, value: Value, body: Body | None = None) -> Term:
    """A value of the new graph as a term.

    Raises:
        UnsupportedOp: its type is not known.
    """
    if value.dtype is None:
        raise UnsupportedOp("the type of one of its operands is not known")
    return Term(body or _Place(c), value, c.content(value))


def terms(c: Call, *places: int) -> list[Term]:
    """Operands as terms of one formula.

    Raises:
        UnsupportedOp: one is absent, or its type is not known.
    """
    body = _Place(c)
    return [term(c, c[place], body) for place in places]


def body_of(c: Call) -> Body:
    """Where constants of a formula go."""
    return _Place(c)
