"""Observers of extremes and moments, which walk the samples once."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import ParameterError
from thinflow.quantize.observers import observer
from thinflow.typing import Array


@observer("minmax")
class MinMax:
    """Everything seen lies in the range: the safe choice for ReLU networks with enough samples."""

    passes = 1

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf

    def begin(self, walk: int) -> None:
        del walk  # one walk, nothing to reset

    def observe(self, values: Array, low: float, high: float) -> None:
        del values  # the extremes are all it needs
        self.low, self.high = min(self.low, low), max(self.high, high)

    def range(self) -> tuple[float, float]:
        return self.low, self.high


@observer("moving")
class Moving:
    """The first sample's extremes, moved a part of the way to those of every further one.

    Args:
        rate: that part, above 0 and at most 1.
    """

    passes = 1

    # With 0.01 the last hundred samples make 63 % of the average.
    def __init__(self, rate: float = 0.01) -> None:
        if not 0 < rate <= 1:
            raise ParameterError(f"rate is {rate}", hint="give a part of 1, like 0.01")
        self.rate = rate
        self.low: float | None = None
        self.high = 0.0

    def begin(self, walk: int) -> None:
        del walk  # one walk, nothing to reset

    def observe(self, values: Array, low: float, high: float) -> None:
        del values  # the extremes are all it needs
        if self.low is None:
            self.low, self.high = low, high
        self.low += self.rate * (low - self.low)
        self.high += self.rate * (high - self.high)

    def range(self) -> tuple[float, float]:
        # An empty range: nothing was seen.
        return (1.0, -1.0) if self.low is None else (self.low, self.high)


@observer("sigma")
class Sigma:
    """mean +- k standard deviations of all values, never beyond what was seen.

    Args:
        k: how many, above 0.
    """

    passes = 1

    # Of a normal distribution two values in a billion lie beyond 6: what is cut is the tail of another one.
    def __init__(self, k: float = 6.0) -> None:
        if not 0 < k < math.inf:
            raise ParameterError(f"k is {k}", hint="give a number of standard deviations, like 6")
        self.k = k
        self.count = 0
        self.mean = self.squares = 0.0  # squares: sum of squared distances from the mean
        self.low, self.high = math.inf, -math.inf

    def begin(self, walk: int) -> None:
        del walk  # one walk, nothing to reset

    def observe(self, values: Array, low: float, high: float) -> None:
        # Chan, Golub and LeVeque: joining the moments of two sets without cancellation.
        mean = float(values.mean(dtype=np.float64))
        joined = self.count + values.size
        gap = mean - self.mean
        own = float(np.square(values - mean, dtype=np.float64).sum())
        self.squares += own + gap * gap * self.count * values.size / joined
        self.mean += gap * values.size / joined
        self.count = joined
        self.low, self.high = min(self.low, low), max(self.high, high)

    def range(self) -> tuple[float, float]:
        if not self.count:
            return 1.0, -1.0
        reach = self.k * math.sqrt(self.squares / self.count)
        # A range beyond the extremes would waste steps on values that never came.
        return max(self.low, self.mean - reach), min(self.high, self.mean + reach)
