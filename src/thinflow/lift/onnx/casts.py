"""ONNX's changes of element types, and its arithmetic on bits, in TensorFlow's words."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, DOUBLE, FLOAT, INT32, INT64, STRING, DType
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import NUMBERS, like, text, typed
from thinflow.lift.rules import lifts

_STRING = 8
"""ONNX's number of the type of strings."""
_FLOAT8_MOST = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
"""The largest number of each type, at which a cast that saturates stops; others give infinity or NaN."""

_NARROW = frozenset({"int4", "uint4", "int2", "uint2", "float4_e2m1fn"})
"""Types of less than a byte."""


@lifts("onnx.Cast", "onnx.CastLike")
def _cast(c: Call) -> Value:
    """Each element as another type; to one of eight bits, what is beyond its largest number becomes that."""
    kind = _target(c) if c.node.op == "onnx.Cast" else c[1].dtype
    # Elements of a type without a name in TensorFlow, such as exponents alone, have no name in numpy either.
    if kind is None or not kind.numpy_name:
        raise UnsupportedOp("it casts to a type that TensorFlow does not have")
    x = c[0]
    if STRING in (kind, x.dtype):
        return _of_strings(c, x, kind)
    return (
        narrowed(c, x, kind)
        if c.flag("saturate", default=True)
        else c.emit("Cast", x, SrcT=x.dtype, DstT=kind)
    )


def narrowed(c: Call, x: Value, kind: DType) -> Value:
    """x as another type; of floats of eight bits the largest number, where x is beyond it."""
    most = _FLOAT8_MOST.get(kind.name)
    if most is not None:
        # Whole numbers of eight bits could not hold the bounds. Those that float32 rounds are beyond them.
        x = x if x.dtype is None or x.dtype.is_floating else typed(c, x, FLOAT)
        x = c.emit("Maximum", c.emit("Minimum", x, like(c, most, x)), like(c, -most, x))
    return c.emit("Cast", x, SrcT=x.dtype, DstT=kind)


def _target(c: Call) -> DType | None:
    number = c.get("to", 0)
    return STRING if number == _STRING else NUMBERS.get(number)


def _of_strings(c: Call, x: Value, kind: DType) -> Value:
    """Numbers from texts, and texts of whole numbers; how many digits another number has there is open."""
    if x.dtype is STRING and kind in (FLOAT, DOUBLE, INT32, INT64):
        return c.emit("StringToNumber", x, out_type=kind)
    if x.dtype is STRING and kind is STRING:
        return c.emit("Identity", x)
    if kind is STRING and x.dtype is not None and x.dtype.is_integer:
        return c.emit("AsString", x)
    raise UnsupportedOp(f"it casts {x.dtype or 'an unknown type'} to {kind}")


@lifts("onnx.BitCast")
def _bit_cast(c: Call) -> Value:
    """The same bits as another type of the same width."""
    x, kind = c[0], NUMBERS.get(c.get("to", 0))
    if x.dtype is None or kind is None or x.dtype.itemsize != kind.itemsize:
        raise UnsupportedOp(f"it reads the bits of {x.dtype or 'an unknown type'} as {kind or 'another'}")
    # Elements of less than a byte lie in a byte each here, and its other bits are nobody's.
    if {x.dtype.name, kind.name} & _NARROW:
        raise UnsupportedOp(f"it reads the bits of {x.dtype} as {kind}")
    if BOOL in (x.dtype, kind):
        # A bool is a byte that is 0 or 1, which TensorFlow shows by a cast.
        if kind.kind not in "biu" or x.dtype.kind not in "biu":
            raise UnsupportedOp(f"it reads the bits of {x.dtype} as {kind}")
        return typed(c, x, kind)
    return c.emit("Bitcast", x, type=kind)


@lifts("onnx.BitShift")
def _bit_shift(c: Call) -> Value:
    """By a number of bits that may be too large or below zero: then only the sign stays, if it goes right."""
    x, y, direction = c[0], c[1], text(c, "direction", "")
    if direction not in {"LEFT", "RIGHT"} or x.dtype is None:
        raise UnsupportedOp(f"it shifts in the direction '{direction}'")
    op = "LeftShift" if direction == "LEFT" else "RightShift"
    width, content = 8 * x.dtype.itemsize, c.content(y)
    if content is not None and ((content >= 0) & (content < width)).all():
        return c.emit(op, x, y)
    # TensorFlow stops at the nearest distance that there is.
    is_wrong = c.emit("GreaterEqual", y, like(c, width, y))
    if x.dtype.kind == "i":
        is_wrong = c.emit("LogicalOr", is_wrong, c.emit("Less", y, like(c, 0, y)))
        if direction == "RIGHT":
            return c.emit(op, x, c.emit("SelectV2", is_wrong, like(c, width - 1, y), y))
    return c.emit("SelectV2", is_wrong, like(c, 0, x), c.emit(op, x, y))
