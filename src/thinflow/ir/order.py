"""Orders in which the nodes of a graph can run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from thinflow.errors import GraphError
from thinflow.ir.graph import Graph, Node, Use, Value

MERGES = frozenset({"Merge", "RefMerge", "_XlaMerge"})
NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})


def match_order(graph: Graph) -> list[Node]:
    """The order of the Graph Transform Tool, where a Merge is ready after one data input. O(nodes + edges).

    It decides which of two overlapping matches wins and what `sort_by_execution_order` writes; for running a
    graph use `execution_order`. Ready nodes wait on a stack.

    Raises:
        GraphError: some nodes are in a cycle or need a node that does not exist.
    """
    return _complete(graph, _sorted(graph, merge_needs_one=True))


def execution_order(graph: Graph, *, stable: bool = False) -> list[Node]:
    """Every node after all it needs, but for what a NextIteration hands back to its Merge. O(nodes + edges).

    Args:
        graph: what to sort.
        stable: always take the ready node that comes first in the file, instead of the one that became
            ready last.

    Raises:
        GraphError: some nodes are in a cycle or need a node that does not exist.
    """
    return _complete(graph, _sorted(graph, stable=stable))


def find_cycle(graph: Graph) -> list[Node]:
    """Nodes each of which needs the one before it, and the first needs the last; empty in a valid graph.

    Loops from a NextIteration back to its Merge are no cycles.
    """
    order = _sorted(graph, ignore_missing=True)
    if len(order) == len(graph):
        return []
    done = set(order)
    # A node that never became ready needs one that did not either, so the walk upwards must close a circle.
    node = next((n for n in graph if n not in done), None)
    path: dict[Node, None] = {}
    while node is not None and node not in path:
        path[node] = None
        node = next((p for p in _needed(node) if p.graph is not None and p not in done), None)
    if node is None:
        return []
    members = list(path)
    # The path leads from readers to producers, and before the node where it closes is no part of the cycle.
    return members[members.index(node) :][::-1]


def runnable(graph: Graph) -> list[Node]:
    """The nodes in execution order, but for those in a cycle, behind one, or behind a missing node."""
    return _sorted(graph)


def ancestors(
    values: Iterable[Node], *, stop: frozenset[Node] = frozenset(), control: bool = True
) -> set[Node]:
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
        stack += [value.node for value in node._inputs]
        if control and node._controls:
            stack.extend(node._controls)
    return seen


def uses_through(value: Value, handed_on: Callable[[Use], Iterable[Value]]) -> Iterator[Use]:
    """The uses of a value, and of what is the same or made of it alone. O(uses).

    Args:
        handed_on: the outputs of a use's node to follow; none where the way ends. Loops may lead back.
    """
    pending, seen = [value], {value}
    while pending:
        for use in pending.pop().uses:
            yield use
            fresh = [v for v in handed_on(use) if v not in seen]
            seen.update(fresh)
            pending.extend(fresh)


def _needed(node: Node) -> list[Node]:
    """The nodes that must run before a node, once per reference."""
    producers = [v.node for v in node._inputs]
    # Only the way back through a NextIteration may close a loop; all else must have run before.
    if node.op in MERGES:
        producers = [p for p in producers if p.op not in NEXT_ITERATIONS]
    if node._controls:
        producers += node._controls
    return producers


def _complete(graph: Graph, order: list[Node]) -> list[Node]:
    if len(order) == len(graph):
        return order
    done = set(order)
    stuck = [n for n in graph if n not in done]
    for node in stuck:
        for producer in (*(v.node for v in node.inputs), *node.control_inputs):
            if producer.graph is None:
                raise GraphError(
                    f"Unknown input node '{producer.name}'", node.where, hint="the file is incomplete"
                )
    cycle = find_cycle(graph) or stuck
    names = " -> ".join(n.name for n in [*cycle[:6], cycle[0]])
    raise GraphError(
        f"{len(stuck)} nodes in a cycle: {names}", stuck[0].where, hint="the file is damaged; export it again"
    )


def _sorted(
    graph: Graph, *, stable: bool = False, merge_needs_one: bool = False, ignore_missing: bool = False
) -> list[Node]:
    """Kahn's algorithm; nodes that never become ready are left out.

    Works on numbers in place of nodes, and without a call per node: every check of every step sorts.
    """
    nodes = list(graph)
    pending, consumers = _links(nodes, merge_needs_one, ignore_missing)
    ready = [i for i, count in enumerate(pending) if count == 0]  # in file order, hence a heap as well
    order: list[Node] = []
    while ready:
        i = heapq.heappop(ready) if stable else ready.pop()
        order.append(nodes[i])
        for consumer in consumers[i]:
            pending[consumer] -= 1
            if pending[consumer] == 0:
                if stable:
                    heapq.heappush(ready, consumer)
                else:
                    ready.append(consumer)
    return order


def _links(
    nodes: list[Node], merge_needs_one: bool, ignore_missing: bool
) -> tuple[list[int], list[list[int]]]:
    """By the number of a node: how many references must run before it, and who waits for it."""
    index = {node: i for i, node in enumerate(nodes)}
    pending = [0] * len(nodes)
    consumers: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        if not node._inputs and not node._controls:
            continue
        is_merge = node.op in MERGES
        count = 0
        for value in node._inputs:
            producer = value.node
            # This is the edge that closes a loop: the first iteration runs without it.
            if is_merge and not merge_needs_one and producer.op in NEXT_ITERATIONS:
                continue
            j = index.get(producer)
            if j is not None:
                consumers[j].append(i)
                count += 1
            elif not ignore_missing:
                count += 1
        # One for all its data inputs, as that tool counts; those that become ready later take the count below
        # zero, where nobody looks. The tool's Merge, too, is ready after two data inputs in place of one and
        # a control input (`pending_count` in its transform_utils.cc).
        if is_merge and merge_needs_one and node._inputs:
            count = 1
        for producer in node._controls or ():
            j = index.get(producer)
            if j is not None:
                consumers[j].append(i)
                count += 1
            # Counted and never met, a missing node keeps its readers out of the order.
            elif not ignore_missing:
                count += 1
        pending[i] = count
    return pending, consumers
