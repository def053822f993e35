"""Findings of the calibration doctor."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that is wrong, or worth knowing.

    Attributes:
        sentence: what it is, with its evidence.
        mend: what mends it, a flag or what to do with the data.
        cost_db: what it is likely to cost, in decibels; None if nothing tells.
        measured: whether that was measured, and is no estimate.
        warns: False for what is worth knowing and nothing to worry about.
        check: name of the check that found it.
    """

    sentence: str
    mend: str
    cost_db: float | None = None
    measured: bool = False
    warns: bool = True
    check: str = ""

    @property
    def text(self) -> str:
        """All of it in one line."""
        how = "measured" if self.measured else "estimated"
        cost = "" if self.cost_db is None else f", which costs {self.cost_db:.1f} dB ({how})"
        return f"{self.sentence}{cost}: {self.mend}"

    def data(self) -> dict[str, object]:
        """For machines."""
        return self._asdict()
