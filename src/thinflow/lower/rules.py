"""Lowering rules: functions that express one TensorFlow node in another op vocabulary.

    @lower("Relu", to="tflite")
    def relu(b, node, x):
        return b.emit("RELU", x)

A rule gets the target's builder, the node and, as positional parameters, what stands for the node's data
inputs; its keyword-only parameters are attributes with TensorFlow's defaults, passed as in `ops.registry`. It
returns what stands for the node's outputs, one or a tuple in port order. One that cannot express the node
raises UnsupportedOp; what it has emitted until then is dropped.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from thinflow.decompose.rules import check_count, refusals_at
from thinflow.ir.graph import Node
from thinflow.ops.registry import select_attrs

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)

_registry: dict[tuple[str, str], Rule] = {}


def lower(*names: str, to: str) -> Callable[[R], R]:
    """Function decorator: the rule for these TensorFlow ops and one target."""

    def register(rule: R) -> R:
        for name in names:
            # Which of two rules were taken would depend on the order of imports.
            other = _registry.setdefault((to, name), rule)
            if other is not rule:
                raise RuntimeError(
                    f"{name} is lowered to {to} in both {other.__module__} and {rule.__module__}"
                )
        return rule

    return register


@cache
def _load_rules(target: str) -> None:
    """Import every module of the target's package once; their decorators fill the registry."""
    package = importlib.import_module(f"thinflow.lower.{target}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def find(op: str, target: str) -> Rule | None:
    """The rule for an op, None if the target cannot express it."""
    _load_rules(target)
    return _registry.get((target, op))


def supported(target: str) -> list[str]:
    """The ops that have a rule, sorted."""
    _load_rules(target)
    return sorted(op for where, op in _registry if where == target)


def apply(rule: Rule, builder: Any, node: Node, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run a rule; the result is always a tuple with one entry per output port it provides.

    Raises:
        UnsupportedOp: the target cannot express the node; placed at the node.
    """
    with refusals_at(node):
        check_count(rule, len(inputs), first=2)  # the builder and the node
        result = rule(builder, node, *inputs, **select_attrs(rule, node.attrs))
    return result if isinstance(result, tuple) else (result,)
