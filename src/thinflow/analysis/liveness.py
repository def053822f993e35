"""Peak memory of the values between nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinflow.ir.graph import Node, Value
from thinflow.ops.traits import Trait, has


@dataclass(frozen=True)
class Peak:
    """The worst moment of a run.

    Attributes:
        size_bytes: activations alive at once; constants do not count.
        node: name of the node that runs then.
        complete: whether every size was known.
    """

    size_bytes: int
    node: str
    complete: bool


def peak_activations(order: Sequence[Node], outputs: Sequence[Value]) -> Peak:
    """Peak of the activations if nodes run in this order and values are dropped after their last use.

    Pass-through nodes share their input's memory. O(nodes + edges).
    """
    last_use: dict[Value, int] = {}
    # What nobody reads dies right after the node that makes it, though it takes memory meanwhile.
    for index, node in enumerate(order):
        for value in node.outputs:
            last_use[_owner(value)] = index
        for value in node.inputs:
            last_use[_owner(value)] = index
    for value in outputs:
        # Behind the last node: results outlive the run.
        last_use[_owner(value)] = len(order)
    ends: dict[int, list[Value]] = {}
    for value, index in last_use.items():
        ends.setdefault(index, []).append(value)
    alive = peak = 0
    where, complete = "", True
    for index, node in enumerate(order):
        if node.tensor is None:
            for value in node.outputs:
                if _owner(value) is value and value in last_use:
                    size = value.spec.size_bytes
                    complete &= size is not None
                    alive += size or 0
            # Inputs and outputs of the node at hand are both alive here: what it read last is dropped below.
            if alive > peak:
                peak, where = alive, node.name
        for value in ends.get(index, ()):
            if value.node.tensor is None:
                alive -= value.spec.size_bytes or 0
    return Peak(peak, where, complete)


def _owner(value: Value) -> Value:
    """The value whose memory this one shares."""
    # Of several outputs only the first passes the input on.
    while value.port == 0 and value.node.inputs and has(value.node.op, Trait.PASSES_THROUGH):
        value = value.node.inputs[0]
    return value
