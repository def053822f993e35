"""Candidates with made-up figures."""

from __future__ import annotations

from thinflow.optimize.ladder.measured import Latency, Measured
from thinflow.optimize.quality import Quality


def one(
    name: str,
    size: int,
    *,
    same: int | None = 1000,
    db: float = 40.0,
    time: float | None = 1.0,
    ram: int = 10,
) -> Measured:
    """A candidate with so many of 1000 answers as in float; time beside a float run of 10 ms."""
    return Measured(
        name,
        name.partition(" ")[0],
        "none",
        digest=name,
        size_bytes=size,
        ram_bytes=ram,
        quality=Quality(1000, same, sqnr_db=db),
        latency=None if time is None else Latency(10 * time, 10, time, time),
    )
