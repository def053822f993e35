"""Random tensors that are functions of their seed: the same numbers as TensorFlow's, in every run.

The first generation of ops takes a seed [2]; the second a key [1], a counter [2] and the number of the
algorithm, which StatelessRandomGetKeyCounter makes of such a seed.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from thinflow.ir.types import FLOAT, INT32, INT64, DType, TensorSpec, dtype
from thinflow.ops import _philox
from thinflow.ops._philox import Philox
from thinflow.ops._shapes import scalar, shape_from
from thinflow.ops.random import class_numbers, shuffled, sizes_of, whole_numbers
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

UINT64 = dtype("uint64")


class _Seeded(OpDef):
    """shape [r], seed [2] -> y of that shape."""

    fill: ClassVar[staticmethod[..., Array]]

    @staticmethod
    def infer(shape: TensorSpec, seed: TensorSpec, *, dtype: DType = FLOAT) -> TensorSpec:
        return TensorSpec(dtype, shape_from(shape))

    @classmethod
    def kernel(cls, shape: Array, seed: Array, *, dtype: DType = FLOAT) -> Array:
        sizes = sizes_of(shape)
        return cls.fill(_philox.key_and_counter(seed), math.prod(sizes), dtype.numpy()).reshape(sizes)


class _Keyed(OpDef):
    """shape [r], key [1], counter [2], alg -> y of that shape."""

    fill: ClassVar[staticmethod[..., Array]]

    @staticmethod
    def infer(
        shape: TensorSpec, key: TensorSpec, counter: TensorSpec, alg: TensorSpec, *, dtype: DType = FLOAT
    ) -> TensorSpec:
        return TensorSpec(dtype, shape_from(shape))

    @classmethod
    def kernel(cls, shape: Array, key: Array, counter: Array, alg: Array, *, dtype: DType = FLOAT) -> Array:
        sizes = sizes_of(shape)
        source = _philox.from_inputs(key, counter, alg)
        return cls.fill(source, math.prod(sizes), dtype.numpy()).reshape(sizes)


@op("StatelessRandomUniform")
class StatelessRandomUniform(_Seeded):
    """y = numbers evenly spread over [0, 1).   shape [r], seed [2] -> y of that shape."""

    traits = Trait.RANDOM_UNIFORM
    fill = staticmethod(_philox.uniform)


@op("StatelessRandomNormal")
class StatelessRandomNormal(_Seeded):
    """y = normally distributed numbers.   shape [r], seed [2] -> y of that shape."""

    fill = staticmethod(_philox.normal)


@op("StatelessTruncatedNormal")
class StatelessTruncatedNormal(_Seeded):
    """y = normally distributed numbers below 2 in size.   shape [r], seed [2] -> y of that shape."""

    fill = staticmethod(_philox.truncated_normal)


@op("StatelessRandomUniformV2")
class StatelessRandomUniformV2(_Keyed):
    """y = numbers evenly spread over [0, 1).   shape [r], key [1], counter [2], alg -> y of that shape."""

    traits = Trait.RANDOM_UNIFORM
    fill = staticmethod(_philox.uniform)


@op("StatelessRandomNormalV2")
class StatelessRandomNormalV2(_Keyed):
    """y = normally distributed numbers.   shape [r], key [1], counter [2], alg -> y of that shape."""

    fill = staticmethod(_philox.normal)


@op("StatelessTruncatedNormalV2")
class StatelessTruncatedNormalV2(_Keyed):
    """y = normally distributed numbers below 2 in size.   shape [r], key [1], counter [2], alg -> y."""

    fill = staticmethod(_philox.truncated_normal)


@op("StatelessRandomUniformFullInt")
class StatelessRandomUniformFullInt(OpDef):
    """y = integers over the whole range of their type.   shape [r], seed [2] -> y of that shape."""

    @staticmethod
    def infer(shape: TensorSpec, seed: TensorSpec, *, dtype: DType = UINT64) -> TensorSpec:
        return TensorSpec(dtype, shape_from(shape))

    @staticmethod
    def kernel(shape: Array, seed: Array, *, dtype: DType = UINT64) -> Array:
        sizes = sizes_of(shape)
        source = _philox.key_and_counter(seed)
        return _philox.integers(source, math.prod(sizes), dtype.numpy()).reshape(sizes)


@op("StatelessRandomUniformFullIntV2")
class StatelessRandomUniformFullIntV2(OpDef):
    """y = integers over the whole range of their type.   shape [r], key [1], counter [2], alg -> y."""

    @staticmethod
    def infer(
        shape: TensorSpec, key: TensorSpec, counter: TensorSpec, alg: TensorSpec, *, dtype: DType = UINT64
    ) -> TensorSpec:
        return TensorSpec(dtype, shape_from(shape))

    @staticmethod
    def kernel(shape: Array, key: Array, counter: Array, alg: Array, *, dtype: DType = UINT64) -> Array:
        sizes = sizes_of(shape)
        source = _philox.from_inputs(key, counter, alg)
        return _philox.integers(source, math.prod(sizes), dtype.numpy()).reshape(sizes)


@op("StatelessRandomUniformInt")
class StatelessRandomUniformInt(OpDef):
    """y = integers in [minval, maxval).   shape [r], seed [2], minval, maxval scalars -> y of that shape."""

    @staticmethod
    def infer(shape: TensorSpec, seed: TensorSpec, minval: TensorSpec, maxval: TensorSpec) -> TensorSpec:
        return minval.with_shape(shape_from(shape))

    @staticmethod
    def kernel(shape: Array, seed: Array, minval: Array, maxval: Array) -> Array:
        return whole_numbers(_philox.key_and_counter(seed), shape, minval, maxval)


@op("StatelessRandomUniformIntV2")
class StatelessRandomUniformIntV2(OpDef):
    """y = integers in [minval, maxval).   shape [r], key [1], counter [2], alg, minval, maxval -> y."""

    @staticmethod
    def infer(
        shape: TensorSpec, key: TensorSpec, counter: TensorSpec, alg: TensorSpec, minval: TensorSpec,
        maxval: TensorSpec,
    ) -> TensorSpec:  # fmt: skip
        return minval.with_shape(shape_from(shape))

    @staticmethod
    def kernel(shape: Array, key: Array, counter: Array, alg: Array, minval: Array, maxval: Array) -> Array:
        return whole_numbers(_philox.from_inputs(key, counter, alg), shape, minval, maxval)


def _state(source: Philox) -> tuple[Array, Array]:
    # The counter's low half comes first, as in TensorFlow's state vectors.
    return np.array([source.key], np.uint64), np.array(
        [source.counter & (2**64 - 1), source.counter >> 64], np.uint64
    )


@op("StatelessRandomGetKeyCounter")
class StatelessRandomGetKeyCounter(OpDef):
    """(key [1], counter [2]), uint64, that stand for a seed [2]."""

    num_outputs = 2

    @staticmethod
    def infer(seed: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return TensorSpec(UINT64, (1,)), TensorSpec(UINT64, (2,))

    @staticmethod
    def kernel(seed: Array) -> tuple[Array, Array]:
        return _state(_philox.key_and_counter(seed))


@op("StatelessRandomGetKeyCounterAlg")
class StatelessRandomGetKeyCounterAlg(OpDef):
    """As StatelessRandomGetKeyCounter, and the algorithm's number."""

    num_outputs = 3

    @staticmethod
    def infer(seed: TensorSpec) -> tuple[TensorSpec, ...]:
        return TensorSpec(UINT64, (1,)), TensorSpec(UINT64, (2,)), TensorSpec(INT32, ())

    @staticmethod
    def kernel(seed: Array) -> tuple[Array, ...]:
        return (*_state(_philox.key_and_counter(seed)), np.array(_philox.PHILOX, np.int32))


