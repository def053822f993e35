"""TensorFlow's random generator and the distributions it makes of it, bit for bit.

Philox4x32-10: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011. A block of four 32-bit
words is a function of a 64-bit key and a 128-bit counter, so any block can be had without those before it.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ops.registry import require
from thinflow.typing import Array

# The paper's constants; the key's steps are those of Weyl sequences (golden ratio, sqrt(3) - 1).
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
# TensorFlow's `GenerateKey` of stateless ops: seeds are mixed by one block under this fixed key.
_SCRAMBLING_KEY = 0x02461E293EC8F720
_WORD = (1 << 64) - 1

AUTOMATIC, PHILOX, THREEFRY = 3, 1, 2
"""Numbers of TensorFlow's algorithms, as `alg` inputs have them."""


@dataclass(frozen=True)
class Philox:
    """A stream of random words that starts at a counter.

    Attributes:
        key: 64 bits.
        counter: 128 bits, the number of the first block.
    """

    key: int
    counter: int

    def blocks(self, first: int, count: int) -> Array:
        """Blocks first, first + 1, ... of the stream: uint32 [count, 4]."""
        return self.blocks_at(first + np.arange(count, dtype=np.uint64))

    def blocks_at(self, places: Array) -> Array:
        """Blocks of the stream by their numbers: uint64 [...] -> uint32 [..., 4]."""
        low, high = self.counter & _WORD, self.counter >> 64
        lower = places.astype(np.uint64) + np.uint64(low)
        # A sum that is less than an operand has overflowed: the carry of the 128-bit counter.
        upper = np.where(lower < np.uint64(low), np.uint64((high + 1) & _WORD), np.uint64(high))
        words = [lower & _LOW, lower >> _HALF, upper & _LOW, upper >> _HALF]
        keys = [self.key & 0xFFFFFFFF, self.key >> 32]
        for _ in range(10):
            first, second = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
            words = [
                (second >> _HALF) ^ words[1] ^ np.uint64(keys[0]),
                second & _LOW,
                (first >> _HALF) ^ words[3] ^ np.uint64(keys[1]),
                first & _LOW,
            ]
            keys = [(k + step) & 0xFFFFFFFF for k, step in zip(keys, _KEY_STEPS, strict=True)]
        return np.stack(words, axis=-1).astype(np.uint32)

    def skip(self, blocks: int) -> Philox:
        return Philox(self.key, (self.counter + blocks) % (1 << 128))


def from_seeds(seed: int, seed2: int) -> Philox:
    """The generator of an op with the attributes `seed` and `seed2`, at its first run."""
    # seed2 is the upper half of the counter: the lower half counts blocks and starts at 0.
    return Philox(seed & _WORD, (seed2 & _WORD) << 64)


def from_entropy() -> Philox:
    """A generator that nobody can repeat."""
    return from_seeds(*(int.from_bytes(os.urandom(8), "little") for _ in range(2)))


def key_and_counter(seed: Array) -> Philox:
    """The generator of a stateless op: its seed [2], scrambled."""
    require(seed.shape == (2,), f"seed has shape {list(seed.shape)}, [2] is needed")
    first, second = (int(s) & _WORD for s in seed)
    a, b, c, d = (int(w) for w in Philox(_SCRAMBLING_KEY, first | second << 64).blocks(0, 1)[0])
    # Likewise, the scrambled words go to the key and the upper half of the counter.
    return Philox(a | b << 32, (c | d << 32) << 64)


def from_inputs(key: Array, counter: Array, alg: Array) -> Philox:
    """The generator that the inputs of a stateless op of the second kind describe."""
    require(key.shape == (1,), f"key has shape {list(key.shape)}, [1] is needed")
    require(counter.ndim == 1, f"counter has shape {list(counter.shape)}, [2] is needed")
    require(counter.size >= 2, f"counter has {counter.size} values, 2 are needed")
    require(int(alg) in (AUTOMATIC, PHILOX), f"the algorithm {int(alg)} is not Philox", "use alg=1")
    return Philox(int(key[0]), int(counter[0]) | int(counter[1]) << 64)


# ---- Distributions


def _from_mantissa(bits: Array, kind: type[Any], one: int) -> Array:
    """Numbers in [0, 1): the bits as the fraction of a float in [1, 2), minus 1."""
    return np.asarray((bits | bits.dtype.type(one)).view(kind) - kind(1))


def uniform_float(words: Array) -> Array:
    """float32 in [0, 1), one a word."""
    # 23 bits of fraction, and the exponent 127 of numbers in [1, 2): the steps are even, and 1 is never
    # reached.
    return _from_mantissa(words & np.uint32(0x7FFFFF), np.float32, 127 << 23)


