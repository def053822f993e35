"""Arithmetic, functions of one operand, comparisons, choices and activation functions."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64
from thinflow.lower.building import whole_exponent
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require
from thinflow.lower.tflite.small_integers import arithmetic
from thinflow.ops.traits import Trait, has
from thinflow.program.model import Dims
from thinflow.tflite.counterparts import Kind, same_in_tflite
from thinflow.tflite.model import Tensor

_BINARY = same_in_tflite(Kind.BINARY)


@lower(*_BINARY, to="tflite")
def binary(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """One operator that broadcasts as TensorFlow does. DIV on integers truncates."""
    # Smaller ones are quotients of int32, too.
    is_short = x.dtype.is_integer and x.dtype.numpy().itemsize <= 2
    require(node.op != "TruncateDiv" or x.dtype is INT32 or is_short, "LiteRT truncates int32 quotients only")
    require(node.op != "RealDiv" or x.dtype.is_floating, f"RealDiv of {x.dtype} has no TFLite form")
    return arithmetic(b, _BINARY[node.op], x, y)


@lower("FloorDiv", to="tflite")
def floor_div(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """floor(x / y): on floats, FLOOR_DIV goes by the remainder instead, and 7 // 0.1 comes out one lower."""
    if x.dtype is FLOAT:
        return b.emit("FLOOR", b.step("DIV", x, y, shape=b.result_spec().shape))
    if x.dtype is INT64 and y.is_constant and np.asarray(y.array()).size == 1:
        return _long_floor_div(b, x, int(np.asarray(y.array()).reshape(())))
    return arithmetic(b, "FLOOR_DIV", x, y)


def _long_floor_div(b: Builder, x: Tensor, by: int) -> Tensor:
    """floor(x / by) of int64 by float32, which is off by one part in 2^22: the rest is divided again."""
    require(0 < by < 1 << 22, f"a quotient of int64 by {by} has no TFLite form")

    def step(code: str, *inputs: Tensor) -> Tensor:
        return b.step(code, *inputs, shape=x.shape)

    divisor, rest, total = b.const(np.int64(by), "divisor"), x, None
    for _ in range(3):  # 63 bits
        close = step("MUL", b.cast(rest, FLOAT), b.const(np.float32(1 / by), "inverse"))
        # CAST cuts towards 0; float32's error may be on either side, so the rest may have either sign.
        part = b.cast(close, INT64)
        rest = step("SUB", rest, step("MUL", part, divisor))
        total = part if total is None else step("ADD", total, part)
    assert total is not None
    # The rest is now nearer to 0 than twice the divisor.
    # A floor has a rest of 0 ... by - 1: one quotient down where it is negative, one up where it is too
    # large.
    for n in (1, 2):
        below = b.step("LESS", rest, b.const(np.int64(0), "zero"), shape=x.shape, element=BOOL)
        less = b.cast(below, INT64)
        rest, total = step("ADD", rest, step("MUL", less, divisor)), step("SUB", total, less)
        above = b.step("GREATER_EQUAL", rest, divisor, shape=x.shape, element=BOOL)
        more = b.cast(above, INT64)
        rest = step("SUB", rest, step("MUL", more, divisor))
        total = b.emit("ADD", total, more) if n == 2 else step("ADD", total, more)
    return total


