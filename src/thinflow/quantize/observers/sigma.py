"""A number of standard deviations around the mean."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import ParameterError
from thinflow.quantize.observers import observer
from thinflow.typing import Array


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
