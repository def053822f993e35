"""Forms: functions that say one of LiteRT's operators in C; see the package's docstring."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from thinflow.tflite.model import Operator

if TYPE_CHECKING:
    from thinflow.lower.c.builder import LayerBuilder

Rule: TypeAlias = "Callable[[LayerBuilder, Operator], None]"
R = TypeVar("R", bound="Rule")


class NotHere(Exception):
    """A form has nothing for this layer; the next one is tried."""


@dataclass(frozen=True)
class Form:
    """A rule and what it asks for.

    Attributes:
        types: element types of the operator's first input, or of the first output if it has none; none for
            operators without either.
        needs: features of a processor.
        rule: builds the layer.
    """

    types: frozenset[str]
    needs: frozenset[str]
    rule: Rule


_TABLES = "keys or values of LiteRT's tables are strings, which C has not"
_MARK = "a mark of the format, no operator"
REFUSED = {
    "CONCAT_EMBEDDINGS": "LiteRT has no kernel for it",
    "DELEGATE": _MARK,
    "HASHTABLE": _TABLES,
    "HASHTABLE_FIND": _TABLES,
    "HASHTABLE_IMPORT": _TABLES,
    "HASHTABLE_SIZE": _TABLES,
    "LSH_PROJECTION": "models of text alone have it",
    "PLACEHOLDER_FOR_GREATER_OP_CODES": _MARK,
    "SKIP_GRAM": "it reads and makes strings, which C has not",
}
"""Builtin operators that no form will be of -> why."""

_registry: dict[str, list[Form]] = {}


def form(*codes: str, types: str, needs: str = "") -> Callable[[R], R]:
    """Function decorator: a form of these operators, for the element types and on the processors named.

    Args:
        codes: LiteRT's names of operators.
        types: names of element types, with spaces between; see `Form`.
        needs: features of a processor, with spaces between.
    """

    def register(rule: R) -> R:
        for code in codes:
            entry = Form(frozenset(types.split()), frozenset(needs.split()), rule)
            _registry.setdefault(code, []).append(entry)
        return rule

    return register


@cache
def _load_forms() -> None:
    # As for the rules of the other targets: a form is registered by being there.
    package = importlib.import_module("thinflow.lower.c.operators")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def forms_of(code: str) -> list[Form]:
    """The forms of an operator, those first that need most of a processor."""
    _load_forms()
    return sorted(_registry.get(code, []), key=lambda f: -len(f.needs))


def codes() -> list[str]:
    """The operators that have a form, sorted."""
    _load_forms()
    return sorted(_registry)
