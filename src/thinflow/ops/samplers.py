"""Classes drawn for a loss over many classes. With a seed, as TensorFlow draws them in the first run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from thinflow.ir.types import FLOAT, INT32, INT64, TensorSpec
from thinflow.ops._philox import Philox
from thinflow.ops._shapes import rank_of
from thinflow.ops.random import _generator
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

Draw = Callable[[Iterator[int]], int]
# Blocks made at a time: their number costs little, a call for each would.
_BLOCKS = 256
MAX_SAMPLES = 1 << 24


class _Sampler(OpDef):
    traits = Trait.STATEFUL
    num_outputs = 3

    @staticmethod
    def infer(true_classes: TensorSpec, *, num_true: int, num_sampled: int) -> tuple[TensorSpec, ...]:
        batch, _ = rank_of(true_classes, 2, "true_classes")
        sampled = TensorSpec(FLOAT, (num_sampled,))
        return TensorSpec(INT64, (num_sampled,)), TensorSpec(FLOAT, (batch, num_true)), sampled


def _words(generator: Philox) -> Iterator[int]:
    """The 32-bit words of a generator, one after the other."""
    first = 0
    while True:
        yield from generator.blocks(first, _BLOCKS).ravel().tolist()
        first += _BLOCKS


def _drawn(
    true_classes: Array,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    generator: Philox,
    draw: Draw,
    probability: Callable[[Array], Array],
) -> tuple[Array, Array, Array]:
    """Classes [num_sampled], how often each true one and each drawn one is expected among them."""
    wide = true_classes.ndim == 2 and true_classes.shape[1] == num_true
    require(wide, f"true_classes has shape {list(true_classes.shape)}, [batch,{num_true}] is needed")
    require(0 < num_sampled <= MAX_SAMPLES, f"{num_sampled} classes are asked for")
    require(not unique or num_sampled <= range_max, f"{num_sampled} different ones of {range_max} classes")
    words, found, tries = _words(generator), dict[int, None](), 0
    listed: list[int] = []
    while len(listed) < num_sampled:
        tries += 1
        value = draw(words)
        if unique and value in found:
            continue
        found[value] = None
        listed.append(value)
    sampled = np.array(listed, np.int64)

    def expected(classes: Array) -> Array:
        p = probability(classes.astype(np.float64)).astype(np.float32)
        # Drawn with repetition, or no repetition occurred: the expected count is exact. Else it is the
        # probability to be drawn at least once in so many tries, 1 - (1 - p)^tries without cancellation.
        if tries == num_sampled:
            return np.asarray(p * np.float32(tries))
        return np.asarray(-np.expm1(np.float32(tries) * np.log1p(-p)))

    return sampled, expected(true_classes), expected(sampled)


def _real(words: Iterator[int]) -> float:
    """A double from 0 to 1 out of 52 bits."""
    high, low = next(words) & 0xFFFFF, next(words)
    return (high << 32 | low) / (1 << 52)


def _below(limit: int, words: Iterator[int]) -> int:
    """A whole number below `limit`, each as likely as the others."""
    # Values below 2^64 mod limit are drawn again, so that none is more likely (TensorFlow's SimplePhilox).
    least = 0 if limit & (limit - 1) == 0 else ((1 << 64) - 1) % limit + 1
    while True:
        value = next(words) | next(words) << 32
        if value >= least:
            return value % limit


@op("LogUniformCandidateSampler")
class LogUniformCandidateSampler(_Sampler):
    """Classes c below range_max, drawn with a probability of log((c + 2) / (c + 1)) / log(range_max + 1)."""

    @staticmethod
    def kernel(
        true_classes: Array,
        *,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int = 0,
        seed2: int = 0,
    ) -> tuple[Array, Array, Array]:
        require(range_max > 0, f"there are {range_max} classes")
        scale = math.log1p(range_max)
        return _drawn(
            true_classes,
            num_true,
            num_sampled,
            unique,
            range_max,
            _generator(seed, seed2),
            # The remainder only catches rounding: exp(log(range_max + 1)) - 1 may reach range_max.
            lambda words: (int(math.exp(_real(words) * scale)) - 1) % range_max,
            lambda c: np.log((c + 2) / (c + 1)) / scale,
        )


@op("UniformCandidateSampler")
class UniformCandidateSampler(_Sampler):
    """Classes below range_max, each as likely as the others."""

    @staticmethod
    def kernel(
        true_classes: Array,
        *,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int = 0,
        seed2: int = 0,
    ) -> tuple[Array, Array, Array]:
        require(range_max > 0, f"there are {range_max} classes")
        return _drawn(
            true_classes,
            num_true,
            num_sampled,
            unique,
            range_max,
            _generator(seed, seed2),
            lambda words: _below(range_max, words),
            lambda c: np.full(c.shape, 1 / range_max),
        )


@op("AllCandidateSampler")
class AllCandidateSampler(_Sampler):
    """All classes below num_sampled, each once."""

    @staticmethod
    def kernel(true_classes: Array, *, num_true: int, num_sampled: int) -> tuple[Array, Array, Array]:
        wide = true_classes.ndim == 2 and true_classes.shape[1] == num_true
        require(wide, f"true_classes has shape {list(true_classes.shape)}, [batch,{num_true}] is needed")
        require(0 < num_sampled <= MAX_SAMPLES, f"{num_sampled} classes are asked for")
        once = np.ones(num_sampled, np.float32)
        return np.arange(num_sampled), np.ones(true_classes.shape, np.float32), once


@op("ComputeAccidentalHits")
class ComputeAccidentalHits(OpDef):
    """Which drawn classes [s] are true ones [b,num_true]: rows int32 [h], places int64, lowest floats."""

    num_outputs = 3

    @staticmethod
    def infer(true_classes: TensorSpec, sampled: TensorSpec) -> tuple[TensorSpec, ...]:
        return TensorSpec(INT32, (None,)), TensorSpec(INT64, (None,)), TensorSpec(FLOAT, (None,))

    @staticmethod
    def kernel(true_classes: Array, sampled: Array, *, num_true: int) -> tuple[Array, Array, Array]:
        wide = true_classes.ndim == 2 and true_classes.shape[1] == num_true
        require(wide, f"true_classes has shape {list(true_classes.shape)}, [batch,{num_true}] is needed")
        places = {c: i for i, c in enumerate(sampled.tolist())}
        hits = [(r, places[c]) for r, row in enumerate(true_classes.tolist()) for c in row if c in places]
        rows, found = np.array(hits, np.int64).reshape(-1, 2).T
        return rows.astype(np.int32), found, np.full(len(hits), np.finfo(np.float32).min)
