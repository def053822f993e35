"""Replace shapes that a graph computes by constants, size by size.

    reshape(x, pack(strided_slice(shape(x), 0), 7, 64))  ->  reshape(x, [-1, 7, 64])

That needs all sizes but one, which the Reshape then finds itself. Shapes known in full are the business of
`fold_constants`, wherever they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import INT32, INT64, DType
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, node
from thinflow.rewrite.rule import Refuse, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.shared.effects import in_loops
from thinflow.transforms.simplify.identities import known_shapes


def _has_constant_shape(reshape: Node) -> str | None:
    return "its shape is constant" if reshape.inputs[1].node.tensor is not None else None


def _sizes(wanted: Value) -> list[int]:
    """The sizes a Reshape asks for, -1 for the one it has to find.

    Raises:
        Refuse: too little is known.
    """
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
    # -1 is found by division, which a 0 among the others makes impossible.
    if unknown and (0 in found or -1 in found):
        raise Refuse("one size is not known, and another is 0 or to be found")
    return [-1 if size is None else size for size in found]


@transform("simplify_shapes")
@dataclass(frozen=True)
class SimplifyShapes(Rewrite):
    """Let every Reshape whose sizes are known but for one read a constant."""

    in_file_order = True
    until_fixpoint = False
    outputs = 0
    pattern: ClassVar = node(
        "Reshape", any_value("x"), any_value("shape"), name="reshape", where=_has_constant_shape
    )

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        # Shape inference costs a walk over the graph, which is spared if no Reshape has use for it.
        if all(_has_constant_shape(n) for n in graph if n.op == "Reshape" and len(n.inputs) == 2):
            return {}
        known_shapes(graph)
        return {"loops": in_loops(graph)}

    def check(self, m: Match) -> None:
        # A constant in a loop would have to wait for something inside.
        if m.reshape in m.loops:
            raise Refuse("it is in a loop")
        m.bind("sizes", _sizes(m.shape))

    def describe(self, m: Match) -> str:
        return f"takes the constant shape {m.sizes}"

    def build(self, m: Match, site: Site) -> None:
        element = m.shape.dtype
        tensor = Tensor.from_array(np.asarray(m.sizes, element.numpy()), element)
        m.reshape.set_input(1, site.constant(tensor, f"{m.reshape.name}/shape"))
