"""The table of chips, `data/chips.csv`: processor, clock, flash and memory, with the page they are from."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from thinflow.errors import ParameterError, closest


@dataclass(frozen=True)
class Chip:
    """A microcontroller.

    Attributes:
        name: as its maker calls it.
        cpu: see `PROCESSORS`.
        clock_mhz: the highest.
        flash_bytes, ram_bytes: all there is, in several blocks on some.
        note: a board it is on.
        source: where the figures are from.
    """

    name: str
    cpu: str
    clock_mhz: float
    flash_bytes: int
    ram_bytes: int
    note: str
    source: str


@cache
def chips() -> tuple[Chip, ...]:
    """All chips of the table, the smallest memory first."""
    text = (files("thinflow.fit") / "data" / "chips.csv").read_text("utf-8")
    found = [
        Chip(
            row["chip"],
            row["cpu"],
            float(row["clock_mhz"]),
            int(row["flash_kib"]) * 1024,
            int(row["ram_kib"]) * 1024,
            row["note"],
            row["source"],
        )
        for row in csv.DictReader(text.splitlines())
    ]
    return tuple(sorted(found, key=lambda c: (c.ram_bytes, c.flash_bytes)))


def chip_of(name: str) -> Chip:
    """A chip by its name, in letters of either case.

    Raises:
        ParameterError: the table has none of the name.
    """
    by_name = {chip.name.lower(): chip for chip in chips()}
    found = by_name.get(name.lower().strip())
    if found is None:
        near = closest(name, [chip.name for chip in chips()])
        raise ParameterError(
            f"the table has no chip '{name}'",
            hint=near or "give its figures instead: --cpu cortex-m4 --ram 64KB --flash 512KB --clock 80MHz",
        )
    return found
