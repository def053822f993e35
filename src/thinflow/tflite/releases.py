"""Releases of the runtime: the first that has a kernel for an operator in a version."""

from __future__ import annotations

from functools import cache
from pathlib import Path

Release = tuple[int, int]
"""Of TensorFlow Lite, which LiteRT's numbers go on from: (2, 9)."""

_FILE = Path(__file__).parents[1] / "data" / "litert_releases.txt"


def first_release(code: str, version: int) -> Release | None:
    """The first release that runs a builtin operator in a version; None if that came after `last_known`.

    Args:
        code: such as "CONV_2D".
    """
    # Versions count from 1.
    known = _table().get(code, ())
    return known[version - 1] if 1 <= version <= len(known) else None


def last_known() -> Release:
    """The last release that the table tells of."""
    return max(release for known in _table().values() for release in known if release is not None)


@cache
def _table() -> dict[str, tuple[Release | None, ...]]:
    lines = (line.split() for line in _FILE.read_text("ascii").splitlines() if not line.startswith("#"))
    return {code: tuple(map(_release, texts)) for code, *texts in lines}


def _release(text: str) -> Release | None:
    if text == "-":
        return None
    major, minor = map(int, text.split("."))
    return major, minor
