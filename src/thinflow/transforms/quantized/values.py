"""Quantized values for floats: read where a Dequantize made the float, computed for constants, and made in
each run for the rest, over the range that they have there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, INT32, QUINT8, DType
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import constant_tensor
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.quantized.quantize_weights import PerTensor
from thinflow.transforms.shared.constants import is_finite, stored_once

# The mode in which the eight-bit kernels read quantized values; the others divide the range in another way.
MIN_FIRST: dict[str, Attr] = {"T": QUINT8, "mode": b"MIN_FIRST"}

Quantized = tuple[Value, Value, Value]
"""Values of type quint8, and the two ends of the range they divide."""


def ports(node: Node) -> Quantized:
    """The three outputs of an eight-bit op."""
    return node.output(0), node.output(1), node.output(2)


def constant(
    site: Site, content: Tensor | np.ndarray[Any, Any], name: str, near: Iterable[Node] = ()
) -> Value:
    """A new constant that waits for the nodes `near`, which say to what loop it belongs."""
    value = site.constant(content, name)
    value.node.device = site.before.device
    for node in near:
        value.node.add_control_input(node)
    return value


def source_without_waits(value: Value) -> Value:
    """The value behind ops that hand it on; one that waits for something is not looked through."""
    while value.port == 0 and has(value.node.op, Trait.IDENTITY) and value.node.inputs:
        if value.is_graph_input or value.node.control_inputs:
            break
        value = value.node.inputs[0]
    return value


def quantized_source(value: Value) -> Quantized | None:
    """The quantized values that a float was made of by a Dequantize MIN_FIRST; None if it was not."""
    source = source_without_waits(value)
    node = source.node
    if node.op != "Dequantize" or source.is_graph_input or len(node.inputs) != 3 or source.port != 0:
        return None
    # Newer attributes of Dequantize that give quantized values another meaning.
    is_plain = node.get("axis", -1) == -1 and not node.get("narrow_range", False)
    if node.get("T") is not QUINT8 or node.get("mode") != "MIN_FIRST" or not is_plain:
        return None
    if node.control_inputs or node.get("dtype", FLOAT) is not FLOAT:
        return None
    values, low, high = node.inputs
    return values, low, high


def constant_numbers(value: Value) -> Tensor | None:
    """The float constant behind a value, fake quantization of constants included; None if there is none."""
    source = source_without_waits(value)
    tensor = source.node.tensor
    if tensor is not None:
        return None if source.is_graph_input or tensor.dtype is not FLOAT else tensor
    if not has(source.node.op, Trait.FAKE_QUANT) or source.is_graph_input or source.node.control_inputs:
        return None
    # All inputs, the ends of the range included.
    tensors = [constant_tensor(v) for v in source.node.inputs]
    inputs = [tensor.numpy() for tensor in tensors if tensor is not None]
    if len(inputs) < len(tensors):
        return None
    try:
        (result,) = registry.call_kernel(registry.get(source.node.op), inputs, source.node.attrs)
    except ThinflowError:
        return None
    return Tensor.from_array(result, FLOAT)


@dataclass
class InputQuantizer:
    """Makes the quantized values that eight-bit ops read, each once.

    Attributes:
        in_loops: whether the graph has loops made of frames, so that constants must be tied to them.
        loose: nodes that may have become useless.
    """

    graph: Graph
    in_loops: bool = False
    loose: list[Node] = field(default_factory=list)
    _known: dict[Value, Quantized] = field(default_factory=dict)
    _plans: dict[Value, PerTensor | None] = field(default_factory=dict)

    def check(self, value: Value) -> None:
        """Raise Refuse if the value cannot be quantized."""
        tensor = None if quantized_source(value) else constant_numbers(value)
        if tensor is not None and not tensor.size:
            raise Refuse(f"the constant '{value.name}' is empty")
        if tensor is not None and not is_finite(tensor.numpy()):
            raise Refuse(f"the constant '{value.name}' has values that are not finite")

    def quantized(self, value: Value, site: Site) -> Quantized:
        """The quantized form of a float value, with its range; new nodes stand at the site."""
        self.loose.append(value.node)
        codes = quantized_source(value)
        if codes is not None:
            return codes
        source = source_without_waits(value)
        if source not in self._known:
            # Constants are quantized once and for all, other values in each run.
            plan = self._plan(source)
            new = self._measured(source, site) if plan is None else self._stored(source, plan, site)
            self._known[source] = new
        return self._known[source]

    def _plan(self, source: Value) -> PerTensor | None:
        tensor = constant_numbers(source)
        if tensor is None:
            return None
        try:
            return PerTensor(tensor, "MIN_FIRST")
        except Refuse:  # too narrow a range for 255 steps; when measured it is widened
            return None

    def _stored(self, source: Value, plan: PerTensor, site: Site) -> Quantized:
        """A constant's quantized values, stored instead of it."""
        base = f"{site.before.name}_eightbit/{_part(source)}"
        near = source.node.control_inputs
        content = stored_once(Tensor.from_array(plan.quantized, QUINT8))
        return (
            constant(site, content, f"{base}/quantize", near),
            constant(site, np.asarray(plan.low, np.float32), f"{base}/min", near),
            constant(site, np.asarray(plan.high, np.float32), f"{base}/max", near),
        )

    def _measured(self, source: Value, site: Site) -> Quantized:
        """Quantized over the range that the values have in each run."""
        base = f"{site.before.name}_eightbit/{_part(source)}"
        near = (source.node,) if self.in_loops else ()
        device = site.before.device
        values, axes = source, range(1)
        # Of a known rank all axes can be named; otherwise the value is made flat first.
        if source.shape is not None:
            axes = range(len(source.shape))
        else:
            flat = constant(site, np.array([-1], np.int32), f"{base}/reshape_dims", near)
            attrs: dict[str, Attr] = {"T": FLOAT, "Tshape": INT32}
            values = site.add("Reshape", source, flat, name=f"{base}/reshape", attrs=attrs, device=device)
        dims = constant(site, np.array(axes, np.int32), f"{base}/reduction_dims", near)
        attrs = {"T": FLOAT, "Tidx": INT32, "keep_dims": False}
        # An empty reduction list would reduce nothing, hence the axes one by one.
        low, high = (
            site.add(op, values, dims, name=f"{base}/{op.lower()}", attrs=attrs, device=device)
            for op in ("Min", "Max")
        )
        name = f"{base}/quantize"
        return ports(
            site.add("QuantizeV2", source, low, high, name=name, attrs=MIN_FIRST, device=device).node
        )


def _part(value: Value) -> str:
    """A value's name as a part of another."""
    return value.node.name + (f"__port__{value.port}" if value.port else "")


def has_loops(graph: Graph) -> bool:
    """True if there are loops in the way TensorFlow 1 wrote them, by frames."""
    return any(has(node.op, Trait.ENTER) for node in graph)


def element_of(node: Node, value: Value) -> DType | None:
    """The type of a node's operands: what its attribute T says, or else what is known of the value."""
    declared = node.attrs.get("T")
    return declared if isinstance(declared, DType) else value.dtype
