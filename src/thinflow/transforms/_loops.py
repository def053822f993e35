"""Which nodes are in the loops of TF1 graphs: one without inputs only if it waits for another in there."""

from __future__ import annotations

from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import execution_order

_STEPS = {"Enter": 1, "RefEnter": 1, "Exit": -1, "RefExit": -1}


def in_loops(graph: Graph) -> set[Node]:
    """The nodes inside of loops. O(nodes + edges)."""
    if not any(node.op in _STEPS for node in graph):
        return set()
    depth: dict[Node, int] = {}
    for node in execution_order(graph):
        sources = (*(v.node for v in node.inputs), *node.control_inputs)
        around = max((depth.get(source, 0) for source in sources), default=0)
        depth[node] = max(around + _STEPS.get(node.op, 0), 0)
    return {node for node, found in depth.items() if found}
