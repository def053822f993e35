"""Kinds of budgets: each a function in a file of this folder, found by being there.

    @budget("size", read=size_in_bytes)
    def size(model: Subject, limit: float) -> BudgetItem:
        \"\"\"Bytes of the file.\"\"\"

The file has the name of the key in thinflow.toml. What `read` makes of the value there is the limit.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from thinflow.budgets.item import BudgetItem
from thinflow.budgets.subject import Subject
from thinflow.settings.table import Table

L = TypeVar("L")
Read = Callable[[Table, str], L]
"""The limit in a table under a key; raises ParameterError where it is none."""
Judge = Callable[[Subject, L], BudgetItem]


@dataclass(frozen=True)
class Kind:
    """A kind of budgets.

    Attributes:
        key: in the table.
        read: see there.
        judge: whether a model keeps it.
    """

    key: str
    read: Read[Any]
    judge: Judge[Any]

    @property
    def title(self) -> str:
        """What it bounds, in a few words."""
        return (self.judge.__doc__ or "").partition("\n")[0].rstrip(".")


_KINDS: dict[str, Kind] = {}


def budget(key: str, read: Read[L]) -> Callable[[Judge[L]], Judge[L]]:
    """Decorator that makes a function the judge of a key."""

    def register(judge: Judge[L]) -> Judge[L]:
        other = _KINDS.get(key)
        # The same module may come twice: one that is reloaded.
        if other is not None and other.judge.__module__ != judge.__module__:
            raise RuntimeError(f"{key} is defined in both {other.judge.__module__} and {judge.__module__}")
        _KINDS[key] = Kind(key, read, judge)
        return judge

    return register


def kinds() -> dict[str, Kind]:
    """All kinds, by key."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return {key: _KINDS[key] for key in sorted(_KINDS)}
