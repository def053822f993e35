"""Tables that are wider than the terminal, as several below each other: each has the first column again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_GAP = re.compile(r"\S(?= {2,}\S)")
_FEWEST_GAPS = 2
"""In a row of a table; a label and its sentence have one."""


def stacked(lines: Sequence[str], width: int) -> list[str]:
    """Lines with every table among them that is too wide put into parts that fit; what is no table stays.

    Tables are known by their looks: rows below each other with blanks in the same places.
    """
    result: list[str] = []
    place = 0
    while place < len(lines):
        end = place
        if _is_row(lines[place]):
            end = _end_of_table(lines, place)
        parts = _parts(lines[place:end], width) if max(map(len, lines[place:end]), default=0) > width else []
        result += parts or lines[place : max(end, place + 1)]
        place = max(end, place + 1)
    return result


def _is_row(line: str) -> bool:
    return len(_GAP.findall(line)) >= _FEWEST_GAPS


def _end_of_table(lines: Sequence[str], start: int) -> int:
    """Behind the last row that shares columns with those before it."""
    end = start + 1
    while end < len(lines) and _is_row(lines[end]) and len(_columns(lines[start : end + 1])) > _FEWEST_GAPS:
        end += 1
    return end


def _columns(rows: Sequence[str]) -> list[int]:
    """Where columns begin: behind two places that are blank in every row."""
    longest = max(map(len, rows))
    used = [any(p < len(row) and row[p] != " " for row in rows) for p in range(longest)]
    return [p for p in range(longest) if used[p] and not any(used[max(p - 2, 0) : p])]


def _parts(rows: Sequence[str], width: int) -> list[str]:
    """The rows of a table in parts that fit; none if there is one row, or a column that is too wide."""
    starts = _columns(rows)
    if len(rows) < 2 or len(starts) <= _FEWEST_GAPS:
        return []
    ends = [*starts[1:], max(map(len, rows)) + 2]
    groups = [*_groups(list(zip(starts, ends, strict=True)), width)]
    if any(_width(group, starts[1]) > width for group in groups):
        return []
    lines = []
    for group in groups:
        for row in rows:
            cells = "".join(row[start:end].ljust(end - start) for start, end in group)
            if cells.strip():
                lines.append(f"{row[: starts[1]].ljust(starts[1])}{cells}".rstrip())
    return lines


def _groups(columns: list[tuple[int, int]], width: int) -> Iterator[list[tuple[int, int]]]:
    """The columns behind the first, as many together as fit beside it."""
    _, label = columns[0]
    group: list[tuple[int, int]] = []
    for column in columns[1:]:
        if group and _width([*group, column], label) > width:
            yield group
            group = []
        group.append(column)
    yield group


def _width(group: Sequence[tuple[int, int]], label: int) -> int:
    # The blanks behind the last column are nobody's.
    return label + sum(end - start for start, end in group) - 2
