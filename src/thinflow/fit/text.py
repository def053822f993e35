"""Text of 80 columns: rows, tables and commands."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from thinflow.errors.plain_text import one_line

_WIDTH = 80


def command(text: str) -> Iterator[str]:
    """A command, on several lines as a shell takes them."""
    lines = textwrap.wrap(text, _WIDTH - 8, break_long_words=False, break_on_hyphens=False)
    for number, line in enumerate(lines):
        goes_on = " \\" if number + 1 < len(lines) else ""
        yield f"    {'  ' if number else ''}{line}{goes_on}"


def row(name: str, text: str) -> list[str]:
    return wrapped(f"  {name:8} {text}", " " * 11)


def wrapped(text: str, later: str = "  ") -> list[str]:
    return textwrap.wrap(
        one_line(text) if not text.startswith(" ") else text,
        _WIDTH,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def shortened(name: str, most: int) -> str:
    """A name whose end is kept, which is what tells layers apart."""
    return name if len(name) <= most else f"..{name[2 - most :]}"


def table(rows: Sequence[Sequence[str]], headers: Sequence[str], aligned: str) -> Iterator[str]:
    """Columns, numbers to the right; `aligned` says how the first ones are."""
    listed = [list(headers), *map(list, rows)]
    widths = [max(len(row[n]) for row in listed) for n in range(len(headers))]
    sides = aligned + "r" * (len(headers) - len(aligned))
    for row in listed:
        cells = [c.ljust(w) if s == "l" else c.rjust(w) for c, w, s in zip(row, widths, sides, strict=True)]
        yield ("  " + "  ".join(cells)).rstrip()
