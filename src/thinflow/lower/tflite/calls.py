"""The ops that are loops in one op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.lower.tflite.block_lstm import loop_of
from thinflow.lower.tflite.listed import Listed, Slot, items_of

if TYPE_CHECKING:
    from thinflow.lower.tflite.control import ControlLowering


def block_lstm(lowering: ControlLowering, node: Node, slots: list[Slot]) -> list[Slot]:
    """A loop of LSTMBlockCells that collects what is read."""
    read = [v.port for v in node.outputs if v.uses or v.is_graph_output or v in lowering.wanted]
    # Nobody reads anything: one list all the same, that of h, for the loop to have something to collect.
    ports = read or [6]
    condition, body, first = loop_of(lowering.builder, node, slots, ports)
    last = lowering.turned(condition, body, first)
    # The first three are the counter, the cell state and the output of the last
    # step; behind the lists x follows.
    found = dict(zip(ports, last[3:], strict=False))
    nothing = UnsupportedOp("nobody reads it")
    spare = lowering.builder.refuse(nothing, 7)
    return [
        items_of(lowering.builder, slot) if isinstance(slot := found.get(port), Listed) else spare[port]
        for port in range(7)
    ]
