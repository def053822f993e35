"""Samples held out: where no others are given to judge on, some of those for calibration are kept for it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from thinflow.optimize.climb import HOLD_OUT
from thinflow.optimize.samples import Samples

FEWEST = 2 * HOLD_OUT
"""Samples without which none are held out: fewer than two would judge."""


def held_out(samples: Samples) -> tuple[Samples, Samples]:
    """Every fourth sample to judge on, and the others to calibrate with; all for both where they are few.

    Returns:
        Those to calibrate with, and those to judge on.
    """
    # Of samples that nobody counted the first few are, as none might be left to judge on.
    count = sum(1 for _ in islice(samples, FEWEST)) if samples.count is None else samples.count
    if count < FEWEST:
        return samples, samples
    return _part(samples, judges=False), _part(samples, judges=True)


def _part(samples: Samples, *, judges: bool) -> Samples:
    def is_taken(number: int) -> bool:
        # The last of four: the first sample stays one to calibrate with.
        return (number % HOLD_OUT == HOLD_OUT - 1) is judges

    count = "some" if samples.count is None else str(sum(map(is_taken, range(samples.count))))
    how = "held out to judge on" if judges else "to calibrate with"
    part = samples.taken(is_taken, f"{count} {how}, of {samples.note}")
    # Doubts are told once, of those to calibrate with.
    return replace(part, doubts=()) if judges else part
