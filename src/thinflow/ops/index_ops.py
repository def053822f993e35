"""Axes and places under another numbering, and tensors with some of their rows replaced."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import TensorSpec, shape_text
from thinflow.ops._shapes import rank_of, with_elements
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _moved(src: str, dst: str) -> list[int]:
    """For each axis of dst, where it is in src."""
    require(sorted(src) == sorted(dst), f"{src} and {dst} do not name the same axes")
    return [src.index(axis) for axis in dst]


@op("DataFormatDimMap")
class DataFormatDimMap(OpDef):
    """y = the numbers that axes of src_format have in dst_format.   x of any shape -> y like x."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Array:
        rank = len(src_format)
        require(bool(((x >= -rank) & (x < rank)).all()), f"an axis is out of range for {src_format}")
        # Axes may count from the end; the rest by the rank makes them count from the start.
        return np.asarray(np.array(_moved(dst_format, src_format), x.dtype)[x % rank])


@op("DataFormatVecPermute")
class DataFormatVecPermute(OpDef):
    """y = the rows of x, one per axis (or per spatial axis), in the order of dst_format.

    x [n] or [n,2] -> y like x.
    """

    @staticmethod
    def infer(x: TensorSpec, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> TensorSpec:
        result = x.with_shape(x.shape)
        # Sizes of which some may be open.
        if x.rank != 1 or x.elements is None or len(x.elements) != len(src_format):
            return result
        return with_elements(result, [x.elements[place] for place in _moved(src_format, dst_format)])

    @staticmethod
    def kernel(x: Array, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Array:
        require(x.ndim in {1, 2}, f"a vector or pairs are needed, not shape {shape_text(x.shape)}")
        # Only spatial values are given, such as sizes of a window: batch and channels drop out of both
        # formats.
        if len(x) == len(src_format) - 2:
            src_format, dst_format = (f.replace("N", "").replace("C", "") for f in (src_format, dst_format))
        require(len(x) == len(src_format), f"there are {len(x)} rows for the axes {src_format}")
        return x[_moved(src_format, dst_format)]


@op("UnravelIndex")
class UnravelIndex(OpDef):
    """y = coordinates of row-major positions.   x [] or [n], dims [r] -> y [r] or [r,n]."""

    @staticmethod
    def infer(x: TensorSpec, dims: TensorSpec) -> TensorSpec:
        (rank,) = rank_of(dims, 1, "dims")
        return x.with_shape(None if x.shape is None else (rank, *x.shape))

    @staticmethod
    def kernel(x: Array, dims: Array) -> Array:
        require(x.ndim <= 1, f"positions are a scalar or a vector, not of shape {shape_text(x.shape)}")
        inside = (x >= 0) & (x < np.prod(dims, dtype=np.int64))
        require(bool(inside.all()), f"a position lies outside the shape {dims.tolist()}")
        return np.array(np.unravel_index(x, dims.tolist()), x.dtype).reshape(dims.size, *x.shape)


class _Inplace(OpDef):
    """y = x with rows changed.   x [n,...], i [k], v [k,...] -> y like x."""

    @staticmethod
    def infer(x: TensorSpec, i: TensorSpec, v: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)


def _rows(x: Array, i: Array, v: Array) -> tuple[Array, Array]:
    """Row numbers [k] (they wrap around) and values [k,...]."""
    require(x.ndim >= 1 and len(x) > 0, "x has no rows")
    require(i.ndim == 1, f"the row numbers are a vector, not of shape {shape_text(i.shape)}")
    require(v.shape == (i.size, *x.shape[1:]), f"{shape_text(v.shape)} does not fit the rows of x")
    return i % len(x), v


@op("InplaceUpdate")
class InplaceUpdate(_Inplace):
    """y = x with y[i] = v; of rows named twice the last counts."""

    @staticmethod
    def kernel(x: Array, i: Array, v: Array) -> Array:
        y: Array = x.copy()
        for row, value in zip(*_rows(x, i, v), strict=True):
            y[row] = value
        return y


@op("InplaceAdd")
class InplaceAdd(_Inplace):
    """y = x with v added to y[i]."""

    @staticmethod
    def kernel(x: Array, i: Array, v: Array) -> Array:
        y: Array = x.copy()
        np.add.at(y, *_rows(x, i, v))
        return y


@op("InplaceSub")
class InplaceSub(_Inplace):
    """y = x with v taken from y[i]."""

    @staticmethod
    def kernel(x: Array, i: Array, v: Array) -> Array:
        y: Array = x.copy()
        np.subtract.at(y, *_rows(x, i, v))
        return y


@op("ParallelConcat")
class ParallelConcat(OpDef):
    """y = all xs joined along axis 0.   xs [1,...] each -> y `shape`."""

    traits = Trait.LINEAR

    @staticmethod
    def infer(*xs: TensorSpec, shape: tuple[int | None, ...] | None) -> TensorSpec:
        return xs[0].with_shape(shape) if xs else TensorSpec()

    @staticmethod
    def kernel(*xs: Array) -> Array:
        require(len(xs) > 0, "there is nothing to join")
        return np.concatenate(xs)
