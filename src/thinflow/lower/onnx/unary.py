"""Functions of one operand."""

from __future__ import annotations

import math

from thinflow.ir.graph import Node
from thinflow.ir.types import INT64
from thinflow.lower.onnx.builder import Builder, require
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
    return b.emit("Reciprocal", b.step("Sqrt", x))


@lower("Square", to="onnx")
def square(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("Mul", x, x)


@lower("Expm1", to="onnx")
def expm1(b: Builder, node: Node, x: Tensor) -> Tensor:
    """tanh(x / 2) (e^x + 1), which keeps the digits near 0 that a difference would lose."""
    half = b.step("Mul", x, b.scalar(0.5, x, "half"))
    above = b.step("Add", b.step("Exp", x), b.scalar(1, x, "one"))
    return b.emit("Mul", b.step("Tanh", half), above)


@lower("Log1p", to="onnx")
def log1p(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("Log", b.step("Add", x, b.scalar(1, x, "one")))


@lower("Erfc", to="onnx")
def erfc(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("Sub", b.scalar(1, x, "one"), b.step("Erf", x))


@lower("IsFinite", to="onnx")
def is_finite(b: Builder, node: Node, x: Tensor) -> Tensor:
    require(x.dtype.is_floating, f"IsFinite of {x.dtype} makes no sense")
    return b.emit("Less", b.step("Abs", x), b.scalar(math.inf, x, "inf"))
