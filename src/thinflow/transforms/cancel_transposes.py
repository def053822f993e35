"""Take out transposes that undo each other, also with other ops between them.

    transpose(relu(transpose(x, [0,2,3,1])), [0,3,1,2])  ->  relu(x)
    transpose(x, [0,3,1,2]) of x [?,1,1,8]               ->  reshape(x, [-1,8,1,1])

Transposes move behind elementwise ops, joins, pads, slices, reductions and norms if fewer are left then.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Graph, Node
from thinflow.ir.types import INT32
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.layout.transposes import Sinker, perm_of, permuted, transposes
from thinflow.transforms.shared.effects import in_loops
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
        known_shapes(graph)
        unit_transposes(graph, trace, self.name)
        Sinker(graph, trace, self.name).join()
        if self.push and transposes(graph) > 1:
            trial = graph.clone()
            Sinker(trial, Trace(), self.name).run()
            if transposes(trial) < transposes(graph):
                Sinker(graph, trace, self.name).run()
                unit_transposes(graph, trace, self.name)
        drop_lost_classes(graph, names)


def unit_transposes(graph: Graph, trace: Trace, origin: str) -> None:
    """A transpose that only moves axes of size 1 leaves the elements in their order: it is a Reshape."""
    loops = in_loops(graph)
    for node in list(graph):
        perm = perm_of(node)
        if perm is None or node in loops or perm == tuple(range(len(perm))):
            continue
        shape = node.inputs[0].shape
        target = permuted(shape, perm)
        if shape is None or target is None or 0 in target or sum(d is None for d in target) > 1:
            continue
        if [axis for axis in perm if shape[axis] != 1] == [a for a, d in enumerate(shape) if d != 1]:
            _reshape(graph, node, [-1 if d is None else d for d in target], trace, origin)


def _reshape(graph: Graph, node: Node, sizes: list[int], trace: Trace, origin: str) -> None:
    trace.changed(node, "only moves axes of size 1: it is a Reshape")
    site = Site(graph, node, origin)
    shape = site.constant(np.asarray(sizes, np.int32), f"{node.name}/shape")
    loose = [v.node for v in node.inputs]
    node.op = "Reshape"
    node.set_inputs([node.inputs[0], shape])
    node.attrs.pop("Tperm", None)
    node.attrs["Tshape"] = INT32
    sweep(graph, loose)
