"""Inputs and outputs with their axes in another order: what moves them becomes the caller's."""

from __future__ import annotations

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import INT32
from thinflow.transforms.layout.assignment import Assignment, fixed_nodes
from thinflow.transforms.layout.plans import Perm, inverse, permuted
from thinflow.transforms.layout.transposes import perm_of
from thinflow.transforms.shared.effects import in_loops


def move_input(graph: Graph, value: Value, order: Perm) -> Value:
    """Let an input be fed transposed by an order; its name stays, and its readers get what they got before.

    Args:
        value: of a placeholder whose rank is known; graph outputs read it, too.
    """
    node, uses = value.node, value.uses
    shape = permuted(value.shape, order)
    back = _transposed(graph, value, inverse(order), f"{node.name}/as_before")
    for use in uses:
        use.node.set_input(use.index, back)
    # What the graph hands out of it is what it handed out before.
    if value.is_graph_output:
        graph.outputs = [back if v is value else v for v in graph.outputs]
    node.attrs["shape"] = ShapeAttr(shape)
    node.attrs.pop("_output_shapes", None)
    back.spec, value.spec = value.spec, value.spec.with_shape(shape)
    return value


def move_output(graph: Graph, value: Value, order: Perm) -> Value:
    """The new output: it gives an output transposed by an order, under its name.

    Args:
        value: of a rank that is known, and no input; the only output of its node that is asked for.
    """
    name = value.name
    graph.rename(value.node, graph.unique_name(f"{name}/as_before"))
    moved = _transposed(graph, value, order, name)
    moved.spec = value.spec.with_shape(permuted(value.shape, order))
    graph.outputs = [moved if v is value else v for v in graph.outputs]
    return moved


def _transposed(graph: Graph, value: Value, perm: Perm, name: str) -> Value:
    attrs: dict[str, Attr] = {"Tperm": INT32} if value.dtype is None else {"T": value.dtype, "Tperm": INT32}
    numbers = graph.constant(np.asarray(perm, np.int32), graph.unique_name(f"{name}/perm"))
    return graph.add("Transpose", [value, numbers], graph.unique_name(name), attrs=attrs).output()


def cost_of_end(graph: Graph, value: Value) -> int:
    """What the transposes cost that a graph cannot do without if an input or output has the axes that it has,
    and all other inputs any. O(nodes + edges), mostly.
    """
    infer_shapes(graph)
    free = {v for v in graph.inputs if v is not value}
    assignment = Assignment(graph, fixed_nodes(graph, in_loops(graph)), perm_of, free)
    assignment.improve()
    return assignment.cost
