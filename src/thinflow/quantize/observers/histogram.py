"""Observers of the distribution: a first walk finds the extremes, a second counts values in bins."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import numpy as np

from thinflow.errors import ParameterError
from thinflow.quantize.observers import State, observer
from thinflow.quantize.zero_points import steps_below_zero
from thinflow.typing import Array

# 32 bins to the step between two int8 values: where a value lies within its bin moves an end of the range by
# less than a sixteenth of the rounding error.
BINS = 8192
# Values of a tensor that are counted in one sample. Its extremes are exact, and of 60 samples as many still
# show what lies beyond 99.999 % forty times; all values of MobileNet v2 would be a third of the time that
# quantizing it takes.
MOST_COUNTED = 1 << 16
# Parts in which a value is shared out between two bins: with so many, a float64 holds counts of 2^37 values
# without rounding, and where a value lies is told to 1/65536 of a bin.
SHARES = 1 << 16


class Histogram:
    """Two walks: the first finds the extremes, the second counts."""

    passes = 2

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self.counts: Array = np.zeros(BINS, np.int64)
        self._walk = self._seen = self._thinned = 0
        self._centers: Array | None = None

    def begin(self, walk: int) -> None:
        self._walk, self._centers = walk, None

    def observe(self, values: Array, low: float, high: float) -> None:
        if self._walk == 0:
            self.low, self.high = min(self.low, low), max(self.high, high)
            # Of how many samples the second walk will count a part only: where it goes on in their middle.
            self._thinned += values.size // MOST_COUNTED > 1
        elif self.high > self.low:
            # float64: in float32 the difference of two large values may overflow.
            some, each = self._some(values)
            places = np.subtract(some, self.low, dtype=np.float64)
            places *= BINS / (self.high - self.low)
            # A runtime may round differently the second time.
            np.clip(places, 0, BINS - 1, out=places)
            self.counts += each * self._counted(places)
        # Only one value was ever seen: there is no width to divide.
        else:
            self.counts[0] += values.size

    def state(self) -> State:
        if self._walk:
            return {"counts": self.counts}
        return {"ends": np.array([self.low, self.high]), "thinned": np.array([self._thinned])}

    def merge(self, later: State) -> None:
        if self._walk:
            self.counts += later["counts"]
            return
        low, high = map(float, later["ends"])
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._thinned += int(later["thinned"][0])

    def resume(self, walk: int, whole: State, before: State) -> None:
        self.begin(walk)
        if walk:
            self.low, self.high = map(float, whole["ends"])
            self._seen = int(before["thinned"][0])

    def _counted(self, places: Array) -> Array:
        """[BINS] how many of some values lie in each bin; places are in 0..BINS - 1, with fractions."""
        return np.bincount(places.astype(np.intp), minlength=BINS)

    def _some(self, values: Array) -> tuple[Array, int]:
        """Evenly spread ones of many values, others in every sample, and how many each stands for."""
        values = values.ravel()
        step = values.size // MOST_COUNTED
        if step <= 1:
            return values, 1
        # With no factor in common all channels, rows and columns are met alike.
        while math.gcd(step, values.size) > 1:
            step += 1
        self._seen += 1
        return values[self._seen % step :: step], step

    @property
    def edges(self) -> Array:
        """float64 [BINS + 1] limits of the bins."""
        return np.linspace(self.low, self.high, BINS + 1)

    @property
    def centers(self) -> Array:
        """float64 [BINS]"""
        if self._centers is None:
            edges = self.edges
            self._centers = (edges[:-1] + edges[1:]) / 2
        return self._centers

    @property
    def is_flat(self) -> bool:
        """True if there is nothing to choose: no value, or always the same."""
        return not self.high > self.low

    def squared_error(self, low: float, high: float, levels: int) -> float:
        """Sum of squared errors of a range that holds 0, all values of a bin taken for its centre."""
        scale = (high - low) / (levels - 1)
        # Only a width that underflows.
        if scale <= 0:
            return float("inf")
        values = self.centers
        # Rounded like a zero point, so that the error is that of the integers and not of an ideal grid. In
        # place: a search asks for a hundred ranges of each tensor.
        zero = steps_below_zero(low, scale)
        back = values / scale
        np.rint(back, out=back)
        np.clip(back, -zero, levels - 1 - zero, out=back)
        back *= scale
        back -= values
        np.square(back, out=back)
        return float(back @ self.counts)

    def unless_worse(self, cut: tuple[float, float], levels: int) -> tuple[float, float]:
        """A range, or all that was seen where that has the smaller squared error."""
        if self.is_flat:
            return self.low, self.high

        def error(ends: tuple[float, float]) -> float:
            return self.squared_error(min(ends[0], 0.0), max(ends[1], 0.0), levels)

        return min(((self.low, self.high), cut), key=error)


@observer("percentile")
class Percentile(Histogram):
    """The range from 100 - percent to percent; of one-sided data only the far side is cut.

    Args:
        percent: of the values below the high end, above 50 and at most 100.
    """

    # One value of 100,000 is cut: none of a small tensor in a few samples, and a few hot pixels of a picture.
    def __init__(self, percent: float = 99.999) -> None:
        super().__init__()
        if not 50 < percent <= 100:
            raise ParameterError(f"percent is {percent}", hint="give a percentage like 99.99")
        self.percent = percent

    def range(self) -> tuple[float, float]:
        if self.is_flat:
            return self.low, self.high
        beyond = int(self.counts.sum() * (1 - self.percent / 100))
        edges = self.edges
        # The outermost bins in which more values than those that may be cut have come together.
        # `argmax` of booleans is the place of the first True.
        first = int(np.argmax(np.cumsum(self.counts) > beyond))
        last = len(self.counts) - int(np.argmax(np.cumsum(self.counts[::-1]) > beyond))
        low = self.low if self.low >= 0 else float(edges[first])
        high = self.high if self.high <= 0 else float(edges[last])
        return low, high


def _checked_levels(levels: int) -> int:
    if not 2 <= levels <= 65536:
        raise ParameterError(f"levels is {levels}", hint="give a number of levels like 256")
    return levels


# What has its best range below a fifth of the extremes gets a fifth: rounding at that range is a 25th of the
# squared error there was.
FACTORS = np.linspace(0.2, 1.0, 41)
# Around its least the error hardly changes over several factors, and which of them has the least is left to
# the last digits of float kernels: the same network from another file would get other ranges.
NEARLY = 0.02
"""Part of the least error by which another may exceed it and count almost as much."""

Shrink = Callable[[float], tuple[float, float]]


@observer("mse")
class MeanSquaredError(Histogram):
    """The best of 41 shrunken ranges: the mean of those that are hardly worse.

    Both ends shrink together, or for two-sided data the longer side alone.

    Args:
        levels: quantized values there are, 256 for int8.
    """

    def __init__(self, levels: int = 256) -> None:
        super().__init__()
        self.levels = _checked_levels(levels)
        self.counts = np.zeros(BINS)

    def _counted(self, places: Array) -> Array:
        """Each value is shared out between the two bins whose centres are next to it.

        One that lies on the border of two would else change the error by its last digit.
        """
        places -= 0.5
        np.maximum(places, 0, out=places)
        left = places.astype(np.intp)
        places -= left
        # In whole parts, so that sums are exact: samples give the same in any order, and on any machines.
        places *= SHARES
        np.rint(places, out=places)
        places /= SHARES
        return np.bincount(left, 1 - places, BINS) + np.bincount(left + 1, places, BINS)

    def range(self) -> tuple[float, float]:
        if self.is_flat:
            return self.low, self.high
        found = [self._best(shrink) for shrink in self._ways()]
        # Compared by the error first.
        return min(found)[1]

    def _ways(self) -> list[Shrink]:
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        longer = max(-low, high)
        ways: list[Shrink] = [lambda factor: (low * factor, high * factor)]
        if low < 0 < high:
            # Cutting the longer side first costs the shorter one nothing until both are equally long.
            ways.append(lambda factor: (max(low, -longer * factor), min(high, longer * factor)))
        return ways

    def _best(self, shrink: Shrink) -> tuple[float, tuple[float, float]]:
        """Smallest error along one way of shrinking, and its range."""
        errors = np.array([self._error(*shrink(f)) for f in FACTORS])
        lowest = int(np.argmin(errors))
        limit = errors[lowest] * (1 + NEARLY)
        # The middle of all that are nearly as good, unless there is a hill between two valleys.
        weights = np.exp((errors[lowest] - errors) / max(limit - errors[lowest], sys.float_info.min))
        middle = round(np.average(np.arange(len(FACTORS)), weights=weights))
        place = middle if errors[middle] <= limit else lowest
        return float(errors[place]), shrink(FACTORS[place])

    def _error(self, low: float, high: float) -> float:
        return self.squared_error(low, high, self.levels)


def _checked_rate(rate: float) -> float:
    if not 0 < rate <= 1:
        raise ParameterError(f"rate is {rate}", hint="give a part of 1, like 0.01")
    return rate


@observer("moving")
class Moving(Histogram):
    """The first sample's extremes, moved a part of the way to those of every further one.

    All that was seen where that has the smaller squared error: an average of the largest numbers of samples
    cuts off those of half of them, which are the answers of a classifier.

    Args:
        rate: that part, above 0 and at most 1.
        levels: quantized values there are, 256 for int8.
    """

    # With 0.01 the last hundred samples make 63 % of the average.
    def __init__(self, rate: float = 0.01, levels: int = 256) -> None:
        super().__init__()
        self.rate, self.levels = _checked_rate(rate), _checked_levels(levels)
        self._ends: tuple[float, float] | None = None
        self._each: list[tuple[float, float]] | None = None

    def observe(self, values: Array, low: float, high: float) -> None:
        first_walk = self._walk == 0
        super().observe(values, low, high)
        if first_walk and self._each is None:
            self._move(low, high)
        elif first_walk and self._each is not None:
            self._each.append((low, high))

    def _move(self, low: float, high: float) -> None:
        before = self._ends or (low, high)
        moved = (b + self.rate * (e - b) for b, e in zip(before, (low, high), strict=True))
        self._ends = next(moved), next(moved)

    def state(self) -> State:
        found = super().state()
        return found if self._each is None or self._walk else found | {"each": np.array(self._each)}

    def merge(self, later: State) -> None:
        super().merge(later)
        # An average that follows the samples depends on those before: it is drawn again, step by step.
        for low, high in later.get("each", ()):
            self._move(float(low), float(high))

    def resume(self, walk: int, whole: State, before: State) -> None:
        super().resume(walk, whole, before)
        self._each = []

    def range(self) -> tuple[float, float]:
        return (self.low, self.high) if self._ends is None else self.unless_worse(self._ends, self.levels)


@observer("sigma")
class Sigma(Histogram):
    """mean +- k standard deviations of all values, never beyond what was seen.

    All that was seen where that has the smaller squared error: behind a ReLU or a hard swish most values are
    small and the few large ones, far outside, decide between classes.

    Args:
        k: how many, above 0.
        levels: quantized values there are, 256 for int8.
    """

    # Of a normal distribution two values in a billion lie beyond 6: what is cut is the tail of another one.
    def __init__(self, k: float = 6.0, levels: int = 256) -> None:
        super().__init__()
        if not 0 < k < math.inf:
            raise ParameterError(f"k is {k}", hint="give a number of standard deviations, like 6")
        self.k, self.levels = k, _checked_levels(levels)

    def range(self) -> tuple[float, float]:
        if self.is_flat:
            return self.low, self.high
        mean = float(np.average(self.centers, weights=self.counts))
        reach = self.k * math.sqrt(float(np.average(np.square(self.centers - mean), weights=self.counts)))
        cut = max(self.low, mean - reach), min(self.high, mean + reach)
        return self.unless_worse(cut, self.levels)


# ------------------------------------------------------------------------------------------------- divergence
#
# The threshold that changes the distribution of the magnitudes least.
#
# Migacz, "8-bit inference with TensorRT", GTC 2017.


# As in Migacz's slides: 2048 bins of magnitudes, of which at least as many are kept as there are levels.
MAGNITUDES = 2048
STRIDE = 8
"""Bins between thresholds that are tried: a step is 0.4 % of the whole range."""
# What an empty bin counts, as a part of what each would have if all were alike: without it a bin that only
# one of the two distributions fills would make their divergence infinite.
EMPTY = 1e-4


@observer("kl")
class Divergence(Histogram):
    """Clips |x| where the distribution before and after rounding differ least (Kullback and Leibler).

    Numbers in the first bin, the zeros behind a ReLU, count for nothing: every range represents them. No
    threshold is taken that has a larger squared error than no clipping at all.

    Args:
        levels: quantized values on one side of zero; default 128 for two-sided data, 255 for one-sided.
    """

    def __init__(self, levels: int = 0) -> None:
        super().__init__()
        if levels < 0 or levels > MAGNITUDES // 2:
            raise ParameterError(f"levels is {levels}", hint=f"give 1 to {MAGNITUDES // 2}, or 0 to choose")
        self.levels = levels

    def range(self) -> tuple[float, float]:
        if self.is_flat:
            return self.low, self.high
        largest = max(-self.low, self.high)
        # One-sided data, as behind ReLU, can use all 256 steps for magnitudes.
        levels = self.levels or (128 if self.low < 0 < self.high else 255)
        counts = self._magnitudes(largest)
        kept = range(levels, MAGNITUDES, STRIDE)
        # A distribution hardly changes where a few of its largest values are cut, and these may decide.
        whole = self._error(largest, levels)
        safe = [n for n in kept if self._error(largest * n / MAGNITUDES, levels) <= whole]
        limit = largest * _threshold(counts, [*safe, MAGNITUDES], levels) / MAGNITUDES
        return max(self.low, -limit), min(self.high, limit)

    def _error(self, limit: float, levels: int) -> float:
        """Squared error of clipping at a limit and rounding, with the levels that two-sided data have."""
        low, high = max(min(self.low, 0.0), -limit), min(max(self.high, 0.0), limit)
        return self.squared_error(low, high, 2 * levels if self.low < 0 < self.high else levels)

    def _magnitudes(self, largest: float) -> Array:
        """Counts of |x| in MAGNITUDES bins up to the largest; none in the first."""
        places = np.minimum(np.abs(self.centers) / largest * MAGNITUDES, MAGNITUDES - 1).astype(np.int64)
        counts = np.bincount(places, weights=self.counts, minlength=MAGNITUDES)
        # Half of what a ReLU gives is 0. Merged with its neighbours in a level and spread over them it would
        # outweigh all else, and only levels of one bin, an eighth of the range, would keep it apart.
        counts[0] = 0
        return counts


def _threshold(counts: Array, kept: Sequence[int], levels: int) -> int:
    """Number of bins to keep, one of some in rising order."""
    divergences = np.array([_divergence(counts, bins, levels) for bins in kept])
    return kept[int(np.argmin(divergences))]


def _divergence(counts: Array, bins: int, levels: int) -> float:
    """Between the first bins with the tail in the last one, and the same merged to `levels` and spread."""
    inside = counts[:bins]
    reference = inside.copy()
    # What is clipped ends up at the limit. Only the reference gets it: that the rounded distribution lacks it
    # is what clipping costs.
    reference[-1] += counts[bins:].sum()
    # To the nearest level, as rounding does: the first and the last hold half as many bins as the others.
    group = np.rint((np.arange(bins) + 0.5) * (levels - 1) / bins).astype(np.int64)
    is_used = inside > 0
    total = np.bincount(group, weights=inside, minlength=levels)
    used = np.bincount(group, weights=is_used, minlength=levels)
    # Each level's count goes back to the bins that had any, in equal parts: rounding never filled an empty
    # bin.
    spread = np.where(is_used, total[group] / np.maximum(used[group], 1), 0.0)
    p, q = _smooth(reference), _smooth(spread)
    return float((p * np.log(p / q)).sum())


def _smooth(counts: Array) -> Array:
    """As probabilities, with a little for empty bins."""
    total = counts.sum()
    if not total:
        return np.full(len(counts), 1 / len(counts))
    smoothed = np.maximum(counts / total, EMPTY / len(counts))
    probabilities: Array = smoothed / smoothed.sum()
    return probabilities
