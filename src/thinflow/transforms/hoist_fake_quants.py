"""Move fake quantization in front of ops that hand the range of their input on.

fake_quant(relu(max_pool(x)))  ->  relu(max_pool(fake_quant(x)))

There it meets the op whose result it was trained for. Zero is always one of the levels, and they are in
order; so ops that only move, choose or clamp numbers may come before or after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.ir.graph import Node, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, node
from thinflow.rewrite.rule import Refuse, transform
from thinflow.transforms.shared.constants import const_tensor

Bounds = tuple[float, float]


def _bounds(fake: Node) -> Bounds | None:
    """The range of a fake quantization, if it is constant."""
    ends = [const_tensor(v) for v in fake.inputs[1:]]
    numbers = [float(t.numpy().reshape(())) for t in ends if t is not None and t.size == 1]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def _chain(fake: Node, bounds: Bounds) -> list[Node]:
    """The nodes to move in front of, nearest first."""
    chain: list[Node] = []
    reader, value = fake, fake.inputs[0]
    # A node that others read as well would give them quantized values.
    while _is_only_for(reader, value) and _commutes(value.node, bounds):
        chain.append(value.node)
        reader, value = value.node, value.node.inputs[0]
    return chain


def _in_place(fake: Node) -> str | None:
    """Why there is nothing to do: nothing stands between it and the op that it was trained for."""
    bounds = _bounds(fake)
    moves = bounds is None or fake.control_inputs or _chain(fake, bounds)
    return None if moves else "it stands where it belongs"


def _is_only_for(reader: Node, value: Value) -> bool:
    """Whether nobody but `reader` sees a value, and only once."""
    uses = value.uses
    return value.port == 0 and len(uses) == 1 and uses[0].node is reader and not value.node.is_protected


def _commutes(node: Node, bounds: Bounds) -> bool:
    """Whether an op gives the same after fake quantization with this range as before it."""
    if not node.inputs or node.get("T") is None or not node.get("T").is_floating:
        return False
    low, high = bounds
    # Order is kept by rounding to levels, so the largest stays the largest.
    if node.op in {"MaxPool", "Transpose"} or has(node.op, Trait.IDENTITY | Trait.RESHAPE):
        return True
    if node.op == "Relu":
        # What Relu cuts off is below the range, and cut off by it already.
        return low >= 0
    if node.op == "Relu6":
        return low >= 0 and high <= 6
    # A padded zero is a level, and so the same before and after.
    return has(node.op, Trait.PAD) and low <= 0 <= high and _pads_zeros(node)


def _pads_zeros(node: Node) -> bool:
    if node.op == "Pad":
        return True
    value = const_tensor(node.inputs[2]) if len(node.inputs) == 3 else None
    return value is not None and not np.any(value.numpy())


@transform("hoist_fake_quants")
@dataclass(frozen=True)
class HoistFakeQuants(Rewrite):
    """Hoist every FakeQuantWithMinMaxVars of a constant range. A step of quantize_nodes."""

    tolerance = 1e-6
    in_file_order = True
    until_fixpoint = False
    pattern: ClassVar = node(
        "FakeQuantWithMinMaxVars",
        *(any_value("x"), any_value("low"), any_value("high")),
        name="fake",
        where=_in_place,
    )

    def check(self, m: Match) -> None:
        bounds = _bounds(m.fake)
        if bounds is None:
            raise Refuse("its range is not constant")
        if m.fake.control_inputs:
            raise Refuse("it waits for other nodes")
        m.bind("chain", _chain(m.fake, bounds))

    def describe(self, m: Match) -> str:
        return f"moved in front of '{m.chain[-1].name}'"

    def build(self, m: Match, site: Site) -> Value:
        fake: Node = m.fake
        nearest: Node = m.chain[0]
        last: Node = m.chain[-1]
        x, name = last.inputs[0], f"{fake.name}_hoisted"
        before_last = Site(site.graph, last, self.name)
        moved = before_last.add(fake.op, x, m.low, m.high, name=name, attrs=fake.attrs, device=fake.device)
        # So that ops behind it still know shape and type.
        moved.spec = x.spec
        last.set_input(0, moved)
        site.made.add(nearest)  # it takes the place and the name of what stood behind it
        return nearest.output()
