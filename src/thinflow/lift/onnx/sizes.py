"""Sizes in the rules for ONNX: known where shapes tell, else computed by the graph; and places by them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import along, bounded, integers, typed
from thinflow.typing import Array

Size = int | Value
"""A number that is known, or a scalar of int64 that the graph computes."""


def settled(c: Call, place: int) -> Value:
    """An operand, as a constant of int64 where its elements are known."""
    content = c.content(c[place])
    return typed(c, c[place], INT64) if content is None else integers(c, content.astype(np.int64))


def size(c: Call, x: Value, axis: int) -> Size:
    """The size of x along an axis, which counts from the front."""
    sizes = x.spec.shape
    known = sizes[axis] if sizes is not None else None
    if known is not None:
        return known
    return c.emit("GatherV2", c.emit("Shape", x, out_type=INT64), c.constant(axis), c.constant(0))


def scalar(c: Call, number: Size) -> Value:
    """A size as a value of the graph."""
    return integers(c, number) if isinstance(number, int) else number


def times(c: Call, a: Size, b: Size) -> Size:
    """a * b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return c.emit("Mul", scalar(c, a), scalar(c, b))


def product(c: Call, numbers: Sequence[Size]) -> Size:
    """The product of sizes; 1 of none."""
    result: Size = math.prod(n for n in numbers if isinstance(n, int))
    for number in numbers:
        if not isinstance(number, int):
            result = times(c, number, result) if result != 1 else number
    return result


def vector(c: Call, numbers: Sequence[Size]) -> Value:
    """Sizes as a vector of int64."""
    if all(isinstance(n, int) for n in numbers):
        return integers(c, [n for n in numbers if isinstance(n, int)])
    return c.emit("Pack", *(scalar(c, n) for n in numbers), axis=0)


def sizes_of(c: Call, x: Value, count: int) -> list[Size]:
    """All sizes of x, whose rank is `count`."""
    return [size(c, x, axis) for axis in range(count)]


def counted(c: Call, number: Size, step: Size = 1) -> Value:
    """0, step, 2 * step ... for a number of them, as a vector of int64."""
    if isinstance(number, int) and isinstance(step, int):
        return integers(c, np.arange(bounded(number), dtype=np.int64) * step)
    line = c.emit("Range", integers(c, 0), scalar(c, number), integers(c, 1))
    return line if step == 1 else c.emit("Mul", line, scalar(c, step))


def known_places(c: Call, places: Value, number: Size | Sequence[int]) -> Array | None:
    """Places on an axis of that size, or on several; None if they are computed.

    Raises:
        UnsupportedOp: one is outside of it.
    """
    content = c.content(places)
    if content is not None and not isinstance(number, Value):
        most = np.array(number)
        if ((content >= most) | (content < -most)).any():
            raise UnsupportedOp(f"it names places that are not among {most.tolist()}")
    return content


def wrapped(c: Call, places: Value, number: Size | Sequence[int]) -> Value:
    """Places as int64, those below zero counted from the end of an axis of that size.

    Raises:
        UnsupportedOp: they are known, and outside of it.
    """
    content = known_places(c, places, number)
    if content is not None and (content >= 0).all():
        return integers(c, content.astype(np.int64))
    if content is not None and not isinstance(number, Value):
        return integers(c, np.where(content < 0, content + np.array(number), content).astype(np.int64))
    sizes = number if isinstance(number, Value) else integers(c, number)
    # TensorFlow's gathers take none below zero.
    whole = typed(c, places, INT64)
    return c.emit("FloorMod", whole, sizes) if sizes.spec.rank else _by(c, "FloorMod", whole, sizes)


_MOST_BROADCAST = 6
"""Axes of operands that LiteRT's kernels broadcast."""


def _by(c: Call, op: str, x: Value, number: Value) -> Value:
    """x and a scalar, one with the other; x as a vector where it has too many axes."""
    count = x.spec.rank
    if count is None or count <= _MOST_BROADCAST:
        return c.emit(op, x, number)
    return c.emit("Reshape", c.emit(op, flat(c, x), number), vector(c, sizes_of(c, x, count)))


def linear_places(c: Call, places: Value, sizes: Sequence[Size], axis: int) -> Value:
    """For each element of `places`, its place in a flattened array of these sizes: [...], int64.

    Args:
        c: the op.
        places: along the axis, none below zero; its own place tells those along the others.
        sizes: of the array.
        axis: which `places` speaks of.
    """
    count = len(sizes)
    steps = [product(c, sizes[a + 1 :]) for a in range(count)]
    own = sizes_of(c, places, count)
    others = [counted(c, own[a], steps[a]) for a in range(count) if a != axis]
    shaped = [
        along(c, v, a, count) for v, a in zip(others, (a for a in range(count) if a != axis), strict=True)
    ]
    start = _sum(c, shaped)
    whole = places if steps[axis] == 1 else _by(c, "Mul", places, scalar(c, steps[axis]))
    return whole if start is None else c.emit("AddV2", whole, start)


def _sum(c: Call, parts: Sequence[Value]) -> Value | None:
    """Their sum, as a constant where all are known."""
    contents = [c.content(p) for p in parts]
    known = [x for x in contents if x is not None]
    whole = math.prod(np.broadcast_shapes(*(x.shape for x in known)))
    if parts and len(known) == len(contents) and whole <= _MOST_STORED:
        return integers(c, sum(known[1:], known[0]))
    result = None
    for part in parts:
        result = part if result is None else c.emit("AddV2", result, part)
    return result


_MOST_STORED = 1 << 16
"""Places up to this number (512 kB) are stored; more are added up in each run, from vectors."""


def flat(c: Call, x: Value) -> Value:
    """x as a vector."""
    return c.emit("Reshape", x, integers(c, (-1,)))
