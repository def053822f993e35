"""Histograms and counts of each number in dense, sparse and ragged tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import INT32, INT64, DType, TensorSpec
from thinflow.ops._numeric import quiet
from thinflow.ops._shapes import scalar, shape_from
from thinflow.ops.ragged import checked
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.sparse import _places
from thinflow.ops.traits import Role
from thinflow.typing import Array

Rows = Sequence[tuple[list[int], list[Any]]]
# A model may ask for any size; beyond this it is refused before memory is taken.
MAX_BINS = 1 << 28


def require_bins(size: int, count: int) -> None:
    """Refuses so many rows of so many bins before memory is taken for them."""
    require(size >= 0, f"size is {size}, at least 0 is needed")
    require(count * size <= MAX_BINS, f"{count} x {size} bins are asked for")


def _bins(rows: Array, values: Array, weights: Array, count: int, size: int, binary: bool) -> Array:
    """[count, size] sums of weights (or ones) by row and value; values from `size` on do not count."""
    require_bins(size, count)
    require(bool((values >= 0).all()), "a value is negative")
    require(weights.size in (0, values.size), f"{weights.size} weights for {values.size} values")
    y = np.zeros((count, size), weights.dtype)
    kept = values < size
    rows, values = rows[kept], values[kept]
    if binary:
        y[rows, values] = 1
    else:
        # add.at, as += would count a place that occurs twice only once.
        np.add.at(y, (rows, values), weights.ravel()[kept] if weights.size else np.ones(1, y.dtype))
    return y


def _vector_bins(values: Array, size: int, weights: Array, binary: bool) -> Array:
    """[size], as `_bins` of a single row."""
    totals: Array = _bins(np.zeros_like(values), values, weights, 1, size, binary)[0]
    return totals


@op("SparseBincount")
class SparseBincount(OpDef):
    """y[v] (or y[row, v]) = sum of the weights of the stored values v; without weights their number.

    indices [m,1] or [m,2], values [m], shape, size [], weights [m] or [0] -> [size] or [rows, size].
    """

    @staticmethod
    def infer(
        indices: TensorSpec, values: TensorSpec, shape: TensorSpec, size: TensorSpec, weights: TensorSpec
    ) -> TensorSpec:
        dims = shape_from(shape)
        if dims is None:
            return TensorSpec(weights.dtype)
        return TensorSpec(weights.dtype, (*dims[:-1], scalar(size)))

    @staticmethod
    def kernel(
        indices: Array,
        values: Array,
        shape: Array,
        size: Array,
        weights: Array,
        *,
        binary_output: bool = False,
    ) -> Array:
        require(shape.size in (1, 2), f"the rank is {shape.size}, not 1 or 2")
        _places(indices, shape)
        matrix = shape.size == 2
        rows = indices[:, 0] if matrix else np.zeros(len(values), np.int64)
        y = _bins(rows, values, weights, int(shape[0]) if matrix else 1, int(size), binary_output)
        return y if matrix else y[0]


@op("RaggedBincount")
class RaggedBincount(OpDef):
    """As SparseBincount for a ragged matrix.   splits [n+1], values [m], size [], weights -> [n, size]."""

    roles = (Role.SPLITS,)

    @staticmethod
    def infer(splits: TensorSpec, values: TensorSpec, size: TensorSpec, weights: TensorSpec) -> TensorSpec:
        count = splits.shape[0] if splits.shape else None
        return TensorSpec(weights.dtype, (None if count is None else count - 1, scalar(size)))

    @staticmethod
    def kernel(
        splits: Array, values: Array, size: Array, weights: Array, *, binary_output: bool = False
    ) -> Array:
        lengths = np.diff(checked(splits, len(values)))
        rows = np.repeat(np.arange(len(lengths)), lengths)
        return _bins(rows, values, weights, len(lengths), int(size), binary_output)


class _Counted(OpDef):
    num_outputs = 3


def _sparse_spec(weights: TensorSpec, rank: int | None) -> tuple[TensorSpec, ...]:
    return TensorSpec(INT64, (None, rank)), TensorSpec(weights.dtype, (None,)), TensorSpec(INT64, (rank,))


def _counted(
    rows: Rows, element: np.dtype[Any], minlength: int, maxlength: int, binary: bool, flat: bool
) -> tuple[Array, Array, Array]:
    """Sparse counts of each row's values, in order."""
    places: list[tuple[int, ...]] = []
    counts: list[Any] = []
    largest = 0
    for row, (values, weights) in enumerate(rows):
        found: dict[int, Any] = {}
        for value, weight in zip(values, weights, strict=True):
            require(value >= 0, "a value is negative")
            if maxlength > 0 and value >= maxlength:
                continue
            found[value] = element.type(1) if binary else found.get(value, element.type(0)) + weight
            largest = max(largest, value)
        places += [(value,) if flat else (row, value) for value in sorted(found)]
        counts += [found[value] for value in sorted(found)]
    # A maximum fixes the width; without one the largest number does, but it is never below minlength.
    width = maxlength if maxlength > 0 else max(largest + 1, minlength)
    shape = [width] if flat else [len(rows), width]
    indices = np.array(places, np.int64).reshape(len(places), len(shape))
    return indices, np.array(counts, element), np.array(shape, np.int64)


