"""Numbers that describe repeated measurements without assuming a normal distribution.

Run times have a hard lower edge and a long upper tail, so everything here goes by ranks: medians,
quartiles, and intervals for them. Nothing is thrown away; outliers are named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.ir.brief import brief_repr
from thinflow.typing import Array

CONFIDENCE = 0.95
_NORMAL_QUANTILE = 1.959964  # two-sided, for CONFIDENCE
_EXACT_UP_TO = 100
# 25 of so many lie beyond each end of a 95 % interval.
_RESAMPLES = 1000
# All resamples lie in memory at once: 33 MB of indices. A model of microseconds runs 10^5 times in a second.
_MOST_DRAWN = 4096
# From the least to the greatest of n values covers it with 1 - 2 / 2^n: 94 % for five, 97 % for six.
_FEWEST = 6  # below that no interval of ranks covers a median with 95 %
_FAR = 3.0  # Tukey's outer fence, in quartile distances


@brief_repr
@dataclass(frozen=True)
class Distribution:
    """Statistics of one quantity measured `count` times, in the unit of the measurements.

    Attributes:
        low, high: the median lies between them with 95 % confidence (below 6 values: the extremes).
        mad: median distance from the median.
        outliers: (index, value) of what lies beyond the quartiles by more than 3 quartile distances.
    """

    count: int
    median: float
    low: float
    high: float
    mad: float
    q1: float
    q3: float
    p90: float
    p99: float
    minimum: float
    maximum: float
    outliers: tuple[tuple[int, float], ...] = ()

    @property
    def has_interval(self) -> bool:
        """True if there are enough values to say how far the median may be off."""
        return self.count >= _FEWEST

    @property
    def uncertainty(self) -> float:
        """Half the width of the median's interval, relative to the median; infinite below 6 values."""
        if not self.has_interval or self.median <= 0:
            return math.inf
        return (self.high - self.low) / 2 / self.median

    def scaled(self, factor: float) -> Distribution:
        """The same in another unit."""
        numbers = {k: v * factor for k, v in vars(self).items() if k not in {"count", "outliers"}}
        return Distribution(
            count=self.count, outliers=tuple((i, v * factor) for i, v in self.outliers), **numbers
        )

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "outliers": [list(o) for o in self.outliers]}


@dataclass(frozen=True)
class Interval:
    """An estimate and the 95 % interval around it; 0 to infinity if too little was measured to know it."""

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """True if there is an interval."""
        return self.high < math.inf

    @property
    def half_width(self) -> float:
        """The larger of the two distances to the ends."""
        return max(self.high - self.value, self.value - self.low)

    def data(self) -> dict[str, float | None]:
        """For JSON, which has no infinity: no upper end if there is no interval."""
        return {"value": self.value, "low": self.low, "high": self.high if self.known else None}

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        return plus_minus(self.value, self.half_width)

    def widened(self, relative: float) -> Interval:
        """With a further uncertainty that the measurements cannot show."""
        return Interval(self.value, self.low * (1 - relative), self.high * (1 + relative))

    def inverse(self) -> Interval:
        """Of the reciprocal; the interval must be positive."""
        return Interval(1 / self.value, 1 / self.high, 1 / self.low if self.low else math.inf)


def describe(values: Sequence[float]) -> Distribution:
    """Median, spread, tail and interval of measurements.

    Args:
        values: at least one.
    """
    array = np.asarray(values, float)
    q1, median, q3, p90, p99 = np.quantile(array, [0.25, 0.5, 0.75, 0.9, 0.99])
    low, high = median_interval(array)
    reach = _FAR * (q3 - q1)
    far = [(int(i), float(array[i])) for i in np.flatnonzero((array > q3 + reach) | (array < q1 - reach))]
    return Distribution(
        count=len(array),
        median=float(median),
        low=low,
        high=high,
        mad=float(np.median(np.abs(array - median))),
        q1=float(q1),
        q3=float(q3),
        p90=float(p90),
        p99=float(p99),
        minimum=float(array.min()),
        maximum=float(array.max()),
        outliers=tuple(far),
    )


def median_interval(values: Sequence[float] | Array) -> tuple[float, float]:
    """Two of the values, with the median between them at 95 % confidence; the extremes if there are too few.

    The number of values below the true median is binomial(n, 1/2), whatever the distribution. Where
    neighbours resemble each other (a machine that is slow for a while) the interval is widened accordingly.

    Args:
        values: in the order of measurement.
    """
    array = np.asarray(values, float)
    middle = len(array) / 2
    reach = (middle - _skipped_ranks(len(array))) * _dependence(array)
    skip = max(0, math.floor(middle - reach))
    ordered = np.sort(array)
    return float(ordered[skip]), float(ordered[len(ordered) - 1 - skip])


