"""Lines that fit a terminal: folded between words, names that are too long shortened in their middle."""

from __future__ import annotations

import re

_PASTED = ("next: ", "hint: ", "to use it: ")
_LEAST = 20
"""Columns of the narrowest terminal that anything is folded for."""


def folded(text: str, width: int) -> str:
    """A text whose lines are at most so wide; those with a command to paste stay as they are.

    A terminal breaks such a command by itself, and gives it back whole. Tables become several.
    """
    if width < _LEAST or len(text) <= width:
        return text
    from thinflow.cli._stacking import stacked

    return "\n".join(_fold(line, width) for line in stacked(text.split("\n"), width))


def _fold(line: str, width: int) -> str:
    if len(line) <= width or line.startswith(_PASTED):
        return line
    import textwrap

    begin = re.match(r" *", line)
    indent = " " * min(len(begin[0]) if begin else 0, width // 2)
    # What follows belongs to the line, and is set off from the next one.
    after = f"{indent}    " if len(indent) + 4 < width // 2 else indent
    words = re.split(r"( +)", line.strip(" "))
    short = "".join(shortened(word, width - len(after)) for word in words)
    return "\n".join(
        textwrap.wrap(
            short,
            width,
            initial_indent=indent,
            subsequent_indent=after,
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        )
    )


def shortened(name: str, width: int) -> str:
    """A name with its middle left out if it is too long; names of a model differ most at their ends."""
    if len(name) <= width:
        return name
    end = (width - 1) * 2 // 3
    return f"{name[: width - 1 - end]}…{name[len(name) - end :]}"
