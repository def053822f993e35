"""Ragged tensors, by index arithmetic: values [m,...] and the start of each row (row splits [n+1])."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from thinflow.decompose.index_ops import (
    arange,
    as_index,
    bincount,
    columns_of,
    cumsum,
    fill,
    index_constant,
    index_vector,
    last_of,
    nonzero,
    reduce_max,
    reshape_to,
    result,
    scatter,
    segment_sum,
    size_of,
)
from thinflow.decompose.rules import decompose
from thinflow.decompose.sparse import rows_filled
from thinflow.decompose.terms import Term, concat, refuse_unless, stack, where
from thinflow.ir.types import DOUBLE, INT32, DType

_MOST_COMPARED = 1 << 16
"""Values times bins up to which comparing all with all, four operators, is less work than scattering."""


def _rows_of(splits: Term, count: Term) -> Term:
    """The row of each of `count` values."""
    # One more row begins at each inner split; those at the end begin rows without values.
    # A split equal to `count` begins a row behind the last value: it needs a place, which is cut off below.
    begun = bincount(splits.cut(0, 1, -1), count + 1)
    return cumsum(begun.cut(0, 0, -1))


@dataclass
class _Level:
    """The rows that one partition makes: of each value its row, and its index there."""

    row: Term
    place: Term
    count: Term

    @property
    def longest(self) -> Term:
        """The number of elements of the longest row, []."""
        # -1 for no values at all: the longest of no rows has 0 elements.
        return reduce_max(concat([index_vector(self.row.body, [-1]), self.place], 0)) + 1


def _levels_of(partitions: Sequence[Term], kinds: Sequence[str]) -> tuple[Term, list[_Level]]:
    """The number of rows, and the levels from the outside."""
    refuse_unless(len(partitions) == len(kinds), f"{len(partitions)} partitions of {len(kinds)} kinds")
    levels: list[_Level] = []
    counts: list[Term] = []  # of rows, then of the items of each level
    for partition, kind in zip(map(as_index, partitions), kinds, strict=True):
        if kind == "FIRST_DIM_SIZE":
            counts.append(partition.reshape([]))
        elif kind == "ROW_SPLITS":
            # Splits are one more than rows.
            counts = counts or [size_of(partition) - 1]
            levels.append(_by_splits(partition))
            counts.append(levels[-1].count)
        else:
            refuse_unless(kind == "VALUE_ROWIDS", f"partitions of kind {kind} are not known")
            refuse_unless(bool(counts), "nothing says how many rows there are")
            levels.append(_by_rows(partition, counts[-1]))
            counts.append(levels[-1].count)
    refuse_unless(bool(levels), "there are no partitions")
    return counts[0], levels


def _by_splits(splits: Term) -> _Level:
    count = last_of(splits)
    row = _rows_of(splits, count)
    # The index in its row: the number of the value less that of the first one there.
    return _Level(row, arange(count) - splits.gather(row), count)


def _by_rows(row: Term, rows: Term) -> _Level:
    count = size_of(row)
    starts = cumsum(bincount(row, rows), exclusive=True)
    return _Level(row, arange(count) - starts.gather(row), count)


@decompose("RaggedTensorToTensor")
def ragged_tensor_to_tensor(
    shape: Term, values: Term, default: Term, *partitions: Term, row_partition_types: Sequence[str]
) -> Term:
    """Rows cut to a fixed shape (-1: as needed), filled up with the default."""
    inner = values.shape[1:]
    first, levels = _levels_of(partitions, row_partition_types)
    asked = shape.ints("the shape") if shape.shape else []
    rank = len(levels) + 1 + len(inner)
    refuse_unless(len(asked) in (0, rank), f"the shape has {len(asked)} sizes")
    refuse_unless(all(n >= -1 for n in asked), f"the shape is {asked}")
    wanted = asked or [-1] * rank
    fits = all(n in (-1, own) for n, own in zip(wanted[len(levels) + 1 :], inner, strict=True))
    refuse_unless(fits, f"the inner sizes are {list(inner)}, not those of {asked}")
    body = values.body
    sizes = [first if wanted[0] < 0 else index_constant(body, wanted[0])]
    for n, level in zip(wanted[1:], levels, strict=False):
        sizes.append(level.longest if n < 0 else index_constant(body, n))
    total = sizes[0]
    for count in sizes[1:]:
        total = total * count
    y = _laid_out(values, _flat_places(first, levels, sizes), total, default)
    return reshape_to(y, [*sizes, *(size_of(values, 1 + a) for a in range(len(inner)))])


def _flat_places(first: Term, levels: Sequence[_Level], sizes: Sequence[Term]) -> Term:
    """The row-major position of each value; -1 for one that is cut off."""
    flat = arange(first)
    flat = where(flat < sizes[0], flat, -1)
    # What was cut off on an outer level stays so: its -1 must not be multiplied.
    for level, count in zip(levels, sizes[1:], strict=True):
        parent = flat.gather(level.row)
        is_inside = (parent > -1) & (level.place < count)
        flat = where(is_inside, parent * count + level.place, -1)
    return flat


def _laid_out(values: Term, at: Term, total: Term, default: Term) -> Term:
    """Rows at their indices among `total`, the default elsewhere; those at -1 are left out."""
    # Scattering fails on indices outside, so values that are cut off go first.
    kept = nonzero(at > -1)
    values, at = values.gather(kept), at.gather(kept)
    y = scatter(values, at, total)
    if default.is_all(0):
        return y
    # Only indices without a value get the default; a value may be 0.
    is_set = bincount(at, total) > 0
    return where(is_set.reshape([-1, *(1,) * (len(values.shape) - 1)]), y, default)


@decompose("RaggedTensorToSparse")
def ragged_tensor_to_sparse(*inputs: Term) -> tuple[Term, Term, Term]:
    *nested, values = inputs
    refuse_unless(len(values.shape) == 1, "its values are not numbers but rows")
    first, levels = _levels_of(nested, ["ROW_SPLITS"] * len(nested))
    columns = [arange(first)]
    for level in levels:
        columns = [*(c.gather(level.row) for c in columns), level.place]
    sizes = stack([first, *(level.longest for level in levels)], 0)
    return result(stack(columns, 1)), values, result(sizes, 2)


@decompose("RaggedGather")
def ragged_gather(*inputs: Term) -> tuple[Term, ...]:
    """The splits of what is chosen, and its values."""
    *nested, values, indices = inputs
    rank = len(indices.shape)
    refuse_unless(rank <= 1, f"RaggedGather of indices of rank {rank} has no form")
    chosen = as_index(indices).reshape([-1] if rank else [1])
    found: list[Term] = []
    for splits in map(as_index, nested):
        starts = splits.cut(0, 0, -1).gather(chosen)
        lengths = splits.cut(0, 1, None).gather(chosen) - starts
        own = concat([index_vector(splits.body, [0]), cumsum(lengths)], 0)
        level = _by_splits(own)
        # The rows of the next level: those that lie within the chosen rows of this one.
        chosen = starts.gather(level.row) + level.place
        found.append(own)
    results = [result(s, n) for n, s in enumerate(found if rank else found[1:])]
    return (*results, values.gather(chosen))


@decompose("RaggedFillEmptyRows")
def ragged_fill_empty_rows(rows: Term, values: Term, count: Term, default: Term) -> tuple[Term, ...]:
    found, every, is_empty, went = rows_filled([rows], values, as_index(count).reshape([]), default)
    return result(found[0]), every, is_empty, result(went, 3)


# --- counting -----------------------------------------------------------------------------------------------


def _bins(rows: Term | None, count: Term, values: Term, bins: Term, weights: Term, *, binary: bool) -> Term:
    """Counts of each number below `bins`, or sums of its weights, by row -> [count, bins].

    Args:
        rows: of each of the values [m]; None if there is one row.
        weights: one for each value, in any shape; none if empty.
    """
    bins = as_index(bins).reshape([])
    # What is too large goes into a bin that is left out.
    width = bins + 1
    at = as_index(values.minimum(bins.cast(values.dtype)))
    # Bins of all rows in one list: row-major.
    at = at if rows is None else rows * width + at
    total = count * width
    if binary or not _has_weights(weights):
        y = bincount(at, total)
        y = (y.minimum(1) if binary else y).cast(weights.dtype)
    else:
        y = segment_sum(weights.reshape([-1]), at, total)
    return reshape_to(y, [count, width]).cut(1, 0, -1)


def _has_weights(weights: Term) -> bool:
    """True if there is one for each value, and not an empty vector for none."""
    refuse_unless(weights.shape != (None,), "it is not known if there are weights")
    return 0 not in weights.shape


@decompose("Bincount", "DenseBincount")
def dense_bincount(x: Term, size_: Term, weights: Term, *, binary_output: bool = False) -> Term:
    """Of all values, or of each row of a matrix."""
    is_flat = x.body.op == "Bincount" or len(x.shape) == 1
    refuse_unless(is_flat or len(x.shape) == 2, f"values of rank {len(x.shape)} are not counted")
    static = None not in x.shape and None not in weights.shape
    alike = prod(n or 0 for n in x.shape) == prod(n or 0 for n in weights.shape)
    refuse_unless(alike or not static or not _has_weights(weights), "its weights are not like its values")
    if is_flat and len(x.shape) != 1:
        x = x.reshape([-1])
    if size_.known is not None and 0 < prod(_usual(n) for n in x.shape) * int(size_.known) <= _MOST_COMPARED:
        return _compared(x, int(size_.known), weights, binary=binary_output)
    one = index_constant(x.body, 1)
    if is_flat:
        return _bins(None, one, x, size_, weights, binary=binary_output).reshape([-1])
    rows, width = size_of(x), size_of(x, 1)
    # Each row's number for all of its values, by a sum with zeros.
    each = arange(rows).expand_dims(1) + reshape_to(fill(rows * width, one - 1), [rows, width])
    return _bins(each.reshape([-1]), rows, x.reshape([-1]), size_, weights, binary=binary_output)


def _usual(size: int | None) -> int:
    """A size, or what is expected of an open one."""
    return 256 if size is None else size


def _compared(x: Term, bins: int, weights: Term, *, binary: bool) -> Term:
    """Sums over a one-hot axis; what is in no bin counts for nothing."""
    hits = x.expand_dims(-1).equal(np.arange(bins))
    axis = len(x.shape) - 1
    if binary:
        return (hits.cast(x.body.index).sum(axis) > 0).cast(weights.dtype)
    if not _has_weights(weights):
        return hits.cast(x.body.index).sum(axis).cast(weights.dtype)
    weights = weights if len(weights.shape) == len(x.shape) else weights.reshape([-1])
    return (hits.cast(weights.dtype) * weights.expand_dims(-1)).sum(axis)


@decompose("HistogramFixedWidth")
def histogram(x: Term, limits: Term, bins: Term, *, dtype: DType = INT32) -> Term:
    """Values outside of the limits count in the first and the last bin."""
    (count,) = bins.ints("the number of bins")
    known = prod(n or 1 for n in x.shape)
    refuse_unless(0 < count * known < 1 << 26, f"{count} bins are too many")
    ends = limits.cast(DOUBLE)
    low, high = ends.at(0, 0), ends.at(0, 1)
    # In double as the kernel: in float32 values at the edges would fall into the neighbouring bin.
    step = (high - low) / float(count)
    at = ((x.reshape([-1]).cast(DOUBLE) - low) / step).apply("Floor").clip(0, count - 1)
    return as_index(at).expand_dims(1).equal(np.arange(count)).cast(x.body.index).sum(0).cast(dtype)


@decompose("RaggedBincount")
def ragged_bincount(
    splits: Term, values: Term, size_: Term, weights: Term, *, binary_output: bool = False
) -> Term:
    splits = as_index(splits)
    row = _rows_of(splits, size_of(values))
    return _bins(row, size_of(splits) - 1, values, size_, weights, binary=binary_output)


@decompose("SparseBincount")
def sparse_bincount(
    indices: Term, values: Term, shape: Term, size_: Term, weights: Term, *, binary_output: bool = False
) -> Term:
    """Of a vector, or of each row of a matrix."""
    columns = columns_of(indices)
    refuse_unless(len(columns) in (1, 2), f"sparse tensors of rank {len(columns)} are not counted")
    if len(columns) == 1:
        one = index_constant(values.body, 1)
        return _bins(None, one, values, size_, weights, binary=binary_output).reshape([-1])
    rows, count = as_index(columns[0]), as_index(shape.at(0, 0))
    return _bins(rows, count, values, size_, weights, binary=binary_output)