def _dependence(array: Array) -> float:
    """Factor by which the interval is wider than for independent values; 1 unless neighbours are alike."""
    side = np.sign(array - np.median(array))
    spread = float(side @ side)
    # Autocorrelation of neighbours, by which side of the median they lie on: a few slow runs cannot dominate
    # it.
    likeness = float(side[1:] @ side[:-1]) / spread if spread else 0.0
    # That much comes from independent values, too, in all but 5 % of cases.
    if likeness <= 2 / math.sqrt(len(array)):
        return 1.0
    # The variance of a mean of values that follow each other so (a first-order autoregression) is larger by
    # (1 + r) / (1 - r) than of independent ones, its standard deviation by the root of that.
    # Up to 0.99: a machine that drifts all the time shall widen the interval, not make it infinite.
    return math.sqrt((1 + likeness) / (1 - min(likeness, 0.99)))


def _skipped_ranks(count: int) -> int:
    """Number of values to leave out at either end."""
    if count > _EXACT_UP_TO:
        # binomial(n, 1/2) has the standard deviation sqrt(n) / 2; one rank less to be on the safe side of
        # rounding.
        return max(0, math.floor((count - _NORMAL_QUANTILE * math.sqrt(count)) / 2) - 1)
    below, skip = 0, -1
    # In integers: probabilities times 2^n are sums of binomial coefficients.
    allowed = (1 - CONFIDENCE) / 2 * 2**count
    while below + math.comb(count, skip + 1) <= allowed:
        skip += 1
        below += math.comb(count, skip)
    return max(0, skip)


def ratio_of_medians(
    a: Sequence[float], b: Sequence[float], *, paired: bool = False, seed: int = 0
) -> Interval:
    """median(a) / median(b) with a bootstrap interval, which takes at least 6 values of each.

    Neighbouring runs resemble each other, so stretches of about n^(1/3) runs are drawn, not single ones.
    Paired means that a[i] and b[i] were measured next to each other: the same stretches are then drawn from
    both, and what slowed both down cancels.

    Args:
        a, b: at least one value each, all positive.
        paired: both have the same length.
        seed: of the resampling; the same seed gives the same interval.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    value = float(np.median(first) / np.median(second))
    if min(len(first), len(second)) < _FEWEST:
        return Interval(value, 0.0, math.inf)
    rng = np.random.default_rng(seed)
    draws = _stretches(len(first), rng)
    others = draws if paired else _stretches(len(second), rng)
    ratios = _medians(first, draws) / _medians(second, others)
    low, high = np.quantile(ratios, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    # Percentiles of the resampled ratios may pass by the estimate itself where there are few values.
    return Interval(value, min(float(low), value), max(float(high), value))


def _stretches(count: int, rng: np.random.Generator) -> Array:
    """Indices [resamples, at most _MOST_DRAWN], each row made of stretches that wrap round at the end."""
    length = max(1, round(count ** (1 / 3)))
    drawn = min(count, _MOST_DRAWN)
    starts = rng.integers(0, count, (_RESAMPLES, -(-drawn // length)))
    rows = (starts[:, :, None] + np.arange(length)).reshape(_RESAMPLES, -1)
    # Wrapping round gives the runs at the ends the same chance as those in the middle.
    return rows[:, :drawn] % count


def _medians(values: Array, draws: Array) -> Array:
    """Medians [resamples] of what was drawn, as far from the median of all as draws of all would lie."""
    found: Array = np.median(values[draws], axis=1)
    count, drawn = len(values), draws.shape[1]
    if drawn == count:
        return found
    # The m out of n bootstrap (Bickel, Goetze, van Zwet 1997): a median's error goes with 1 / sqrt(count).
    median = float(np.median(values))
    return median + (found - median) * math.sqrt(drawn / count)


def plus_minus(value: float, half_width: float) -> str:
    """Both numbers with as many decimals as the uncertainty deserves: `3.1 ± 0.1`."""
    if not math.isfinite(half_width):
        return f"{value:.3g} ± ?"
    if half_width <= 0:
        return f"{value:.3g} ± 0"
    # The first digit of the uncertainty that is not 0 decides.
    decimals = min(6, max(0, -math.floor(math.log10(half_width))))
    if round(half_width, decimals) >= 10 ** (1 - decimals):  # 0.097 rounds to 0.10, which is 0.1
        decimals = max(0, decimals - 1)
    if abs(value) < 10:
        decimals = max(1, decimals)
    return f"{value:.{decimals}f} ± {half_width:.{decimals}f}"
