"""Orders in which the nodes of a graph can run."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from thinflow.errors import GraphError
from thinflow.ir.graph import Graph, Node

MERGES = frozenset({"Merge", "RefMerge", "_XlaMerge"})
NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})


def execution_order(graph: Graph, *, stable: bool = False) -> list[Node]:
    """Every node after all it needs; loops through Merge are fine. O(nodes + edges).

    By default the order of the Graph Transform Tool: ready nodes wait on a stack, and a Merge is ready after one data
    input. It decides which of two overlapping matches wins, so it is part of the behaviour. `stable` instead always takes
    the ready node that comes first in the file.

    Raises:
        GraphError: some nodes are in a cycle or need a node that does not exist.
    """
    order = _sorted(graph, stable)
    if len(order) != len(graph):
        done = set(order)
        stuck = [n for n in graph if n not in done]
        for node in stuck:
            for producer in _producers(node):
                if producer.graph is None:
                    raise GraphError(f"Unknown input node '{producer.name}'", node.where)
        raise GraphError(
            f"{len(stuck)} nodes in a cycle", stuck[0].where, hint="`thinflow inspect MODEL` shows what is wrong with it"
        )
    return order


def cycle_members(graph: Graph) -> list[Node]:
    """Nodes that can never run because they wait for themselves or for such a node; empty in a valid graph."""
    done = set(_sorted(graph, stable=False, ignore_missing=True))
    return [n for n in graph if n not in done]


def ancestors(values: Iterable[Node], *, stop: frozenset[Node] = frozenset(), control: bool = True) -> set[Node]:
    """The given nodes and all they depend on; the inputs of a node in `stop` are not followed."""
    seen: set[Node] = set()
    stack = list(values)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in stop:
            continue
        stack.extend(v.node for v in node.inputs)
        if control:
            stack.extend(node.control_inputs)
    return seen


def _producers(node: Node) -> list[Node]:
    return [v.node for v in node.inputs] + list(node.control_inputs)


def _sorted(graph: Graph, stable: bool, ignore_missing: bool = False) -> list[Node]:
    pending: dict[Node, int] = {}
    consumers: dict[Node, list[Node]] = {}
    index: dict[Node, int] = {}
    for position, node in enumerate(graph):
        index[node] = position
        producers = _producers(node)
        if ignore_missing:
            producers = [p for p in producers if p.graph is not None]
        # One data input makes a Merge ready: the other arrives only from inside its own loop.
        is_merge = node.op in MERGES and bool(node.inputs)
        pending[node] = 1 + len(node.control_inputs) if is_merge else len(producers)
        for producer in producers:
            consumers.setdefault(producer, []).append(node)
    ready = [n for n in graph if pending[n] == 0]
    order: list[Node] = []
    heap = [(index[n], i, n) for i, n in enumerate(ready)] if stable else []
    serial = len(ready)
    while heap or (ready and not stable):
        node = heapq.heappop(heap)[2] if stable else ready.pop()
        order.append(node)
        for consumer in consumers.get(node, ()):
            pending[consumer] -= 1
            if pending[consumer] == 0:
                serial += 1
                if stable:
                    heapq.heappush(heap, (index[consumer], serial, consumer))
                else:
                    ready.append(consumer)
    return order
