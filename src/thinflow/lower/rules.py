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

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from thinflow.decompose.rules import check_count, refusals_at
from thinflow.ir.discovery import Registered
from thinflow.ir.graph import Node
from thinflow.ops.registry import select_attrs

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)


@cache
def _rules(target: str) -> Registered[Rule]:
    """Those of a target, by op."""
    return Registered(f"thinflow.lower.{target}", "lower")


def lower(*names: str, to: str) -> Callable[[R], R]:
    """Function decorator: the rule for these TensorFlow ops and one target."""

    def register(rule: R) -> R:
        for name in names:
            # Which of two rules were taken would depend on the order of imports.
            other = _rules(to).add(name, rule, rule.__module__)
            if other is not rule:
                raise RuntimeError(
                    f"{name} is lowered to {to} in both {other.__module__} and {rule.__module__}"
                )
        return rule

    return register


def find(op: str, target: str) -> Rule | None:
    """The rule for an op, None if the target cannot express it."""
    return _rules(target).find(op)


def supported(target: str) -> list[str]:
    """The ops that have a rule, sorted."""
    return sorted(_rules(target))


def apply(rule: Rule, builder: Any, node: Node, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run a rule; the result is always a tuple with one entry per output port it provides.

    Raises:
        UnsupportedOp: the target cannot express the node; placed at the node.
    """
    with refusals_at(node):
        check_count(rule, len(inputs), first=2)  # the builder and the node
        result = rule(builder, node, *inputs, **select_attrs(rule, node.attrs))
    return result if isinstance(result, tuple) else (result,)
