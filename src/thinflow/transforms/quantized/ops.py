"""Float ops into eight-bit ones, each between quantized values for its inputs and a Dequantize of its name;
and the ranges that these can work with.

Nodes are taken in execution order, so that one whose input another made has its quantized values at hand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, QINT8, QINT32, QUINT8, TensorSpec
from thinflow.ops import registry
from thinflow.ops._quantized import QuantizedOp
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import Match, any_value, constant_tensor, output_of
from thinflow.rewrite.pattern import node as any_node
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
    InputQuantizer,
    Quantized,
    constant,
    element_of,
    has_loops,
    ports,
)
from thinflow.transforms.shared.constants import stored_once

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
    quantizer: InputQuantizer = field(init=False)

    def __post_init__(self) -> None:
        self.quantizer = InputQuantizer(self.graph, has_loops(self.graph))

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
        sweep(self.graph, self.quantizer.loose)

    def _is_chosen(self, node: Node) -> bool:
        """True if a node becomes an eight-bit one. If not, the ledger says why, where one may ask."""
        if node.op in NO_KERNEL and element_of(node, node.output()) is FLOAT:
            self.trace.leave(node, NO_KERNEL[node.op])
        if node.op not in EIGHT_BIT:
            return False
        try:
            check_node(node, self.ignored)
            for value in data_inputs(node):
                self.quantizer.check(value)
        except Refuse as refusal:
            self.trace.leave(node, refusal.reason)
            return False
        return True

    def replace(self, node: Node) -> None:
        """Put the eight-bit form in the place of a node that passed the checks."""
        form = EIGHT_BIT[node.op]
        site = Site(self.graph, node, self.origin)
        operands = [self.quantizer.quantized(value, site) for value in data_inputs(node)]
        name = f"{node.name}/eightbit"
        inputs = _arranged(form, node, operands, site)
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
        self.quantizer.loose += [*(v.node for v in node.inputs), decoded.node]
        self.graph.replace(node, decoded.node)

    def _narrowed(self, main: Node, name: str, site: Site) -> Node:
        """A Requantize that brings 32 bits back to eight."""
        device = site.before.device
        # Measured in each run, by an op that looks at the whole 32-bit result.
        if self.fallback is None:
            measured = site.add(
                "RequantizationRange", *ports(main), name=f"{name}/requant_range", device=device
            )
            measured.node.attrs["Tinput"] = QINT32
            low, high = measured, measured.node.output(1)
        else:
            # In a loop a constant has to wait for something inside, to be there in every iteration.
            near = (main,) if self.quantizer.in_loops else ()
            low, high = (
                constant(site, np.array(bound, np.float32), f"{name}/fallback_{which}", near)
                for which, bound in zip(("min", "max"), self.fallback, strict=True)
            )
        inputs = (*ports(main), low, high)
        return site.add(
            "Requantize", *inputs, name=f"{name}/requantize", attrs=TO_EIGHT_BITS, device=device
        ).node


def _arranged(form: EightBit, node: Node, operands: list[Quantized], site: Site) -> list[Value]:
    """All inputs of the eight-bit form: quantized values and what stays as it is, then the ranges."""
    inputs = [values for values, _, _ in operands]
    if form.op == "QuantizedConcat":
        # Unlike the others it takes all lower ends before all upper ones.
        lows, highs = [low for _, low, _ in operands], [high for _, _, high in operands]
        return [_axis(node, site), *inputs, *lows, *highs]
    if form.plain is not None:
        inputs.insert(form.plain, node.inputs[form.plain])
    return [*inputs, *(end for _, low, high in operands for end in (low, high))]


def _axis(node: Node, site: Site) -> Value:
    """The axis as QuantizedConcat takes it, int32 and not negative: the one that is there, if it is."""
    operand, axis = node.inputs[0 if node.op == "Concat" else -1], concat_axis(node)
    tensor = constant_tensor(operand)
    assert tensor is not None
    if tensor.dtype.name == "int32" and tensor.shape == () and int(tensor.numpy()) == axis:
        return operand
    near = operand.node.control_inputs
    return constant(site, np.array(axis, np.int32), f"{node.name}_eightbit/axis", near)


# ---- Ranges
#
# RequantizationRange may measure one below zero, or an empty one.
#
#     QuantizedRelu(Requantize(x, range(x)))  ->  r = QuantizedRelu(x); Requantize(r, range(r))
#     QuantizedAdd(Requantize(x, range(x)), ...)  ->  the same with Maximum(upper end of range(x), 1e-30)
#
# A Relu over a range without the zero gives the top of the range, a convolution pads with what is not zero,
# sums and products refuse an empty range. Where a Relu is the only reader of a 32-bit result it goes in
# front of the Requantize, which also leaves all eight bits for what passes it.


# So few values may well be all equal in one run, and the range that is measured then is empty.
_FEW = 64
_LEAST = 1e-30
"""Wide enough for 255 steps that are no subnormal numbers, which kernels take for 0."""


def measuring(requantize: Node) -> Node | None:
    """The RequantizationRange that gives a Requantize its range; None if it does not have one to itself."""
    if requantize.op != "Requantize" or len(requantize.inputs) != 5:
        return None
    range_node = requantize.inputs[3].node
    is_whole = requantize.inputs[3:] == (range_node.output(0), range_node.output(1))
    # One that serves several ops, or measures something else, cannot be changed for this one alone.
    if range_node.op != "RequantizationRange" or not is_whole or range_node.inputs != requantize.inputs[:3]:
        return None
    return range_node


def _may_be_uniform(requantize: Node) -> bool:
    """True if all values may well be the same: there are few, or one channel of perhaps one colour."""
    spec = requantize.output().spec
    return not spec.shape or spec.shape[-1] in (1, None) or (spec.size or 0) <= _FEW


def _reach_range_around_zero(requantize: Node, *, is_uniform: bool) -> bool:
    """True if quantized values reach an op that needs a range around zero. O(nodes that pass the range on).

    Args:
        is_uniform: the measured range may be empty.
    """
    stack, seen = [requantize], {requantize}
    while stack:
        for use in stack.pop().output().uses:
            reader = use.node
            # SAME pads with the code for zero, which a range without zero does not have.
            pads = reader.op == "QuantizedConv2D" and use.index == 0 and reader.get("padding") == "SAME"
            if pads or has(reader.op, Trait.RECTIFIER):
                return True
            if is_uniform and has(reader.op, Trait.REFUSES_EMPTY_RANGE):
                return True
            if (has(reader.op, Trait.KEEPS_RANGE) or reader.op == "QuantizedConcat") and reader not in seen:
                seen.add(reader)
                stack.append(reader)
    return False


def _not_measured(requantize: Node) -> str | None:
    return None if measuring(requantize) is not None else "its range is not measured"


class ClampFirst(Rewrite):
    """Move each QuantizedRelu in front of the Requantize that only it reads."""

    in_file_order = True
    until_fixpoint = False
    outputs = 0
    pattern: ClassVar = any_node(
        Trait.RECTIFIER,
        any_node(
            "Requantize",
            *(any_value(), any_value(), any_value()),
            any_node("RequantizationRange", name="range", through=()),
            output_of("range", 1),
            name="requantize",
            through=(),
            where=_not_measured,
        ),
        *(output_of("requantize", 1), output_of("requantize", 2)),
        name="relu",
    )

    def check(self, m: Match) -> None:
        ends = (m.relu, m.requantize, m.range)
        if any(n.is_protected or n.control_inputs or n.control_outputs for n in ends):
            raise Refuse("one of them is needed for itself")

    def build(self, m: Match, site: Site) -> None:
        relu, requantize, range_node = m.relu, m.requantize, m.range
        wide = requantize.inputs[:3]
        for value, narrow in zip(ports(relu), ports(requantize), strict=True):
            value.replace_uses(narrow)
        relu.set_inputs(wide)
        relu.attrs.update({"Tinput": QINT32, "out_type": QINT32})
        range_node.set_inputs(ports(relu))
        requantize.set_inputs([*ports(relu), range_node.output(0), range_node.output(1)])


class WidenRanges(Rewrite):
    """Let measured ranges reach beyond zero where an op needs it."""

    name = "quantize_nodes"
    in_file_order = True
    until_fixpoint = False
    outputs = 0
    pattern: ClassVar = any_node("Requantize", name="requantize", where=_not_measured)

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        return {"in_loops": has_loops(graph)}

    def check(self, m: Match) -> None:
        range_node = measuring(m.requantize)
        assert range_node is not None
        # A range of zeros only is measured as a little more: only values below zero can be trouble.
        is_clamped = has(range_node.inputs[0].node.op, Trait.RECTIFIER)
        if is_clamped or not _reach_range_around_zero(m.requantize, is_uniform=_may_be_uniform(m.requantize)):
            raise Refuse("no op needs more")
        m.bind("range", range_node)

    def build(self, m: Match, site: Site) -> None:
        range_node: Node = m.range
        # In a loop a constant has to wait for something inside, to be there in every iteration.
        near = (range_node,) if m.in_loops else ()
        least = constant(site, np.array(_LEAST, np.float32), f"{range_node.name}/least", near)
        high = site.add(
            "Maximum", range_node.output(1), least, name=f"{range_node.name}/max", attrs={"T": FLOAT}
        )
        high.node.device = m.requantize.device
        m.requantize.set_input(4, high)


_OFFSET = 128  # between the unsigned and the signed value of one number


class SignBiases(Rewrite):
    """Let every QuantizedBiasAdd of a constant read signed values, where it alone reads them.

        QuantizedBiasAdd(Requantize(x) quint8, b)  ->  QuantizedBiasAdd(Requantize(x) qint8, b - 128)

    The kernels that make unsigned values divide the range from its lower end; those that read them move that
    end until zero is a quantized value. All values so are off by the same part of a step, which deep networks
    amplify. The kernels for signed values agree with their readers, and of the eight-bit ops BiasAdd takes
    signed ones.
    """

    name = "quantize_nodes"
    in_file_order = True
    until_fixpoint = False
    outputs = 0
    pattern: ClassVar = any_node(
        "QuantizedBiasAdd",
        any_node("Requantize|QuantizeV2", name="source", through=()),
        any_value("bias"),
        *(output_of("source", 1), output_of("source", 2)),
        *(any_value(), any_value()),
        name="add",
    )

    def check(self, m: Match) -> None:
        tensor = m.bias.node.tensor
        is_plain = m.source.op == "Requantize" or m.source.get("mode") == "MIN_FIRST"
        if tensor is None or tensor.dtype is not QUINT8 or m.add.get("T1") is not QUINT8 or not is_plain:
            raise Refuse("its values have another type")

    def build(self, m: Match, site: Site) -> None:
        bias: Node = m.bias.node
        definition = registry.get(m.source.op)
        assert issubclass(definition, QuantizedOp)
        type_attr, _ = definition.result_type
        m.source.attrs[type_attr] = QINT8
        m.add.attrs.update({"T1": QINT8, "T2": QINT8})
        # In 16 bits, since the difference of bytes would wrap around.
        values = (m.bias.node.tensor.numpy().astype(np.int16) - _OFFSET).astype(np.int8)
        signed = stored_once(Tensor.from_array(values, QINT8))
        m.add.set_input(1, constant(site, signed, f"{bias.name}/signed", bias.control_inputs))
