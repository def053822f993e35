"""Ops that read variables, replaced by ops that read a value; and ops that only hand variables on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value, graph_of
from thinflow.ir.types import INT32, INT64, DType, TensorSpec
from thinflow.ops.traits import Trait, has

Reader = Callable[[Graph, Node, TensorSpec], None]
"""Edits a node that reads a handle; told what the handle held."""

READERS: dict[str, Reader] = {}
"""Op -> how to make it read a value."""

ORIGIN = "freeze"
"""Origin of the nodes that take the place of others here."""


def _reader(op: str) -> Callable[[Reader], Reader]:
    def register(reader: Reader) -> Reader:
        READERS[op] = reader
        return reader

    return register


def _swap(graph: Graph, node: Node, op: str, inputs: Sequence[Value], attrs: dict[str, Attr]) -> None:
    """Another op in the place of a node."""
    # Colocation names nodes, and the new node has the name of the old one.
    if "_class" in node.attrs:
        attrs["_class"] = node.attrs["_class"]
    fresh = graph.add(op, inputs, name=node.name, attrs=attrs, device=node.device, before=node)
    fresh.origin = ORIGIN
    graph.replace(node, fresh)


@_reader("ReadVariableOp")
def _read(graph: Graph, node: Node, held: TensorSpec) -> None:
    _swap(graph, node, "Identity", node.inputs[:1], {"T": _element(held)})


@_reader("ReadVariablesOp")
def _read_all(graph: Graph, node: Node, held: TensorSpec) -> None:
    """ReadVariablesOp: several at once. Its types are in its attribute already."""
    del held
    _swap(graph, node, "IdentityN", node.inputs, {"T": node.attrs["dtypes"]})


@_reader("ResourceGather")
def _gather(graph: Graph, node: Node, held: TensorSpec) -> None:
    """y[..., i, ...] = w[indices[i], ...]: a gather along the first dimension after the batch dimensions."""
    batch = node.attrs.get("batch_dims", 0)
    index = node.attrs.get("Tindices", INT32)
    number = np.int64 if index == INT64 else np.int32
    axis = graph.constant(np.asarray(batch, number), f"{node.name}/axis", before=node)
    attrs: dict[str, Attr] = {
        "Tparams": _element(held),
        "Tindices": index,
        "Taxis": INT64 if index == INT64 else INT32,
        "batch_dims": batch,
    }
    _swap(graph, node, "GatherV2", [node.inputs[0], node.inputs[1], axis], attrs)


@_reader("ResourceGatherNd")
def _gather_nd(graph: Graph, node: Node, held: TensorSpec) -> None:
    attrs: dict[str, Attr] = {"Tparams": _element(held), "Tindices": node.attrs.get("Tindices", INT32)}
    _swap(graph, node, "GatherNd", node.inputs[:2], attrs)


@_reader("VariableShape")
def _shape(graph: Graph, node: Node, held: TensorSpec) -> None:
    attrs: dict[str, Attr] = {"T": _element(held), "out_type": node.attrs.get("out_type", INT32)}
    _swap(graph, node, "Shape", node.inputs[:1], attrs)


@_reader("VarIsInitializedOp")
# A constant always has a value.
def _is_initialized(graph: Graph, node: Node, held: TensorSpec) -> None:
    del held
    graph.replace(node, graph.constant(np.array(True), node.name, before=node).node)


@_reader("DisableCopyOnRead")
def _leave_out(graph: Graph, node: Node, held: TensorSpec) -> None:
    """A hint to the runtime, without results: those who wait for it wait for nothing."""
    del held
    graph.replace(node, graph.add("NoOp", name=node.name, before=node))


@_reader("RngReadAndSkip")
def _generator(graph: Graph, node: Node, held: TensorSpec) -> None:
    """The state of a generator of random numbers, which also moves it on: here each run draws the same.

    Raises:
        UnsupportedOp: its algorithm's state has another size, which TensorFlow pads.
    """
    if held.dtype is not INT64 or held.shape != (GENERATOR_SIZE,):
        raise UnsupportedOp("the size of its generator's state is not known", node.where)
    _read(graph, node, held)


GENERATOR_SIZE = 3
"""Of Philox's state: a counter of two numbers and a key."""


def _element(held: TensorSpec) -> DType:
    assert held.dtype is not None, "a variable's value has a type"
    return held.dtype


# --- what hands a variable or a table on --------------------------------------------------------------------


def handed_on(node: Node, index: int) -> Sequence[Value]:
    """The outputs of a node that are its input `index` itself, which may be a handle or a reference."""
    if has(node.op, Trait.SWITCH):
        return node.outputs
    if has(node.op, Trait.IDENTITY | Trait.ENTER | Trait.EXIT | Trait.NEXT_ITERATION | Trait.MERGE):
        return (node.output(),)
    return (node.output(index),) if node.op == "IdentityN" else ()


def behind_identity(value: Value) -> Value | None:
    """The value that an Identity or an IdentityN hands on; None where another op gives it."""
    node = value.node
    if not (has(node.op, Trait.IDENTITY) or node.op == "IdentityN") or value.port >= len(node.inputs):
        return None
    return node.inputs[value.port]


# --- variables of old, which are references -----------------------------------------------------------------


def drop_references(value: Value) -> None:
    """Make the readers of a variable that became a constant read a value, where they took a reference."""
    pending = [value]
    while pending:
        for node in dict.fromkeys(pending.pop().readers):
            graph = graph_of(node)
            assert graph is not None
            if node.op == "IsVariableInitialized":
                graph.replace(node, graph.constant(np.array(True), node.name, before=node).node)
            elif node.op.startswith("Ref") and has(node.op, Trait.IDENTITY | Trait.CONTROL_FLOW):
                plain = node.op.removeprefix("Ref")
                fresh = graph.add(plain, node.inputs, name=node.name, attrs=node.attrs, before=node)
                graph.replace(node, fresh)
                pending.extend(fresh.outputs)
