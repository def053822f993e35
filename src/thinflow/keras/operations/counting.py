"""Functions that count, and those of whole numbers and of what there is: results of any size."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.loops import repeated
from thinflow.keras.nodes import common
from thinflow.keras.operations.elementwise import first, tensor
from thinflow.keras.operations.places import ascending_order
from thinflow.keras.registry import Result, operation

# --- divisors -----------------------------------------------------------------------------------------------


def _whole(c: Call) -> tuple[Value, Value]:
    """Both operands without signs, in one type."""
    x = tensor(c, "x1", 0)
    y = tensor(c, "x2", 1, x)
    both = common(c.type_of(x), c.type_of(y))
    if not both.is_integer:
        raise c.refuse(f"its operands are of the types {c.type_of(x).name} and {c.type_of(y).name}")
    pair = [c.cast(v, both) for v in (x, y)]
    one, two = [c.emit("Abs", v) for v in pair] if both.kind == "i" else pair
    return one, two


def _divisor(c: Call, x: Value, y: Value) -> Value:
    """The greatest common one, by Euclid: of each pair the smaller, and what is left of the larger."""
    # Zeros of both shapes give each operand the shape of the result, which a loop may not change.
    x, y = (c.emit("AddV2", one, c.emit("ZerosLike", other)) for one, other in ((x, y), (y, x)))

    def condition(pair: list[Value]) -> list[Value]:
        some = c.emit("NotEqual", pair[1], 0)
        return [c.reduce("Any", some, range(c.rank(some)))]

    def body(pair: list[Value]) -> list[Value]:
        large, small = pair
        is_done = c.emit("Equal", small, 0)
        rest = c.emit("FloorMod", large, activations.where(c, is_done, 1, small))
        return [activations.where(c, is_done, large, small), activations.where(c, is_done, 0, rest)]

    return repeated(c, [x, y], condition, body)[0]


@operation("Gcd")
def gcd(c: Call) -> Result:
    return _divisor(c, *_whole(c))


@operation("Lcm")
def lcm(c: Call) -> Result:
    """x * (y / gcd); 0 where both are."""
    x, y = _whole(c)
    divisor = _divisor(c, x, y)
    is_zero = c.emit("Equal", divisor, 0)
    share = c.emit("FloorDiv", y, activations.where(c, is_zero, 1, divisor))
    return activations.where(c, is_zero, 0, c.emit("Mul", x, share))


# --- counts -------------------------------------------------------------------------------------------------


@operation("Histogram")
def histogram(c: Call) -> Result:
    """How many elements lie between edges of equal distance, and the edges.   x [n] -> [bins], [bins + 1]"""
    x, bins, ends = first(c), c.integer("bins", 10), c.get("range")
    if c.rank(x) != 1 or not c.type_of(x).is_floating or bins < 1:
        raise c.refuse(f"it makes {bins} bins of {c.rank(x)} axes of the type {c.type_of(x).name}")
    if isinstance(ends, list | tuple) and len(ends) == 2:
        low, high = (c.const(end, like=x) for end in ends)
    elif ends is None:
        low, high = (c.reduce(op, x, [0]) for op in ("Min", "Max"))
    else:
        raise c.refuse(f"its range is {str(ends)[:40]}")
    edges = c.emit("LinSpace", low, high, c.const(bins + 1, "num"), Tidx=INT32)
    inside = c.emit("LogicalAnd", c.emit("GreaterEqual", x, low), c.emit("LessEqual", x, high), T=None)
    column = c.expand(x, 1)
    passed = c.emit("GreaterEqual", column, c.sliced(edges, [1], [bins]))
    bin_of = c.reduce("Sum", c.cast(passed, INT32), [1])
    is_there = c.emit("Equal", c.expand(bin_of, 1), np.arange(bins, dtype=np.int32))
    counted = c.emit("LogicalAnd", is_there, c.expand(inside, 1), T=None)
    return [c.reduce("Sum", c.cast(counted, c.type_of(x)), [0]), edges]


@operation("Bincount")
def bincount(c: Call) -> Result:
    """How often each whole number occurs, up to the largest there is.   [n] -> [m], [b, n] -> [b, m]"""
    x, least, weights = first(c), c.integer("minlength", 0), c.get("weights")
    if c.flag("sparse"):
        raise c.refuse("its result is sparse")
    x = x if c.type_of(x).is_integer and c.type_of(x).itemsize >= 4 else c.cast(x, INT32)
    shares = c.const(np.zeros(0, np.int32), "weights") if weights is None else c.literal(weights)
    count = c.emit("AddV2", c.reduce("Max", x, range(c.rank(x))), 1)
    count = c.emit("Maximum", count, least)
    kinds: dict[str, Any] = {"T": c.type_of(shares), "Tidx": c.type_of(x), "binary_output": False}
    return c.emit("DenseBincount", x, count, shares, **kinds)


@operation("Nonzero")
def nonzero(c: Call) -> Result:
    """Where elements are that are not zero, a vector an axis."""
    x = first(c)
    found = c.emit("Where", c.cast(x, BOOL), T=BOOL)
    rank = c.rank(x)
    node = c.node("Unpack", c.cast(found, INT32), name="unstack", num=rank, axis=1)
    return [node.output(n) for n in range(rank)]


@operation("Unique")
def unique(c: Call) -> Result:
    """The elements that differ, or the slices along an axis; where they were, and how often."""
    x, axis = first(c), c.get("axis")
    is_flat, sizes = axis is None, [c.dim(x, n) for n in range(c.rank(x))]
    x = c.reshape(x, (None,)) if is_flat else x
    place = 0 if is_flat else c.axis(c.integer("axis"), c.rank(x))
    node = c.node("UniqueWithCountsV2", x, c.const([place], "axis"), Taxis=INT32, out_idx=INT32)
    y, inverse, counts = (node.output(n) for n in range(3))
    count, length = (n if isinstance(n, Value) else c.const(n) for n in (c.dim(counts, 0), c.dim(x, place)))
    numbers = c.emit("Range", c.const(0, "start"), length, c.const(1, "delta"), T=None, Tidx=INT32)
    where = c.emit("UnsortedSegmentMin", numbers, inverse, count, Tindices=INT32, Tnumsegments=INT32)
    if c.flag("sorted", True):
        if c.rank(y) != 1:
            raise c.refuse("it sorts slices of several elements")
        order = ascending_order(c, y, count)
        y, where, counts = (_taken(c, v, order) for v in (y, where, counts))
        inverse = _taken(c, c.emit("InvertPermutation", order), inverse)
    inverse = c.shaped(inverse, sizes) if is_flat else inverse
    if c.get("size") is not None:
        fill = c.get("fill_value")
        y = _sized(c, y, place, 0 if fill is None else fill)
        # As Keras fills them up: the second place, which never occurred.
        where, counts = _sized(c, where, 0, 1), _sized(c, counts, 0, 0)
    wanted = {"return_index": where, "return_inverse": inverse, "return_counts": counts}
    results = [y, *(value for option, value in wanted.items() if c.flag(option))]
    return results if len(results) > 1 else y


def _taken(c: Call, x: Value, at: Value) -> Value:
    kinds: dict[str, Any] = {"T": None, "Tparams": c.type_of(x), "Tindices": INT32, "Taxis": INT32}
    return c.emit("GatherV2", x, at, c.const(0, "axis"), **kinds)


def _sized(c: Call, x: Value, axis: int, fill: object) -> Value:
    """With as many slices as are asked for: some cut off, or some put behind."""
    size, rank = c.integer("size"), c.rank(x)
    around = c.const([[0, size if n == axis else 0] for n in range(rank)], "paddings")
    longer = c.emit("PadV2", x, around, c.literal(fill, x), Tpaddings=INT32)
    return c.sliced(longer, [0] * rank, [size if n == axis else None for n in range(rank)])
