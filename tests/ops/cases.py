"""The cases of every op: those of the modules beside this one."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from tests.ops._agreement import Case

HERE = Path(__file__).parent


@cache
def cases() -> dict[str, list[Case]]:
    """Every case there is, by op name."""
    found: dict[str, list[Case]] = {}
    for file in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"tests.ops.{file.stem}")
        for table in (getattr(module, "CASES", {}), getattr(module, "MORE", {})):
            for name, given in table.items():
                found.setdefault(name, []).extend(given)
    return found
