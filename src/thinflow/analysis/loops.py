"""Static shapes in graphs with TF1 loops, where a variable's shape depends on what the loop hands back."""

from __future__ import annotations

from collections.abc import Mapping

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import MERGES, NEXT_ITERATIONS
from thinflow.ir.types import TensorSpec

_MAX_PASSES = 12  # beyond that the variables stay unknown, which is always right


def infer_with_loops(graph: Graph, fed: Mapping[Value, TensorSpec] | None = None) -> dict[str, str]:
    """As `infer_shapes`; a loop variable has the shape it enters with, as far as each iteration keeps it.

    O(nodes + edges) for every level of nesting and for every time a shape has to be given up.
    """
    given = dict(fed or {})
    failures = infer_shapes(graph, given)
    variables = {n: following for n in graph if (following := _following(n)) is not None}
    if not variables:
        return failures
    guesses: dict[Value, TensorSpec] = {}
    for _ in range(_MAX_PASSES):
        # New guesses before wider ones: an inner loop's is only known when the outer one's is.
        better = _entered(variables, guesses) or _widened(variables, guesses)
        if not better:
            return failures
        guesses.update(better)
        failures = infer_shapes(graph, given | guesses)
    # Unsettled guesses may be wrong; without them the variables are unknown.
    return infer_shapes(graph, given)


def _following(node: Node) -> Value | None:
    """The value of a loop variable in the next iteration; None for other nodes."""
    # A loop variable merges what enters with what comes back; other merges join branches.
    if node.op not in MERGES or len(node.inputs) != 2:
        return None
    return next((v for v in node.inputs if v.node.op in NEXT_ITERATIONS), None)


def _entered(variables: Mapping[Node, Value], guesses: Mapping[Value, TensorSpec]) -> dict[Value, TensorSpec]:
    """First guesses: what enters. Inner loops get theirs once the outer ones have some."""
    found = {}
    for node, following in variables.items():
        first = next(v for v in node.inputs if v is not following).spec
        if node.output() not in guesses and first.shape is not None:
            found[node.output()] = first.with_shape(first.shape)
    return found


def _widened(variables: Mapping[Node, Value], guesses: Mapping[Value, TensorSpec]) -> dict[Value, TensorSpec]:
    """Guesses that do not hold of what enters or of what comes back, made wide enough."""
    wider = {}
    for node in variables:
        guess = guesses.get(node.output())
        if guess is None or guess.shape is None:
            continue
        shape: tuple[int | None, ...] | None = guess.shape
        for value in node.inputs:
            other = value.spec.shape
            if shape is None or other is None or len(other) != len(shape):
                shape = None
            else:
                # Sizes only ever get wider, from a number to unknown to no
                # rank, so that this comes to an end.
                shape = tuple(a if a == b else None for a, b in zip(shape, other, strict=True))
        if shape != guess.shape:
            wider[node.output()] = guess.with_shape(shape)
    return wider