def _weighted(weights: Array, count: int) -> list[Any]:
    require(weights.size in (0, count), f"{weights.size} weights for {count} values")
    return list(weights.ravel()) if weights.size else [weights.dtype.type(1)] * count


@op("DenseCountSparseOutput")
class DenseCountSparseOutput(_Counted):
    """How often each number occurs in values [n] or each row of [b,n], or its sum of weights; sparse."""

    @staticmethod
    def infer(values: TensorSpec, weights: TensorSpec) -> tuple[TensorSpec, ...]:
        return _sparse_spec(weights, values.rank)

    @staticmethod
    def kernel(
        values: Array, weights: Array, *, minlength: int = -1, maxlength: int = -1, binary_output: bool
    ) -> tuple[Array, ...]:
        require(values.ndim in (1, 2), f"values of rank {values.ndim}")
        each = np.atleast_2d(values)
        given = _weighted(weights, values.size)
        width = each.shape[1]
        # A vector is one row; its result has no axis of rows, which `flat` says.
        rows = [(row.tolist(), given[i * width : (i + 1) * width]) for i, row in enumerate(each)]
        return _counted(rows, weights.dtype, minlength, maxlength, binary_output, values.ndim == 1)


def _split_rows(values: list[int], weights: list[Any], rows: Iterable[int], count: int) -> Rows:
    found: list[tuple[list[int], list[Any]]] = [([], []) for _ in range(count)]
    for row, value, weight in zip(rows, values, weights, strict=True):
        found[row][0].append(value)
        found[row][1].append(weight)
    return found


