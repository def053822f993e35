"""Effects of running a node beside computing its outputs, and control edges that therefore mean nothing."""

from __future__ import annotations

from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import execution_order
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has


def is_stateless(node: Node) -> bool:
    """True if the node itself does nothing but compute. Unknown ops, function calls and control flow are
    not trusted.
    """
    # A placeholder computes nothing, but its value is the caller's and has no effect.
    if node.op in {"Const", "NoOp"} or has(node.op, Trait.PLACEHOLDER):
        return True
    definition = registry.find(node.op)
    if definition is None or definition.has(Trait.STATEFUL | Trait.CONTROL_FLOW):
        return False
    return not any(isinstance(v, FunctionAttr) for v in node.attrs_view.values())


def effect_free(graph: Graph) -> set[Node]:
    """The nodes that do nothing but compute, together with all they depend on. O(nodes + edges)."""
    found: set[Node] = set()
    for node in execution_order(graph):
        # By what it needs as well: a pure node that waits for an assignment must stay behind it.
        needed = [v.node for v in node.inputs] + list(node.control_inputs)
        if all(n in found for n in needed) and is_stateless(node):
            found.add(node)
    return found


def drop_idle_control(graph: Graph) -> list[tuple[Node, Node]]:
    """Cut control edges that make nobody wait for anything; the (source, waiter) pairs. O(nodes + edges).

    Those are edges from nodes that, with all they depend on, only compute: a graph frozen from Keras ties
    every weight to its output that way. Edges into stateful ops stay.
    """
    if not any(node.control_inputs for node in graph):
        return []
    free = effect_free(graph)
    dropped: list[tuple[Node, Node]] = []
    for node in graph:
        # A NoOp gathers what others wait for, and may stop waiting for what does nothing.
        if node.op != "NoOp" and not is_stateless(node):
            continue
        for source in node.control_inputs:
            if source in free:
                node.remove_control_input(source)
                dropped.append((source, node))
    return dropped


def in_loops(graph: Graph) -> set[Node]:
    """The nodes inside of loops. O(nodes + edges)."""
    if not any(has(node.op, Trait.ENTER) for node in graph):
        return set()
    depth: dict[Node, int] = {}
    for node in execution_order(graph):
        sources = (*(v.node for v in node.inputs), *node.control_inputs)
        # The deepest of its sources: constants of outer frames do not count.
        around = max((depth.get(source, 0) for source in sources), default=0)
        depth[node] = max(around + has(node.op, Trait.ENTER) - has(node.op, Trait.EXIT), 0)
    return {node for node, found in depth.items() if found}
