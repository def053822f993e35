"""Samples held out: where no others are given to judge on, some of those for calibration are kept for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from thinflow.ir.graph import Value
from thinflow.optimize.climb import HOLD_OUT
from thinflow.optimize.samples import Samples
from thinflow.typing import Array

FEWEST = 2 * HOLD_OUT
"""Samples without which none are held out: fewer than two would judge."""

T = TypeVar("T")


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

    def walk() -> Iterator[dict[Value, Array]]:
        return (feed for number, feed in enumerate(samples) if is_taken(number))

    numbers = None if samples.count is None else [n for n in range(samples.count) if is_taken(n)]
    how = "held out to judge on" if judges else "to calibrate with"
    count = "some" if numbers is None else str(len(numbers))
    loudest = None
    if numbers is not None and samples.loudest in numbers:
        loudest = numbers.index(samples.loudest)
    return replace(
        samples,
        walk=walk,
        count=None if numbers is None else len(numbers),
        labels=_taken(samples.labels, is_taken),
        given_labels=_taken(samples.given_labels, is_taken),
        places=_taken(samples.places, is_taken) or [],
        loudest=loudest,
        note=f"{count} {how}, of {samples.note}",
        # Told once, of those to calibrate with.
        doubts=() if judges else samples.doubts,
    )


def _taken(items: Sequence[T] | None, is_taken: Callable[[int], bool]) -> list[T] | None:
    return None if items is None else [item for number, item in enumerate(items) if is_taken(number)]
