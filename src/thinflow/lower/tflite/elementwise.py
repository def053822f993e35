"""Arithmetic on two operands."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64
from thinflow.lower.building import whole_exponent
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, Dims, require
from thinflow.lower.tflite.program import Tensor
from thinflow.lower.tflite.unary import inverse_root
from thinflow.tflite.counterparts import Kind, same_in_tflite

_BINARY = same_in_tflite(Kind.BINARY)


@lower(*_BINARY, to="tflite")
def binary(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """One operator that broadcasts as TensorFlow does. DIV on integers truncates."""
    require(node.op != "TruncateDiv" or x.dtype is INT32, "LiteRT truncates int32 quotients only")
    require(node.op != "RealDiv" or x.dtype.is_floating, f"RealDiv of {x.dtype} has no TFLite form")
    return b.emit(_BINARY[node.op], x, y)


@lower("FloorDiv", to="tflite")
def floor_div(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """floor(x / y): on floats, FLOOR_DIV goes by the remainder instead, and 7 // 0.1 comes out one lower."""
    if x.dtype is FLOAT:
        return b.emit("FLOOR", b.step("DIV", x, y, shape=b.result_spec().shape))
    if x.dtype is INT64 and y.is_constant and np.asarray(y.array()).size == 1:
        return _long_floor_div(b, x, int(np.asarray(y.array()).reshape(())))
    return b.emit("FLOOR_DIV", x, y)


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
    # A floor has a rest of 0 ... by - 1: one quotient down where it is
    # negative, one up where it is too large.
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
    """x - y * trunc(x / y); int32 only, since floats would lose the exact remainder."""
    require(x.dtype is INT32, f"the remainder of {x.dtype} has no TFLite form")
    shape = b.result_spec().shape
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
