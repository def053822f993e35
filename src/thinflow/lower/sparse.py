"""Sparse tensors, by steps on places: indices [m,r], values [m] and the shape they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import INT64
from thinflow.lower.operands import require, shape_of
from thinflow.lower.places import Places, T
from thinflow.lower.sizes import axes_joined, sizes_of

_PASSING = frozenset({"Identity", "Cast", "StopGradient", "Snapshot"})
_MOST_PLACES = 2**31
"""Positions that the smaller of the types of places can name."""


def reshaped(p: Places[T], node: Node, indices: T, shape: T, new: T) -> tuple[T, T]:
    """(indices, shape) of SparseReshape.

    Axes that are only joined need no division, and stay exact in 64 bits. Else all goes by way of the flat
    position.
    """
    rank, wanted = shape_of(indices, "the indices", 2)[1], shape_of(new, "the new shape", 1)[0]
    require(rank is not None and wanted is not None, "the rank of the sparse tensor is not known")
    old, sizes = sizes_of(node.inputs[1]), sizes_of(node.inputs[2])
    if wanted and rank and old is not None and sizes is not None and len(old) == rank:
        groups = axes_joined(old, sizes)
        if groups is not None:
            return _joined(p, indices, shape, groups)
    require(bool(rank and wanted), "a scalar has no places")
    require(
        p.index is INT64 or _is_small(p, node.inputs[1], shape),
        "its sizes are computed while the model runs, and may be more than 32 bits hold",
    )
    return _by_position(p, indices, shape, new, rank or 0, wanted or 0)


def _joined(p: Places[T], indices: T, shape: T, groups: Sequence[Sequence[int]]) -> tuple[T, T]:
    """Each new axis from those it is made of."""
    if [list(g) for g in groups] == [[a] for a in range(len(groups))]:
        return p.result(indices), p.result(shape, 1)
    indices, shape = p.cast(indices, INT64), p.cast(shape, INT64)
    columns, sizes = [], []
    for group in groups:
        column = size = None
        for axis in group:
            own, count = p.column(indices, axis), p.element(shape, axis)
            column = own if column is None else p.binary("add", p.binary("mul", column, count), own)
            size = count if size is None else p.binary("mul", size, count)
        if column is None or size is None:
            first, one = p.column(indices, 0), p.cast(p.number(1), INT64)
            column, size = p.binary("sub", first, first), one
        columns.append(column)
        sizes.append(size)
    return p.result(p.stacked(columns)), p.result(p.vector_of(sizes), 1)


def _by_position(p: Places[T], indices: T, shape: T, new: T, rank: int, wanted: int) -> tuple[T, T]:
    """By the position each value has in the order of rows."""
    places, shape, new = p.places(indices), p.places(shape), p.places(new)
    before = [p.element(shape, a) for a in range(rank)]
    flat = p.column(places, 0)
    for axis in range(1, rank):
        flat = p.binary("add", p.binary("mul", flat, before[axis]), p.column(places, axis))
    after = _settled(p, before, new, wanted)
    columns = []
    for size in after[:0:-1]:
        # A size of 0 has no values, but constants would be divided ahead.
        size = p.binary("most", size, p.number(1))
        columns.append(p.binary("mod", flat, size))
        flat = p.binary("div", flat, size)
    columns.append(flat)
    return p.result(p.stacked(columns[::-1])), p.result(p.vector_of(after), 1)


def _settled(p: Places[T], before: Sequence[T], new: T, count: int) -> list[T]:
    """The new sizes, with what the others leave in place of -1."""
    known = p.b.elements(new) or (None,) * count
    after = [p.element(new, a) if n is None else p.number(n) for a, n in enumerate(known)]
    if None not in known and -1 not in known:
        return after
    one, zero = p.number(1), p.number(0)
    total = given = one
    for size in before:
        total = p.binary("mul", total, size)
    for size in after:
        given = p.binary("mul", given, p.choose(p.binary("less", size, zero), one, size))
    left = p.binary("div", total, p.binary("most", given, one))
    pairs = zip(after, known, strict=True)
    return [
        left if n == -1 else size if n is not None else p.choose(p.binary("less", size, zero), left, size)
        for size, n in pairs
    ]


def _is_small(p: Places[T], value: Value, shape: T) -> bool:
    """Whether a shape is known to have few elements: it is fixed, or that of a tensor in memory."""
    known = p.b.elements(shape)
    if known is not None and None not in known:
        return prod(n or 0 for n in known) < _MOST_PLACES
    while value.node.op in _PASSING:
        value = value.node.inputs[0]
    return value.node.op in ("Shape", "ShapeN")


def rows_filled(
    p: Places[T], columns: Sequence[T], values: T, count: T, default: T
) -> tuple[list[T], T, T, T]:
    """What SparseFillEmptyRows and RaggedFillEmptyRows give: (columns [k], values [k], is empty, where went).

    A default stands in column 0 of each of `count` rows without values; rows come in order, and the values of
    each as they were.

    Args:
        columns: the indices, by axis; the first is the row.
    """
    rows = p.places(columns[0])
    is_empty = p.binary("same", p.sum_of_ones(rows, count), p.number(0))
    empty = p.where(is_empty)
    every = p.joined([rows, empty])
    order = p.order(every)
    added = p.size(empty)
    zeros = p.cast(p.filled(added, p.number(0)), INT64)
    found = [p.gathered(every, order)]
    # Rows are counted, so they are few; columns may be any number of 64 bits.
    found += [p.gathered(p.joined([p.cast(c, INT64), zeros]), order) for c in columns[1:]]
    filled = p.gathered(p.joined([values, p.filled(added, default)]), order)
    total = p.size(every)
    went = p.head(p.put(p.counting(total), order, total), p.size(rows))
    return found, filled, is_empty, went


def filled(p: Places[T], indices: T, values: T, shape: T, default: T) -> tuple[T, ...]:
    """The four results of SparseFillEmptyRows."""
    rank = shape_of(indices, "the indices", 2)[1]
    require(bool(rank), "the rank of the sparse tensor is not known")
    columns = [p.column(indices, a) for a in range(rank or 0)]
    count = p.places(p.element(shape, 0))
    found, every, is_empty, went = rows_filled(p, columns, values, count, default)
    same = [p.cast(c, INT64) for c in found]
    return p.result(p.stacked(same)), p.result(every, 1), p.result(is_empty, 2), p.result(went, 3)


def reordered(p: Places[T], indices: T, values: T) -> tuple[T, T]:
    """(indices, values) of SparseReorder: by the last axis, then by the one before it, and so on."""
    rank = shape_of(indices, "the indices", 2)[1]
    require(bool(rank), "the rank of the sparse tensor is not known")
    for axis in reversed(range(rank or 0)):
        order = p.order(p.column(indices, axis))
        indices, values = p.gathered(indices, order), p.gathered(values, order)
    return p.result(indices), p.result(values, 1)


def product_with_dense(p: Places[T], indices: T, values: T, shape: T, dense: T, *, is_turned: bool) -> T:
    """SparseTensorDenseMatMul: rows of the dense matrix [k,n], times the values, added up.

    Args:
        is_turned: whether the sparse matrix is transposed.
    """
    rows, columns = (p.places(p.column(indices, a)) for a in ((1, 0) if is_turned else (0, 1)))
    parts = p.binary("mul", p.gathered(dense, columns), p.reshaped(values, (None, 1)))
    return p.result(p.added_up(parts, rows, p.places(p.element(shape, 1 if is_turned else 0))))


def summed(p: Places[T], indices: T, values: T, shape: T, axes: Sequence[int], *, keep_dims: bool) -> T:
    """SparseReduceSum: dense sums along some axes."""
    rank = shape_of(indices, "the indices", 2)[1] or 0
    kept = [a for a in range(rank) if a not in axes]
    sizes = [p.places(p.element(shape, a)) for a in kept]
    places = total = None
    for axis, size in zip(kept, sizes, strict=True):
        own = p.places(p.column(indices, axis))
        places = own if places is None else p.binary("add", p.binary("mul", places, size), own)
        total = size if total is None else p.binary("mul", total, size)
    if places is None or total is None:
        places, total = p.filled(p.size(indices), p.number(0)), p.number(1)
    y = p.added_up(values, places, total)
    left = iter(sizes)
    dims = [next(left) if a in kept else p.number(1) for a in range(rank) if keep_dims or a in kept]
    known = tuple(None if a in kept else 1 for a in range(rank) if keep_dims or a in kept)
    return p.result(p.shaped(y, dims, known) if dims else p.reshaped(y, ()))
