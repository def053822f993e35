"""Whole graphs in TensorFlow's ops; see the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.analysis.foreign import require_known_opset
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import execution_order
from thinflow.ir.types import BOOL
from thinflow.lift.grids import sweep_codes
from thinflow.lift.lifter import Lifter
from thinflow.lift.nodes import lift_node
from thinflow.lift.onnx.sequences import without_sequences
from thinflow.lift.specs import Disputed, inferred, types_of
from thinflow.progress import counted


def lift(graph: Graph, *, keep_grids: bool = False, disputed: Disputed | None = None) -> Graph:
    """The same computation in TensorFlow's ops; nodes keep their names. O(nodes + edges).

    Subgraphs that control flow calls become functions of its library.

    Args:
        keep_grids: whether quantized values become real numbers behind a FakeQuant, which is a graph to work
            on: what is written from it has the file's scales. Else codes are computed as they are in the
            file.
        disputed: gets the values, those of bodies aside, for which the file states what cannot be.

    Raises:
        UnsupportedOp: an op has no counterpart here; names the node.
    """
    require_known_opset(graph.facts)
    lifter = _lifted(graph, graph.facts, keep_grids=keep_grids, disputed=disputed)
    library: dict[str, Function] = dict(lifter.made)
    pending = dict(lifter.wanted)
    while pending:
        name, function = pending.popitem()
        is_condition = name in _conditions(graph)
        library[name], inner = _function(function, graph.facts, is_condition, keep_grids)
        # Each is lifted once, even if functions call each other in a circle.
        pending.update({k: v for k, v in inner.wanted.items() if k not in library})
        library.update(inner.made)
    lifted = lifter.finished()
    sweep_codes(lifter)
    lifted.functions = library
    for function in library.values():
        # Bodies see the finished library: while they are lifted, functions they call may not be there yet.
        function.graph.functions = library
    for made, given in ((lifted, lifted.outputs), *((f.graph, f.outputs) for f in library.values())):
        without_sequences(made, given)
        _state_types(made)
    return lifted


def _state_types(graph: Graph) -> None:
    """Say the types of operands where they became known after the node was made, as from the file."""
    for node in execution_order(graph):
        if not node.inputs:
            continue
        node.attrs.update(types_of(node.op, node.inputs))
        # What reads it gets to know its type as well.
        if any(v.dtype is None for v in node.outputs):
            for value, spec in zip(node.outputs, inferred(node), strict=False):
                value.spec = replace(value.spec, dtype=value.dtype or spec.dtype)


def _order(graph: Graph) -> Iterable[Node]:
    """The nodes so that each comes after what it reads, and in the order of the file where that matters."""
    # Reads and writes of a variable have only their places in the file to say which comes first.
    if not any(n.op in ("tfl.READ_VARIABLE", "tfl.ASSIGN_VARIABLE") for n in graph):
        return execution_order(graph)
    seen: set[Node] = set()
    for node in graph:
        if any(v.node not in seen for v in node.inputs):
            return execution_order(graph)
        seen.add(node)
    return list(graph)


def _lifted(
    graph: Graph,
    facts: Mapping[str, str],
    scope: str = "",
    *,
    keep_grids: bool = False,
    disputed: Disputed | None = None,
) -> Lifter:
    lifter = Lifter(graph, facts, scope)
    lifter.keeps_grids, lifter.disputed = keep_grids, disputed
    for node in counted(_order(graph), len(graph), "translating nodes"):
        lift_node(lifter, node)
    return lifter


def _conditions(graph: Graph) -> set[str]:
    """Functions whose result decides whether a loop turns on, anywhere in a model."""
    bodies = [graph, *(f.graph for f in graph.functions.values())]
    loops = (n for g in bodies for n in g if n.op.endswith("WHILE"))
    named = (n.attrs.get("cond_subgraph_index") for n in loops)
    return {f.name for f in named if isinstance(f, FunctionAttr)}


def _function(
    function: Function, facts: Mapping[str, str], is_condition: bool, keep_grids: bool
) -> tuple[Function, Lifter]:
    """A function in TensorFlow's ops, and what lifted it. A condition of one element becomes a scalar."""
    lifter = _lifted(function.graph, facts, function.name, keep_grids=keep_grids)
    inputs = [lifter.of(v) for v in function.inputs]
    outputs = [lifter.of(v) for v in function.outputs]
    if is_condition:
        # TensorFlow takes a tensor that is no scalar for true if it has elements, whatever they are.
        scalar = lifter.graph.constant(_no_sizes(), lifter.graph.unique_name("scalar"))
        outputs = [lifter.graph.add("Reshape", [v, scalar], attrs={"T": BOOL}).output() for v in outputs]
    lifter.graph.inputs, lifter.graph.outputs = inputs, outputs
    sweep_codes(lifter)
    return replace(function, graph=lifter.graph, inputs=inputs, outputs=outputs, source=None), lifter


def _no_sizes() -> np.ndarray[Any, Any]:
    """The shape of a scalar."""
    return np.zeros(0, np.int32)
