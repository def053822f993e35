"""Functions of one operand."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import INT64
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.rules import lower
from thinflow.onnx.operators import Trait, same_in_onnx
from thinflow.onnx.program import Tensor

_UNARY = same_in_onnx(Trait.UNARY)


@lower(*_UNARY, to="onnx")
def unary(b: Builder, node: Node, x: Tensor) -> Tensor:
    """One operator. Floor, Ceil and Round of an integer are the integer itself."""
    if _UNARY[node.op] in ("Floor", "Ceil", "Round") and x.dtype.is_integer:
        return x
    if node.op == "Sign" and x.dtype is INT64:
        return _sign(b, x)
    return b.emit(_UNARY[node.op], x)


def _sign(b: Builder, x: Tensor) -> Tensor:
    """By comparing: ONNX Runtime looks at no more than 32 bits of an int64."""
    zero = b.scalar(0, x, "zero")
    above, below = (b.cast(b.step(code, x, zero), INT64) for code in ("Greater", "Less"))
    return b.emit("Sub", above, below)


@lower("Rsqrt", to="onnx")
def rsqrt(b: Builder, node: Node, x: Tensor) -> Tensor:
    # ONNX has no Rsqrt.
    return b.emit("Reciprocal", b.step("Sqrt", x))
