"""Helpers of the rules for ONNX: options that became inputs, ranks, axes, and the place of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64, DType, dtype
from thinflow.lift.lifter import Call
from thinflow.typing import Array

# `TensorProto.DataType` of onnx.proto. Complex numbers and strings are left out: no rule casts to them.
NUMBERS: dict[int, DType] = {
    1: FLOAT,
    6: INT32,
    7: INT64,
    9: BOOL,
    2: dtype("uint8"),
    3: dtype("int8"),
    4: dtype("uint16"),
    5: dtype("int16"),
    10: dtype("half"),
    11: dtype("double"),
    12: dtype("uint32"),
    13: dtype("uint64"),
    16: dtype("bfloat16"),
    17: dtype("float8_e4m3fn"),
    18: dtype("float8_e4m3fnuz"),
    19: dtype("float8_e5m2"),
    20: dtype("float8_e5m2fnuz"),
    21: dtype("uint4"),
    22: dtype("int4"),
    23: dtype("float4_e2m1fn"),
    25: dtype("uint2"),
    26: dtype("int2"),
}
"""ONNX's numbers of element types."""
# For models that do not say: their ops then mean what they do today.
_NEWEST = 1000


def opset(c: Call) -> int:
    """The version of ONNX's op set that the model asks for."""
    # An entry that is a number alone is that of ONNX's own ops; others begin with their domain.
    entries = (entry.strip() for entry in c.facts.get("opset", "").split(","))
    return next((int(entry) for entry in entries if entry.isdecimal()), _NEWEST)


def rank(c: Call, place: int = 0) -> int:
    """The number of dimensions of an operand.

    Raises:
        UnsupportedOp: it is not known.
    """
    shape = c[place].spec.shape
    if shape is None:
        raise UnsupportedOp(f"the number of dimensions of its operand {place} is not known")
    return len(shape)


def numbers(c: Call, option: str, place: int | None = None) -> tuple[int, ...] | None:
    """Whole numbers that older models give as an option and newer ones as a constant input; None if neither.

    Raises:
        UnsupportedOp: they are computed.
    """
    if place is not None and c.has(place):
        return tuple(int(n) for n in c.known(place).reshape(-1))
    given = c.get(option)
    if given is None:
        return None
    return tuple(given) if isinstance(given, tuple) else (int(given),)


def integers(c: Call, content: Sequence[int] | int | Array) -> Value:
    """A constant of int64, as ONNX's sizes and axes are."""
    return c.constant(np.array(content, np.int64))


def like(c: Call, number: float | np.ndarray[Any, Any], value: Value) -> Value:
    """A number, or an array of some, of a value's type."""
    kind = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
    return c.constant(np.array(number).astype(kind))


def bounded(count: int) -> int:
    """A number of elements that the rule has to write out.

    Raises:
        UnsupportedOp: too many, as a damaged file may ask for.
    """
    if not 0 <= count <= _MOST_ELEMENTS:
        raise UnsupportedOp(f"it asks for {count} elements")
    return count


# 64 Mi: what a rule writes out is a constant in memory.
_MOST_ELEMENTS = 1 << 26


def transposed(c: Call, x: Value, order: Sequence[int]) -> Value:
    """x with its axes in another order; nothing is done for the order it has."""
    if tuple(order) == tuple(range(len(order))):
        return x
    return c.emit("Transpose", x, integers(c, tuple(order)), Tperm=INT64)


def channels_last(c: Call, x: Value, count: int) -> Value:
    """[n, c, ...] as [n, ..., c]."""
    return transposed(c, x, (0, *range(2, count), 1))


def channels_first(c: Call, x: Value, count: int) -> Value:
    """[n, ..., c] as [n, c, ...]."""
    return transposed(c, x, (0, count - 1, *range(1, count - 1)))


def along(c: Call, x: Value, axis: int, count: int) -> Value:
    """A vector shaped so that it goes along one of `count` axes."""
    sides = [1] * count
    sides[axis] = -1
    return c.emit("Reshape", x, integers(c, sides), Tshape=INT64)


def typed(c: Call, x: Value, kind: DType) -> Value:
    """x as another element type."""
    if x.dtype is kind:
        return x
    return c.emit("Cast", x, SrcT=x.dtype, DstT=kind)


def text(c: Call, option: str, default: str) -> str:
    """An option that is a word."""
    given: Any = c.get(option, default)
    return given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given)
