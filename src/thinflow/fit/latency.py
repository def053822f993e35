"""The time that instructions take on a processor: cycles of boards that others have timed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from thinflow.errors import ParameterError

_CLOCK = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(hz|khz|mhz|ghz)?\s*", re.IGNORECASE)
_FACTORS = {"hz": 1e-6, "khz": 1e-3, "mhz": 1.0, "ghz": 1e3}


@dataclass(frozen=True)
class Pace:
    """How fast a processor runs.

    Attributes:
        cycles: of an instruction, waiting for flash included: least, usual and most on a board.
        clock_mhz: of the board, which is taken where none is given.
        source: of the cycles.
    """

    cycles: tuple[float, float, float]
    clock_mhz: float
    source: str


@dataclass(frozen=True)
class Latency:
    """Milliseconds of a run: the estimate, and between which it lies."""

    ms: float
    low_ms: float
    high_ms: float

    @property
    def error(self) -> str:
        """Of the estimate, in percent to both sides."""
        return f"-{1 - self.low_ms / self.ms:.0%} +{self.high_ms / self.ms - 1:.0%}" if self.ms else ""


@cache
def pace_of(cpu: str) -> Pace | None:
    """The pace of a processor; None if none of its kind was timed or counted."""
    text = (files("thinflow.fit") / "data" / "processors.json").read_text("utf-8")
    found = json.loads(text).get(cpu)
    if found is None:
        return None
    least, usual, most = found["cycles"]
    return Pace((least, usual, most), found["clock_mhz"], found["source"])


def latency(instructions: float, error: float, cpu: str, clock_mhz: float) -> Latency | None:
    """The time of a run.

    Args:
        instructions: estimated.
        error: of that estimate, relative.
        cpu: the processor.
        clock_mhz: its clock.
    """
    pace = pace_of(cpu)
    if pace is None:
        return None
    least, usual, most = (instructions * cycles / clock_mhz / 1e3 for cycles in pace.cycles)
    return Latency(usual, least * (1 - error), most * (1 + error))


def clock_mhz(given: float | str) -> float:
    """Megahertz of "120MHz", "1.2 GHz" or a number, which counts megahertz.

    Raises:
        ParameterError: it is no clock.
    """
    match = _CLOCK.fullmatch(str(given))
    found = float(match[1]) * _FACTORS[(match[2] or "mhz").lower()] if match else 0.0
    if not 0 < found < 1e5:
        raise ParameterError(f"'{given}' is no clock", hint="write 120MHz; a number alone counts MHz")
    return found