def uniform_double(words: Array) -> Array:
    """float64 in [0, 1): [..., 2n] words -> [..., n]."""
    pairs = words.reshape(*words.shape[:-1], words.shape[-1] // 2, 2).astype(np.uint64)
    # 20 bits of the first word above the 32 of the second: the 52 bits of a double's fraction.
    bits = (pairs[..., 0] & np.uint64(0xFFFFF)) << _HALF | pairs[..., 1]
    return _from_mantissa(bits, np.float64, 1023 << 52)


def _uniform_narrow(words: Array, kind: np.dtype[Any]) -> Array:
    # As in `uniform_float`: 10 bits under the exponent 15 of half's [1, 2), 7 under the 127 of bfloat16's.
    bits, one = (10, 15 << 10) if kind == np.float16 else (7, 127 << 7)
    fraction = (words & np.uint32((1 << bits) - 1)).astype(np.uint16)
    shifted = (fraction | np.uint16(one)).view(kind)
    return np.asarray(shifted - np.ones((), kind), kind)


def _box_muller(words: Array, double: bool) -> Array:
    """Normally distributed numbers, as many as uniform ones; words [..., 4] -> [..., 4] or [..., 2]."""
    kind: Any = np.float64 if double else np.float32
    drawn = uniform_double(words) if double else uniform_float(words)
    pairs = drawn.reshape(*words.shape[:-1], 1 if double else 2, 2)
    # The functions are taken in float64 and rounded: as exact as a C library's, on every machine.
    # TensorFlow's epsilon, for the logarithm of 0.
    first = np.maximum(pairs[..., 0], kind(1e-7)).astype(np.float64)
    angle = (2.0 * math.pi * pairs[..., 1]).astype(kind).astype(np.float64)
    radius = np.sqrt(kind(-2) * np.log(first).astype(kind))
    both = np.stack([np.sin(angle).astype(kind) * radius, np.cos(angle).astype(kind) * radius], axis=-1)
    return np.asarray(both.reshape(drawn.shape))


def uniform(source: Philox, size: int, kind: np.dtype[Any]) -> Array:
    """`size` numbers of a float type, evenly spread over [0, 1)."""
    double = kind == np.float64
    # A block has four words: four floats or two doubles; what is left of the last one is thrown away.
    words = source.blocks(0, -(-size // (2 if double else 4))).reshape(-1)
    if double:
        return uniform_double(words)[:size]
    return (uniform_float(words) if kind == np.float32 else _uniform_narrow(words, kind))[:size]


def normal(source: Philox, size: int, kind: np.dtype[Any]) -> Array:
    """`size` normally distributed numbers of a float type."""
    double = kind == np.float64
    words = source.blocks(0, -(-size // (2 if double else 4)))
    return _box_muller(words, double).reshape(-1)[:size].astype(kind, copy=False)


def truncated_normal(source: Philox, size: int, kind: np.dtype[Any]) -> Array:
    """`size` normally distributed numbers; those of 2 and more are drawn again, per group of one block."""
    double = kind == np.float64
    group = 2 if double else 4
    groups = -(-size // group)
    # TensorFlow sets 256 words, 64 blocks, aside for each number, so that groups can be drawn independently.
    reserved = 64 * group
    # All groups draw the same number of blocks at once; the ones a group would not have drawn are cut off
    # below.
    tries = 4
    while True:
        places = np.arange(groups, dtype=np.uint64)[:, None] * np.uint64(reserved)
        words = source.blocks_at(places + np.arange(tries, dtype=np.uint64))
        drawn = _box_muller(words, double).reshape(groups, group * tries)
        kept = np.abs(drawn) < 2
        if (kept.sum(axis=1) >= group).all():
            break
        tries *= 2
    first = kept & (kept.cumsum(axis=1) <= group)
    return drawn[first][:size].astype(kind, copy=False)


def integers(source: Philox, size: int, kind: np.dtype[Any]) -> Array:
    """`size` integers of 32 or 64 bits, every value as likely."""
    wide = kind.itemsize == 8
    words = source.blocks(0, -(-size // (2 if wide else 4))).reshape(-1)
    if not wide:
        return words.view(kind)[:size]
    pairs = words.reshape(-1, 2).astype(np.uint64)
    return np.asarray((pairs[:, 0] | pairs[:, 1] << _HALF).view(kind)[:size])


def integers_between(source: Philox, size: int, low: int, high: int, kind: np.dtype[Any]) -> Array:
    """`size` integers in [low, high)."""
    unsigned = np.dtype(f"u{kind.itemsize}")
    # The modulo favours small numbers slightly; so does TensorFlow's, and the stream must be the same.
    span = unsigned.type((high - low) % (1 << (8 * kind.itemsize)))
    drawn = integers(source, size, unsigned)
    with np.errstate(over="ignore"):
        return np.asarray((drawn % span).view(kind) + kind.type(low), kind)


def permutation(source: Philox, size: int) -> Array:
    """The places 0 ... size - 1 in random order, int64 [size]."""
    order = list(range(size))
    words = source.blocks(0, -(-size // 4)).reshape(-1).tolist()
    for i in range(size - 1):
        # Fisher and Yates's shuffle, one word a step.
        j = i + words[i] % (size - i)
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int64)


def classes(source: Philox, logits: Array, samples: int) -> Array:
    """Class numbers with probability softmax(logits): logits [b, c] -> int64 [b, samples]."""
    batch = logits.shape[0]
    words = source.blocks(0, -(-batch * samples // 2)).reshape(-1)
    chances = uniform_double(words)[: batch * samples].reshape(batch, samples)
    # Logits that are not finite have no chance at all, +inf included: TensorFlow skips them.
    usable = np.isfinite(logits)
    wide = np.where(usable, logits, 0).astype(np.float64)
    most = np.where(usable, wide, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    sums = np.where(usable, np.exp(wide - np.where(np.isfinite(most), most, 0)), 0.0).cumsum(axis=1)
    rows = zip(sums, chances, strict=True)
    drawn = [np.searchsorted(s, c * s[-1], side="right") for s, c in rows]
    return np.array(drawn, np.int64).reshape(batch, samples)


# ---- Gamma and Poisson numbers as TensorFlow draws them from Philox: by trial, each from its own blocks.


RESERVED = 256
"""Blocks between the beginnings of two outputs."""


class _Draws:
    """Uniform and normal float64 numbers from consecutive blocks; of the two in a block the second first."""

    def __init__(self, source: Philox, first: int) -> None:
        self.source, self.next = source, first
        self.uniforms: list[float] = []
        self.normals: list[float] = []

    def _block(self) -> Array:
        block = self.source.blocks(self.next, 1)
        self.next += 1
        return block

    def uniform(self) -> float:
        if not self.uniforms:
            self.uniforms = uniform_double(self._block())[0].tolist()
        return self.uniforms.pop()

    def normal(self) -> float:
        if not self.normals:
            self.normals = _box_muller(self._block(), True)[0].tolist()
        return self.normals.pop()


def gamma(draws: _Draws, alpha: float) -> float:
    """A gamma-distributed number of shape alpha, scale 1.

    G. Marsaglia and W. Tsang, "A simple method for generating gamma variables", 2000.
    """
    if alpha == 1.0:
        # Shape 1 is the exponential distribution; TensorFlow takes this way, so one uniform number is used
        # up.
        return -math.log1p(-draws.uniform())
    if not alpha > 0 or math.isinf(alpha):
        return math.nan
    small = alpha < 1
    # d = shape - 1/3; below 1 the shape is raised by 1, and the result multiplied by u^(1/alpha).
    d = alpha + (2.0 / 3 if small else -1.0 / 3)
    c = 1.0 / 3 / math.sqrt(d)
    while True:
        x = draws.normal()
        v = 1 + c * x
        if v <= 0:
            continue
        v = v * v * v
        u = draws.uniform()
        # The first comparison accepts nearly always, and saves the logarithms.
        if u < 1 - 0.0331 * (x * x) * (x * x) or _log(u) < 0.5 * x * x + d * (1 - v + math.log(v)):
            power = draws.uniform() ** (1 / alpha) if small else 1.0
            return float(d * v * power)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def poisson(draws: _Draws, rate: float) -> float:
    """A Poisson-distributed number: D. Knuth's product of uniform numbers, from a rate of 10 on rejection.

    W. Hoermann, "The transformed rejection method for generating Poisson random variables", 1993.
    """
    if not math.isfinite(rate) or rate < 0:
        return math.nan
    return _poisson_small(draws, rate) if rate < 10 else _poisson_large(draws, rate)


def _poisson_small(draws: _Draws, rate: float) -> float:
    # The product of uniform numbers falls below e^-rate after a Poisson number of factors.
    limit, product, count = math.exp(-rate), 1.0, 0
    while (product := product * draws.uniform()) > limit:
        count += 1
    return float(count)


def _poisson_large(draws: _Draws, rate: float) -> float:
    # Constants of Hoermann's algorithm PTRS; the squeeze below accepts without the logarithms.
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    while True:
        u, v = draws.uniform() - 0.5, draws.uniform()
        rest = 0.5 - abs(u)
        # u = -1/2 would divide by 0.
        if rest == 0:
            continue
        k = math.floor((2 * a / rest + b) * u + rate + 0.43)
        if rest >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return float(k)
        # Hoermann's second squeeze, which rejects in the tails.
        if k < 0 or (rest < 0.013 and v > rest):
            continue
        accepted = _log(v * inverse_alpha / (a / (rest * rest) + b))
        if accepted <= -rate + k * math.log(rate) - math.lgamma(k + 1):
            return float(k)


def gammas(source: Philox, alpha: Array, samples: int) -> Array:
    """float64 [samples, *alpha.shape]."""
    return _each(gamma, source, alpha, samples)


def poissons(source: Philox, rate: Array, samples: int) -> Array:
    """float64 [samples, *rate.shape]."""
    return _each(poisson, source, rate, samples)


def _each(draw: Any, source: Philox, parameter: Array, samples: int) -> Array:
    flat = parameter.astype(np.float64).reshape(-1).tolist()
    drawn = [
        # Output numbers run over samples within each parameter; the result has samples first.
        [draw(_Draws(source, RESERVED * (i * samples + s)), value) for s in range(samples)]
        for i, value in enumerate(flat)
    ]
    values = np.array(drawn, np.float64).reshape(len(flat), samples)
    return np.asarray(values.T.reshape(samples, *parameter.shape))
