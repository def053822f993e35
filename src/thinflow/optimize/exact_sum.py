"""Sums of floats without rounding, so that parts merge to the same number in any order."""

from __future__ import annotations

import math

# 2**-1074 is the smallest float64: every other is a whole number of them.
_SHIFT = 1074


class ExactSum:
    """A sum of float64s, bit for bit the same however they are ordered and parted.

    Args:
        text: of another one, as `str` gives it.
    """

    def __init__(self, text: str = "") -> None:
        whole, _, odd = text.partition(" ")
        self._whole = int(whole or "0", 16)
        # Infinities and NaN are no whole numbers of anything.
        self._odd = float(odd or 0.0)

    def add(self, value: float) -> None:
        """One more number."""
        if not math.isfinite(value):
            self._odd += value
            return
        over, under = value.as_integer_ratio()
        # The denominator is a power of two.
        self._whole += over << (_SHIFT + 1 - under.bit_length())

    # Integers add up without rounding, so that the order is all the same: shards may be done in any.
    def merge(self, other: ExactSum) -> None:
        """All numbers of another sum."""
        self._whole += other._whole
        self._odd += other._odd

    @property
    def total(self) -> float:
        """The nearest float64."""
        if self._odd:
            return self._odd
        try:
            # Division of integers rounds once, and correctly.
            return self._whole / (1 << _SHIFT)
        except OverflowError:
            return math.copysign(math.inf, self._whole)

    def __str__(self) -> str:
        return f"{self._whole:x} {self._odd!r}"
