"""Layers of several inputs that become one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32
from thinflow.keras.call import Call
from thinflow.keras.registry import Result, layer

_ANY_MASK = (3, 4)
"""From this version of Keras on, a step is masked where all inputs mask it; before, where any does."""


def _joined(c: Call, op: str) -> Value:
    """The inputs one after the other through an op, broadcast by their last axes as Keras does it."""
    if not c.xs:
        raise c.refuse("it has no inputs")
    if any(m is not None for m in c.masks):
        c.mask_out = _common_mask(c)
    values = _same_rank(c, c.agreed(c.xs))
    return reduce(lambda x, y: c.emit(op, x, y), values)


def _hides_steps(c: Call) -> bool:
    """Whether masks bear on what is computed: since they are joined by "or", masked steps of one input do
    not count beside those of another. Inputs that are reshaped first lose theirs.
    """
    has_mask = any(m is not None for m in c.masks)
    return has_mask and c.builder.version >= _ANY_MASK and len({c.rank(x) for x in c.xs}) == 1


def _hidden(c: Call, mask: Value, x: Value, other: Value | float) -> Value:
    """x where a mask is set, else another.   mask [batch, steps], x [batch, steps, features]"""
    value = other if isinstance(other, Value) else c.const(other, "masked", x)
    return c.emit("SelectV2", c.expand(mask, -1), x, value, T=c.type_of(x))


def _extreme(c: Call, op: str) -> Value:
    """`Maximum` or `Minimum`, in which masked steps of an input are as those of what came before."""
    if not _hides_steps(c):
        return _joined(c, op)
    (y, *others), (hidden, *masks) = c.agreed(c.xs), c.masks
    for x, mask in zip(others, masks, strict=True):
        x = x if mask is None else _hidden(c, mask, x, y)
        y = y if hidden is None else _hidden(c, hidden, y, x)
        if hidden is not None:
            hidden = None if mask is None else c.emit("LogicalOr", hidden, mask, T=None)
        y = c.emit(op, y, x)
    c.mask_out = hidden
    return y


def _same_rank(c: Call, values: Sequence[Value]) -> list[Value]:
    """Axes of size 1 behind the batch for inputs of fewer axes."""
    most = max(c.rank(x) for x in values)
    wide = []
    for value in values:
        sizes = c.shape(value)
        missing = most - len(sizes)
        wide.append(c.reshape(value, (sizes[0], *[1] * missing, *sizes[1:])) if missing else value)
    return wide


def _common_mask(c: Call) -> Value | None:
    """The mask of a result that each input bears on."""
    masks = [m for m in c.masks if m is not None]
    if c.builder.version < _ANY_MASK:
        return reduce(lambda x, y: c.emit("LogicalAnd", x, y, T=None), masks)
    if len(masks) < len(c.masks):
        return None  # an input without a mask has every step
    return reduce(lambda x, y: c.emit("LogicalOr", x, y, T=None), masks)


def _all_steps(c: Call, x: Value) -> Value:
    """A mask that hides nothing.   x [batch, steps, features] -> [batch, steps]"""
    shape = c.sizes_vector([c.dim(x, 0), c.dim(x, 1)])
    return c.emit("Fill", shape, c.writer.constant(np.asarray(True), "all"), T=BOOL, index_type=INT32)


@layer("Add", masks="own")
def add(c: Call) -> Result:
    return _joined(c, "AddV2")


@layer("Multiply", masks="own")
def multiply(c: Call) -> Result:
    if not _hides_steps(c):
        return _joined(c, "Mul")
    c.mask_out = _common_mask(c)
    values = zip(c.agreed(c.xs), c.masks, strict=True)
    ones = [x if mask is None else _hidden(c, mask, x, 1.0) for x, mask in values]
    y = reduce(lambda x, y: c.emit("Mul", x, y), ones)
    return y if c.mask_out is None else _hidden(c, c.mask_out, y, 0.0)


@layer("Maximum", masks="own")
def maximum(c: Call) -> Result:
    return _extreme(c, "Maximum")


@layer("Minimum", masks="own")
def minimum(c: Call) -> Result:
    return _extreme(c, "Minimum")


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
    if any(m is not None for m in c.masks) and axis == 1:
        steps = [_all_steps(c, x) if m is None else m for x, m in zip(c.xs, c.masks, strict=True)]
        c.mask_out = c.concat(steps, 1, "mask")
    elif any(m is not None for m in c.masks):
        c.mask_out = _common_mask(c)
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
