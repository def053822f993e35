"""Arithmetic that does nothing, and shapes that can be known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import INT32, INT64, DType
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import Match, any_value, node
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.shared.constants import side_outputs
from thinflow.transforms.shared.effects import in_loops
from thinflow.transforms.simplify.identities import handed_on, known_shapes
from thinflow.transforms.simplify.merging import merged


@transform("simplify_arithmetic")
@dataclass(frozen=True)
class SimplifyArithmetic(Transform):
    """Take out arithmetic that does nothing, and do two steps with constants in one.

        x * 1, x + 0, x - 0, x / 1, x ** 1, -(-x), relu(relu(x))  ->  x, and relu(x)
        (x * a) * b, (x + a) - b, max(max(x, a), b)               ->  x * ab, x + (a - b), max(x, ab)
        x ** 2, x ** 0.5, x * x                                   ->  square(x), sqrt(x), square(x)
        reshape(reshape(x, a), b)                                 ->  reshape(x, b)

    Likewise casts to the same type, tiles by 1, pads by 0, full slices, squeezed ExpandDims, joins of one.
    Constants merge in floating point only.

    Attributes:
        merge: also do two steps in one, which may change the last digit.
    """

    tolerance = 1e-5

    merge: bool = True

    def apply(self, graph: Graph, trace: Trace) -> None:
        known_shapes(graph)
        while True:
            trace.forget_left()
            before = len(trace.changes)
            for candidate in execution_order(graph):
                if candidate.graph is graph:
                    self._simplify(graph, candidate, trace)
            if len(trace.changes) == before:
                break

    def _simplify(self, graph: Graph, node: Node, trace: Trace) -> None:
        same = handed_on(node)
        if same is not None:
            if node.is_protected:
                trace.leave(node, "it is asked for by name")
            elif not side_outputs(node):
                trace.changed(node, f"does nothing; its readers read '{same.name}'")
                sources = [v.node for v in node.inputs]
                # Nodes between may go with this one, and with them what they waited for.
                for awaited in _awaited_between(node, same):
                    node.add_control_input(awaited)
                graph.bypass(node, {0: same})
                sweep(graph, sources)
            return
        if not self.merge or any(v.is_graph_input for v in node.outputs):
            return
        built = merged(node, Site(graph, node, self.name))
        if built is None:
            return
        sources = [v.node for v in node.inputs]
        trace.changed(node, f"is now {built.node.op} of '{_data(built.node)}'")
        # Attributes that rules do not know, such as those of a layout, go on with the op.
        if built.node.op == node.op:
            for key, attr in node.attrs.items():
                built.node.attrs.setdefault(key, attr)
        graph.replace(node, built.node)
        for source in sources:
            # What the inner node waited for, its successor waits for.
            for awaited in source.control_inputs if not source.is_used else ():
                built.node.add_control_input(awaited)
        sweep(graph, sources)


def _awaited_between(node: Node, value: Value) -> list[Node]:
    """The nodes for which those between a node and the value that it hands on wait."""
    awaited: list[Node] = []
    at = node
    while value not in at.inputs and at.inputs:
        at = at.inputs[0].node
        awaited += at.control_inputs
    return awaited


def _data(node: Node) -> str:
    return next((v.name for v in node.inputs if v.node.tensor is None), "")


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
    """Replace shapes that a graph computes by constants, size by size.

        reshape(x, pack(strided_slice(shape(x), 0), 7, 64))  ->  reshape(x, [-1, 7, 64])

    That needs all sizes but one, which the Reshape then finds itself. Shapes known in full are the business
    of `fold_constants`, wherever they are read.
    """

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