@op("StatelessRandomGetAlg")
class StatelessRandomGetAlg(OpDef):
    """The number of the algorithm in use: 1, Philox."""

    @staticmethod
    def infer() -> TensorSpec:
        return TensorSpec(INT32, ())

    @staticmethod
    def kernel() -> Array:
        return np.array(_philox.PHILOX, np.int32)


@op("StatelessMultinomial")
class StatelessMultinomial(OpDef):
    """y[b] = class numbers of probability softmax(logits[b]).   logits [b,c], seed [2] -> [b,samples]."""

    @staticmethod
    def infer(
        logits: TensorSpec, num_samples: TensorSpec, seed: TensorSpec, *, output_dtype: DType = INT64
    ) -> TensorSpec:
        batch = None if logits.shape is None else logits.shape[0]
        return TensorSpec(output_dtype, (batch, scalar(num_samples)))

    @staticmethod
    def kernel(logits: Array, num_samples: Array, seed: Array, *, output_dtype: DType = INT64) -> Array:
        return class_numbers(_philox.key_and_counter(seed), logits, int(num_samples), output_dtype)


@op("StatelessShuffle")
class StatelessShuffle(OpDef):
    """y = x with its first axis in random order.   x [n,...], key [1], counter [2], alg -> y like x."""

    @staticmethod
    def infer(x: TensorSpec, key: TensorSpec, counter: TensorSpec, alg: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, key: Array, counter: Array, alg: Array) -> Array:
        return shuffled(_philox.from_inputs(key, counter, alg), x)


