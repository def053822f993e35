"""Observers of extremes, which walk the samples once."""

from __future__ import annotations

import math

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
