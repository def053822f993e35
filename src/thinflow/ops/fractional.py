"""Fractional pools: windows of two sizes in random order (B. Graham, "Fractional max-pooling", 2014)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.ir.types import INT64, TensorSpec
from thinflow.ops import _philox
from thinflow.ops._philox import Philox
from thinflow.ops._shapes import rank_of, shape_from
from thinflow.ops.random import _generator
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

_FIXED_SEED = 12345


def _borders(size: int, out: int, source: Philox, pseudo_random: bool) -> Array:
    """Begin of each window along an axis, and the end of the last: int64 [out + 1]."""
    least = size // out
    if pseudo_random:
        alpha = size / out
        # Graham's pseudo-random borders ceil(alpha (i + u)). u stays small enough for all steps to be `least`
        # or one more, the first and last window included.
        most = min((least + 2) / alpha - 1, (size + 1 - least) / alpha - (out - 1))
        start = float(_philox.uniform_double(source.blocks(0, 1)[0])[0]) * most
        inner = [math.ceil(alpha * (i + start)) for i in range(1, out)]
        return np.array([1, *inner, size + 1], np.int64) - 1
    # As many longer windows as are needed for the sum, in random order.
    steps = np.full(out, least, np.int64)
    steps[: size % out] += 1
    return np.concatenate([[0], np.cumsum(steps[_philox.permutation(source, out)])]).astype(np.int64)


def _pieces(borders: Array, size: int, overlapping: bool) -> list[slice]:
    """The windows; if they overlap each goes on to the first element of the next."""
    ends = np.minimum(borders[1:] + (1 if overlapping else 0), size).tolist()
    return [slice(a, b) for a, b in zip(borders[:-1].tolist(), ends, strict=True)]


def _reduced(x: Array, pieces: list[slice], axis: int, reduce: Any) -> Array:
    parts = [reduce(x[(slice(None),) * axis + (p,)], axis=axis, keepdims=True) for p in pieces]
    return np.concatenate(parts, axis=axis)


def _source(deterministic: bool, seed: int, seed2: int) -> Philox:
    if deterministic and not seed and not seed2:
        return _philox.from_seeds(_FIXED_SEED, _FIXED_SEED)
    return _generator(seed, seed2)


def _sequences(x: Array, ratio: Sequence[float], pseudo_random: bool, source: Philox) -> tuple[Array, Array]:
    require(x.ndim == 4, f"value has rank {x.ndim}, 4 is needed")
    require(len(ratio) == 4 and ratio[0] == ratio[3] == 1, "pooling_ratio must be [1, rows, columns, 1]")
    require(min(ratio) >= 1, f"pooling_ratio {list(ratio)} is below 1")
    height, width = (math.floor(n / r) for n, r in zip(x.shape[1:3], ratio[1:3], strict=True))
    require(height > 0 and width > 0, "nothing is left by this pooling_ratio")
    rows = _borders(x.shape[1], height, source, pseudo_random)
    # The columns go on where the rows' random numbers ended: one word a window, four words a block.
    used = 1 if pseudo_random else -(-height // 4)
    return rows, _borders(x.shape[2], width, source.skip(used), pseudo_random)


class _Fractional(OpDef):
    num_outputs = 3
    traits = Trait.STATEFUL

    @staticmethod
    def infer(x: TensorSpec, *, pooling_ratio: Sequence[float]) -> tuple[TensorSpec, ...]:
        n, *sides, c = rank_of(x, 4, "value")
        out = [
            None if s is None else math.floor(s / r) for s, r in zip(sides, pooling_ratio[1:3], strict=True)
        ]
        borders = (TensorSpec(INT64, (None if s is None else s + 1,)) for s in out)
        return (x.with_shape((n, *out, c)), *borders)


@op("FractionalMaxPool")
class FractionalMaxPool(_Fractional):
    """(y, row borders, column borders): the largest value of each window.

    x [n,h,w,c] -> y [n, floor(h / ratio), floor(w / ratio), c]. Without seeds the windows differ from run to
    run.
    """

    @staticmethod
    def kernel(
        x: Array, *, pooling_ratio: Sequence[float], pseudo_random: bool = False, overlapping: bool = False,
        deterministic: bool = False, seed: int = 0, seed2: int = 0,
    ) -> tuple[Array, ...]:  # fmt: skip
        rows, columns = _sequences(x, pooling_ratio, pseudo_random, _source(deterministic, seed, seed2))
        y = _reduced(x, _pieces(rows, x.shape[1], overlapping), 1, np.max)
        return _reduced(y, _pieces(columns, x.shape[2], overlapping), 2, np.max), rows, columns


@op("FractionalAvgPool")
class FractionalAvgPool(_Fractional):
    """(y, row borders, column borders): the mean of each window. See FractionalMaxPool."""

    @staticmethod
    def kernel(
        x: Array, *, pooling_ratio: Sequence[float], pseudo_random: bool = False, overlapping: bool = False,
        deterministic: bool = False, seed: int = 0, seed2: int = 0,
    ) -> tuple[Array, ...]:  # fmt: skip
        rows, columns = _sequences(x, pooling_ratio, pseudo_random, _source(deterministic, seed, seed2))
        down, across = _pieces(rows, x.shape[1], overlapping), _pieces(columns, x.shape[2], overlapping)
        total = _reduced(_reduced(x, down, 1, np.sum), across, 2, np.sum)
        heights, widths = (np.array([p.stop - p.start for p in pieces]) for pieces in (down, across))
        count = (heights[:, None] * widths)[None, :, :, None].astype(x.dtype)
        # Integer means are cut, as C++ divides.
        mean = np.trunc(total / count) if x.dtype.kind in "iu" else total / count
        return mean.astype(x.dtype), rows, columns


def _windows(rows: Array, columns: Array, sides: tuple[int, int], overlapping: bool) -> Any:
    down, across = _pieces(rows, sides[0], overlapping), _pieces(columns, sides[1], overlapping)
    return [(i, j, (slice(None), p, q)) for i, p in enumerate(down) for j, q in enumerate(across)]


def _check(dy: Array, rows: Array, columns: Array, sides: tuple[int, int]) -> None:
    require(dy.ndim == 4, f"the gradient has rank {dy.ndim}, 4 is needed")
    for borders, count, size in zip((rows, columns), dy.shape[1:3], sides, strict=True):
        require(borders.shape == (count + 1,), f"{borders.size} borders for {count} windows")
        require(bool((np.diff(borders) > 0).all()), "borders of windows must grow")
        require(borders[0] >= 0 and borders[-1] <= size, "borders of windows lie outside the input")


@op("FractionalMaxPoolGrad")
class FractionalMaxPoolGrad(OpDef):
    """dx of FractionalMaxPool: dy goes to the first of the largest.   x, y, dy, row and column borders."""

    @staticmethod
    def infer(
        x: TensorSpec, y: TensorSpec, dy: TensorSpec, rows: TensorSpec, columns: TensorSpec
    ) -> TensorSpec:
        return x.with_shape(rank_of(x, 4, "orig_input"))

    @staticmethod
    def kernel(
        x: Array, y: Array, dy: Array, rows: Array, columns: Array, *, overlapping: bool = False
    ) -> Array:
        sides = x.shape[1], x.shape[2]
        _check(dy, rows, columns, sides)
        dx = np.zeros_like(x)
        for i, j, where in _windows(rows, columns, sides, overlapping):
            seen = x[where]
            flat = seen.reshape(len(x), -1, x.shape[3])
            # argmax names the first of equals, which alone gets dy.
            hit = np.arange(flat.shape[1])[:, None] == flat.argmax(axis=1)[:, None, :]
            dx[where] += np.where(hit.reshape(seen.shape), dy[:, i, j][:, None, None], 0).astype(x.dtype)
        return dx


@op("FractionalAvgPoolGrad")
class FractionalAvgPoolGrad(OpDef):
    """dx of FractionalAvgPool: dy spread evenly.   orig_input_shape [4], dy, row and column borders."""

    @staticmethod
    def infer(shape: TensorSpec, dy: TensorSpec, rows: TensorSpec, columns: TensorSpec) -> TensorSpec:
        return dy.with_shape(shape_from(shape) or (None,) * 4)

    @staticmethod
    def kernel(shape: Array, dy: Array, rows: Array, columns: Array, *, overlapping: bool = False) -> Array:
        sizes = [int(d) for d in shape]
        require(len(sizes) == 4 and min(sizes) >= 0, f"orig_input_tensor_shape {sizes} is not of rank 4")
        sides = sizes[1], sizes[2]
        _check(dy, rows, columns, sides)
        # Overlapping windows add up in one place; rounded once at the end.
        dx = np.zeros(sizes, np.float64)
        for i, j, where in _windows(rows, columns, sides, overlapping):
            count = (where[1].stop - where[1].start) * (where[2].stop - where[2].start)
            dx[where] += dy[:, i, j][:, None, None] / count
        return dx.astype(dy.dtype)
