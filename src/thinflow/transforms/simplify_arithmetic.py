"""Take out arithmetic that does nothing, and do two steps with constants in one.

    x * 1, x + 0, x - 0, x / 1, x ** 1, -(-x), relu(relu(x))  ->  x, and relu(x)
    (x * a) * b, (x + a) - b, max(max(x, a), b)               ->  x * ab, x + (a - b), max(x, ab)
    x ** 2, x ** 0.5, x * x                                   ->  square(x), sqrt(x), square(x)
    reshape(reshape(x, a), b)                                 ->  reshape(x, b)

Likewise casts to the same type, tiles by 1, pads by 0, full slices, squeezed ExpandDims, joins of one.
Constants merge in floating point only.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.rewrite.colocation import drop_lost_classes
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.rule import Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.shared.constants import side_outputs
from thinflow.transforms.simplify.identities import handed_on, known_shapes
from thinflow.transforms.simplify.merging import merged


@transform("simplify_arithmetic")
@dataclass(frozen=True)
class SimplifyArithmetic(Transform):
    """Simplify until nothing is left to simplify.

    Attributes:
        merge: also do two steps in one, which may change the last digit.
    """

    tolerance = 1e-5

    merge: bool = True

    def apply(self, graph: Graph, trace: Trace) -> None:
        names = {node.name for node in graph}
        known_shapes(graph)
        while True:
            trace.forget_left()
            before = len(trace.changes)
            for node in execution_order(graph):
                if node.graph is graph:
                    self._simplify(graph, node, trace)
            if len(trace.changes) == before:
                break
        drop_lost_classes(graph, names)

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
