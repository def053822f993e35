"""Names of values, as Core ML and the code that Xcode generates from them allow."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ILLEGAL = re.compile(r"[^A-Za-z0-9_]+")
NAMES_KEY = "thinflow.names"
"""Key of the metadata under which a package keeps its own names' counterparts in the source, as JSON."""


def identifiers(names: Iterable[str]) -> dict[str, str]:
    """Name -> identifier, as close to it as can be; no two are alike. "input:0" becomes "input"."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = _ILLEGAL.sub("_", name.removesuffix(":0")).strip("_") or "value"
        wished = plain if not plain[0].isdigit() else f"_{plain}"
        made, count = wished, 1
        while made in taken:
            made, count = f"{wished}_{count}", count + 1
        taken.add(made)
        found[name] = made
    return found
