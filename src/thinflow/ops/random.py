"""Random tensors of ops that carry their seed as an attribute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from thinflow.ir.types import DOUBLE, FLOAT, INT64, DType, Shape, TensorSpec
from thinflow.ops import _philox
from thinflow.ops._numeric import widen
from thinflow.ops._philox import Philox
from thinflow.ops._shapes import scalar, shape_from
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Role, Trait
from thinflow.typing import Array

_fixed_seed: ContextVar[int | None] = ContextVar("fixed_seed", default=None)


@contextmanager
def repeatable_randomness(seed: int = 0) -> Iterator[None]:
    """Inside, ops without a seed of their own draw the same numbers every time: runs can be compared."""
    token = _fixed_seed.set(seed)
    try:
        yield
    finally:
        _fixed_seed.reset(token)


def _generator(seed: int, seed2: int) -> Philox:
    if seed or seed2:
        return _philox.from_seeds(seed, seed2)
    # No seed at all means another stream each run, as in TensorFlow, unless the caller wants runs to compare.
    fixed = _fixed_seed.get()
    return _philox.from_entropy() if fixed is None else _philox.from_seeds(fixed, 1)


def sizes_of(shape: Array) -> list[int]:
    """The shape asked for, as a list.

    Raises:
        ShapeError: it is no vector, or has a negative size.
    """
    require(shape.ndim == 1, f"shape has shape {list(shape.shape)}, a vector is needed")
    sizes = [int(d) for d in shape]
    require(min(sizes, default=0) >= 0, f"negative size in {sizes}")
    return sizes


class Random(OpDef):
    """Base of random tensors.

    With `seed` or `seed2` set, every run gives what TensorFlow gives on its first run in a session; with
    neither, each run differs.
    """

    traits = Trait.STATEFUL

    @staticmethod
    def infer(shape: TensorSpec, *, dtype: DType = FLOAT) -> TensorSpec:
        return TensorSpec(dtype, shape_from(shape))


@op("RandomUniform")
class RandomUniform(Random):
    """y = numbers evenly spread over [0, 1)."""

    roles = (Role.COUNT,)

    traits = Trait.RANDOM_UNIFORM | Trait.RANDOM

    @staticmethod
    def kernel(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = FLOAT) -> Array:
        sizes = sizes_of(shape)
        return _philox.uniform(_generator(seed, seed2), math.prod(sizes), dtype.numpy()).reshape(sizes)


@op("RandomStandardNormal")
class RandomStandardNormal(Random):
    """y = normally distributed numbers, mean 0, deviation 1."""

    roles = (Role.COUNT,)

    traits = Trait.RANDOM

    @staticmethod
    def kernel(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = FLOAT) -> Array:
        sizes = sizes_of(shape)
        return _philox.normal(_generator(seed, seed2), math.prod(sizes), dtype.numpy()).reshape(sizes)


@op("TruncatedNormal")
class TruncatedNormal(Random):
    """y = normally distributed numbers, mean 0, deviation 1; those beyond 2 are drawn again."""

    roles = (Role.COUNT,)

    traits = Trait.RANDOM

    @staticmethod
    def kernel(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = FLOAT) -> Array:
        sizes = sizes_of(shape)
        source = _generator(seed, seed2)
        return _philox.truncated_normal(source, math.prod(sizes), dtype.numpy()).reshape(sizes)


@op("RandomUniformInt")
class RandomUniformInt(Random):
    """y = whole numbers evenly spread over [minval, maxval)."""

    roles = (Role.COUNT,)

    traits = Trait.RANDOM

    @staticmethod
    def infer(shape: TensorSpec, minval: TensorSpec, maxval: TensorSpec) -> TensorSpec:  # type: ignore[override]
        return minval.with_shape(shape_from(shape))

    @staticmethod
    def kernel(shape: Array, minval: Array, maxval: Array, *, seed: int = 0, seed2: int = 0) -> Array:
        return whole_numbers(_generator(seed, seed2), shape, minval, maxval)


def whole_numbers(source: Philox, shape: Array, minval: Array, maxval: Array) -> Array:
    """Integers in [minval, maxval), of their type."""
    low, high = int(minval), int(maxval)
    require(low < high, f"the range [{low}, {high}) is empty")
    sizes = sizes_of(shape)
    return _philox.integers_between(source, math.prod(sizes), low, high, minval.dtype).reshape(sizes)


@op("RandomShuffle")
class RandomShuffle(Random):
    """y = x with the places along its first axis in random order."""

    traits = Trait.RANDOM

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:  # type: ignore[override]
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, *, seed: int = 0, seed2: int = 0) -> Array:
        return shuffled(_generator(seed, seed2), x)


def shuffled(source: Philox, x: Array) -> Array:
    """x with its first axis in random order."""
    return np.asarray(x[_philox.permutation(source, x.shape[0])]) if x.ndim else x


@op("RandomCrop")
class RandomCrop(Random):
    """y = a window of x at a random place.   x [h,w,c], size [2] -> y [*size,c]."""

    traits = Trait.RANDOM

    @staticmethod
    def infer(x: TensorSpec, size: TensorSpec) -> TensorSpec:  # type: ignore[override]
        sides: Sequence[int | None] = (None, None) if size.elements is None else size.elements
        require(len(sides) == 2, f"size has {len(sides)} values, 2 are needed")
        return x.with_shape((*sides, None if x.shape is None else x.shape[-1]))

    @staticmethod
    def kernel(x: Array, size: Array, *, seed: int = 0, seed2: int = 0) -> Array:
        require(x.ndim == 3, f"the image has rank {x.ndim}, 3 is needed")
        height, width = sizes_of(size)
        room = x.shape[0] - height, x.shape[1] - width
        require(min(room) >= 0, f"{height} x {width} is larger than the image, {x.shape[0]} x {x.shape[1]}")
        words = _generator(seed, seed2).blocks(0, 1)[0].tolist()
        # A word is drawn only where there is a choice: the column takes the first one if the rows have none.
        top = words.pop(0) % (room[0] + 1) if room[0] else 0
        left = words.pop(0) % (room[1] + 1) if room[1] else 0
        return x[top : top + height, left : left + width]


@op("Multinomial")
class Multinomial(Random):
    """y[b] = class numbers drawn with probability softmax(logits[b]).   logits [b,c] -> y [b,num_samples]."""

    traits = Trait.RANDOM

    @staticmethod
    def infer(logits: TensorSpec, num_samples: TensorSpec, *, output_dtype: DType = INT64) -> TensorSpec:  # type: ignore[override]
        batch = None if logits.shape is None else logits.shape[0]
        return TensorSpec(output_dtype, (batch, scalar(num_samples)))

    @staticmethod
    def kernel(
        logits: Array, num_samples: Array, *, seed: int = 0, seed2: int = 0, output_dtype: DType = INT64
    ) -> Array:
        return class_numbers(_generator(seed, seed2), logits, int(num_samples), output_dtype)


def class_numbers(source: Philox, logits: Array, samples: int, output_dtype: DType) -> Array:
    """Class numbers [b, samples] for logits [b, c]."""
    require(logits.ndim == 2, f"logits have shape {list(logits.shape)}, rank 2 is needed")
    require(logits.shape[1] > 0, "there are no classes")
    require(samples >= 0, f"num_samples is {samples}, it must not be negative")
    return _philox.classes(source, widen(logits), samples).astype(output_dtype.numpy())


def _appended(shape: TensorSpec, parameter: TensorSpec) -> Shape:
    lead = shape_from(shape)
    return None if lead is None or parameter.shape is None else (*lead, *parameter.shape)


@op("RandomGamma")
class RandomGamma(Random):
    """y = gamma-distributed numbers of shape alpha, scale 1.   shape [r], alpha [...] -> y [*shape,...]."""

    traits = Trait.RANDOM

    @staticmethod
    def infer(shape: TensorSpec, alpha: TensorSpec) -> TensorSpec:  # type: ignore[override]
        return alpha.with_shape(_appended(shape, alpha))

    @staticmethod
    def kernel(shape: Array, alpha: Array, *, seed: int = 0, seed2: int = 0) -> Array:
        sizes = sizes_of(shape)
        y = _philox.gammas(_generator(seed, seed2), alpha, math.prod(sizes))
        return y.reshape(*sizes, *alpha.shape).astype(alpha.dtype)


@op("RandomPoisson", "RandomPoissonV2")
class RandomPoisson(Random):
    """y = Poisson-distributed counts of mean rate.   shape [r], rate [...] -> y [*shape,...]."""

    traits = Trait.RANDOM

    @staticmethod
    def infer(shape: TensorSpec, rate: TensorSpec, *, dtype: DType = INT64, R: DType = DOUBLE) -> TensorSpec:  # type: ignore[override]
        return TensorSpec(dtype, _appended(shape, rate))

    @staticmethod
    def kernel(
        shape: Array, rate: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = INT64, R: DType = DOUBLE
    ) -> Array:
        sizes = sizes_of(shape)
        y = _philox.poissons(_generator(seed, seed2), rate, math.prod(sizes))
        return y.reshape(*sizes, *rate.shape).astype(dtype.numpy())
