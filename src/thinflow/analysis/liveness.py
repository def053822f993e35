"""How much memory the values between nodes take at the worst moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thinflow.ir.graph import Node, Value
from thinflow.ops import registry


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
    owner = _Owners()
    last_use: dict[Value, int] = {}
    for index, node in enumerate(order):
        for value in node.outputs:
            last_use[owner(value)] = index
        for value in node.inputs:
            last_use[owner(value)] = index
    for value in outputs:
        last_use[owner(value)] = len(order)
    ends: dict[int, list[Value]] = {}
    for value, index in last_use.items():
        ends.setdefault(index, []).append(value)
    alive = peak = 0
    where, complete = "", True
    for index, node in enumerate(order):
        if node.tensor is None:
            for value in node.outputs:
                if owner(value) is value and value in last_use:
                    size = value.spec.size_bytes
                    complete &= size is not None
                    alive += size or 0
            if alive > peak:
                peak, where = alive, node.name
        for value in ends.get(index, ()):
            if value.node.tensor is None:
                alive -= value.spec.size_bytes or 0
    return Peak(peak, where, complete)


class _Owners:
    """Finds the value whose memory another one shares."""

    def __init__(self) -> None:
        self._passes: dict[str, bool] = {}

    def __call__(self, value: Value) -> Value:
        while value.port == 0:
            passes = self._passes.get(value.node.op)
            if passes is None:
                passes = self._look_up(value.node.op)
            if not passes or not value.node.inputs:
                break
            value = value.node.inputs[0]
        return value

    def _look_up(self, op: str) -> bool:
        definition = registry.find(op)
        self._passes[op] = definition is not None and definition.passes_through
        return self._passes[op]
