"""Whether a clone is still what it was cloned from, so that it can serve once more."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.graph import Graph
from thinflow.ir.node import Node
from thinflow.ir.types import UNKNOWN, TensorSpec

_SHARED = ("versions", "passenger", "functions", "source", "states", "usage")
_EQUAL = ("path", "problems", "aliases", "vocabulary", "facts")


def is_unedited(copy: Graph, graph: Graph) -> bool:
    """True if a clone of a graph is still as `Graph.clone` made it. O(nodes), a tenth of what cloning costs.

    The graph itself must not have been changed since.
    """
    # Names, order and edges are only changed by methods, which count.
    if copy._edits or copy._names._serial != graph._names._serial:
        return False
    if any(getattr(copy, name) is not getattr(graph, name) for name in _SHARED) or any(
        getattr(copy, name) != getattr(graph, name) for name in _EQUAL
    ):
        return False
    nodes, twins = graph._nodes.now(), copy._nodes.now()
    # Lists of fields are compared in C, and what is one object needs no look inside.
    return (
        [n.op for n in nodes] == [n.op for n in twins]
        and [n.device for n in nodes] == [n.device for n in twins]
        and [n.origin for n in nodes] == [n.origin for n in twins]
        and [n.attrs_view for n in nodes] == [n.attrs_view for n in twins]
        and _specs(nodes) == _specs(twins)
    )


def _specs(nodes: Sequence[Node]) -> tuple[list[TensorSpec], dict[tuple[str, int], TensorSpec]]:
    """What is known of all values; a port that was only asked for counts as one that is not there."""
    first = [UNKNOWN if n._output is None else n._output.spec for n in nodes]
    others = [(n._name, port, v.spec) for n in nodes if n._others for port, v in n._others.items()]
    return first, {(name, port): spec for name, port, spec in others if spec is not UNKNOWN}
