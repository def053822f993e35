"""Functions of one operand."""

from __future__ import annotations

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.program import Tensor
from thinflow.tflite.counterparts import Kind, same_in_tflite

_UNARY = same_in_tflite(Kind.UNARY)


@lower(*_UNARY, to="tflite")
def unary(b: Builder, node: Node, x: Tensor) -> Tensor:
    """One operator. Floor, Ceil and Round of an integer are the integer itself."""
    if _UNARY[node.op] in ("FLOOR", "CEIL", "ROUND") and x.dtype.is_integer:
        return x
    return b.emit(_UNARY[node.op], x)


@lower("Real", "Imag", to="tflite")
def part(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit(node.op.upper(), x)


@lower("ComplexAbs", to="tflite")
def complex_abs(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("COMPLEX_ABS", x)


@lower("Rsqrt", to="tflite")
def rsqrt(b: Builder, node: Node, x: Tensor) -> Tensor:
    return inverse_root(b, node.inputs[0], x)


def inverse_root(b: Builder, value: Value, x: Tensor) -> Tensor:
    """1 / sqrt(x). RSQRT makes NaN of 0, so it is only for what something was added to, as norms do.

    Args:
        value: what x stands for.
    """
    if _is_raised(value):
        return b.emit("RSQRT", x)
    return b.emit("DIV", b.scalar(1, x, "one"), b.step("SQRT", x, shape=x.shape))


def _is_raised(value: Value) -> bool:
    """True if a positive constant was added to the value last, or bounds it from below."""
    if value.node.op not in {"Add", "AddV2", "Maximum"}:
        return False
    # A heuristic: x + epsilon of a variance is above 0, and so is max(x, epsilon).
    constants = [v.node.tensor for v in value.node.inputs if v.node.tensor is not None]
    return any(c.size == 1 and bool((c.numpy() > 0).all()) for c in constants)


@lower("Square", to="tflite")
def square(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("SQUARE", x) if x.dtype is FLOAT else b.emit("MUL", x, x)
