"""Reshapes and the order of axes: what becomes of a transpose in front of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from thinflow.ir.types import Shape
from thinflow.transforms.layout.plans import Perm, with_axis

Size = tuple[int, int]
"""A number, and how many open sizes it is to be multiplied with: 0 or 1."""


def pieces(before: Shape, after: Shape) -> tuple[list[list[int]], list[list[int]]] | None:
    """The pieces of which two shapes are made that hold the same elements in the same order.

    [6, 4] and [2, 3, 4] are both made of 2, 3, 4: [[0, 1], [2]] and [[0], [1], [2]]. Axes of size 1 are made
    of nothing.

    Returns:
        For each axis of either shape the numbers of its pieces, which rise from axis to axis; None if the
        sizes share no such pieces, or too many are open.
    """
    if before is None or after is None or 0 in before or 0 in after:
        return None
    if any(sum(size is None for size in shape) > 1 for shape in (before, after)):
        return None
    old, new = _ends(before), _ends(after)
    if old[-1:] != new[-1:] and (old or new):
        return None
    # Every place where an axis ends, in either shape, is a joint; between two joints lies a piece.
    joints = sorted({*old, *new})
    for low, high in pairwise(joints):
        if high[1] < low[1] or high[0] % low[0]:
            return None
    numbers = {joint: place for place, joint in enumerate(joints)}
    return _of_axes(before, old, numbers), _of_axes(after, new, numbers)


def _ends(shape: Sequence[int | None]) -> list[Size]:
    """The number of elements in front of the end of each axis that is larger than 1."""
    ends: list[Size] = []
    count, is_open = 1, 0
    for size in shape:
        if size is None:
            is_open = 1
        elif size == 1:
            continue
        else:
            count *= size
        ends.append((count, is_open))
    return ends


def _of_axes(shape: Sequence[int | None], ends: Sequence[Size], numbers: dict[Size, int]) -> list[list[int]]:
    left = iter(ends)
    first = 0
    result: list[list[int]] = []
    for size in shape:
        if size == 1:
            result.append([])
            continue
        last = numbers[next(left)] + 1
        result.append(list(range(first, last)))
        first = last
    return result


def behind(before: Shape, after: Shape, perm: Perm) -> Perm | None:
    """The transpose that undoes for the result what another one undoes for the input.

    y = reshape(transpose(x, perm)), y of the shape `after`, is transpose(reshape'(x), p): p.

    Args:
        before: of transpose(x, perm).
        after: of y.
        perm: of the axes of x.

    Returns:
        None if x has the elements of an axis of y in several places, or in another order.
    """
    found = pieces(before, after)
    if found is None or len(perm) != len(before or ()):
        return None
    old, new = found
    # The axis k of x is the axis perm.index(k) of what was transposed.
    stored = [piece for k in range(len(perm)) for piece in old[perm.index(k)]]
    owner = {piece: axis for axis, own in enumerate(new) for piece in own}
    order: list[int] = []
    for piece in stored:
        axis = owner[piece]
        if order[-1:] != [axis]:
            order.append(axis)
    if len(set(order)) != len(order):
        return None
    if [piece for axis in order for piece in new[axis]] != stored:
        return None
    order = _with_units(order, new)
    return tuple(order.index(axis) for axis in range(len(new)))


def _with_units(order: list[int], made_of: Sequence[Sequence[int]]) -> list[int]:
    """Axes in the order of memory with those of size 1, each behind the axis it stands behind by number."""
    for axis, own in enumerate(made_of):
        if not own:
            order = with_axis(order, axis)
    return order


def inner_order(before: Shape, after: Shape, perm: Perm) -> dict[int, list[int]] | None:
    """The order of elements along axes that a reshape makes of several, where a transpose in front is left
    out.

    y = reshape(transpose(x, perm)): reshape(x)[..., i, ...] = y[..., order[i], ...].

    Returns:
        Axis of y -> order; None if x has the elements of an axis in several places.
    """
    found = pieces(before, after)
    if found is None or before is None or len(perm) != len(before):
        return None
    old, new = found
    stored = [piece for k in range(len(perm)) for piece in old[perm.index(k)]]
    # Each piece that is moved must be a whole axis of x, so that its size is known.
    sizes = {own[0]: before[axis] for axis, own in enumerate(old) if len(own) == 1}
    orders: dict[int, list[int]] = {}
    place = 0
    for axis, own in enumerate(new):
        here = stored[place : place + len(own)]
        place += len(own)
        if sorted(here) != list(own):
            return None
        if here != list(own):
            known = [sizes.get(piece) for piece in own]
            if None in known:
                return None
            orders[axis] = _elements([n or 1 for n in known], [list(own).index(piece) for piece in here])
    return orders


def _elements(sizes: Sequence[int], order: Sequence[int]) -> list[int]:
    """The numbers of elements [*sizes], counted in row-major order, as they lie with the axes in an order."""
    numbers = np.arange(math.prod(sizes)).reshape(sizes).transpose(order).reshape(-1)
    return [int(n) for n in numbers]
