"""Repeated structure in a row of things: one layer after the other, of which each is built alike."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.typing import Array

LONGEST = 512
"""Things in one repetition, in a row so long that each length costs time."""
LONG_ROW = 5000
_LEAST_SAVED = 3
_MANY_SINGLES = 4
"""Copies from which on even a single thing that is repeated is worth a box."""


@dataclass(frozen=True)
class Repeat:
    """`copies` times `period` things from `start` on are alike."""

    start: int
    period: int
    copies: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.copies

    @property
    def saved(self) -> int:
        """Boxes fewer, if one copy stands for all."""
        return (self.copies - 1) * self.period


def find_repeats(kinds: Sequence[Hashable], widths: Sequence[int], most: int) -> list[Repeat]:
    """The repetitions that shorten a row most, until it is short enough or nothing repeats; by their place.

    Args:
        kinds: equal for things that are alike.
        widths: for each place in front of a thing, and for the end, how many values are handed across it:
            a repetition begins where that is least.
        most: things from which on the row is too long.
    """
    numbers: dict[Hashable, int] = {}
    row = np.array([numbers.setdefault(k, len(numbers)) for k in kinds], np.int32)
    found: list[Repeat] = []
    length = len(row)
    waiting: list[tuple[int, int, Repeat, int, int]] = []

    def look(begin: int, end: int) -> None:
        best = _longest(row[begin:end])
        if best is not None:
            best = _shifted(best, begin, widths)
            # Parts of the row have no place in common: starts differ, and repetitions are never compared.
            heapq.heappush(waiting, (-best.saved, best.start, best, begin, end))

    look(0, length)
    while waiting and length > most:
        _, _, best, begin, end = heapq.heappop(waiting)
        found.append(best)
        length -= best.copies * best.period - 1
        look(begin, best.start)
        look(best.end, end)
    return sorted(found, key=lambda r: r.start)


def _longest(row: Array) -> Repeat | None:
    """The repetition that saves most; of equal ones the shortest, then the first. O(length x period)."""
    best: Repeat | None = None
    longest = len(row) // 2 if len(row) <= LONG_ROW else LONGEST
    for period in range(1, longest + 1):
        # All copies but one are saved: of longer periods ever less can be.
        if best is not None and len(row) - period <= best.saved:
            break
        run = _longest_run(row[:-period] == row[period:])
        if run is None:
            continue
        start, length = run
        # A run of things that are alike to those a period on covers a period more than its own length.
        found = Repeat(start, period, (length + period) // period)
        if found.copies < (_MANY_SINGLES if period == 1 else 2) or found.saved < _LEAST_SAVED:
            continue
        if best is None or found.saved > best.saved:
            best = found
    return best


def _longest_run(alike: Array) -> tuple[int, int] | None:
    """Start and length of the longest run of True."""
    ends = np.flatnonzero(np.diff(np.concatenate(([0], alike.astype(np.int8), [0]))))
    if not len(ends):
        return None
    starts, lengths = ends[::2], ends[1::2] - ends[::2]
    longest = int(lengths.argmax())
    return int(starts[longest]), int(lengths[longest])


def _shifted(found: Repeat, offset: int, widths: Sequence[int]) -> Repeat:
    """The repetition in its place in the row, cut where least is handed across.

    A run may be cut at any thing of the period; one copy less is fine if the cuts are narrower.
    """
    total = found.period * found.copies
    choices = []
    for shift in range(found.period):
        copies = (total - shift) // found.period
        if copies < 2 and shift:
            break
        start = offset + found.start + shift
        cuts = [widths[start + i * found.period] for i in range(copies + 1)]
        choices.append((sum(cuts) / len(cuts), -copies, shift))
    _, copies, shift = min(choices)
    return Repeat(offset + found.start + shift, found.period, -copies)
