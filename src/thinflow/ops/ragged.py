"""Ragged tensors: rows of different lengths, as values and where each row starts (row splits).

values [m,...], splits [n+1] for n rows; several splits nest, the outermost first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import BOOL, INT64, DType, TensorSpec
from thinflow.ops._shapes import scalar, shape_from
from thinflow.ops.gather import _check_indices
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Role
from thinflow.typing import Array

_VECTOR = (None,)


def checked(splits: Array, count: int, what: str = "splits") -> Array:
    """The splits, which must rise from 0 to the number of values."""
    fits = splits.ndim == 1 and splits.size > 0 and splits[0] == 0 and splits[-1] == count
    require(bool(fits and (np.diff(splits) >= 0).all()), f"the {what} do not fit {count} values")
    return splits


def checked_all(nested: Sequence[Array], count: int) -> None:
    """Each level of splits must fit the number of rows of the next one."""
    sizes = [len(s) - 1 for s in nested[1:]] + [count]
    for splits, size in zip(nested, sizes, strict=True):
        checked(splits, size)


def spans(starts: Array, lengths: Array) -> Array:
    """start, start+1, ... for each length, one after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    # Counting restarts at each row: what came before it is taken off, and its own start added, without a
    # loop.
    return np.asarray(np.arange(total) - np.repeat(ends - lengths, lengths) + np.repeat(starts, lengths))


