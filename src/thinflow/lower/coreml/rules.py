"""Rules: functions that say one of ONNX's operators in MIL; see the package's docstring."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from thinflow.onnx.program import Operator

if TYPE_CHECKING:
    from thinflow.lower.coreml.builder import Builder

Rule: TypeAlias = "Callable[[Builder, Operator], Any | Sequence[Any]]"
R = TypeVar("R", bound="Rule")

_registry: dict[str, Rule] = {}


def says(*codes: str) -> Callable[[R], R]:
    """Function decorator: the rule for these operators of ONNX."""

    def register(rule: R) -> R:
        for code in codes:
            if code in _registry:
                raise RuntimeError(f"two rules say {code} in MIL")
            _registry[code] = rule
        return rule

    return register


@cache
def _load_rules() -> None:
    # As for the rules of the other targets: a rule is registered by being there.
    package = importlib.import_module("thinflow.lower.coreml.operators")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def rule_for(code: str) -> Rule | None:
    """The rule for an operator; None if there is none."""
    _load_rules()
    return _registry.get(code)


def codes() -> list[str]:
    """The operators that have a rule, sorted."""
    _load_rules()
    return sorted(_registry)
