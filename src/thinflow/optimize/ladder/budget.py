"""Budgets: how large, slow and wrong a smaller model may be, as numbers or with units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from thinflow.errors import ParameterError
from thinflow.lower.c.options import Options
from thinflow.program.amounts import (
    BYTES,
    MILLISECONDS,
    POINTS,
    Amount,
    amount_of,
    bytes_text,
    ms_text,
)

DEFAULT_MAX_DROP = 1.5
"""Points of accuracy (or of equal answers) that fewer bits may cost before float is recommended."""


@dataclass(frozen=True)
class Budget:
    """Bounds that a model has to keep; None where anything goes.

    Attributes:
        drop: percentage points of accuracy or, without labels, of equal answers.
        size_bytes: of the file.
        latency_ms: median of a run on the machine or device, with the first number of threads.
        ram_bytes: of the activations, see `arena_bytes`.
        target: a processor; size and memory are flash and all memory of C for it then.
        device: on which the time is taken; "" for this machine.
    """

    drop: float = DEFAULT_MAX_DROP
    size_bytes: float | None = None
    latency_ms: float | None = None
    ram_bytes: float | None = None
    target: str = ""
    device: str = ""

    @property
    def text(self) -> str:
        """The bounds in words."""
        bounds = [f"drop <= {self.drop:g} points"]
        bounds += [f"size <= {bytes_text(self.size_bytes)}"] if self.size_bytes is not None else []
        place = f" on {self.device}" if self.device else ""
        bounds += [f"latency <= {ms_text(self.latency_ms)}{place}"] if self.latency_ms is not None else []
        bounds += [f"RAM <= {bytes_text(self.ram_bytes)}"] if self.ram_bytes is not None else []
        return ", ".join(bounds) + (f" on {self.target}" if self.target else "")


def drop_of(given: Amount | None) -> float:
    """Points that may be lost: 0.5, "0.5" and "0.5%" are the same; the default for None.

    Raises:
        ParameterError: it is no such number.
    """
    if given is None:
        return DEFAULT_MAX_DROP
    hint = "write 0.5%; a number alone counts points of percent"
    points = amount_of(given, POINTS, "drop", hint)
    if not 0 <= points <= 100:
        raise ParameterError(f"a drop of at most {points:g} points makes no sense", hint="give 0 to 100")
    return points


def budget_of(
    max_drop: Amount | None = None,
    max_size: Amount | None = None,
    max_latency: Amount | None = None,
    max_ram: Amount | None = None,
    target: str | None = None,
) -> Budget:
    """The budget that words say together.

    Args:
        max_drop: points of percent, see `drop_of`.
        max_size, max_ram: bytes, or with a unit: "100KB" (1000 bytes each), "64KiB" (1024).
        target: a processor that the model is to be C for, see `PROCESSORS`.
        max_latency: milliseconds, or with a unit: "20ms", "500us".

    Raises:
        ParameterError: one of them is no such amount, or none that a model can keep.
    """
    in_bytes = "write 100KB, 1.5MB or 64KiB; a number alone counts bytes"
    in_time = "write 20ms, 500us or 0.5s; a number alone counts milliseconds"
    return Budget(
        drop_of(max_drop),
        _bound(max_size, BYTES, "size", "a file of at most {:g} bytes", in_bytes),
        _bound(max_latency, MILLISECONDS, "time", "a run of at most {:g} ms", in_time),
        _bound(max_ram, BYTES, "size", "memory of at most {:g} bytes", in_bytes),
        # Refuses what does not exist, and tells what does.
        "" if target is None else Options(cpu=target).cpu,
    )


def _bound(
    given: Amount | None, units: Mapping[str, float], kind: str, words: str, hint: str
) -> float | None:
    if given is None:
        return None
    found = amount_of(given, units, kind, hint)
    # Written so that what is no number is refused, too.
    if not 0 < found < math.inf:
        raise ParameterError(f"{words.format(found)} makes no sense", hint=f"give more than 0: {hint}")
    return found
