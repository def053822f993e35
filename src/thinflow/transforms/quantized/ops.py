"""Float ops into eight-bit ones, each between codes for its inputs and a Dequantize of its name.

Nodes are taken in execution order, so that one whose input another made has its codes at hand.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.types import FLOAT, QINT32, QUINT8, TensorSpec
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.quantized.forms import (
    EIGHT_BIT,
    NO_KERNEL,
    EightBit,
    attrs_of,
    concat_axis,
    data_inputs,
)
from thinflow.transforms.quantized.values import (
    MIN_FIRST,
    Coded,
    Coder,
    constant,
    element_of,
    has_loops,
    ports,
)
from thinflow.transforms.shared.constants import const_tensor

Bounds = tuple[float, float]
TO_EIGHT_BITS: dict[str, Attr] = {"Tinput": QINT32, "out_type": QUINT8}


def check_node(node: Node, ignored: Collection[str]) -> None:
    """Raise Refuse if a node with an eight-bit form must stay in float all the same."""
    form = EIGHT_BIT[node.op]
    if node.op in ignored:
        raise Refuse(f"ignore_op={node.op} says so")
    if form.arity is not None and len(node.inputs) != form.arity:
        raise Refuse(f"it has {len(node.inputs)} inputs, not {form.arity}")
    if node.output().is_graph_input:
        raise Refuse("it is an input of the graph")
    if any(v.port > 0 and (v.uses or v.is_graph_output) for v in node.outputs):
        raise Refuse("an output that it does not have is read")
    for value in data_inputs(node):
        element = element_of(node, value)
        if element is not FLOAT:
            raise Refuse(f"it computes with {element or 'an unknown type'}, not float")
        if value.shape is not None and 0 in value.shape:
            raise Refuse(f"'{value.name}' is empty")
    form.check(node)


@dataclass
class OpQuantizer:
    """Replaces the ops of one graph.

    Attributes:
        ignored: ops to leave alone.
        fallback: the range of every 32-bit result; None measures it in each run.
        origin: the transform that does it.
    """

    graph: Graph
    trace: Trace
    ignored: Collection[str]
    fallback: Bounds | None
    origin: str
    coder: Coder = field(init=False)

    def __post_init__(self) -> None:
        self.coder = Coder(self.graph, has_loops(self.graph))

    def run(self) -> None:
        """Replace what can be, and record why the rest stays."""
        infer_shapes(self.graph)
        chosen = {node for node in self.graph if self._is_chosen(node)}
        # Told before the first edit, by the names and ops that the nodes still have.
        for node in self.graph:
            if node in chosen:
                self.trace.changed(node, f"now {EIGHT_BIT[node.op].op}")
        for node in execution_order(self.graph):
            if node in chosen:
                self.replace(node)
        sweep(self.graph, self.coder.loose)

    def _is_chosen(self, node: Node) -> bool:
        """Whether a node becomes an eight-bit one. If not, the ledger says why, where one may ask."""
        if node.op in NO_KERNEL and element_of(node, node.output()) is FLOAT:
            self.trace.leave(node, NO_KERNEL[node.op])
        if node.op not in EIGHT_BIT:
            return False
        try:
            check_node(node, self.ignored)
            for value in data_inputs(node):
                self.coder.check(value)
        except Refuse as refusal:
            self.trace.leave(node, refusal.reason)
            return False
        return True

    def replace(self, node: Node) -> None:
        """Put the eight-bit form in the place of a node that passed the checks."""
        form = EIGHT_BIT[node.op]
        site = Site(self.graph, node, self.origin)
        coded = [self.coder.codes(value, site) for value in data_inputs(node)]
        name = f"{node.name}/eightbit"
        inputs = _arranged(form, node, coded, site)
        main = site.add(form.op, *inputs, name=name, attrs=attrs_of(node), device=node.device).node
        # The first node of the new chain waits for what the old one waited for.
        for awaited in node.control_inputs:
            main.add_control_input(awaited)
            node.remove_control_input(awaited)
        last = self._narrowed(main, name, site) if form.widens else main
        result = ports(last)
        result[0].spec = TensorSpec(QUINT8, node.output().shape)
        decoded = site.add("Dequantize", *result, name=f"{name}/dequantize", attrs=MIN_FIRST)
        decoded.node.device = node.device
        # Floats that had no other reader, and decoded values that nobody reads as floats.
        self.coder.loose += [*(v.node for v in node.inputs), decoded.node]
        self.graph.replace(node, decoded.node)

    def _narrowed(self, main: Node, name: str, site: Site) -> Node:
        """A Requantize that brings 32 bits back to eight."""
        device = site.before.device
        # Measured in each run, by an op that looks at the whole 32-bit result.
        if self.fallback is None:
            found = site.add("RequantizationRange", *ports(main), name=f"{name}/requant_range", device=device)
            found.node.attrs["Tinput"] = QINT32
            low, high = found, found.node.output(1)
        else:
            # In a loop a constant has to wait for something inside, to be there in every turn.
            near = (main,) if self.coder.in_loops else ()
            low, high = (
                constant(site, np.array(bound, np.float32), f"{name}/fallback_{which}", near)
                for which, bound in zip(("min", "max"), self.fallback, strict=True)
            )
        inputs = (*ports(main), low, high)
        return site.add(
            "Requantize", *inputs, name=f"{name}/requantize", attrs=TO_EIGHT_BITS, device=device
        ).node


def _arranged(form: EightBit, node: Node, coded: list[Coded], site: Site) -> list[Value]:
    """All inputs of the eight-bit form: codes and what stays as it is, then the ranges."""
    codes = [c for c, _, _ in coded]
    if form.op == "QuantizedConcat":
        # Unlike the others it takes all lower ends before all upper ones.
        return [_axis(node, site), *codes, *(low for _, low, _ in coded), *(high for _, _, high in coded)]
    if form.plain is not None:
        codes.insert(form.plain, node.inputs[form.plain])
    return [*codes, *(end for _, low, high in coded for end in (low, high))]


def _axis(node: Node, site: Site) -> Value:
    """The axis as QuantizedConcat takes it, int32 and not negative: the one that is there, if it is."""
    given, axis = node.inputs[0 if node.op == "Concat" else -1], concat_axis(node)
    tensor = const_tensor(given)
    assert tensor is not None
    if tensor.dtype.name == "int32" and tensor.shape == () and int(tensor.numpy()) == axis:
        return given
    near = given.node.control_inputs
    return constant(site, np.array(axis, np.int32), f"{node.name}_eightbit/axis", near)
