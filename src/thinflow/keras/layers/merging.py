"""Layers of several inputs that become one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from thinflow.ir.graph import Value
from thinflow.keras.call import Call
from thinflow.keras.registry import Result, layer


def _joined(c: Call, op: str) -> Value:
    """The inputs one after the other through an op, broadcast by their last axes as Keras does it."""
    if not c.xs:
        raise c.refuse("it has no inputs")
    if any(m is not None for m in c.masks):
        c.mask_out = _all_masks(c)
    values = _same_rank(c, c.agreed(c.xs))
    return reduce(lambda x, y: c.emit(op, x, y), values)


def _same_rank(c: Call, values: Sequence[Value]) -> list[Value]:
    """Axes of size 1 behind the batch for inputs of fewer axes."""
    most = max(c.rank(x) for x in values)
    wide = []
    for value in values:
        sizes = c.shape(value)
        missing = most - len(sizes)
        wide.append(c.reshape(value, (sizes[0], *[1] * missing, *sizes[1:])) if missing else value)
    return wide


def _all_masks(c: Call) -> Value | None:
    """A step is masked where any input masks it; without a mask for each input nothing is, as in Keras."""
    masks = [m for m in c.masks if m is not None]
    if len(masks) < len(c.masks):
        return None
    return reduce(lambda x, y: c.emit("LogicalAnd", x, y, T=None), masks)


@layer("Add", masks="own")
def add(c: Call) -> Result:
    return _joined(c, "AddV2")


@layer("Multiply", masks="own")
def multiply(c: Call) -> Result:
    return _joined(c, "Mul")


@layer("Maximum", masks="own")
def maximum(c: Call) -> Result:
    return _joined(c, "Maximum")


@layer("Minimum", masks="own")
def minimum(c: Call) -> Result:
    return _joined(c, "Minimum")


@layer("Subtract", masks="own")
def subtract(c: Call) -> Result:
    if len(c.xs) != 2:
        raise c.refuse(f"it takes 2 inputs, not {len(c.xs)}")
    return _joined(c, "Sub")


@layer("Average", masks="own")
def average(c: Call) -> Result:
    return c.emit("Mul", _joined(c, "AddV2"), 1 / len(c.xs))


@layer("Concatenate", masks="own", ignores=("mask",))
def concatenate(c: Call) -> Result:
    axis = c.axis(c.integer("axis", -1), c.rank(c[0]))
    masks = [m for m in c.masks if m is not None]
    # Along other axes than the steps' the masks of the inputs are one: that of all.
    if masks and len(masks) == len(c.masks):
        c.mask_out = c.concat(masks, 1, "mask") if axis == 1 else _all_masks(c)
    return c.concat(c.agreed(c.xs), axis)


@layer("Dot")
def dot(c: Call) -> Result:
    """Sums of products over an axis of each of two inputs."""
    if len(c.xs) != 2:
        raise c.refuse(f"it takes 2 inputs, not {len(c.xs)}")
    x, y = c.agreed(c.xs)
    given = c.ints("axes", default=-1)
    if len(given) > 2:
        raise c.refuse(f"its axes are {given}")
    axes = [c.axis(n, c.rank(v)) for n, v in zip((given[0], given[-1]), (x, y), strict=True)]
    if 0 in axes:
        raise c.refuse("it sums over the batch")
    if c.flag("normalize"):
        x, y = (_unit(c, v, n) for v, n in zip((x, y), axes, strict=True))
    return batch_dot(c, x, y, axes)


def _unit(c: Call, x: Value, axis: int) -> Value:
    total = c.reduce("Sum", c.emit("Square", x), [axis], True)
    return c.emit("Mul", x, c.emit("Rsqrt", c.emit("Maximum", total, 1e-12)))


def batch_dot(c: Call, x: Value, y: Value, axes: Sequence[int]) -> Value:
    """Over one axis of each; what is left of x stands before what is left of y."""
    letters = iter("cdefghijklmn")
    first = ["b", *(next(letters) for _ in range(c.rank(x) - 1))]
    second = ["b", *(next(letters) for _ in range(c.rank(y) - 1))]
    first[axes[0]] = second[axes[1]] = "z"
    if len(first) == len(second) == 2:
        return c.reduce("Sum", c.emit("Mul", x, y), [1], True)
    left = ["b", *(n for n in first[1:] if n != "z"), *(n for n in second[1:] if n != "z")]
    equation = f"{''.join(first)},{''.join(second)}->{''.join(left)}"
    return c.emit("Einsum", x, y, equation=equation, N=2)