@lower("Pow", to="tflite")
def pow_(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """A square or a square root where the exponent says so: both are many times faster."""
    if y.is_constant and x.dtype is FLOAT and np.asarray(y.array()).size == 1 and y.shape == ():
        exponent = float(np.asarray(y.array()).reshape(()))
        if exponent == -0.5:
            return inverse_root(b, node.inputs[0], x)
        if exponent in {2.0, 0.5}:
            return b.emit("SQUARE" if exponent == 2.0 else "SQRT", x)
    return _whole_power(b, x, y) if x.dtype is INT32 else b.emit("POW", x, y)


def _whole_power(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """A product of as many factors as a constant says: POW of integers stops at the limits."""
    count = whole_exponent(b.elements(y), y.shape)
    product = x
    for _ in range(count - 2):
        product = b.step("MUL", product, x, shape=x.shape)
    return b.emit("MUL", product, x) if count > 1 else x


@lower("AddN", "AccumulateNV2", to="tflite")
def add_n(b: Builder, node: Node, *xs: Tensor) -> Tensor:
    """A chain of ADD, which unlike ADD_N the accelerated kernels know."""
    require(len(xs) > 0, "there is nothing to add")
    total = xs[0]
    # The last sum is the node's own output.
    for x in xs[1:-1]:
        total = b.step("ADD", total, x, shape=total.shape)
    return b.emit("ADD", total, xs[-1]) if len(xs) > 1 else total


@lower("Mod", "TruncateMod", to="tflite")
def truncate_mod(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """x - y * trunc(x / y) of int32; floats, which would be inexact, have that of their sizes."""
    shape = b.result_spec().shape
    if x.dtype is FLOAT:
        sizes = b.step(
            "FLOOR_MOD", b.step("ABS", x, shape=x.shape), b.step("ABS", y, shape=y.shape), shape=shape
        )
        return b.emit("MUL", sizes, b.step("SIGN", x, shape=x.shape))
    require(x.dtype is INT32, f"the remainder of {x.dtype} has no TFLite form")
    quotient = b.step("DIV", x, y, shape=shape)
    return b.emit("SUB", x, b.step("MUL", quotient, y, shape=shape))


@lower("Atan2", to="tflite")
def atan2(b: Builder, node: Node, y: Tensor, x: Tensor, *, _of_one_shape: bool = False) -> Tensor:
    """LiteRT's kernel does not broadcast, and does not say so.

    Args:
        _of_one_shape: a decomposition's word for operands whose sizes are the same, known or not.
    """
    if _of_one_shape:
        return b.emit("ATAN2", y, x)
    return b.emit("ATAN2", expanded(b, y, x), expanded(b, x, y))


def expanded(b: Builder, x: Tensor, other: Tensor) -> Tensor:
    """x in the shape it broadcasts to with `other`."""
    shape: Dims = b.result_spec().shape
    if x.shape == other.shape and x.shape is not None and None not in x.shape:
        return x
    require(
        shape is not None and None not in shape,
        "the operands may differ in shape, and the shape is not known",
    )
    assert shape is not None
    sizes = [n or 0 for n in shape]
    if x.shape == shape:
        return x
    if x.is_constant:
        return b.const(np.broadcast_to(np.asarray(x.array()), sizes), "expanded", x.dtype)
    return b.step("BROADCAST_TO", x, b.ints(sizes, "shape"), shape=shape)


@lower("ClipByValue", to="tflite")
def clip_by_value(b: Builder, node: Node, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    # TensorFlow's order: where low > high the result is low.
    return b.emit("MAXIMUM", b.step("MINIMUM", x, high, shape=x.shape), low)


# ---- Functions of one operand.


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
    """1 / sqrt(x). XNNPACK's RSQRT makes NaN of 0, so it is only for what is proven to be above 0.

    Args:
        value: what x stands for.
    """
    if _is_above_zero(value):
        return b.emit("RSQRT", x)
    return b.emit("DIV", b.scalar(1, x, "one"), b.step("SQRT", x, shape=x.shape))


def _is_above_zero(value: Value) -> bool:
    """True if a positive constant bounds a value from below, or was added to what is not negative."""
    node = value.node
    if len(node.inputs) != 2 or not (node.op == "Maximum" or has(node.op, Trait.ADD)):
        return False
    # The variance of a norm plus epsilon, and the larger of a sum of squares and epsilon, are such.
    for bound, other in (node.inputs, node.inputs[::-1]):
        constant = bound.node.tensor
        is_positive = constant is not None and constant.size == 1 and bool((constant.numpy() > 0).all())
        if is_positive and (node.op == "Maximum" or is_not_negative(other)):
            return True
    return False


_KEEPS_SIGNS = Trait.REDUCTION | Trait.RESHAPE | Trait.PASSES_THROUGH | Trait.REARRANGES | Trait.POOL


def is_not_negative(value: Value) -> bool:
    """True if a value follows from squares and the like by sums, products, means and maxima."""
    pending, seen = [value], set[Value]()
    while pending:
        value = pending.pop()
        node, constant = value.node, value.node.tensor
        if value in seen or has(node.op, Trait.NOT_NEGATIVE):
            continue
        seen.add(value)
        if len(seen) > _MOST_STEPS:
            return False
        if constant is not None:
            if not (constant.numpy() >= 0).all():
                return False
        elif has(node.op, _KEEPS_SIGNS):
            pending.append(node.inputs[0])
        elif has(node.op, Trait.ADD | Trait.MULTIPLY | Trait.DIVIDE):
            is_square = has(node.op, Trait.MULTIPLY) and node.inputs[0] == node.inputs[1]
            pending.extend([] if is_square else node.inputs)
        else:
            return False
    return True


_MOST_STEPS = 32
"""Ops between a variance and the squares it is made of are a handful; a proof is not worth a long walk."""


@lower("Square", to="tflite")
def square(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("SQUARE", x) if x.dtype is FLOAT else b.emit("MUL", x, x)


# ---- Comparisons, logic and choices.


@lower("Select", to="tflite")
def select(b: Builder, node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """A vector condition chooses whole slices of x and y; SELECT_V2 would spread it along the last axis."""
    broadcasts = condition.shape == () or (condition.shape is not None and condition.shape == x.shape)
    return b.emit("SELECT_V2" if broadcasts else "SELECT", condition, x, y)


@lower("SelectV2", to="tflite")
def select_v2(b: Builder, node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return b.emit("SELECT_V2", condition, x, y)


@lower("Where", to="tflite")
def where(b: Builder, node: Node, condition: Tensor) -> Tensor:
    """Coordinates of what is not zero. The kernel is reliable for bool only."""
    if condition.dtype is not BOOL:
        zero = b.scalar(0, condition, "zero")
        condition = b.step("NOT_EQUAL", condition, zero, shape=condition.shape, element=BOOL)
    return b.emit("WHERE", condition)


# ---- Activation functions.


_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@lower("Relu", to="tflite")
def relu(b: Builder, node: Node, x: Tensor) -> Tensor:
    # LiteRT's RELU has float and quantized kernels: an int32 would be refused.
    return b.emit("RELU", x) if x.dtype is FLOAT else b.emit("MAXIMUM", x, b.scalar(0, x, "zero"))


@lower("Relu6", to="tflite")
def relu6(b: Builder, node: Node, x: Tensor) -> Tensor:
    if x.dtype is FLOAT:
        return b.emit("RELU6", x)
    return b.emit(
        "MINIMUM", b.step("MAXIMUM", x, b.scalar(0, x, "zero"), shape=x.shape), b.scalar(6, x, "six")
    )


@lower("LeakyRelu", to="tflite")
def leaky_relu(b: Builder, node: Node, x: Tensor, *, alpha: float = 0.2) -> Tensor:
    return b.emit("LEAKY_RELU", x, alpha=alpha)


@lower("Softmax", to="tflite")
def softmax(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("SOFTMAX", x, beta=1.0)
