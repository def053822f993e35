"""Drop the edges that only say "run after", so that a graph which computes without side effects is data
flow alone.

y = Relu(x, ^init)  ->  y = Relu(x)
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms._control import is_stateless


@transform("remove_control_dependencies")
@dataclass(frozen=True)
class RemoveControlDependencies(Transform):
    """Remove control inputs, everywhere.

    Attributes:
        keep_stateful: keep those that come from ops with side effects (assignments, prints, table
            initializers...); an op thinflow does not know counts as one.
    """

    keep_stateful: bool = False

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            kept = [n for n in node.control_inputs if self.keep_stateful and not is_stateless(n)]
            gone = [n for n in node.control_inputs if n not in kept]
            for source in kept:
                trace.leave(node, f"waits for {source.op} nodes, which have side effects")
            if gone:
                names = ", ".join(f"^{n.name}" for n in gone[:3]) + (", ..." if len(gone) > 3 else "")
                trace.changed(node, f"no longer waits for {names}")
                node.set_control_inputs(kept)
