"""Arithmetic that does nothing, or in two steps what one does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from thinflow.ir.graph import Node, Value
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.rewrite.pattern import source_of

_SIMPLIFIES = "simplify_arithmetic"
_NOTHING = "does nothing"


@rule("TF306", Severity.INFO)
def idle_arithmetic(c: Context) -> Iterator[LintFinding]:
    """Additions of 0, factors of 1, reshapes to the shape that is there, two factors in a row.

    Why: each reads and writes its whole input.

    Mend: `--fix` takes them out.

    Ignore: never, but for the names of the nodes.
    """
    if not c.has_own_nodes:
        return
    told = {entry.node: entry.text for entry in c.own_dry.changes(_SIMPLIFIES)}
    # An activation in pieces is told as one, by TF312.
    pieces = {n.name for one in c.handwritten for n in one.nodes}
    nodes = [
        n
        for n in c.changed_own(_SIMPLIFIES)
        if told[n].startswith(_NOTHING) or not (n in pieces or _is_respelled(c.own.node(n), told))
    ]
    if nodes:
        yield LintFinding(
            f"{count(len(nodes), 'node')} that can go, or go with another",
            tuple(nodes),
            flops=c.flops(nodes),
            fix=_SIMPLIFIES,
        )


def _is_respelled(node: Node, told: Mapping[str, str]) -> bool:
    """True if a node becomes another op of what it reads, as x * x becomes a square, and none goes."""
    return any(told[node.name].endswith(f" of '{_behind(value, told).name}'") for value in node.inputs)


def _behind(value: Value, told: Mapping[str, str]) -> Value:
    """What a value is a copy of, with all that does nothing gone."""
    value = source_of(value)
    while told.get(value.node.name, "").startswith(_NOTHING):
        value = source_of(value.node.inputs[0])
    return value
