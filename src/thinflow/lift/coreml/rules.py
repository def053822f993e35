"""Rules for MIL's operators: a decorator, and ONNX's ops in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from thinflow.analysis.foreign import stated
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import TensorSpec
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.delegated import onnx_results
from thinflow.lift.onnx.values import typed
from thinflow.lift.rules import Rule, lifts


def mil(*ops: str, ignores: Iterable[str] = ()) -> Callable[[Rule], Rule]:
    """Function decorator: the rule for these operators of MIL.

    Results are held against the sizes that the package states, which coremltools worked out by itself: a rule
    that reads an operator in another way than it was meant shows there.

    Args:
        ops: without `coreml.`.
        ignores: inputs that do not bear on results.
    """

    def register(rule: Rule) -> Rule:
        def lifted(c: Call) -> Value | list[Value]:
            made = rule(c)
            results = made if isinstance(made, list) else [made]
            specs = stated(c.node)
            return [_agreeing(c, y, specs[n]) if n < len(specs) else y for n, y in enumerate(results)]

        lifts(*(f"coreml.{op}" for op in ops), ignores=ignores)(lifted)
        return rule

    return register


def _agreeing(c: Call, y: Value, said: TensorSpec) -> Value:
    ours, theirs = y.spec.shape, said.shape
    if ours is not None and theirs is not None:
        pairs = zip(ours, theirs, strict=False)
        if len(ours) != len(theirs) or any(None not in p and p[0] != p[1] for p in pairs):
            raise UnsupportedOp(
                f"its result would have the shape {list(ours)}, the package states {list(theirs)}"
            )
    return y if said.dtype is None else typed(c, y, said.dtype)


def onnx(c: Call, op: str, *operands: Value | None, **options: Any) -> Value:
    """The first result of one of ONNX's ops."""
    return onnx_results(c, op, operands, options)[0]


def ints(c: Call, option: str, default: Sequence[int] = ()) -> tuple[int, ...]:
    """Whole numbers of an option."""
    given = c.get(option)
    if given is None:
        return tuple(default)
    return tuple(int(n) for n in given) if isinstance(given, tuple) else (int(given),)


def word(c: Call, option: str, default: str = "") -> str:
    """An option that is a word."""
    given = c.get(option)
    if given is None:
        return default
    return given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)


def number(c: Call, option: str, default: float) -> float:
    """An option that is a number."""
    given = c.get(option)
    if given is None:
        return default
    if not isinstance(given, int | float):
        raise UnsupportedOp(f"its input '{option}' is no number")
    return float(given)


def row(c: Call, numbers: Sequence[int]) -> Value:
    """A constant of whole numbers."""
    return c.constant(np.array(numbers, np.int64))
