"""Sizes that are computed while a model runs, as products of sizes that are given: enough to compare them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from thinflow.ir.graph import Node, Value
from thinflow.ops.traits import Trait, has

_DEPTH = 32


@dataclass(frozen=True)
class Size:
    """A product: a number, and elements of vectors that are not taken apart further."""

    number: int
    factors: tuple[tuple[str, int], ...] = ()

    def times(self, other: Size) -> Size:
        return Size(self.number * other.number, tuple(sorted(self.factors + other.factors)))


ONE = Size(1)


def sizes_of(value: Value, depth: int = _DEPTH) -> list[Size] | None:
    """The elements of a vector or a number of whole numbers; None if not even their count is known."""
    # Beyond the depth elements are factors with a name, which are equal to themselves only.
    found = _taken_apart(value, depth) if depth else None
    if found is None and value.shape is not None and len(value.shape) <= 1 and None not in value.shape:
        return [Size(1, ((value.name, place),)) for place in range(prod(n or 0 for n in value.shape))]
    return found


def _taken_apart(value: Value, depth: int) -> list[Size] | None:
    node = value.node
    if node.tensor is not None:
        return [Size(int(n)) for n in _numbers(value) or ()] if node.tensor.dtype.is_integer else None
    if value.port or not node.inputs:
        return None
    # A cast to a narrower type may change a number.
    if has(node.op, Trait.PASSES_THROUGH | Trait.RESHAPE) or (node.op == "Cast" and _widens(node)):
        return sizes_of(node.inputs[0], depth - 1)
    if node.op in ("Pack", "ConcatV2"):
        parts = [sizes_of(v, depth - 1) for v in node.inputs[: -1 if node.op == "ConcatV2" else None]]
        axis = node.get("axis", 0) if node.op == "Pack" else _number(node.inputs[-1])
        is_first = axis == 0 or (axis == -1 and len(value.shape or ()) == 1)
        return None if not is_first or None in parts else [s for part in parts for s in part or ()]
    if node.op in ("Slice", "StridedSlice", "GatherV2", "Gather"):
        return _chosen(node, depth)
    # Of a vector all axes are its one axis, written as 0 or -1.
    if node.op == "Prod" and not node.get("keep_dims", False):
        inner = sizes_of(node.inputs[0], depth - 1) if len(node.inputs[0].shape or ()) == 1 else None
        return None if inner is None or _numbers(node.inputs[1]) not in ([0], [-1]) else [product(inner)]
    return None


def product(sizes: list[Size]) -> Size:
    """All of them multiplied."""
    total = ONE
    for size in sizes:
        total = total.times(size)
    return total


def _chosen(node: Node, depth: int) -> list[Size] | None:
    """Elements of a vector at fixed places."""
    source = sizes_of(node.inputs[0], depth - 1)
    numbers = [_numbers(v) for v in node.inputs[1:]]
    if source is None or None in numbers or len(node.inputs[0].shape or ()) != 1:
        return None
    given = [n or [] for n in numbers]
    if node.op in ("Gather", "GatherV2"):
        return [source[n] for n in given[0]] if all(0 <= n < len(source) for n in given[0]) else None
    if any(len(n) != 1 for n in given):
        return None
    start, end, step = given[0][0], given[1][0], given[2][0] if len(given) > 2 else 1
    if node.op == "Slice":
        return source[start : len(source) if end < 0 else start + end]
    # Of one axis every mask is 0 or 1.
    if step != 1 or any(node.get(f"{m}_mask", 0) for m in ("ellipsis", "new_axis")):
        return None
    if node.get("shrink_axis_mask", 0):
        return [source[start]] if -len(source) <= start < len(source) else None
    return source[None if node.get("begin_mask", 0) else start : None if node.get("end_mask", 0) else end]


def _widens(node: Node) -> bool:
    before, after = node.inputs[0].dtype, node.output().dtype
    if before is None or after is None or not (before.is_integer and after.is_integer):
        return False
    return after.itemsize >= before.itemsize


def _numbers(value: Value) -> list[int] | None:
    tensor = value.node.tensor
    return None if tensor is None else [int(n) for n in tensor.numpy().ravel().tolist()]


def _number(value: Value) -> int | None:
    found = _numbers(value)
    return found[0] if found and len(found) == 1 else None


def axes_joined(old: list[Size], new: list[Size]) -> list[list[int]] | None:
    """The axes, in their order, that each axis of a reshaped tensor is made of; None if one is taken apart.

    One of the new sizes may be -1: what the others leave.
    """
    free = [n for n, size in enumerate(new) if size == Size(-1)]
    # Two open sizes could share what is left in many ways.
    if len(free) > 1:
        return None
    # From both ends up to the size that is open, which takes the axes in between.
    split = free[0] if free else len(new)
    front = _prefix(old, new[:split])
    back = _prefix(old[::-1], new[split + 1 :][::-1])
    if front is None or back is None:
        return None
    used_front, used_back = sum(map(len, front)), sum(map(len, back))
    left = len(old) - used_front - used_back
    if left < 0 or (left and not free):
        return None
    # The back was matched on reversed lists.
    turned = [[len(old) - 1 - a for a in group[::-1]] for group in back[::-1]]
    return front + ([list(range(used_front, used_front + left))] if free else []) + turned


def _prefix(old: list[Size], new: list[Size]) -> list[list[int]] | None:
    """For each new size the next old ones whose product it is."""
    groups, place = [], 0
    for size in new:
        group: list[int] = []
        total = ONE
        # It stops at the first match: axes of size 1 behind it go to the next group.
        while total != size:
            if place >= len(old):
                return None
            total = total.times(old[place])
            group.append(place)
            place += 1
        groups.append(group)
    return groups
