"""Finds the codes of rules by their lines `@rule("TF201"`: completion does not wait for imports."""

from __future__ import annotations

import os
import re

_REGISTERS = re.compile(r'^@rule\("(\w+)"', re.MULTILINE)


def shipped_codes() -> list[str]:
    """The code of each rule that comes with thinflow, in order; none where there are no sources to read."""
    folder = os.path.join(os.path.dirname(__file__), "rules")
    found: list[str] = []
    for file in os.listdir(folder) if os.path.isdir(folder) else ():
        if file.endswith(".py"):
            with open(os.path.join(folder, file), encoding="utf-8") as source:
                found += _REGISTERS.findall(source.read())
    return sorted(found)
