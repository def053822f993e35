"""Replace shapes that a graph computes by constants, size by size.

    reshape(x, pack(strided_slice(shape(x), 0), 7, 64))  ->  reshape(x, [-1, 7, 64])

That needs all sizes but one, which the Reshape then finds itself. Shapes known in full are the business of
`fold_constants`, wherever they are read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import INT32, INT64, DType
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.shared.effects import in_loops
from thinflow.transforms.simplify.identities import known_shapes


@transform("simplify_shapes")
@dataclass(frozen=True)
class SimplifyShapes(Transform):
    """Let every Reshape whose sizes are known but for one read a constant."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        reshapes = [n for n in graph if n.op == "Reshape" and len(n.inputs) == 2]
        open_ones = [n for n in reshapes if n.inputs[1].node.tensor is None]
        if not open_ones:
            return
        names = {node.name for node in graph}
        known_shapes(graph)
        loops = in_loops(graph)
        for node in open_ones:
            try:
                if node in loops:
                    raise Refuse("it is in a loop")
                self._settle(graph, node, _sizes(node), trace)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
        drop_lost_classes(graph, names)

    def _settle(self, graph: Graph, node: Node, sizes: list[int], trace: Trace) -> None:
        old = node.inputs[1]
        element = old.dtype or INT32
        trace.changed(node, f"takes the constant shape {sizes}")
        tensor = Tensor.from_array(np.asarray(sizes, element.numpy()), element)
        site = Site(graph, node, self.name)
        node.set_input(1, site.constant(tensor, f"{node.name}/shape"))
        sweep(graph, [old.node])


def _sizes(node: Node) -> list[int]:
    """The sizes a Reshape asks for, -1 for the one it has to find.

    Raises:
        Refuse: too little is known.
    """
    wanted = node.inputs[1]
    if wanted.is_graph_input:
        raise Refuse("its shape is fed")
    element = wanted.dtype
    if not isinstance(element, DType) or element not in (INT32, INT64):
        raise Refuse("the type of its shape is not known")
    found = wanted.spec.elements
    if found is None or wanted.spec.rank != 1 or wanted.spec.size != len(found):
        raise Refuse(f"nothing is known of its shape, which comes from '{wanted.name}'")
    unknown = [i for i, size in enumerate(found) if size is None]
    if len(unknown) > 1:
        raise Refuse(f"{len(unknown)} sizes of its shape are not known")
    if unknown and (0 in found or -1 in found):
        raise Refuse("one size is not known, and another is 0 or to be found")
    return [-1 if size is None else size for size in found]
