"""Take out transposes that undo each other, also with other ops between them.

    transpose(relu(transpose(x, [0,2,3,1])), [0,3,1,2])  ->  relu(x)
    transpose(x, [0,3,1,2]) of x [?,1,1,8]               ->  reshape(x, [-1,8,1,1])

Transposes move behind elementwise ops, joins, pads, slices, reductions and norms if fewer are left then.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.layout.transposes import Sinker, reshape_unit_transposes, transposes
from thinflow.transforms.simplify.identities import known_shapes


@transform("cancel_transposes")
@dataclass(frozen=True)
class CancelTransposes(Transform):
    """Cancel transposes.

    Attributes:
        push: move transposes so that they meet; otherwise only those in a row cancel.
    """

    tolerance = 1e-5  # sums run in another order

    push: bool = True

    def apply(self, graph: Graph, trace: Trace) -> None:
        if not any(node.op == "Transpose" for node in graph):
            return
        names = {node.name for node in graph}
        # Sizes tell which transposes move axes of size 1 only.
        known_shapes(graph)
        reshape_unit_transposes(graph, trace)
        Sinker(graph, trace, self.name).join()
        if self.push and transposes(graph) > 1:
            # A step down may add transposes that later ones take away: only the end result can be judged.
            trial = graph.clone()
            Sinker(trial, Trace(), self.name).run()
            if transposes(trial) < transposes(graph):
                Sinker(graph, trace, self.name).run()
                reshape_unit_transposes(graph, trace)
        drop_lost_classes(graph, names)
