"""Pools: the largest or the mean value of each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import INT64, DType, TensorSpec
from thinflow.ops._shapes import Dim, rank_of, same_padding, window_output
from thinflow.ops._windows import lowest, widened
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

Pads = list[tuple[int, int]]


def _check(ksize: Sequence[int], strides: Sequence[int], rank: int) -> None:
    require(len(ksize) == rank, f"ksize has {len(ksize)} values, {rank} are needed")
    require(len(strides) == rank, f"strides has {len(strides)} values, {rank} are needed")
    require(min(*ksize, *strides) > 0, "ksize and strides must be positive")
    require(ksize[0] == 1 and strides[0] == 1, "pooling over the batch is not supported")


def _pairs(padding: str, explicit: Sequence[int], rank: int) -> Pads:
    if padding != "EXPLICIT":
        return [(0, 0)] * rank
    require(len(explicit) == 2 * rank, f"explicit_paddings needs {2 * rank} values")
    return [(explicit[2 * a], explicit[2 * a + 1]) for a in range(rank)]


def _infer_pool(
    x: TensorSpec,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
    explicit: Sequence[int] = (),
) -> TensorSpec:
    rank = len(data_format)
    dims = rank_of(x, rank, "x")
    _check(ksize, strides, rank)
    axes = zip(dims, ksize, strides, _pairs(padding, explicit, rank), strict=True)
    return x.with_shape([window_output(n, k, s, padding, explicit=e) for n, k, s, e in axes])


def _axes_pads(
    x: Array, ksize: Sequence[int], strides: Sequence[int], padding: str, explicit: Sequence[int] = ()
) -> Pads:
    if padding == "SAME":
        return [same_padding(n, k, s) for n, k, s in zip(x.shape, ksize, strides, strict=True)]
    return _pairs(padding, explicit, x.ndim)


def _along(x: Array, axis: int, part: slice) -> Array:
    return x[(slice(None),) * axis + (part,)]


def _reduce_axis(
    x: Array, axis: int, k: int, stride: int, pads: tuple[int, int], combine: np.ufunc, fill: Any
) -> Array:
    """Combine every window of k along one axis; `fill` is neutral and stands for the padding."""
    if k == 1 and stride == 1 and not any(pads):
        return x
    before, after = pads
    size = x.shape[axis]
    out = max((size + before + after - k) // stride + 1, 0)
    # Padding is never made: a tap touches only the outputs that see the input there.
    y = np.full((*x.shape[:axis], out, *x.shape[axis + 1 :]), fill, x.dtype)
    for t in range(k):
        # Outputs whose t-th position lies inside the input: 0 <= o * stride + t - before < size.
        first = max(-(-(before - t) // stride), 0)
        stop = min((size - 1 + before - t) // stride + 1, out)
        if first < stop:
            start = first * stride + t - before
            target = _along(y, axis, slice(first, stop))
            combine(
                target,
                _along(x, axis, slice(start, start + (stop - first - 1) * stride + 1, stride)),
                out=target,
            )
    return y


def _max_pool(
    x: Array,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str,
    explicit: Sequence[int] = (),
) -> Array:
    require(x.ndim == len(data_format), f"x has rank {x.ndim}, {len(data_format)} is needed")
    _check(ksize, strides, x.ndim)
    pads = _axes_pads(x, ksize, strides, padding, explicit)
    low = lowest(x.dtype)
    # np.maximum hands NaN on, so a NaN in the result tells that the slow way is needed.
    y = _max_separately(x, ksize, strides, pads, np.maximum, low)
    if x.dtype.kind not in "iu" and np.isnan(y).any():
        # TensorFlow compares with >, so a NaN never wins; fmax does the same, several times slower.
        y = _max_separately(x, ksize, strides, pads, np.fmax, low)
    return y


def _max_separately(
    x: Array, ksize: Sequence[int], strides: Sequence[int], pads: Pads, combine: np.ufunc, low: Any
) -> Array:
    """The maximum over a box is the maximum of maxima along its axes: k + k steps instead of k * k."""
    for axis in range(1, x.ndim):
        x = _reduce_axis(x, axis, ksize[axis], strides[axis], pads[axis], combine, low)
    return x


def window_sums(x: Array, ksize: Sequence[int], strides: Sequence[int], padding: str) -> tuple[Array, Array]:
    """The sum over each window and its number of elements inside x (broadcastable), in the type of x."""
    _check(ksize, strides, x.ndim)
    pads = _axes_pads(x, ksize, strides, padding)
    total, count = x, np.ones((), x.dtype)
    for axis in range(1, x.ndim):
        k, s = ksize[axis], strides[axis]
        inside = _reduce_axis(np.ones(x.shape[axis], x.dtype), 0, k, s, pads[axis], np.add, 0)
        total = _reduce_axis(total, axis, k, s, pads[axis], np.add, 0)
        # The number of elements in a box is the product of those along its axes.
        count = count * inside.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    return total, count


def _avg_pool(
    x: Array, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str
) -> Array:
    require(x.ndim == len(data_format), f"x has rank {x.ndim}, {len(data_format)} is needed")
    # Sums of narrow floats in float32, rounded once.
    total, count = window_sums(widened(x), ksize, strides, padding)
    return (total / count).astype(x.dtype, copy=False)


def _cost(y: TensorSpec, ksize: Sequence[int]) -> Cost:
    return Cost(flops=(y.size or 0) * math.prod(ksize))


@op("MaxPool")
class MaxPool(OpDef):
    """The largest value of each window; padding never wins.   x [n,h,w,c] -> y [n,oh,ow,c], same dtype.

    ksize and strides have one value per axis of x. Windows over channels work too.
    """

    traits = Trait.POOL | Trait.TAKES_IMAGES | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(
        x: TensorSpec,
        *,
        ksize: Sequence[int],
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
    ) -> TensorSpec:
        return _infer_pool(x, ksize, strides, padding, data_format, explicit_paddings)

    @staticmethod
    def kernel(
        x: Array,
        *,
        ksize: Sequence[int],
        strides: Sequence[int],
        padding: str,
        explicit_paddings: Sequence[int] = (),
        data_format: str = "NHWC",
    ) -> Array:
        return _max_pool(x, ksize, strides, padding, data_format, explicit_paddings)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, *, ksize: Sequence[int]) -> Cost:
        return _cost(y, ksize)


@op("MaxPoolV2")
class MaxPoolV2(OpDef):
    """MaxPool whose ksize [4] and strides [4] are inputs."""

    traits = Trait.POOL | Trait.TAKES_IMAGES

    @staticmethod
    def infer(
        x: TensorSpec, ksize: TensorSpec, strides: TensorSpec, *, padding: str, data_format: str = "NHWC"
    ) -> TensorSpec:
        rank_of(x, 4, "x")
        if ksize.ints is not None and strides.ints is not None:
            return _infer_pool(x, ksize.ints, strides.ints, padding, data_format)
        batch: Dim = None if x.shape is None else x.shape[0]
        return x.with_shape((batch, None, None, None))

    @staticmethod
    def kernel(x: Array, ksize: Array, strides: Array, *, padding: str, data_format: str = "NHWC") -> Array:
        return _max_pool(x, ksize.tolist(), strides.tolist(), padding, data_format)


@op("MaxPoolWithArgmax")
class MaxPoolWithArgmax(OpDef):
    """The largest value of each window and where it was.   x [n,h,w,c] -> y [n,oh,ow,c], argmax like y.

    argmax is (i * w + j) * c + channel, plus the image's offset if include_batch_in_index; the first of
    equals wins.
    """

    num_outputs = 2

    @staticmethod
    def infer(
        x: TensorSpec, *, ksize: Sequence[int], strides: Sequence[int], padding: str, Targmax: DType = INT64
    ) -> tuple[TensorSpec, TensorSpec]:
        y = _infer_pool(x, ksize, strides, padding, "NHWC")
        return y, TensorSpec(Targmax, y.shape)

    @staticmethod
    def kernel(
        x: Array,
        *,
        ksize: Sequence[int],
        strides: Sequence[int],
        padding: str,
        Targmax: DType = INT64,
        include_batch_in_index: bool = False,
    ) -> tuple[Array, Array]:
        require(x.ndim == 4, f"x has rank {x.ndim}, 4 is needed")
        _check(ksize, strides, 4)
        require(ksize[3] == 1 and strides[3] == 1, "windows over channels are not supported here")
        pads = _axes_pads(x, ksize, strides, padding)
        out = [(n + sum(p) - k) // s + 1 for n, p, k, s in zip(x.shape, pads, ksize, strides, strict=True)]
        n, h, w, c = x.shape
        y = np.full([max(d, 0) for d in out], lowest(x.dtype), x.dtype)
        where = np.full(y.shape, -1, np.int64)
        flat = np.arange(h * w * c).reshape(1, h, w, c)
        if include_batch_in_index:
            flat = np.arange(n).reshape(-1, 1, 1, 1) * (h * w * c) + flat
        for i in range(ksize[1]):
            for j in range(ksize[2]):
                rows, from_rows = _inside(i, h, y.shape[1], strides[1], pads[1][0])
                cols, from_cols = _inside(j, w, y.shape[2], strides[2], pads[2][0])
                seen = x[:, from_rows, from_cols]
                best, index = y[:, rows, cols], where[:, rows, cols]
                # The first wins whatever it holds, and a NaN is exceeded by nothing: so TensorFlow has it.
                wins = (index < 0) | (seen > best)
                np.copyto(best, seen, where=wins)
                np.copyto(index, np.broadcast_to(flat[:, from_rows, from_cols], seen.shape), where=wins)
        return y, where.astype(Targmax.numpy())

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, *, ksize: Sequence[int]) -> Cost:
        return _cost(y, ksize)


def _inside(tap: int, size: int, out: int, stride: int, before: int) -> tuple[slice, slice]:
    """Outputs for which a window position lies inside the input, and the input elements they see."""
    first = max(-(-(before - tap) // stride), 0)
    stop = max(min((size - 1 + before - tap) // stride + 1, out), first)
    start = first * stride + tap - before
    return slice(first, stop), slice(start, start + max((stop - first - 1) * stride + 1, 0), stride)


@op("AvgPool")
class AvgPool(OpDef):
    """The mean of each window; padding is not counted.   x [n,h,w,c] -> y [n,oh,ow,c]."""

    traits = Trait.POOL | Trait.TAKES_IMAGES | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(
        x: TensorSpec,
        *,
        ksize: Sequence[int],
        strides: Sequence[int],
        padding: str,
        data_format: str = "NHWC",
    ) -> TensorSpec:
        return _infer_pool(x, ksize, strides, padding, data_format)

    @staticmethod
    def kernel(
        x: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str = "NHWC"
    ) -> Array:
        return _avg_pool(x, ksize, strides, padding, data_format)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, *, ksize: Sequence[int]) -> Cost:
        return _cost(y, ksize)


@op("MaxPool3D")
class MaxPool3D(OpDef):
    """MaxPool over boxes.   x [n,d,h,w,c] -> y [n,od,oh,ow,c]."""

    traits = Trait.POOL

    @staticmethod
    def infer(
        x: TensorSpec,
        *,
        ksize: Sequence[int],
        strides: Sequence[int],
        padding: str,
        data_format: str = "NDHWC",
    ) -> TensorSpec:
        return _infer_pool(x, ksize, strides, padding, data_format)

    @staticmethod
    def kernel(
        x: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str = "NDHWC"
    ) -> Array:
        return _max_pool(x, ksize, strides, padding, data_format)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, *, ksize: Sequence[int]) -> Cost:
        return _cost(y, ksize)


@op("AvgPool3D")
class AvgPool3D(MaxPool3D):
    """AvgPool over boxes, of the same shapes.   x [n,d,h,w,c] -> y [n,od,oh,ow,c]."""

    @staticmethod
    def kernel(
        x: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str = "NDHWC"
    ) -> Array:
        return _avg_pool(x, ksize, strides, padding, data_format)
