"""Counting how often values occur."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT32, DType, TensorSpec
from thinflow.ops._elements import scalar
from thinflow.ops._numeric import quiet
from thinflow.ops.counting import MAX_BINS
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


def require_bins(size: int, count: int) -> None:
    """Refuses so many rows of so many bins before memory is taken for them."""
    require(size >= 0, f"size is {size}, at least 0 is needed")
    require(count * size <= MAX_BINS, f"{count} x {size} bins are asked for")


def _bins(values: Array, size: int, weights: Array, binary: bool) -> Array:
    """Total weight (or count) of each value 0..size-1 in a vector; larger values are left out."""
    require_bins(size, 1)
    require(bool(np.all(values >= 0)), "a value to count is negative")
    inside = values < size
    result = np.zeros(size, weights.dtype)
    if binary:
        result[values[inside]] = 1
    elif weights.size:
        require(weights.size == values.size, f"{weights.size} weights for {values.size} values")
        np.add.at(result, values[inside], weights.reshape(-1)[inside])
    else:
        np.add.at(result, values[inside], weights.dtype.type(1))
    return result


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
        return _bins(x.reshape(-1), int(size), weights, binary=False)


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
            return _bins(x.reshape(-1), int(size), weights, binary_output)
        per_row = weights if weights.size else [weights] * len(x)
        rows = [_bins(row, int(size), w, binary_output) for row, w in zip(x, per_row, strict=True)]
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
