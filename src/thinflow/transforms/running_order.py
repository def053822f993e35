"""The order in which nodes run: edges that only say it, and the order of the file."""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import MERGES, execution_order, match_order
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Trace, Transform, transform
from thinflow.transforms.shared.effects import is_stateless


@transform("remove_control_dependencies")
@dataclass(frozen=True)
class RemoveControlDependencies(Transform):
    """Drop the edges that only say "run after", so that a graph which computes without side effects is data
    flow alone.

    y = Relu(x, ^init)  ->  y = Relu(x)

    Attributes:
        keep_stateful: keep those that come from ops with side effects (assignments, prints, table
            initializers...); an op thinflow does not know counts as one.
    """

    keep_stateful: bool = False

    def apply(self, graph: Graph, trace: Trace) -> None:
        placed = _placed_by_control(graph)
        for node in graph:
            needed = [n for n in node.control_inputs if self.keep_stateful and not is_stateless(n)]
            for source in needed:
                trace.leave(node, f"waits for {source.op} nodes, which have side effects")
            # Some edges cannot be told apart from the one that matters, so all of them stay.
            if node in placed:
                needed = list(node.control_inputs)
                trace.leave(node, f"'{needed[0].name}' is what puts it into a loop or branch")
            dropped = [n for n in node.control_inputs if n not in needed]
            if dropped:
                names = ", ".join(f"^{n.name}" for n in dropped[:3]) + (", ..." if len(dropped) > 3 else "")
                trace.changed(node, f"no longer waits for {names}")
                node.set_control_inputs(needed)


def _placed_by_control(graph: Graph) -> set[Node]:
    """Nodes without data inputs that control edges tie to a loop, or to a branch whose Merge would otherwise
    take their value whichever way was chosen. O(nodes + edges).
    """
    in_loop: set[Node] = set()
    in_branch: set[Node] = set()
    by_data: set[Node] = set()
    order = execution_order(graph)
    for node in order:
        sources = [v.node for v in node.inputs]
        if has(node.op, Trait.ENTER) or any(n in in_loop for n in (*sources, *node.control_inputs)):
            in_loop.add(node)
        if has(node.op, Trait.SWITCH) or any(n in in_branch for n in (*sources, *node.control_inputs)):
            in_branch.add(node)
        if has(node.op, Trait.SWITCH) or any(n in by_data for n in sources):
            by_data.add(node)
    loose: set[Node] = set()  # what a Merge takes without anything in its data telling which way was chosen
    for node in reversed(order):
        if any(has(r.op, Trait.MERGE) or r in loose for r in node.readers) and node not in by_data:
            loose.add(node)
    return {
        node
        for node in graph
        if node.control_inputs
        and not node.inputs
        and (node in in_loop or (node in in_branch and (node in loose or node.op == "NoOp")))
    }


@transform("sort_by_execution_order")
@dataclass(frozen=True)
class SortByExecutionOrder(Transform):
    """Put the nodes of the file in an order in which they can run.

    y = Relu(x); x = Placeholder()  ->  x = Placeholder(); y = Relu(x)

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
    """True if every node stands behind all it needs; a Merge behind one of its data inputs. O(nodes +
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
