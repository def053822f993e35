"""What stands under the name of a scope: its most frequent ops and its parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set

from thinflow.explorer.flattening import Box
from thinflow.explorer.tree import Group

_SHOWN = 2


def caption(group: Group, fixed: Set[Box]) -> str:
    """`Conv2D ×3, Relu ×2, 1.2 M parameters`. O(boxes inside)."""
    boxes = list(group.boxes())
    ops = Counter(box.op for box in boxes if box not in fixed)
    listed = sorted(ops.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{op} ×{count}" if count > 1 else op for op, count in listed[:_SHOWN]]
    if more := sum(count for _, count in listed[_SHOWN:]):
        texts.append(f"{more} more")
    if count := parameter_count(boxes):
        texts.append(f"{short_count(count)} parameters")
    return ", ".join(texts)


def parameter_count(boxes: list[Box]) -> int:
    """Elements of all constants among some boxes."""
    tensors = [box.node.tensor for box in boxes if box.node is not None]
    return sum(t.size for t in tensors if t is not None)


def short_count(count: int) -> str:
    """`1234567` as `1.2 M`."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)
