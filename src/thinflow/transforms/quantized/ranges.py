"""Ranges that eight-bit ops can work with: RequantizationRange may measure one below zero, or an empty one.

    QuantizedRelu(Requantize(x, range(x)))  ->  r = QuantizedRelu(x); Requantize(r, range(r))
    QuantizedAdd(Requantize(x, range(x)), ...)  ->  the same with Maximum(upper end of range(x), 1e-30)

A Relu over a range without the zero gives the top of the range, a convolution pads with what is not zero,
sums and products refuse an empty range. Where a Relu is the only reader of a 32-bit result it goes in front
of the Requantize, which also leaves all eight bits for what passes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, QINT8, QINT32, QUINT8
from thinflow.ops import registry
from thinflow.ops._quantized import QuantizedOp
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, node, output_of
from thinflow.rewrite.rule import Refuse, Trace
from thinflow.transforms.quantized.values import constant, has_loops, ports
from thinflow.transforms.shared.constants import stored_once

# So few values may well be all equal in one run, and the range that is measured then is empty.
_FEW = 64
_LEAST = 1e-30
"""Wide enough for 255 steps that are no subnormal numbers, which kernels take for 0."""


def measuring(requantize: Node) -> Node | None:
    """The RequantizationRange that gives a Requantize its range; None if it does not have one to itself."""
    if requantize.op != "Requantize" or len(requantize.inputs) != 5:
        return None
    found = requantize.inputs[3].node
    is_whole = requantize.inputs[3:] == (found.output(0), found.output(1))
    # One that serves several ops, or measures something else, cannot be changed for this one alone.
    if found.op != "RequantizationRange" or not is_whole or found.inputs != requantize.inputs[:3]:
        return None
    return found


def _may_be_uniform(requantize: Node) -> bool:
    """Whether all values may well be the same: there are few, or one channel of perhaps one colour."""
    spec = requantize.output().spec
    return not spec.shape or spec.shape[-1] in (1, None) or (spec.size or 0) <= _FEW


def _reach_range_around_zero(requantize: Node, *, is_uniform: bool) -> bool:
    """Whether quantized values reach an op that needs a range around zero. O(nodes that pass the range on).

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
    pattern: ClassVar = node(
        Trait.RECTIFIER,
        node(
            "Requantize",
            *(any_value(), any_value(), any_value()),
            node("RequantizationRange", name="range", through=()),
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
        relu, requantize, found = m.relu, m.requantize, m.range
        wide = requantize.inputs[:3]
        for value, narrow in zip(ports(relu), ports(requantize), strict=True):
            value.replace_uses(narrow)
        relu.set_inputs(wide)
        relu.attrs.update({"Tinput": QINT32, "out_type": QINT32})
        found.set_inputs(ports(relu))
        requantize.set_inputs([*ports(relu), found.output(0), found.output(1)])


class WidenRanges(Rewrite):
    """Let measured ranges reach beyond zero where an op needs it."""

    name = "quantize_nodes"
    in_file_order = True
    until_fixpoint = False
    outputs = 0
    pattern: ClassVar = node("Requantize", name="requantize", where=_not_measured)

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        return {"in_loops": has_loops(graph)}

    def check(self, m: Match) -> None:
        found = measuring(m.requantize)
        assert found is not None
        # A range of zeros only is measured as a little more: only values below zero can be trouble.
        is_clamped = has(found.inputs[0].node.op, Trait.RECTIFIER)
        if is_clamped or not _reach_range_around_zero(m.requantize, is_uniform=_may_be_uniform(m.requantize)):
            raise Refuse("no op needs more")
        m.bind("range", found)

    def build(self, m: Match, site: Site) -> None:
        found: Node = m.range
        # In a loop a constant has to wait for something inside, to be there in every turn.
        near = (found,) if m.in_loops else ()
        least = constant(site, np.array(_LEAST, np.float32), f"{found.name}/least", near)
        high = site.add("Maximum", found.output(1), least, name=f"{found.name}/max", attrs={"T": FLOAT})
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
    pattern: ClassVar = node(
        "QuantizedBiasAdd",
        node("Requantize|QuantizeV2", name="source", through=()),
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
