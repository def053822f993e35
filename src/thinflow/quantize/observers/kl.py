"""The threshold that changes the distribution of the magnitudes least.

Migacz, "8-bit inference with TensorRT", GTC 2017.
"""

from __future__ import annotations

import numpy as np

from thinflow.errors import ParameterError
from thinflow.quantize.observers import observer
from thinflow.quantize.observers._histogram import Histogram
from thinflow.typing import Array

# As in Migacz's slides: 2048 bins of magnitudes, of which at least as many are kept as there are levels.
BINS = 2048
# What an empty bin counts, as a part of what each would have if all were alike: without it a bin that only
# one of the two distributions fills would make their divergence infinite.
EMPTY = 1e-4


@observer("kl")
class Divergence(Histogram):
    """Clips |x| where the distribution before and after rounding differ least (Kullback and Leibler).

    Args:
        levels: quantized values on one side of zero; default 128 for two-sided data, 255 for one-sided.
    """

    def __init__(self, levels: int = 0) -> None:
        super().__init__()
        if levels < 0 or levels > BINS // 2:
            raise ParameterError(f"levels is {levels}", hint=f"give 1 to {BINS // 2}, or 0 to choose")
        self.levels = levels

    def range(self) -> tuple[float, float]:
        if self.is_flat:
            return self.low, self.high
        largest = max(-self.low, self.high)
        # One-sided data, as behind ReLU, can use all 256 steps for magnitudes.
        levels = self.levels or (128 if self.low < 0 < self.high else 255)
        limit = largest * _threshold(self._magnitudes(largest), levels) / BINS
        return max(self.low, -limit), min(self.high, limit)

    def _magnitudes(self, largest: float) -> Array:
        """Counts of |x| in BINS bins up to the largest."""
        places = np.minimum(np.abs(self.centers) / largest * BINS, BINS - 1).astype(np.int64)
        return np.bincount(places, weights=self.counts, minlength=BINS)


def _threshold(counts: Array, levels: int) -> int:
    """Number of bins to keep."""
    kept = range(levels, BINS + 1)
    divergences = [_divergence(counts, bins, levels) for bins in kept]
    return kept[int(np.argmin(divergences))]


def _divergence(counts: Array, bins: int, levels: int) -> float:
    """Between the first bins with the tail in the last one, and the same merged to `levels` and spread."""
    inside = counts[:bins]
    reference = inside.copy()
    # What is clipped ends up at the limit. Only the reference gets it: that the rounded distribution lacks it
    # is what clipping costs.
    reference[-1] += counts[bins:].sum()
    # Merges bins into levels that differ in width by one bin at most.
    group = np.arange(bins) * levels // bins
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
