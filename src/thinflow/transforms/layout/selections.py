"""Ops that choose channels: what joins, splits and shuffles hand on, told channel by channel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from thinflow.ir.graph import Node, Value
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor

Channels = tuple[tuple[Value, int], ...]
"""Where each channel of a value comes from: the value that computes it, and its number there."""


def channel_count(value: Value) -> int | None:
    """The size of a value's last axis; None if it is open."""
    return value.spec.shape[-1] if value.spec.shape else None


def constant_ints(value: Value) -> list[int] | None:
    """The numbers of an integer constant; None for any other value."""
    tensor = constant_tensor(value)
    if tensor is None or not tensor.dtype.is_integer:
        return None
    return [int(n) for n in tensor.numpy().reshape(-1)]


class Selections:
    """What the values of a graph choose, as far as they only choose channels, which come last.

    Attributes:
        chosen: value -> its channels.
        nodes: those that choose, each with the values that it chooses from.
        shuffles: among them, nodes that give channels another order.
    """

    def __init__(self, order: Sequence[Node]) -> None:
        self.chosen: dict[Value, Channels] = {}
        self.nodes: dict[Node, list[Value]] = {}
        self.shuffles: set[Node] = set()
        for node in order:
            self._look_at(node)

    def of(self, value: Value) -> Channels:
        """The channels of a value; those of one that computes something are its own."""
        known = self.chosen.get(value)
        return known if known is not None else tuple((value, n) for n in range(channel_count(value) or 0))

    def _look_at(self, node: Node) -> None:
        # Whoever waits for the node would have to wait for others.
        if node.control_inputs or node.control_outputs:
            return
        if node.op == "ConcatV2":
            self._join(node)
        elif node.op in ("Split", "SplitV"):
            self._split(node)
        elif node.op in ("Slice", "StridedSlice"):
            self._cut(node)
        elif has(node.op, Trait.RESHAPE):
            self._shuffle(node)

    def _join(self, node: Node) -> None:
        *parts, axis = node.inputs
        rank = len(node.output().spec.shape or ())
        if rank > 1 and constant_ints(axis) in ([rank - 1], [-1]) and all(map(channel_count, parts)):
            self.chosen[node.output()] = tuple(c for part in parts for c in self.of(part))
            self.nodes[node] = parts

    def _split(self, node: Node) -> None:
        x, axis = (node.inputs[1], node.inputs[0]) if node.op == "Split" else (node.inputs[0], node.inputs[2])
        rank = len(x.spec.shape or ())
        if rank < 2 or constant_ints(axis) not in ([rank - 1], [-1]) or not channel_count(x):
            return
        counts = [channel_count(v) for v in node.outputs]
        ports = [v.port for v in node.outputs]
        sizes = constant_ints(node.inputs[1]) if node.op == "SplitV" else None
        # A Split has parts of one size, and a SplitV may leave one of them open.
        if sizes is None:
            each = (channel_count(x) or 0) // max(int(node.get("num_split", 0)), 1)
            sizes = [each] * int(node.get("num_split", 0))
        if min(sizes, default=-1) < 0 or [sizes[p] for p in ports] != counts:
            return
        for value in node.outputs:
            start = sum(sizes[: value.port])
            self.chosen[value] = self.of(x)[start : start + sizes[value.port]]
        self.nodes[node] = [x]

    def _cut(self, node: Node) -> None:
        x, y = node.inputs[0], node.output()
        begin, before, after = constant_ints(node.inputs[1]), x.spec.shape, y.spec.shape
        if begin is None or not before or not after or len(begin) != len(before):
            return
        if before[:-1] != after[:-1] or None in before[1:] or (count := after[-1]) is None:
            return
        if node.op == "Slice":
            from_start, to_end = 0, (constant_ints(node.inputs[2]) or [0])[0] == -1
        else:
            masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
            if set(constant_ints(node.inputs[3]) or ()) != {1} or any(node.get(m, 0) for m in masks):
                return
            from_start, to_end = int(node.get("begin_mask", 0)), bool(int(node.get("end_mask", 0)) & 1)
        begin = [0 if from_start >> axis & 1 else start for axis, start in enumerate(begin)]
        # Sizes tell that other axes are whole, but for a batch that nobody knows.
        if min(begin) < 0 or (before[0] is None and (begin[0] or not to_end)):
            return
        self.chosen[y] = self.of(x)[begin[-1] : begin[-1] + count]
        self.nodes[node] = [x]

    def _shuffle(self, node: Node) -> None:
        """A reshape that joins two axes behind a transpose of what another reshape made of the last axis."""
        moved = node.inputs[0].node
        if moved.op != "Transpose" or moved.output() not in [node.inputs[0]] or not _is_alone(moved):
            return
        parted = moved.inputs[0].node
        if not has(parted.op, Trait.RESHAPE) or not _is_alone(parted):
            return
        x, y = parted.inputs[0], node.output()
        shape, inner = x.spec.shape, parted.output().spec.shape
        order = constant_ints(moved.inputs[1])
        if not shape or not inner or order is None or len(inner) < 3 or not shape[-1]:
            return
        rank = len(inner)
        groups, each = inner[-2:]
        is_swap = order == [*range(rank - 2), rank - 1, rank - 2]
        if not is_swap or groups is None or each is None or groups * each != shape[-1]:
            return
        # What is in front stays in its order, however it is arranged; an open batch has to stay the first.
        lead, kept = shape[:-1], inner[:-2]
        if y.spec.shape != shape or None in lead[1:] or None in kept[1:] or lead[:1] != kept[:1]:
            return
        if math.prod(n or 1 for n in lead) != math.prod(n or 1 for n in kept):
            return
        old = self.of(x)
        self.chosen[y] = tuple(old[g * each + n] for n in range(each) for g in range(groups))
        self.nodes[node] = [x]
        self.shuffles.add(node)


def _is_alone(node: Node) -> bool:
    """True if one node reads the value and nobody asked for it."""
    value = node.output()
    waits = node.control_inputs or node.control_outputs
    return len(value.uses) == 1 and not value.is_graph_output and not value.is_graph_input and not waits
