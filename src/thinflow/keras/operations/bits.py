"""Functions of the bits of numbers."""

from __future__ import annotations

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, dtype
from thinflow.keras.call import Call
from thinflow.keras.nodes import common
from thinflow.keras.operations.elementwise import first, floats, operands
from thinflow.keras.registry import Result, Rule, operation


def _whole(op: str) -> Rule:
    def rule(c: Call) -> Value:
        xs = (first(c),) if op == "Invert" else operands(c)
        if not c.type_of(xs[0]).is_integer:
            raise c.refuse(f"its operands are of the type {c.type_of(xs[0]).name}")
        return c.emit(op, *xs)

    return rule


for _op, _names in {
    "BitwiseAnd": ("BitwiseAnd", "bitwise.bitwise_and"),
    "BitwiseOr": ("BitwiseOr", "bitwise.bitwise_or"),
    "BitwiseXor": ("BitwiseXor", "bitwise.bitwise_xor"),
    "Invert": ("BitwiseInvert", "BitwiseNot", "bitwise.invert"),
    "LeftShift": ("BitwiseLeftShift", "LeftShift", "bitwise.left_shift"),
    "RightShift": ("BitwiseRightShift", "RightShift", "bitwise.right_shift"),
}.items():
    operation(*_names)(_whole(_op))


@operation("Signbit")
def signbit(c: Call) -> Result:
    """True where a number has a minus, as -0 has."""
    x = first(c)
    if c.type_of(x).kind in "bu":
        return c.emit("NotEqual", x, x)
    bits = c.emit("Bitcast", c.cast(x, FLOAT), type=INT32) if c.type_of(x).is_floating else x
    return c.emit("Less", bits, 0)


@operation("View")
def view(c: Call) -> Result:
    """The same bytes as numbers of another type, smaller or larger ones along the last axis."""
    x, name = first(c), c.layer.options.get("dtype")
    c.read.add("dtype")
    element = dtype(name) if isinstance(name, str) else c.type_of(x)
    before, after = c.type_of(x).itemsize, element.itemsize
    if element is c.type_of(x):
        return x
    sizes = [c.dim(x, n) for n in range(c.rank(x))]
    if before < after:
        count = after // before
        x = c.shaped(x, [*sizes[:-1], c.size(x, -1) // count, count])
    y = c.emit("Bitcast", x, type=element)
    return c.shaped(y, [*sizes[:-1], c.size(x, -1) * (before // after)]) if before > after else y


@operation("Nextafter")
def next_after(c: Call) -> Result:
    """The next number on the way to another one, among those of 64 bits; Keras rounds it back."""
    x, y = operands(c)
    double = dtype("double")
    found = c.emit("NextAfter", c.cast(x, double), c.cast(y, double))
    return c.cast(found, c.type_of(floats(c, x)))


@operation("Ldexp")
def ldexp(c: Call) -> Result:
    """x * 2^n."""
    x, n = (c.literal(c.argument(name, place)) for place, name in enumerate(("x1", "x2")))
    if not c.type_of(n).is_integer:
        raise c.refuse("its exponent is no whole number")
    x = c.cast(floats(c, x), common(c.type_of(floats(c, x)), c.type_of(n)))
    power = c.emit("Pow", c.const(2.0, like=x), c.cast(n, c.type_of(x)))
    # Nothing times infinity is no number.
    is_fixed = c.emit("LogicalOr", c.emit("IsInf", x), c.emit("Equal", x, 0.0), T=None)
    return c.emit("SelectV2", is_fixed, x, c.emit("Mul", x, power), T=c.type_of(x))