@op("RaggedTensorToSparse")
class RaggedTensorToSparse(OpDef):
    """A sparse tensor of the same values.   RAGGED_RANK splits, values [m,...] -> indices, values, shape."""

    roles = (Role.SPLITS,)
    num_outputs = 3

    @staticmethod
    def infer(*inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        values = inputs[-1]
        rank = None if values.rank is None else len(inputs) - 1 + values.rank
        count = values.size if values.rank else None
        return (
            TensorSpec(INT64, (count, rank)),
            TensorSpec(values.dtype, (count,)),
            TensorSpec(INT64, (rank,)),
        )

    @staticmethod
    def kernel(*inputs: Array) -> tuple[Array, Array, Array]:
        *nested, values = inputs
        require(bool(nested), "there are no row splits")
        checked_all(nested, len(values))
        # One row of coordinates for each item of the level that is reached; each level adds a column.
        places = np.arange(len(nested[0]) - 1)[:, None]
        sizes = [len(nested[0]) - 1]
        for splits in nested:
            lengths = np.diff(splits)
            sizes.append(int(lengths.max(initial=0)))
            within = spans(np.zeros_like(lengths), lengths)
            places = np.concatenate([np.repeat(places, lengths, 0), within[:, None]], 1)
        inner = values.shape[1:]
        # The values' own axes, which are even, come last.
        if inner:
            grid = np.indices(inner).reshape(len(inner), -1).T
            repeated = np.repeat(places, len(grid), 0)
            places = np.concatenate([repeated, np.tile(grid, (len(places), 1))], 1)
        shape = np.array([*sizes, *inner], np.int64)
        return places.astype(np.int64), values.reshape(-1), shape


@op("RaggedRange")
class RaggedRange(OpDef):
    """(splits, values) of start, start+delta, ... below limit for each row; scalars count for every row."""

    num_outputs = 2

    @staticmethod
    def infer(
        starts: TensorSpec, limits: TensorSpec, deltas: TensorSpec, *, Tsplits: DType = INT64
    ) -> tuple[TensorSpec, TensorSpec]:
        known = [s.shape for s in (starts, limits, deltas) if s.shape]
        unknown = any(s.shape is None for s in (starts, limits, deltas))
        count = next((s[0] for s in known if s[0] is not None), None if known or unknown else 1)
        return TensorSpec(Tsplits, (None if count is None else count + 1,)), TensorSpec(starts.dtype, _VECTOR)

    @staticmethod
    def kernel(starts: Array, limits: Array, deltas: Array, *, Tsplits: DType = INT64) -> tuple[Array, Array]:
        sizes = {x.size for x in (starts, limits, deltas) if x.ndim}
        require(len(sizes) <= 1, f"starts, limits and deltas differ in length: {sorted(sizes)}")
        require(bool((deltas != 0).all()), "a delta is 0")
        rows = np.broadcast_arrays(*(np.atleast_1d(x) for x in (starts, limits, deltas)))
        kind = starts.dtype
        parts: list[Array] = []
        for first, limit, step in zip(*rows, strict=True):
            parts.append(_range(first, limit, step))
        ends = np.cumsum([0, *(len(p) for p in parts)])
        return ends.astype(Tsplits.numpy()), np.concatenate([np.zeros(0, kind), *parts])


# A tiny delta would ask for any amount of memory.
MAX_RANGE = 1 << 28


def _range(first: Any, limit: Any, step: Any) -> Array:
    if (step > 0 and first >= limit) or (step < 0 and first <= limit):
        return np.zeros(0, first.dtype)
    if first.dtype.kind in "iu":
        count = len(range(int(first), int(limit), int(step)))
    else:
        count = int(np.ceil(np.abs((limit - first) / step)))  # rounded as the type does
    require(count <= MAX_RANGE, f"a row would have {count} values")
    y = np.empty(count, first.dtype)
    value = first
    for index in range(count):  # adding up rounds as TensorFlow does
        y[index] = value
        value = first.dtype.type(value + step)
    return y


@op("RaggedGather")
class RaggedGather(OpDef):
    """Rows of a ragged tensor.   PARAMS_RAGGED_RANK splits, values, indices -> all splits, values."""

    roles = (Role.SPLITS,)
    num_outputs = ""

    @staticmethod
    def infer(*inputs: TensorSpec, OUTPUT_RAGGED_RANK: int) -> tuple[TensorSpec, ...]:
        values = inputs[-2]
        rest = None if values.shape is None else (None, *values.shape[1:])
        return (
            *(TensorSpec(inputs[0].dtype, _VECTOR) for _ in range(OUTPUT_RAGGED_RANK)),
            TensorSpec(values.dtype, rest),
        )

    @staticmethod
    def kernel(*inputs: Array, OUTPUT_RAGGED_RANK: int) -> tuple[Array, ...]:
        *nested, values, indices = inputs
        require(bool(nested), "there are no row splits")
        checked_all(nested, len(values))
        _check_indices(indices, len(nested[0]) - 1)
        outer: list[Array] = []
        for axis in range(1, indices.ndim):  # the axes of indices are ragged in name only
            count, width = int(np.prod(indices.shape[:axis])), indices.shape[axis]
            outer.append(np.arange(count + 1) * width)
        chosen = indices.ravel()
        inner: list[Array] = []
        for splits in nested:
            lengths = np.diff(splits)[chosen]
            inner.append(np.concatenate([[0], np.cumsum(lengths)]))
            chosen = spans(splits[:-1][chosen], lengths)
        found = (*(s.astype(nested[0].dtype) for s in (*outer, *inner)), values[chosen])
        require(len(found) == OUTPUT_RAGGED_RANK + 1, f"the result has {len(found) - 1} levels of rows")
        return found


@op("RaggedTensorToTensor")
class RaggedTensorToTensor(OpDef):
    """A dense tensor, rows cut to its shape or filled up with the default.

    shape [r] or [] (-1: as needed), values [m,...], default, then partitions of rows from the outside:
    ROW_SPLITS, VALUE_ROWIDS (behind a FIRST_DIM_SIZE) as row_partition_types says.
    """

    roles = (None, None, None, *[Role.SPLITS] * 8)

    @staticmethod
    def infer(
        shape: TensorSpec, values: TensorSpec, *rest: TensorSpec, row_partition_types: tuple[str, ...]
    ) -> TensorSpec:
        dims = shape_from(shape) if shape.shape is not None and len(shape.shape) == 1 else None
        levels = len([t for t in row_partition_types if t != "FIRST_DIM_SIZE"])
        if dims is None:
            inner = None if values.shape is None else (None,) * (levels + 1) + values.shape[1:]
            return TensorSpec(values.dtype, inner)
        if values.shape is not None and len(dims) == levels + len(values.shape):
            known = zip(dims[levels + 1 :], values.shape[1:], strict=True)
            dims = (*dims[: levels + 1], *(a if a is not None else b for a, b in known))
        return TensorSpec(values.dtype, dims)

    @staticmethod
    def kernel(
        shape: Array, values: Array, default: Array, *partitions: Array, row_partition_types: tuple[str, ...]
    ) -> Array:
        count, levels = _partitioned(partitions, row_partition_types)
        sizes = [count]
        # Without a shape each axis is as long as its longest row.
        for place, rows, _ in levels:
            sizes.append(int(place.max(initial=-1)) + 1 if len(rows) else 0)
        inner = values.shape[1:]
        wanted = shape.tolist() if shape.ndim else [-1] * (len(sizes) + len(inner))
        require(
            len(wanted) == len(sizes) + len(inner),
            f"the shape has rank {len(wanted)}, not {len(sizes) + len(inner)}",
        )
        for asked, size in zip(wanted[len(sizes) :], inner, strict=True):
            require(asked in (-1, size), f"the inner size is {size}, not {asked}")
        dims = [own if asked < 0 else asked for asked, own in zip(wanted, sizes, strict=False)]
        require(
            int(np.prod([*dims, *inner], dtype=np.float64)) <= 1 << 31, f"a tensor of {dims} is too large"
        )
        flat = np.arange(count)
        # From here on `flat` is the row-major place of each item in the result, level by level, -1 for what
        # is cut off; children of a cut row are cut with it.
        flat = np.where(flat < dims[0], flat, -1)
        for (place, rows, _), size in zip(levels, dims[1:], strict=True):
            require(bool((rows < len(flat)).all()), "a row number is beyond the rows")
            parent = flat[rows]
            flat = np.where((parent >= 0) & (place < size), parent * size + place, -1)
        require(len(flat) == len(values), f"the partitions have {len(flat)} values, there are {len(values)}")
        y = np.empty((int(np.prod(dims)), *inner), values.dtype)
        y[...] = np.broadcast_to(default, y.shape)
        y[flat[flat >= 0]] = values[flat >= 0]
        return y.reshape(*dims, *inner)


_Level = tuple[Array, Array, int]


def _partitioned(partitions: Sequence[Array], kinds: Sequence[str]) -> tuple[int, list[_Level]]:
    """The number of rows; for each level the place in its row and the row of each item, and their number."""
    require(len(partitions) == len(kinds), f"{len(partitions)} partitions of {len(kinds)} kinds")
    levels: list[_Level] = []
    count = -1
    for partition, kind in zip(partitions, kinds, strict=True):
        # Row numbers do not tell of empty rows at the end, so VALUE_ROWIDS needs the count beside it.
        if kind == "FIRST_DIM_SIZE":
            require(partition.ndim == 0 and int(partition) >= 0, "the first size must be a scalar")
            count = int(partition)
            continue
        if kind == "ROW_SPLITS":
            lengths = np.diff(checked(partition, int(partition[-1]) if partition.size else -1))
            rows = np.repeat(np.arange(len(lengths)), lengths)
            count = len(lengths) if count < 0 else count
        else:
            require(kind == "VALUE_ROWIDS", f"partitions of kind {kind} are not known")
            rows = partition.astype(np.int64)
            require(bool((np.diff(rows) >= 0).all() and (rows >= 0).all()), "the row numbers go back")
        # The place in its row is the distance to the first item with the same row number.
        first = np.searchsorted(rows, rows, side="left")
        levels.append((np.arange(len(rows)) - first, rows, len(rows)))
    require(count >= 0, "nothing says how many rows there are")
    return count, levels


@op("RaggedFillEmptyRows")
class RaggedFillEmptyRows(OpDef):
    """(row of each value, values, whether rows were empty, where values went) with a default in empty rows.

    rows int64 [m] in order, values [m], nrows [], default [] -> [k], [k], bool [nrows], int64 [m].
    """

    num_outputs = 4

    @staticmethod
    def infer(
        rows: TensorSpec, values: TensorSpec, nrows: TensorSpec, default: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        return (
            TensorSpec(INT64, _VECTOR),
            TensorSpec(values.dtype, _VECTOR),
            TensorSpec(BOOL, (scalar(nrows),)),
            TensorSpec(INT64, rows.shape if rows.shape is not None else _VECTOR),
        )

    @staticmethod
    def kernel(rows: Array, values: Array, nrows: Array, default: Array) -> tuple[Array, ...]:
        count = int(nrows)
        require(0 <= count <= 1 << 31, f"there cannot be {count} rows")
        _check_indices(rows, count)
        empty = np.ones(count, bool)
        empty[rows] = False
        # The defaults stand at the end; a stable sort brings each to its row.
        every = np.concatenate([rows, np.flatnonzero(empty)])
        order = np.argsort(every, kind="stable")
        filler = np.empty(int(empty.sum()), values.dtype)
        filler[...] = default
        # The inverse of the order; its beginning says where the given values are now.
        went = np.empty(len(every), np.int64)
        went[order] = np.arange(len(every))
        return every[order], np.concatenate([values, filler])[order], empty, went[: len(rows)]
