"""Counts of a tensor's values in bins of equal width between its extremes."""

from __future__ import annotations

import math

import numpy as np

from thinflow.typing import Array

# 32 bins to the step between two int8 values: where a value lies within its bin moves an end of the range by
# less than a sixteenth of the rounding error.
BINS = 8192


class Histogram:
    """Two walks: the first finds the extremes, the second counts."""

    passes = 2

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self.counts = np.zeros(BINS, np.int64)
        self._walk = 0

    def begin(self, walk: int) -> None:
        self._walk = walk

    def observe(self, values: Array, low: float, high: float) -> None:
        if self._walk == 0:
            self.low, self.high = min(self.low, low), max(self.high, high)
        elif self.high > self.low:
            places = (values.ravel().astype(np.float64) - self.low) * (BINS / (self.high - self.low))
            # A runtime may round differently the second time.
            self.counts += np.bincount(np.clip(places, 0, BINS - 1).astype(np.int64), minlength=BINS)
        # Only one value was ever seen: there is no width to divide.
        else:
            self.counts[0] += values.size

    @property
    def edges(self) -> Array:
        """float64 [BINS + 1] limits of the bins."""
        return np.linspace(self.low, self.high, BINS + 1)

    @property
    def centers(self) -> Array:
        """float64 [BINS]"""
        edges = self.edges
        return (edges[:-1] + edges[1:]) / 2

    @property
    def is_flat(self) -> bool:
        """True if there is nothing to choose: no value, or always the same."""
        return not self.high > self.low
