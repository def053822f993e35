"""Tensors made from nothing but a shape, a range or a rule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, INT64, DType, TensorSpec
from thinflow.ops._elements import LIMIT, scalar, shape_from, with_elements
from thinflow.ops._numeric import quiet
from thinflow.ops._shapes import normalize_axis
from thinflow.ops.array import _Free
from thinflow.ops.registry import OpDef, op, require

Array = np.ndarray[Any, Any]


@op("Fill")
class Fill(_Free):
    """y = `value` everywhere.   dims [r], value a scalar -> y of shape dims."""

    @staticmethod
    def infer(dims: TensorSpec, value: TensorSpec) -> TensorSpec:
        result = value.with_shape(shape_from(dims))
        return with_elements(result, (scalar(value),) * (result.size or 0)) if _small(result) else result

    @staticmethod
    def kernel(dims: Array, value: Array) -> Array:
        require(dims.ndim == 1, f"dims must be a vector, got shape {list(dims.shape)}")
        require(bool((dims >= 0).all()), f"negative size in {dims.tolist()}")
        require(value.ndim == 0, f"value must be a scalar, got shape {list(value.shape)}")
        return np.full([int(d) for d in dims], value[()], value.dtype)


@op("Empty")
class Empty(_Free):
    """y = zeros of the given shape. (TensorFlow leaves them uninitialized unless `init` is set.)"""

    @staticmethod
    def infer(shape: TensorSpec, *, dtype: DType) -> TensorSpec:
        return TensorSpec(dtype, shape_from(shape))

    @staticmethod
    def kernel(shape: Array, *, dtype: DType) -> Array:
        return _filled([int(d) for d in shape], dtype.numpy(), 0)


@op("ZerosLike")
class ZerosLike(_Free):
    """y = zeros (empty strings) with the shape of x."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return _constant_like(x, 0)

    @staticmethod
    def kernel(x: Array) -> Array:
        return _filled(x.shape, x.dtype, 0)


