"""Functions of one operand."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import INT64
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_UNARY = {
    "Abs": "Abs",
    "Neg": "Neg",
    "Exp": "Exp",
    "Log": "Log",
    "Sqrt": "Sqrt",
    "Sin": "Sin",
    "Cos": "Cos",
    "Tan": "Tan",
    "Asin": "Asin",
    "Acos": "Acos",
    "Atan": "Atan",
    "Sinh": "Sinh",
    "Cosh": "Cosh",
    "Asinh": "Asinh",
    "Acosh": "Acosh",
    "Atanh": "Atanh",
    "Floor": "Floor",
    "Ceil": "Ceil",
    # Both round halves to even, as ONNX's Round does.
    "Round": "Round",
    "Rint": "Round",
    "Sigmoid": "Sigmoid",
    "Tanh": "Tanh",
    "Erf": "Erf",
    "LogicalNot": "Not",
    "IsNan": "IsNaN",
    "IsInf": "IsInf",
    "Reciprocal": "Reciprocal",
    "Inv": "Reciprocal",
    "Invert": "BitwiseNot",
}


@lower(*_UNARY, to="onnx")
def unary(b: Builder, node: Node, x: Tensor) -> Tensor:
    """One operator. Floor, Ceil and Round of an integer are the integer itself."""
    if _UNARY[node.op] in ("Floor", "Ceil", "Round") and x.dtype.is_integer:
        return x
    return b.emit(_UNARY[node.op], x)


@lower("Sign", to="onnx")
def sign(b: Builder, node: Node, x: Tensor) -> Tensor:
    """Of int64 by comparing: ONNX Runtime looks at no more than 32 bits of them."""
    if x.dtype is not INT64:
        return b.emit("Sign", x)
    zero = b.scalar(0, x, "zero")
    above, below = (b.cast(b.step(code, x, zero), INT64) for code in ("Greater", "Less"))
    return b.emit("Sub", above, below)


@lower("Rsqrt", to="onnx")
def rsqrt(b: Builder, node: Node, x: Tensor) -> Tensor:
    # ONNX has no Rsqrt.
    return b.emit("Reciprocal", b.step("Sqrt", x))
