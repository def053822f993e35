"""Copies of whole graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from thinflow.ir.garbage import paused_gc
from thinflow.ir.node import Node
from thinflow.ir.value import make_use

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph


def copy_into(copy: Graph, graph: Graph) -> None:
    """Fill an empty graph with twins of a graph's nodes and edges; what is immutable is shared.

    O(nodes + edges).
    """
    copy.versions, copy.passenger, copy.path = graph.versions, graph.passenger, graph.path
    # Functions are views that nobody edits in place, so both graphs may hold the same library.
    copy.functions, copy.aliases = graph.functions, dict(graph.aliases)
    copy.vocabulary, copy.facts = graph.vocabulary, dict(graph.facts)
    copy.problems, copy.states = list(graph.problems), graph.states
    # All twins before any edge: a loop's Merge reads a NextIteration that stands later in the file.
    twins: dict[Node, Node] = {}
    with paused_gc():
        for node in graph:
            twin = twins[node] = _twin(node)
            twin.graph = copy
            copy._nodes.insert(twin, None)
        # Stand-ins are in no graph's list, but inputs read them.
        for node in graph.missing.values():
            twins[node] = _twin(node)
        copy._names = graph._names.copy(twins)
        for node, twin in twins.items():
            _copy_edges(node, twin, twins)
    copy.inputs = [twins[v.node].output(v.port) for v in graph.inputs]
    copy.outputs = [twins[v.node].output(v.port) for v in graph.outputs]


def _twin(node: Node) -> Node:
    """A copy without edges."""
    twin = Node(node.name, node.op, node.device, node.source)
    twin._attrs = None if node._attrs is None else dict(node._attrs)
    twin.origin = node.origin
    return twin


def _copy_edges(node: Node, twin: Node, twins: Mapping[Node, Node]) -> None:
    twin._inputs = [twins[v.node].output(v.port) for v in node._inputs]
    for value in node.outputs:
        double = twin.output(value.port)
        double.spec = value.spec
        for use in value.uses:  # in the same order, so that edits go as they would here
            double._add_use(make_use((twins[use.node], use.index)))
    if node._controls:
        # Places too: control inputs are told in their order, not in that of the dict.
        twin._controls = {twins[n]: place for n, place in node._controls.items()}
    if node._successors:
        twin._successors = {twins[n]: None for n in node._successors}