@op("OnesLike")
class OnesLike(_Free):
    """y = ones with the shape of x."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return _constant_like(x, 1)

    @staticmethod
    def kernel(x: Array) -> Array:
        return _filled(x.shape, x.dtype, 1)


def _filled(shape: Any, element: np.dtype[Any], value: int) -> Array:
    return np.full(shape, b"" if element.hasobject else value, element)


def _constant_like(x: TensorSpec, value: int) -> TensorSpec:
    result = x.with_shape(x.shape)
    return with_elements(result, (value,) * (x.size or 0)) if _small(result) else result


def _small(spec: TensorSpec) -> bool:
    return spec.size is not None and spec.size <= LIMIT


@op("Range")
class Range(OpDef):
    """y = start, start + delta, ... up to but without limit.   All scalars of one type."""

    @staticmethod
    def infer(start: TensorSpec, limit: TensorSpec, delta: TensorSpec) -> TensorSpec:
        ends = scalar(start), scalar(limit), scalar(delta)
        if any(e is None for e in ends):
            return start.with_shape((None,))
        first, last, step = (e or 0 for e in ends)
        _check_range(first, last, step)
        numbers = range(first, last, step)
        result = start.with_shape((len(numbers),))
        return with_elements(result, tuple(numbers)) if len(numbers) <= LIMIT else result

    @staticmethod
    @quiet
    def kernel(start: Array, limit: Array, delta: Array) -> Array:
        if start.dtype.kind in "iu":
            ends = int(start), int(limit), int(delta)
            _check_range(*ends)
            return np.arange(*ends).astype(start.dtype)
        first, last, step = start[()], limit[()], delta[()]
        _check_range(first, last, step)
        size = int(np.ceil(np.abs((last - first) / step)))
        return np.asarray(first + np.arange(size).astype(start.dtype) * step, start.dtype)


def _check_range(first: Any, last: Any, step: Any) -> None:
    require(step != 0, "delta is 0")
    require(
        (last - first) * (1 if step > 0 else -1) >= 0,
        f"delta {step} leads away from {last}, starting at {first}",
    )


@op("LinSpace")
class LinSpace(OpDef):
    """y = num evenly spaced numbers from start to stop, both included."""

    @staticmethod
    def infer(start: TensorSpec, stop: TensorSpec, num: TensorSpec) -> TensorSpec:
        return start.with_shape((scalar(num),))

    @staticmethod
    @quiet
    def kernel(start: Array, stop: Array, num: Array) -> Array:
        count = int(num)
        require(count > 0, f"num is {count}, it must be positive")
        if count == 1:
            return start.reshape(1)
        step = ((stop - start) / start.dtype.type(count - 1)).astype(start.dtype)
        y = start + step * np.arange(count).astype(start.dtype)
        y[-1] = stop
        return np.asarray(y, start.dtype)


@op("OneHot")
class OneHot(OpDef):
    """y = on_value where the place along the new `axis` equals the index, else off_value.

    indices any shape -> y with a new axis of size depth (-1: the last). An index that is not one of
    0..depth-1 gives off_value throughout.
    """

    @staticmethod
    def infer(
        indices: TensorSpec, depth: TensorSpec, on_value: TensorSpec, off_value: TensorSpec, *, axis: int = -1
    ) -> TensorSpec:
        if indices.shape is None:
            return on_value.with_shape(None)
        axis = normalize_axis(axis, len(indices.shape) + 1)
        return on_value.with_shape((*indices.shape[:axis], scalar(depth), *indices.shape[axis:]))

    @staticmethod
    def kernel(indices: Array, depth: Array, on_value: Array, off_value: Array, *, axis: int = -1) -> Array:
        require(int(depth) >= 0, f"depth is {int(depth)}, it must not be negative")
        axis = normalize_axis(axis, indices.ndim + 1)
        places = np.arange(int(depth)).reshape((-1,) + (1,) * (indices.ndim - axis))
        hot = np.expand_dims(indices, axis) == places
        y = np.full(hot.shape, off_value[()], on_value.dtype)
        y[hot] = on_value[()]
        return y


class _Random(OpDef):
    """Base of random tensors. The numbers are not those of TensorFlow's generators, only their distribution.

    With `seed` or `seed2` set, every run starts from them and gives the same; with neither, each run differs.
    """

    stateful = True

    @staticmethod
    def infer(shape: TensorSpec, *, dtype: DType = FLOAT) -> TensorSpec:
        return TensorSpec(dtype, shape_from(shape))


_fixed_seed: ContextVar[int | None] = ContextVar("fixed_seed", default=None)


@contextmanager
def repeatable_randomness(seed: int = 0) -> Iterator[None]:
    """Inside, ops without a seed of their own draw the same numbers every time: runs can be compared."""
    token = _fixed_seed.set(seed)
    try:
        yield
    finally:
        _fixed_seed.reset(token)


def _generator(seed: int, seed2: int) -> np.random.Generator:
    if seed or seed2:
        return np.random.default_rng([seed & 0xFFFFFFFF, seed2 & 0xFFFFFFFF])
    return np.random.default_rng(_fixed_seed.get())


@op("RandomUniform")
class RandomUniform(_Random):
    """y = numbers evenly spread over [0, 1)."""

    @staticmethod
    def kernel(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = FLOAT) -> Array:
        y: Array = np.asarray(_generator(seed, seed2).random(shape.tolist(), np.float32)).astype(
            dtype.numpy()
        )
        y[y >= 1] = 0  # narrow types round up to 1
        return y


@op("RandomStandardNormal")
class RandomStandardNormal(_Random):
    """y = normally distributed numbers, mean 0, deviation 1."""

    @staticmethod
    def kernel(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = FLOAT) -> Array:
        return np.asarray(_generator(seed, seed2).standard_normal(shape.tolist())).astype(dtype.numpy())


@op("TruncatedNormal")
class TruncatedNormal(_Random):
    """y = normally distributed numbers, mean 0, deviation 1; those beyond 2 are drawn again."""

    @staticmethod
    def kernel(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = FLOAT) -> Array:
        generator = _generator(seed, seed2)
        y = np.asarray(generator.standard_normal(shape.tolist()))
        while (far := np.abs(y) >= 2).any():
            y[far] = generator.standard_normal(int(far.sum()))
        return y.astype(dtype.numpy())


@op("RandomUniformInt")
class RandomUniformInt(_Random):
    """y = whole numbers evenly spread over [minval, maxval)."""

    @staticmethod
    def infer(shape: TensorSpec, minval: TensorSpec, maxval: TensorSpec) -> TensorSpec:  # type: ignore[override]
        return minval.with_shape(shape_from(shape))

    @staticmethod
    def kernel(shape: Array, minval: Array, maxval: Array, *, seed: int = 0, seed2: int = 0) -> Array:
        require(int(minval) < int(maxval), f"the range [{int(minval)}, {int(maxval)}) is empty")
        whole = _generator(seed, seed2).integers(int(minval), int(maxval), shape.tolist(), minval.dtype.type)
        return np.asarray(whole)


@op("RandomShuffle")
class RandomShuffle(_Random):
    """y = x with the places along its first axis in random order."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:  # type: ignore[override]
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, *, seed: int = 0, seed2: int = 0) -> Array:
        return _generator(seed, seed2).permutation(x, axis=0) if x.ndim else x


@op("Multinomial")
class Multinomial(_Random):
    """y[b] = class numbers drawn with probability softmax(logits[b]).   logits [b,c] -> y [b,num_samples]."""

    @staticmethod
    def infer(logits: TensorSpec, num_samples: TensorSpec, *, output_dtype: DType = INT64) -> TensorSpec:  # type: ignore[override]
        batch = None if logits.shape is None else logits.shape[0]
        return TensorSpec(output_dtype, (batch, scalar(num_samples)))

    @staticmethod
    def kernel(
        logits: Array, num_samples: Array, *, seed: int = 0, seed2: int = 0, output_dtype: DType = INT64
    ) -> Array:
        require(logits.ndim == 2, f"logits have shape {list(logits.shape)}, rank 2 is needed")
        generator = _generator(seed, seed2)
        # Adding Gumbel noise and taking the largest draws from the softmax without computing it.
        noise = generator.gumbel(size=(logits.shape[0], int(num_samples), logits.shape[1]))
        y = (logits.astype(np.float64)[:, None, :] + noise).argmax(axis=2)
        return np.asarray(y, output_dtype.numpy())
