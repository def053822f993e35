"""Rules for ops of other vocabularies than TensorFlow's: what a rule is, and which op has which.

@shape_rule("onnx.ArgMax", "onnx.ArgMin", gives=INT64)
def _arg(xs: Operands, attrs: Attributes) -> Shape: ...

@cost_rule("tfl.CONV_2D")
def _conv(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost: ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from thinflow.ir.types import DType, Shape, TensorSpec
from thinflow.ops.registry import Cost

Operands = Sequence[TensorSpec | None]
"""Specs of the inputs by position, None for one that is absent."""
Attributes = Mapping[str, Any]
CostRule = Callable[[TensorSpec, Operands, Attributes], Cost]
ShapeRule = Callable[[Operands, Attributes], Shape]
TypeRule = Callable[[Operands, Attributes], "DType | None"]
S = TypeVar("S", bound=ShapeRule)
C = TypeVar("C", bound=CostRule)

SHAPES: dict[str, ShapeRule] = {}
TYPES: dict[str, TypeRule] = {}
COSTS: dict[str, CostRule] = {}
FREE: set[str] = set()
"""Ops that compute nothing themselves."""


def shape_rule(*ops: str, gives: DType | TypeRule | None = None) -> Callable[[S], S]:
    """Register a function as the rule for the shape of these ops' first output.

    Args:
        ops: names, with their vocabulary in front.
        gives: its element type, or what tells it; default: that of the first operand.
    """

    def register(rule: S) -> S:
        SHAPES.update(dict.fromkeys(ops, rule))
        if isinstance(gives, DType):
            TYPES.update(dict.fromkeys(ops, lambda xs, attrs: gives))
        elif gives is not None:
            TYPES.update(dict.fromkeys(ops, gives))
        return rule

    return register


def cost_rule(*ops: str) -> Callable[[C], C]:
    """Register a function as the rule for what a run of these ops costs."""

    def register(rule: C) -> C:
        COSTS.update(dict.fromkeys(ops, rule))
        return rule

    return register


def free(*ops: str) -> None:
    """Note that these ops cost nothing, whatever their sizes."""
    FREE.update(ops)


def type_of(place: int) -> TypeRule:
    """The rule of an op whose result has the type of an operand."""

    def rule(xs: Operands, attrs: Attributes) -> DType | None:
        del attrs
        operand = xs[place]
        return None if operand is None else operand.dtype

    return rule


def sizes(spec: TensorSpec | None) -> tuple[int, ...]:
    """The sizes of a static spec.

    Raises:
        ValueError: it is absent, or not static.
    """
    if spec is None or spec.shape is None or None in spec.shape:
        raise ValueError("an operand has no known size")
    return tuple(n for n in spec.shape if n is not None)


def count(spec: TensorSpec | None) -> int:
    """Number of elements; 0 of an absent operand."""
    return 0 if spec is None else math.prod(sizes(spec))


def multiply_adds(macs: int, others: int = 0) -> Cost:
    """So many multiply-adds, and other operations beside."""
    return Cost(flops=2 * macs + others, macs=macs)