@op("SparseCountSparseOutput")
class SparseCountSparseOutput(_Counted):
    """As DenseCountSparseOutput, of the values that a sparse tensor stores."""

    @staticmethod
    def infer(
        indices: TensorSpec, values: TensorSpec, shape: TensorSpec, weights: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        return _sparse_spec(weights, shape.shape[0] if shape.shape else None)

    @staticmethod
    def kernel(
        indices: Array,
        values: Array,
        shape: Array,
        weights: Array,
        *,
        minlength: int = -1,
        maxlength: int = -1,
        binary_output: bool,
    ) -> tuple[Array, ...]:
        _places(indices, shape)
        flat = shape.size == 1
        count = 1 if flat else int(shape[0])
        require(count <= MAX_BINS, f"{count} rows are asked for")
        places = [0] * len(values) if flat else indices[:, 0].tolist()
        rows = _split_rows(values.tolist(), _weighted(weights, values.size), places, count)
        return _counted(rows, weights.dtype, minlength, maxlength, binary_output, flat)


@op("RaggedCountSparseOutput")
class RaggedCountSparseOutput(_Counted):
    """As DenseCountSparseOutput, of the rows of a ragged matrix.   splits [n+1], values [m]."""

    roles = (Role.SPLITS,)

    @staticmethod
    def infer(splits: TensorSpec, values: TensorSpec, weights: TensorSpec) -> tuple[TensorSpec, ...]:
        return _sparse_spec(weights, 2)

    @staticmethod
    def kernel(
        splits: Array,
        values: Array,
        weights: Array,
        *,
        minlength: int = -1,
        maxlength: int = -1,
        binary_output: bool,
    ) -> tuple[Array, ...]:
        lengths = np.diff(checked(splits, len(values)))
        places = np.repeat(np.arange(len(lengths)), lengths).tolist()
        rows = _split_rows(values.tolist(), _weighted(weights, values.size), places, len(lengths))
        return _counted(rows, weights.dtype, minlength, maxlength, binary_output, False)


# ---- Counting how often values occur.


@op("Bincount")
class Bincount(OpDef):
    """y[v] = number of elements of x equal to v, or the sum of their weights.

    size scalar -> y [size], weights' type.

    weights: x's shape, or empty. Values of size and above are left out, negative ones are an error.
    """

    @staticmethod
    def infer(x: TensorSpec, size: TensorSpec, weights: TensorSpec) -> TensorSpec:
        return weights.with_shape((scalar(size),))

    @staticmethod
    def kernel(x: Array, size: Array, weights: Array) -> Array:
        return _vector_bins(x.reshape(-1), int(size), weights, binary=False)


@op("DenseBincount")
class DenseBincount(OpDef):
    """As Bincount, row by row for a matrix.

    x [n] -> y [size], x [m,n] -> y [m,size]; binary_output: 1 if present.
    """

    @staticmethod
    def infer(x: TensorSpec, size: TensorSpec, weights: TensorSpec) -> TensorSpec:
        if x.shape is None:
            return weights.with_shape(None)
        require(len(x.shape) <= 2, f"x has rank {len(x.shape)}, at most 2 is possible")
        return weights.with_shape((*x.shape[:-1], scalar(size)) if x.shape else (scalar(size),))

    @staticmethod
    def kernel(x: Array, size: Array, weights: Array, *, binary_output: bool = False) -> Array:
        require_bins(int(size), len(x) if x.ndim > 1 else 1)
        if x.ndim < 2:
            return _vector_bins(x.reshape(-1), int(size), weights, binary_output)
        per_row = weights if weights.size else [weights] * len(x)
        rows = [_vector_bins(row, int(size), w, binary_output) for row, w in zip(x, per_row, strict=True)]
        return np.array(rows, weights.dtype).reshape(len(x), int(size))


@op("HistogramFixedWidth")
class HistogramFixedWidth(OpDef):
    """y[i] = number of values in the i-th of nbins equal parts of value_range [low, high].

    What lies outside counts for the part at that end.
    """

    @staticmethod
    def infer(
        x: TensorSpec, value_range: TensorSpec, nbins: TensorSpec, *, dtype: DType = INT32
    ) -> TensorSpec:
        return TensorSpec(dtype, (scalar(nbins),))

    @staticmethod
    @quiet
    def kernel(x: Array, value_range: Array, nbins: Array, *, dtype: DType = INT32) -> Array:
        low, high = (float(v) for v in value_range)
        count = int(nbins)
        require(low < high, f"value_range [{low:g}, {high:g}] is empty")
        require(count > 0, f"nbins is {count}, at least 1 is needed")
        require_bins(count, 1)
        # In double, as TensorFlow's kernel; what lies outside is clipped to the outermost parts.
        step = (high - low) / count
        places = np.clip(np.floor((x.reshape(-1).astype(np.float64) - low) / step), 0, count - 1)
        return np.bincount(places.astype(np.int64), minlength=count).astype(dtype.numpy())


@op("Bucketize")
class Bucketize(OpDef):
    """y = how many boundaries (sorted) are at most x, int32.   y like x."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(INT32, x.shape)

    @staticmethod
    def kernel(x: Array, *, boundaries: tuple[float, ...]) -> Array:
        # The attribute is a list of float32, whatever the type of x.
        edges = np.asarray(boundaries, np.float32)
        require(bool(np.all(edges[1:] >= edges[:-1])), "boundaries are not sorted")
        return np.asarray(np.searchsorted(edges, x, side="right")).astype(np.int32)
