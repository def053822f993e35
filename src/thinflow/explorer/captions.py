"""What stands under the name of a scope: its most frequent ops and its parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from thinflow.explorer.flattening import Box
from thinflow.explorer.tree import Group
from thinflow.ir.tensor import Tensor

_SHOWN = 2


def caption(group: Group, fixed: Set[Box], variables: Mapping[str, Tensor]) -> str:
    """`Conv2D ×3, Relu ×2, 1.2 M parameters`. O(boxes inside)."""
    boxes = list(group.boxes())
    ops = Counter(box.op for box in boxes if box not in fixed)
    listed = sorted(ops.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{op} ×{count}" if count > 1 else op for op, count in listed[:_SHOWN]]
    if more := sum(count for _, count in listed[_SHOWN:]):
        texts.append(f"{more} more")
    if count := parameter_count(boxes, variables):
        texts.append(f"{short_count(count)} parameters")
    return ", ".join(texts)


def parameter_count(boxes: Sequence[Box], variables: Mapping[str, Tensor]) -> int:
    """Elements of all constants among some boxes, and of the variables whose values are known."""
    held = (held_tensor(box, variables) for box in boxes)
    return sum(tensor.size for tensor in held if tensor is not None)


def held_tensor(box: Box, variables: Mapping[str, Tensor]) -> Tensor | None:
    """What a box holds: a constant, or a variable's value; None for any other."""
    if box.node is None:
        return None
    return variables.get(box.name) if box.node.tensor is None else box.node.tensor


def short_count(count: int) -> str:
    """`1234567` as `1.2 M`."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)
