"""The page that tells with how many inputs networks in C were compared with LiteRT, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks.bench import ROOT

PAGE = ROOT / "docs" / "c-exact.md"
PLACES = (
    "here",
    "cortex-m0",
    "cortex-m4",
    "cortex-m7",
    "cortex-m33",
    "cortex-m55",
    "aarch64",
    "armhf",
    "x86-64",
)
"""The columns, in order."""
_MARKS = {kind: (f"<!-- {kind} -->\n", f"<!-- end of {kind} -->\n") for kind in ("codes", "floats")}
_HEADS = ("network", "inputs", *PLACES)
_OFF = re.compile(r"reals off by (?P<off>\S+)")


def entered(page: str, line: Sequence[str]) -> str:
    """The page with what a line of `c_exact` tells in its cell; other cells stay.

    Args:
        page: as it is.
        line: name, rounding, where, inputs, values and verdict.
    """
    name, rounding, where, inputs, _, verdict = line
    place = where.partition(",")[0]
    if place not in PLACES:
        return page
    begin, end = _MARKS["floats" if name.endswith("_float") else "codes"]
    before, _, rest = page.partition(begin)
    table, _, after = rest.partition(end)
    rows = {row[0]: row for row in map(_cells, table.strip().splitlines()[2:])}
    key = name if rounding == "litert" else f"{name}, {rounding}"
    row = rows.setdefault(key, [key, "", *[""] * len(PLACES)])
    count, _, what = inputs.partition(", ")
    row[1] = what or row[1]
    row[2 + PLACES.index(place)] = _cell(count, verdict)
    lines = [_line(_HEADS), _line(["---"] * len(_HEADS)), *map(_line, sorted(rows.values()))]
    return f"{before}{begin}\n" + "\n".join(lines) + f"\n\n{end}{after}"


def _cell(count: str, verdict: str) -> str:
    """How many inputs, and what is to be told of them."""
    if "DIFFER" in verdict:
        return f"**{verdict[:60]}**"
    if count in ("", "0"):
        return "too large" if "more memory than the board has" in verdict else f"– ({verdict[:80]})"
    off = _OFF.search(verdict)
    layers = ", by layers" if "midway" in verdict else ""
    return count + layers + (f": {off['off'].rstrip(';')}" if off else "")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
