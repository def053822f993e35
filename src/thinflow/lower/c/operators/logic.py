"""Comparisons, logic, and choices by them."""

from __future__ import annotations

from thinflow.lower.c.broadcasting import broadcast, meeting
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.operators.array import ANY, require_one_scale
from thinflow.lower.c.settle import C_TYPES
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator

_COMPARED = {
    "EQUAL": "==",
    "NOT_EQUAL": "!=",
    "LESS": "<",
    "LESS_EQUAL": "<=",
    "GREATER": ">",
    "GREATER_EQUAL": ">=",
}
_JOINED = {"LOGICAL_AND": "a && b", "LOGICAL_OR": "a || b"}


@form(*_COMPARED, types="float int16 uint16 int32 uint32 int64 bool")
def compared(b: LayerBuilder, op: Operator) -> None:
    """Whether one is equal to, or less than, the other."""
    expression = f"a {_COMPARED[op.code]} b"
    kind = b.input(0).dtype.name
    words = {"op": op.code.lower(), "y_type": "bool", "what": expression, "expression": expression}
    b.call("binary", b.input(0), b.input(1), b.output(), broadcast(b), type=kind, **words)


@form(*_COMPARED, types="int8 uint8")
def compared_bytes(b: LayerBuilder, op: Operator) -> None:
    """As the numbers they stand for, at the resolution that LiteRT compares with."""
    first, second = b.input(0), b.input(1)
    if first.quantization is None or not len(first.quantization.scale):
        compared(b, op)
        return
    (a_scale, a_zero), (b_scale, b_zero) = b.scale(first), b.scale(second)
    a_pair, b_pair = quantized_multiplier(float(a_scale)), quantized_multiplier(float(b_scale))
    settings = b.struct(
        "",
        shape=broadcast(b),
        a_zero_point=a_zero,
        b_zero_point=b_zero,
        a_multiplier=a_pair[0],
        a_shift=a_pair[1],
        b_multiplier=b_pair[0],
        b_shift=b_pair[1],
    )
    words = {"op": op.code.lower(), "expression": f"a {_COMPARED[op.code]} b"}
    b.call("compare_scaled", first, second, b.output(), settings, type=first.dtype.name, **words)


@form(*_JOINED, types="bool")
def joined(b: LayerBuilder, op: Operator) -> None:
    """Both, or either."""
    expression = _JOINED[op.code]
    words = {"op": op.code.lower(), "y_type": "bool", "what": expression, "expression": expression}
    b.call("binary", b.input(0), b.input(1), b.output(), broadcast(b), type="bool", **words)


_EXTREMES = {"MAXIMUM": "a > b ? a : b", "MINIMUM": "a < b ? a : b"}


@form(*_EXTREMES, types="int8 uint8 int16")
def extremes(b: LayerBuilder, op: Operator) -> None:
    """The larger or the smaller of two integers as they are stored, as LiteRT's kernel has it.

    Where they have one scale, that is the order of their reals; it knows of no other.
    """
    first, second, y = b.input(0), b.input(1), b.output()
    kind, expression = y.dtype.name, _EXTREMES[op.code]
    words = {"op": op.code.lower(), "y_type": C_TYPES[kind], "what": expression, "expression": expression}
    b.call("binary", first, second, y, broadcast(b), type=kind, **words)


@form("LOGICAL_NOT", types="bool")
def inverted(b: LayerBuilder, op: Operator) -> None:
    """The other one."""
    b.in_place()
    words = {"op": "not", "y_type": "bool", "what": "!x", "expression": "!x"}
    b.call("map", b.input(0), b.output(), b.size(b.output()), type="bool", **words)


@form("SELECT", "SELECT_V2", types="bool")
def select(b: LayerBuilder, op: Operator) -> None:
    """Elements of input 1 where input 0 is true, else of input 2."""
    y = b.output()
    require_one_scale(b, [b.input(1), b.input(2)], y)
    sizes = b.shape(b.input(0))
    # The older operator takes a condition for each row.
    if op.code == "SELECT" and len(sizes) == 1 and len(b.shape(y)) > 1:
        inner = b.size(y) // sizes[0]
        steps: list[tuple[int, ...]] = [(1, 1, sizes[0], inner), (0, 0, 1, 0), *[(0, 0, inner, 1)] * 2]
    else:
        steps = meeting(b, (0, 1, 2))
    members = dict(zip(("count", "condition_step", "a_step", "b_step"), steps, strict=True))
    b.call("select", *op.reads(), y, b.struct("", **members), type=y.dtype.name)


@form("ZEROS_LIKE", types=ANY)
def zeros_like(b: LayerBuilder, op: Operator) -> None:
    """Zeros in the sizes of the input."""
    y = b.output()
    kind = y.dtype.name
    b.call("fill", y, b.size(y), 0.0 if kind == "float" else 0, type=kind)
