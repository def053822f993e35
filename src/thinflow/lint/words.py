"""Counts and lists for the sentences of findings."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from thinflow.errors.plain_text import one_line

WIDTH = 80
_SHOWN = 3


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 node`, `3 nodes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[str], shown: int = _SHOWN) -> str:
    """Some names in quotes, and how many more there are."""
    text = ", ".join(f"'{name}'" for name in names[:shown])
    return f"{text} and {len(names) - shown} more" if len(names) > shown else text


def wrapped(text: str, first: str = "", later: str = "  ") -> list[str]:
    """The text in lines of the width of a terminal; a long name is not cut."""
    return textwrap.wrap(
        one_line(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
