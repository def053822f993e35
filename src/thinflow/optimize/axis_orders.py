"""Arrays of a file with their axes as a graph has them, which moves channels and turns what it multiplies."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import islice, permutations

import numpy as np

from thinflow.compare.inner_values import names_of
from thinflow.compare.match_io import RAW
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import Shape
from thinflow.typing import Array

Order = tuple[int, ...]

_MOST_AXES = 6
"""Of an array that are not 1: of more there would be too many orders."""
_MOST_ORDERS = 24
"""That are told apart for one value."""


class Ordered:
    """Arrays that are fed for values of a graph, in the likeliest order of their axes.

    Attributes:
        arrays: by value.
    """

    def __init__(self, found: Mapping[Value, Array]) -> None:
        self._found, self._orders = dict[Value, Array](), dict[Value, list[Order]]()
        self._sizes: dict[Value, tuple[int, ...]] = {}
        self.arrays: dict[Value, Array] = {}
        for value, array in found.items():
            if names_of(value)[0].endswith(RAW) and array.ndim > 2:
                # The mark of a tensor that was moved to NCHW; with equal sizes the shape would not tell.
                array = np.moveaxis(array, 1, -1)
            sizes = _sizes_of(value.shape, array.shape)
            orders = [] if sizes is None else orders_between(sizes, array.shape)
            if sizes is not None and orders:
                self._found[value], self._orders[value], self._sizes[value] = array, orders, sizes
                self.arrays[value] = self._in_order(value, orders[0])

    def _in_order(self, value: Value, order: Order) -> Array:
        moved: Array = self._found[value].transpose(order).reshape(self._sizes[value])
        return moved

    def nearest(self, graph: Graph, fed: Mapping[Value, Array], *, unlikely: bool) -> bool:
        """Settle orders of which shapes tell nothing by what the graph computes; whether any was another one.

        A wrong order is far off everywhere, and what roundings add up to is not.

        Args:
            graph: whose values they are.
            fed: of its inputs, whose order is known.
            unlikely: look at all values of which several orders fit, and not only at those of a picture, say,
                that is as high and as wide as it has channels.
        """
        unsure = [
            v
            for v, orders in self._orders.items()
            if len(orders) > 1 and v not in fed and (unlikely or _is_cube(self._sizes[v]))
        ]
        if not unsure:
            return False
        computed = Plan(graph, unsure, list(fed)).run(dict(fed))
        return any([self._settle(v, near) for v, near in zip(unsure, computed, strict=True)])

    def _settle(self, value: Value, near: Array) -> bool:
        if near.shape != self._sizes[value]:
            return False
        orders = self._orders[value]
        arrays = [self._in_order(value, order) for order in orders]
        distances = [float(np.abs(x.astype(np.float64) - near).sum()) for x in arrays]
        place = int(np.argmin(distances))
        self._orders[value] = [orders[place]]
        is_other = not np.array_equal(arrays[place], self.arrays[value])
        self.arrays[value] = arrays[place]
        return is_other


def orders_between(sizes: Sequence[int], shape: Sequence[int]) -> list[Order]:
    """Orders of the axes of an array in which it has other sizes, those of 1 aside; the likeliest first.

    That is as it is, and with its channels at the other end. Where axes are joined as well, other orders than
    these are not looked for.
    """
    if math.prod(sizes) != math.prod(shape):
        return []
    rank = len(shape)
    likely = [tuple(range(rank))]
    if rank > 2:
        likely += [(0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))]
    wanted = _long(sizes)
    if sorted(wanted) != sorted(_long(shape)):
        return likely
    found = [o for o in likely if _long([shape[i] for i in o]) == wanted]
    found.sort(key=lambda o: [shape[i] for i in o] != list(sizes))
    return list(dict.fromkeys([*found, *islice(_others(wanted, shape), _MOST_ORDERS)]))


def _others(wanted: Sequence[int], shape: Sequence[int]) -> list[Order]:
    axes = [i for i, n in enumerate(shape) if n != 1]
    if len(axes) > _MOST_AXES:
        return []
    ones = [i for i, n in enumerate(shape) if n == 1]
    return [(*ones, *p) for p in permutations(axes) if [shape[i] for i in p] == wanted]


def _long(sizes: Sequence[int]) -> list[int]:
    return [n for n in sizes if n != 1]


def _is_cube(sizes: Collection[int]) -> bool:
    """True if sizes do not tell axes apart at all, the first one aside."""
    longs = _long(list(sizes)[1:])
    return len(longs) > 1 and len(set(longs)) == 1


def _sizes_of(shape: Shape, given: tuple[int, ...]) -> tuple[int, ...] | None:
    """What a shape of the graph is for an array; None if that leaves several ways."""
    if shape is None:
        return given
    if len(shape) == len(given) and all(n in (None, size) for n, size in zip(shape, given, strict=True)):
        return given
    sizes = [given[0] if n is None and not i and given else n for i, n in enumerate(shape)]
    known = [n for n in sizes if n is not None]
    if sizes.count(None) > 1 or (None in sizes and not math.prod(known)):
        return None
    left = math.prod(given) // max(math.prod(known), 1)
    return tuple(left if n is None else n for n in sizes)
