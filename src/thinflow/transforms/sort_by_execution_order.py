"""Put the nodes of the file in an order in which they can run.

y = Relu(x); x = Placeholder()  ->  x = Placeholder(); y = Relu(x)
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph
from thinflow.ir.order import MERGES, execution_order, match_order
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace


@transform("sort_by_execution_order")
@dataclass(frozen=True)
class SortByExecutionOrder(Transform):
    """Sort nodes so that each stands behind what it needs. A file that is in order already stays as it is.

    Attributes:
        stable: of the nodes that could come next take the first in the file; otherwise the order of the Graph
            Transform Tool, which takes the one that became ready last.
    """

    stable: bool = False

    def apply(self, graph: Graph, trace: Trace) -> None:
        # A file that is in some order already is not rewritten into another.
        if is_sorted(graph):
            trace.notes.append("the nodes are in execution order already")
            return
        before = list(graph)
        after = execution_order(graph, stable=True) if self.stable else match_order(graph)
        graph.reorder(after)
        for old, new in zip(before, after, strict=True):
            if old is not new:
                trace.changed(new, f"moved to where '{old.name}' was")


def is_sorted(graph: Graph) -> bool:
    """Whether every node stands behind all it needs; a Merge behind one of its data inputs. O(nodes +
    edges).
    """
    seen = set()
    for node in graph:
        # A Merge runs after one of its inputs; in a loop the other comes later in any order.
        ready = [v.node in seen for v in node.inputs]
        if not (any(ready) if node.op in MERGES and ready else all(ready)):
            return False
        if not all(n in seen for n in node.control_inputs):
            return False
        seen.add(node)
    return True
