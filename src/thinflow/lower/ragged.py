"""Ragged tensors, by steps on places: values [m,...] and where each row of them starts (row splits [n+1])."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from thinflow.lower.operands import ints, require, shape_of
from thinflow.lower.places import Places, T
from thinflow.lower.sparse import rows_filled


def rows_of(p: Places[T], splits: T, count: T) -> T:
    """The row of each of `count` values."""
    # One more row begins at each inner split; those at the end begin rows without values.
    starts = p.part(splits, 1, -1)
    begun = p.sum_of_ones(starts, p.binary("add", count, p.number(1)))
    return p.sums(p.part(begun, 0, -1))


def starting_with_zero(p: Places[T], lengths: T) -> T:
    """The splits of rows of some lengths."""
    return p.joined([p.vector([0]), p.sums(lengths)])


@dataclass
class Level(Generic[T]):
    """The rows that one partition makes: of each value its row, and its place there."""

    row: T
    place: T
    count: T


def levels_of(p: Places[T], partitions: Sequence[T], kinds: Sequence[str]) -> tuple[T, list[Level[T]]]:
    """The number of rows, and the levels from the outside."""
    require(len(partitions) == len(kinds), f"{len(partitions)} partitions of {len(kinds)} kinds")
    levels: list[Level[T]] = []
    counts: list[T] = []  # of rows, then of the items of each level
    for partition, kind in zip(partitions, kinds, strict=True):
        partition = p.places(partition)
        if kind == "FIRST_DIM_SIZE":
            counts.append(p.reshaped(partition, ()))
        elif kind == "ROW_SPLITS":
            counts = counts or [p.binary("sub", p.size(partition), p.number(1))]
            levels.append(_by_splits(p, partition))
            counts.append(levels[-1].count)
        else:
            require(kind == "VALUE_ROWIDS", f"partitions of kind {kind} are not known")
            require(bool(counts), "nothing says how many rows there are")
            levels.append(_by_rows(p, partition, counts[-1]))
            counts.append(levels[-1].count)
    require(bool(levels), "there are no partitions")
    return counts[0], levels


def _by_splits(p: Places[T], splits: T) -> Level[T]:
    count = p.element(splits, -1)
    row = rows_of(p, splits, count)
    return Level(row, p.binary("sub", p.counting(count), p.gathered(splits, row)), count)


def _by_rows(p: Places[T], row: T, rows: T) -> Level[T]:
    count = p.size(row)
    starts = p.sums(p.sum_of_ones(row, rows), exclusive=True)
    return Level(row, p.binary("sub", p.counting(count), p.gathered(starts, row)), count)


def longest(p: Places[T], level: Level[T]) -> T:
    """How many places the longest row has, []."""
    return p.binary("add", p.largest(p.joined([p.vector([-1]), level.place])), p.number(1))


def to_tensor(
    p: Places[T], shape: T, values: T, default: T, partitions: Sequence[T], kinds: Sequence[str]
) -> T:
    """RaggedTensorToTensor: rows cut to a fixed shape (-1: as needed), filled up with the default."""
    inner = shape_of(values, "the values")[1:]
    first, levels = levels_of(p, partitions, kinds)
    asked = list(ints(shape, "the shape")) if shape.shape else []
    require(len(asked) in (0, len(levels) + 1 + len(inner)), f"the shape has {len(asked)} sizes")
    require(all(n >= -1 for n in asked), f"the shape is {asked}")
    wanted = asked or [-1] * (len(levels) + 1 + len(inner))
    fits = all(n in (-1, own) for n, own in zip(wanted[len(levels) + 1 :], inner, strict=True))
    require(fits, f"the inner sizes are {list(inner)}, not those of {asked}")
    sizes = [first if wanted[0] < 0 else p.number(wanted[0])]
    for n, level in zip(wanted[1:], levels, strict=False):
        sizes.append(longest(p, level) if n < 0 else p.number(n))
    places = _flat_places(p, first, levels, sizes)
    total = sizes[0]
    for size in sizes[1:]:
        total = p.binary("mul", total, size)
    y = _laid_out(p, values, places, total, default)
    known = (*(None if n < 0 else n for n in wanted[: len(sizes)]), *inner)
    rest = [p.size(values, 1 + a) if n is None else p.number(n) for a, n in enumerate(inner)]
    return p.result(p.shaped(y, [*sizes, *rest], known))


def _flat_places(p: Places[T], first: T, levels: Sequence[Level[T]], sizes: Sequence[T]) -> T:
    """The row-major position of each value; -1 for one that is cut off."""
    none = p.number(-1)
    flat = p.counting(first)
    flat = p.choose(p.binary("less", flat, sizes[0]), flat, none)
    for level, size in zip(levels, sizes[1:], strict=True):
        parent = p.gathered(flat, level.row)
        inside = p.binary("both", p.binary("less", none, parent), p.binary("less", level.place, size))
        flat = p.choose(inside, p.binary("add", p.binary("mul", parent, size), level.place), none)
    return flat


def _laid_out(p: Places[T], values: T, places: T, total: T, default: T) -> T:
    """Rows at their places among `total`, the default elsewhere; those at -1 are left out."""
    kept = p.where(p.binary("less", p.number(-1), places))
    values, places = p.gathered(values, kept), p.gathered(places, kept)
    y = p.put(values, places, total)
    if default.is_constant and not np.any(np.asarray(default.array())):
        return y
    is_set = p.binary("less", p.number(0), p.sum_of_ones(places, total))
    return p.choose(p.reshaped(is_set, (None, *(1,) * (len(shape_of(values)) - 1))), y, default)


def to_sparse(p: Places[T], nested: Sequence[T], values: T) -> tuple[T, T, T]:
    """(indices, values, shape) of RaggedTensorToSparse."""
    shape_of(values, "the values", 1)
    first, levels = levels_of(p, nested, ["ROW_SPLITS"] * len(nested))
    columns = [p.counting(first)]
    for level in levels:
        columns = [*(p.gathered(c, level.row) for c in columns), level.place]
    sizes = p.vector_of([first, *(longest(p, level) for level in levels)])
    return p.result(p.stacked(columns)), values, p.result(sizes, 2)


def gathered(p: Places[T], nested: Sequence[T], values: T, indices: T) -> tuple[T, ...]:
    """RaggedGather of a vector of rows: the splits of what is chosen, and its values."""
    rank = len(shape_of(indices, "the indices"))
    require(rank <= 1, f"RaggedGather of indices of rank {rank} has no form")
    chosen = p.reshaped(p.places(indices), (None,) if rank else (1,))
    found: list[Any] = []
    for splits in nested:
        splits = p.places(splits)
        starts = p.gathered(p.part(splits, 0, -1), chosen)
        lengths = p.binary("sub", p.gathered(p.part(splits, 1, None), chosen), starts)
        own = starting_with_zero(p, lengths)
        level = _by_splits(p, own)
        chosen = p.binary("add", p.gathered(starts, level.row), level.place)
        found.append(own)
    results = [p.result(s, n) for n, s in enumerate(found if rank else found[1:])]
    return (*results, p.result(p.gathered(values, chosen), len(results)))


def bins(p: Places[T], rows: T | None, count: T, values: T, size: T, weights: T, *, binary: bool) -> T:
    """How often each number below `size` occurs, or its sum of weights, by row -> [count, size].

    Args:
        rows: of each of the values [m]; None if there is one row.
        weights: one for each value, in any shape; none if empty.
    """
    size = p.reshaped(p.places(size), ())
    # What is too large goes into a bin that is left out.
    width = p.binary("add", size, p.number(1))
    places = p.places(p.binary("least", values, p.cast(size, values.dtype)))
    if rows is not None:
        places = p.binary("add", p.binary("mul", rows, width), places)
    total = p.binary("mul", count, width)
    if binary or 0 in (weights.shape or ()):
        y = p.sum_of_ones(places, total)
        y = p.binary("least", y, p.number(1)) if binary else y
        y = p.cast(y, weights.dtype)
    else:
        known = weights.shape is not None and None not in weights.shape
        require(known, "it is not known if there are weights")
        y = p.added_up(p.reshaped(weights, (None,)), places, total)
    return _without_last(p, y, count, width, size)


def _without_last(p: Places[T], y: T, count: T, width: T, size: T) -> T:
    """[count * width] as [count, width], without the last column."""
    known = p.b.elements(size)
    bins_known = known[0] if known else None
    whole = p.shaped(y, [count, width], (None, None if bins_known is None else bins_known + 1))
    return p.part(whole, 0, -1, 1)


def counted(p: Places[T], x: T, size: T, weights: T, *, binary: bool) -> T:
    """DenseBincount of values [n], or of each row of [b,n]."""
    shape = shape_of(x, "the values")
    require(len(shape) in (1, 2), f"values of rank {len(shape)} are not counted")
    if len(shape) == 1:
        y = bins(p, None, p.number(1), x, size, weights, binary=binary)
        return p.result(p.reshaped(y, (None,)))
    rows, width = p.size(x), p.size(x, 1)
    each = p.shaped(p.counting(rows), [rows, p.number(1)], (shape[0], 1))
    places = p.shaped(p.filled(p.binary("mul", rows, width), p.number(0)), [rows, width], shape)
    row = p.reshaped(p.binary("add", places, each), (None,))
    y = bins(p, row, rows, p.reshaped(x, (None,)), size, weights, binary=binary)
    return p.result(y)


def counted_by_row(p: Places[T], splits: T, values: T, size: T, weights: T, *, binary: bool) -> T:
    """RaggedBincount."""
    splits = p.places(splits)
    row = rows_of(p, splits, p.size(values))
    count = p.binary("sub", p.size(splits), p.number(1))
    return p.result(bins(p, row, count, values, size, weights, binary=binary))


def filled(p: Places[T], rows: T, values: T, count: T, default: T) -> tuple[T, ...]:
    """The four results of RaggedFillEmptyRows."""
    count = p.reshaped(p.places(count), ())
    found, every, is_empty, went = rows_filled(p, [rows], values, count, default)
    return p.result(found[0]), p.result(every, 1), p.result(is_empty, 2), p.result(went, 3)


def counted_of_sparse(
    p: Places[T], indices: T, values: T, shape: T, size: T, weights: T, *, binary: bool
) -> T:
    """SparseBincount: of a vector, or of each row of a matrix."""
    rank = shape_of(indices, "the indices", 2)[1]
    require(rank in (1, 2), f"sparse tensors of rank {rank} are not counted")
    if rank == 1:
        y = bins(p, None, p.number(1), values, size, weights, binary=binary)
        return p.result(p.reshaped(y, (None,)))
    row, count = p.places(p.column(indices, 0)), p.places(p.element(shape, 0))
    return p.result(bins(p, row, count, values, size, weights, binary=binary))
