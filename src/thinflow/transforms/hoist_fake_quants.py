"""Move fake quantization in front of ops that hand the range of their input on.

fake_quant(relu(max_pool(x)))  ->  relu(max_pool(fake_quant(x)))

There it meets the op whose result it was trained for. Zero is always one of the levels, and they are in
order; so ops that only move, choose or clamp numbers may come before or after.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Graph, Node, Value
from thinflow.rewrite.edits import Site
from thinflow.rewrite.rule import Refuse, Transform, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.shared.constants import const_tensor

_MOVERS = frozenset({"ExpandDims", "Identity", "MaxPool", "Reshape", "Squeeze", "Transpose"})
_PADS = frozenset({"Pad", "PadV2"})
Bounds = tuple[float, float]


@transform("hoist_fake_quants")
@dataclass(frozen=True)
class HoistFakeQuants(Transform):
    """Hoist every FakeQuantWithMinMaxVars of a constant range. A step of quantize_nodes."""

    tolerance = 1e-6

    def apply(self, graph: Graph, trace: Trace) -> None:
        for node in graph:
            if node.op != "FakeQuantWithMinMaxVars" or len(node.inputs) != 3:
                continue
            try:
                chain = _chain(node, _bounds(node))
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
                continue
            if chain:
                trace.changed(node, f"moved in front of '{chain[-1].name}'")
                _hoist(graph, node, chain, self.name)


def _bounds(node: Node) -> Bounds:
    ends = [const_tensor(v) for v in node.inputs[1:]]
    numbers = [float(t.numpy().reshape(())) for t in ends if t is not None and t.size == 1]
    if len(numbers) < 2:
        raise Refuse("its range is not constant")
    if node.control_inputs:
        raise Refuse("it waits for other nodes")
    return numbers[0], numbers[1]


def _chain(node: Node, bounds: Bounds) -> list[Node]:
    """The nodes to move in front of, nearest first."""
    chain: list[Node] = []
    reader, value = node, node.inputs[0]
    while _is_only_for(reader, value) and _commutes(value.node, bounds):
        chain.append(value.node)
        reader, value = value.node, value.node.inputs[0]
    return chain


def _is_only_for(reader: Node, value: Value) -> bool:
    """Whether nobody but `reader` sees a value, and only once."""
    uses = value.uses
    return value.port == 0 and len(uses) == 1 and uses[0].node is reader and not value.node.is_protected


def _commutes(node: Node, bounds: Bounds) -> bool:
    """Whether an op gives the same after fake quantization with this range as before it."""
    if not node.inputs or node.get("T") is None or not node.get("T").is_floating:
        return False
    low, high = bounds
    if node.op in _MOVERS:
        return True
    if node.op == "Relu":
        return low >= 0
    if node.op == "Relu6":
        return low >= 0 and high <= 6
    return node.op in _PADS and low <= 0 <= high and _pads_zeros(node)


def _pads_zeros(node: Node) -> bool:
    if node.op == "Pad":
        return True
    value = const_tensor(node.inputs[2]) if len(node.inputs) == 3 else None
    return value is not None and not np.any(value.numpy())


def _hoist(graph: Graph, node: Node, chain: list[Node], origin: str) -> None:
    last = chain[-1]
    site = Site(graph, last, origin)
    inputs = (last.inputs[0], *node.inputs[1:])
    moved = site.add(node.op, *inputs, name=f"{node.name}_hoisted", attrs=node.attrs, device=node.device)
    moved.spec = last.inputs[0].spec
    last.set_input(0, moved)
    graph.replace(node, chain[0])