def _samples(sizes: list[int], parameter: Array) -> int:
    """Number of samples of each element of the parameter."""
    # The stateful ops append the parameter's shape; these have it in the shape already.
    tail = sizes[len(sizes) - parameter.ndim :]
    require(
        len(sizes) >= parameter.ndim and tail == list(parameter.shape),
        f"the shape {sizes} does not end in that of the parameter, {list(parameter.shape)}",
    )
    return math.prod(sizes[: len(sizes) - parameter.ndim])


@op("StatelessRandomGammaV2")
class StatelessRandomGammaV2(OpDef):
    """y = gamma-distributed numbers of scale 1.   shape [r] (ends in alpha's), seed [2], alpha -> y."""

    @staticmethod
    def infer(shape: TensorSpec, seed: TensorSpec, alpha: TensorSpec) -> TensorSpec:
        return alpha.with_shape(shape_from(shape))

    @staticmethod
    def kernel(shape: Array, seed: Array, alpha: Array) -> Array:
        sizes = sizes_of(shape)
        y = _philox.gammas(_philox.key_and_counter(seed), alpha, _samples(sizes, alpha))
        return y.reshape(sizes).astype(alpha.dtype)


@op("StatelessRandomGammaV3")
class StatelessRandomGammaV3(OpDef):
    """y = gamma-distributed numbers of scale 1.   shape [r], key [1], counter [2], alg, alpha -> y."""

    @staticmethod
    def infer(
        shape: TensorSpec, key: TensorSpec, counter: TensorSpec, alg: TensorSpec, alpha: TensorSpec
    ) -> TensorSpec:
        return alpha.with_shape(shape_from(shape))

    @staticmethod
    def kernel(shape: Array, key: Array, counter: Array, alg: Array, alpha: Array) -> Array:
        sizes = sizes_of(shape)
        y = _philox.gammas(_philox.from_inputs(key, counter, alg), alpha, _samples(sizes, alpha))
        return y.reshape(sizes).astype(alpha.dtype)


@op("StatelessRandomPoisson")
class StatelessRandomPoisson(OpDef):
    """y = Poisson-distributed counts.   shape [r] (ends in rate's), seed [2], rate -> y of that shape."""

    @staticmethod
    def infer(shape: TensorSpec, seed: TensorSpec, rate: TensorSpec, *, dtype: DType) -> TensorSpec:
        return TensorSpec(dtype, shape_from(shape))

    @staticmethod
    def kernel(shape: Array, seed: Array, rate: Array, *, dtype: DType) -> Array:
        sizes = sizes_of(shape)
        y = _philox.poissons(_philox.key_and_counter(seed), rate, _samples(sizes, rate))
        return y.reshape(sizes).astype(dtype.numpy())
