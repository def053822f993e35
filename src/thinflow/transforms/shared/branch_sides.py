"""Sides of TF1 branches: what runs on one side of a Switch only, and by which of its edges.

TensorFlow runs a node where all its edges come from a side that was taken, data and control edges alike. A
constant inside a branch has no data edge, so it waits for an Identity behind the Switch instead.
"""

from __future__ import annotations

from collections import deque

from thinflow.control_flow.steps import root_of
from thinflow.ir.graph import Node, Value
from thinflow.ir.order import MERGES
from thinflow.ops.traits import Trait, has
from thinflow.transforms.shared.effects import is_stateless


def loses_its_side(waiter: Node, switched: Value) -> bool:
    """True if a node that waits for a side of a Switch would show that it no longer does.

    It does not where all that reads it reads something of that side as well, as a product of a constant and
    of what the Switch hands on does: that runs on its side only, whether or not the constant does.

    Args:
        waiter: waits for an Identity of `switched`, by a control edge.
        switched: an output of a Switch.
    """
    seen = {waiter}
    waiting = [waiter]
    while waiting:
        node = waiting.pop()
        if node.op in MERGES:  # it takes what arrives, whatever else it reads
            return True
        if any(_is_on_side(value, switched) for value in node.inputs):
            continue
        if node.is_protected or node.control_outputs or not is_stateless(node):
            return True
        for reader in node.readers:
            if reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return False


def _is_on_side(value: Value, switched: Value) -> bool:
    """True if a value is computed from what a Switch of the same predicate hands out on the same side.

    O(ancestors) at worst; nearest first, since a branch is short beside what leads to it. Whatever a Merge
    joins may come from elsewhere, so the walk ends there.
    """
    predicate = root_of(switched.node.inputs[1])
    seen = {value}
    near = deque([value])
    while near:
        value = near.popleft()
        node = value.node
        is_switch = has(node.op, Trait.SWITCH)
        if is_switch and value.port == switched.port and root_of(node.inputs[1]) is predicate:
            return True
        if node.op in MERGES:
            continue
        # A Switch runs on the side of what it hands on as well as of its predicate.
        for source in node.inputs:
            if source not in seen:
                seen.add(source)
                near.append(source)
    return False
