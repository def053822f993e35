"""Requantization as one float multiplication and addition, where that is proved to answer the same."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere
from thinflow.lower.c.requantize import activation_limits, folded_bias, sum_factors
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.typing import Array

_ULPS = (0, *(side * n for n in (*range(1, 13), *range(16, 72, 8)) for side in (1, -1)))
"""Steps of a float from the scale; beyond them lines are too steep for 255 thresholds."""
PARTS = (0.5, 0.35, 0.65, 0.2, 0.8, 0.1, 0.9)
"""Where in the interval of offsets that would do in real numbers a float is tried."""


@dataclass(frozen=True)
class Lines:
    """round(float(sum) * scale + offset), halves to even, is the output before it is held between limits.

    Attributes:
        bias: int32 [channels] what sums begin with.
        scale, offset: float32 [channels].
        below: float32 [channels] the offset of negative sums.
        limits: least and largest output.
    """

    bias: Array
    scale: Array
    offset: Array
    below: Array
    limits: tuple[int, int]

    @property
    def halves(self) -> str:
        """ "up" if one offset is for all sums, "away" if there are two."""
        return "up" if (self.offset == self.below).all() else "away"


def lines(b: LayerBuilder, w: Array, rounding: str) -> Lines:
    """The lines of a layer with weights [channels, depth].

    An output is a staircase over the sums. It and a line are monotonic: if they agree on both sides of each
    step, and at both ends, they agree everywhere.

    Args:
        b: of the layer.
        w: int8.
        rounding: "once", "twice" or "float".

    Raises:
        NotHere: a channel has none.
    """
    x, y = b.input(0), b.output()
    bias, wide = folded_bias(b, 2, w, b.scale(x)[1], 0).astype(np.int64), w.astype(np.int64)
    # The input's zero point is in the bias: weights meet the stored bytes themselves, -128 to 127.
    least = bias + np.minimum(127 * wide, -128 * wide).sum(1)
    most = bias + np.maximum(127 * wide, -128 * wide).sum(1)
    factors = np.broadcast_to(sum_factors(b, x, b.input(1), y, rounding), bias.shape)
    stairs = Stairs(factors, rounding, b.scale(y)[1], activation_limits(b, y))
    if max(np.abs(least).max(), np.abs(most).max()) >= 1 << 31 or stairs.right.min() < 0:
        raise NotHere
    found = line_of(stairs, least, most)
    return Lines((bias - found[3]).astype(np.int32), *found[:3], stairs.limits)


@dataclass
class Stairs:
    """Outputs of integer sums, as LiteRT's kernels have them.

    Attributes:
        factors: [channels] of the sums.
        rounding: "once", "twice" or "float".
        zero_point: of the output.
        limits: least and largest output.
    """

    factors: Array
    rounding: str
    zero_point: int
    limits: tuple[int, int]

    def __post_init__(self) -> None:
        pairs = np.array([quantized_multiplier(float(f)) for f in self.factors], np.int64)
        self._multiplier, self.right = pairs[:, :1], -pairs[:, 1:]

    def at(self, sums: Array) -> Array:
        """int64 [channels, n] outputs of sums [channels, n]."""
        found: Array = np.clip(self._scaled(sums) + self.zero_point, *self.limits).astype(np.int64)
        return found

    def _scaled(self, sums: Array) -> Array:
        if self.rounding == "float":
            # As XNNPACK: the sum becomes a float first, which rounds what is beyond 2^24.
            factors = self.factors.astype(np.float32)[:, None]
            rounded: Array = np.rint(sums.astype(np.float32) * factors)
            return rounded
        # Sums and multipliers have 31 bits each: int64 holds their product.
        exact = sums * self._multiplier
        if self.rounding == "once":
            once: Array = (exact + (1 << (30 + self.right))) >> (31 + self.right)
            return once
        # gemmlowp's pair: the doubled high half, halves up, then a shift that rounds halves away from zero.
        high = (exact + (1 << 30)) >> 31
        half = (1 << self.right) >> 1
        twice: Array = (high + half - ((high < 0) & (half > 0))) >> self.right
        return twice

    def steps(self, first: Array, last: Array) -> tuple[Array, Array]:
        """[channels, n] the outputs above the first up to the last, and the least sum that gives each.

        Where a channel has fewer than others, its last is repeated.
        """
        count = max(int((last - first).max()), 1)
        output = np.minimum(first[:, None] + 1 + np.arange(count), last[:, None])
        sums = np.ceil((output - self.zero_point - 0.5) / self.factors[:, None]).astype(np.int64)
        # The estimate is off by the rounding in the kernels: a few sums.
        has = (first < last)[:, None]
        while (late := has & (self.at(sums - 1) >= output)).any():
            sums -= late
        while (early := has & (self.at(sums) < output)).any():
            sums += early
        return output, sums


def line_of(stairs: Stairs, least: Array, most: Array) -> tuple[Array, Array, Array, Array]:
    """Scale, offset of sums that are not negative, and of those that are; and what to take off sums first.

    Args:
        stairs: to be met.
        least, most: int64 [channels] sums there can be.

    Raises:
        NotHere: a channel has no such line.
    """
    first, last = stairs.at(np.column_stack([least, most])).T
    is_flat = first == last
    scale = np.where(is_flat, 0, stairs.factors).astype(np.float32)
    above = np.where(is_flat, first, 0).astype(np.float32)
    below, taken = above.copy(), np.zeros(len(scale), np.int64)
    output, sums = stairs.steps(first, last)
    # Where offsets may change, at zero, the ends of both lines count too.
    around = np.clip([[0, 0, -1, 0]], least[:, None], most[:, None])
    around[:, :2] = np.column_stack([least, most])
    wanted, todo = stairs.at(around), np.flatnonzero(~is_flat)
    # One offset for all sums first: with two, kernels choose between them for each lane.
    for is_one, ulps in product((True, False), _ULPS):
        if not len(todo):
            break
        tried = nudged(stairs.factors[todo].astype(np.float32), ulps)
        # Floats are finest around zero: there an output of zero is to be.
        moved = np.rint(-stairs.zero_point / stairs.factors[todo]).astype(np.int64) * is_one
        steps = output[todo], sums[todo] - moved[:, None]
        ends = around[todo] - moved[:, None], wanted[todo]
        is_open = np.ones(len(todo), np.bool_)
        for part in PARTS:
            offsets, is_some = _offsets(tried, *steps, part, is_one)
            if not (is_some & is_open).any():
                break
            is_right = is_open & is_some & _agrees(tried, offsets, steps, ends, stairs.limits)
            done = todo[is_right]
            scale[done], above[done], below[done] = (a[is_right] for a in (tried, *offsets))
            taken[done] = moved[is_right]
            is_open &= ~is_right
        todo = todo[is_open]
    if len(todo):
        raise NotHere
    return scale, above, below, taken


def nudged(scale: Array, ulps: int) -> Array:
    """Floats some steps away from zero, or towards it."""
    # Floats of one sign are in the order of their bits as integers: one more is the next float.
    moved: Array = (scale.view(np.int32) + np.int32(ulps)).view(np.float32)
    return moved


def _offsets(
    scale: Array, output: Array, sums: Array, part: float, is_one: bool
) -> tuple[tuple[Array, Array], Array]:
    """Offsets of sums from 0 on and of negative ones, at a part of the intervals that the steps leave.

    And bool [channels], whether they leave any.
    """
    wide = scale.astype(np.float64)[:, None]
    # The sum of a step has to come to half below its output or more, the one before it to less.
    low, high = output - 0.5 - wide * sums, output - 0.5 - wide * (sums - 1)
    found, is_some = [], np.ones(len(scale), np.bool_)
    for is_lower, is_upper in ((True, True),) if is_one else ((sums >= 0, sums > 0), (sums < 0, sums <= 0)):
        least = np.where(is_lower, low, -np.inf).max(1)
        most = np.where(is_upper, high, np.inf).min(1)
        is_some &= least <= most
        # Without a step on a side any offset does that goes on where the other ends.
        least, most = np.where(np.isfinite(least), least, most), np.where(np.isfinite(most), most, least)
        least, most = (np.where(np.isfinite(n), n, 0) for n in (least, most))
        found.append((least + (most - least) * part).astype(np.float32))
    return (found[0], found[-1]), is_some


def _agrees(
    scale: Array,
    offsets: tuple[Array, Array],
    steps: tuple[Array, Array],
    ends: tuple[Array, Array],
    limits: tuple[int, int],
) -> Array:
    """bool [channels]: whether the lines have all steps where they are, and answer the same at the ends."""
    # In case the double sum was rounded: both neighbours of it have to say the same.
    found: Array = np.ones(len(scale), np.bool_)
    (output, sums), (around, wanted) = steps, ends
    for side in (-np.inf, np.inf):
        found &= (_line(scale, offsets, sums, side) >= output).all(1)
        found &= (_line(scale, offsets, sums - 1, side) < output).all(1)
        found &= (np.clip(_line(scale, offsets, around, side), *limits) == wanted).all(1)
    return found


def _line(scale: Array, offsets: tuple[Array, Array], sums: Array, side: float) -> Array:
    """What the kernels compute: a fused multiplication and addition of floats, to the nearest integer."""
    above, below = (offset.astype(np.float64)[:, None] for offset in offsets)
    # The product of two floats is exact in double precision.
    exact = sums.astype(np.float32).astype(np.float64) * scale.astype(np.float64)[:, None]
    real = np.nextafter(exact + np.where(sums < 0, below, above), side)
    rounded: Array = np.rint(real.astype(np.float32))
    return rounded
