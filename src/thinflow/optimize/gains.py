"""Gains of one program over another, sample by sample, and what is to be believed of them.

The noise of a few samples together is mostly that of the one whose values are cut off, and small gains are
lost in it. Of decibels compared in pairs that sample is one of many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from thinflow.optimize.quality import LOUDEST, Score

# Of the signal's power: 120 dB, more than float32 sums of a network keep.
_QUIET = 1e-12
# `python -m benchmarks ptq_rungs`: from network to network a rung brings so much more or less than it usually
# does; where it mends a collapse, 20 dB more.
USUAL_SPREAD_DB = 0.6
"""How far what is usual on other networks is from the gain on this one."""
# Less may be one sample more or less whose values are cut off.
PAID_DB = 2.0
"""A loss of all samples together from which on single ones pay for what the mean sample gains."""


def usual_db(scores: Sequence[Score]) -> float:
    """Mean of samples' signal to noise in decibels: one whose values are cut off counts as one.

    Args:
        scores: of single samples.
    """
    signal = sum(s.signal for s in scores) / max(len(scores), 1)
    levels = [_decibels(signal, noise) for noise in _heard(scores)]
    return sum(levels) / len(levels) if levels else LOUDEST


class Gain(NamedTuple):
    """Decibels that the mean sample gains, the standard error of that mean, and what all together gain."""

    mean_db: float
    error_db: float
    together_db: float

    @classmethod
    def between(cls, before: Sequence[Score], after: Sequence[Score]) -> Gain:
        """The gain of one program over another on the same samples, one score for each."""
        pairs = zip(_heard(before), _heard(after), strict=True)
        gains = [_decibels(old, new) for old, new in pairs]
        if not gains:
            return cls(0.0, math.inf, 0.0)
        mean = sum(gains) / len(gains)
        # As if two more samples were a decibel off: the spread of two or three samples tells little of it.
        variance = (sum((g - mean) ** 2 for g in gains) + 2.0) / (len(gains) + 1)
        together = _decibels(sum(_heard(before)), sum(_heard(after)))
        return cls(mean, math.sqrt(variance / len(gains)), together)

    def believed(self, usual: float) -> float:
        """The gain to be expected where `usual` decibels are what other networks gain.

        The mean of a normal distribution, from a measurement and its error and a prior; see Gelman et al.,
        Bayesian Data Analysis, 3rd edition, section 2.5.
        """
        if self.together_db < -PAID_DB:
            return self.together_db
        if not math.isfinite(self.error_db):
            return usual
        measured, before = 1 / self.error_db**2, 1 / USUAL_SPREAD_DB**2
        return (self.mean_db * measured + usual * before) / (measured + before)


def _heard(scores: Sequence[Score]) -> list[float]:
    """Noise of each sample, as loud as can be told from none."""
    quiet = _QUIET * sum(s.signal for s in scores) / max(len(scores), 1)
    return [max(s.noise, quiet) for s in scores]


def _decibels(signal: float, noise: float) -> float:
    if not noise:
        return LOUDEST if signal else 0.0
    return 10 * math.log10(signal / noise) if signal else -LOUDEST
