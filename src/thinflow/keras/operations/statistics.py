"""Functions over axes of what is in order, and of what there is where some elements are no number."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.config import Literal
from thinflow.keras.operations.arrays import number
from thinflow.keras.operations.elementwise import first, floats
from thinflow.keras.operations.reductions import places, widened
from thinflow.keras.registry import Result, Rule, operation
from thinflow.typing import Array

# --- quantiles ----------------------------------------------------------------------------------------------


def _rows(c: Call, x: Value, axes: list[int]) -> tuple[Value, int]:
    """The axes made one, which is the last, and its size."""
    others = [n for n in range(c.rank(x)) if n not in axes]
    count = 1
    for axis in axes:
        count *= c.size(x, axis)
    return c.shaped(c.transpose(x, [*others, *axes]), [*(c.dim(x, n) for n in others), count]), count


def _shares(c: Call) -> Array:
    given = c.argument("q", 1, 0.5)
    given = given.value if isinstance(given, Literal) else given
    if not isinstance(given, int | float | list):
        raise c.refuse("its shares are computed")
    # Keras has them in 32 bits first.
    shares = np.asarray(given, np.float32)
    shares = shares / np.float32(100) if c.layer.kind.lower().endswith("percentile") else shares
    return np.asarray(shares, np.float64)


@operation("Quantile", "Percentile", "Median")
def quantile(c: Call) -> Result:
    """Of sorted elements those at shares of the way, between two of them by a line."""
    x = floats(c, first(c))
    axes, keeps = places(c, x, 9)
    row, count = _rows(c, x, axes)
    shares, method = _shares(c), _method(c)
    if c.layer.kind == "Quantile" and method != "linear":
        raise c.refuse(f"its method is '{method}', which Keras does not heed in a model")
    ordered = _ascending(c, row, count)
    below, above, part = _between((count - 1) * shares, method)
    low, high = (_picked(c, ordered, numbers) for numbers in (below, above))
    y = low
    if (below != above).any():
        ratio = c.const(np.asarray(part, c.type_of(x).numpy()), "part")
        y = c.emit("AddV2", low, c.emit("Mul", c.emit("Sub", high, low), ratio))
    # One that is no number makes all of them none.
    missing = c.reduce("Any", c.emit("IsNan", row), [-1], keepdims=shares.ndim > 0)
    y = activations.where(c, missing, c.const(np.nan, like=y), y)
    return _shares_first(c, y, axes if keeps else [], shares.ndim)


@operation("Nanquantile", "Nanpercentile", "Nanmedian")
def nanquantile(c: Call) -> Result:
    """As `quantile`, of what is a number."""
    x = first(c)
    if not c.type_of(x).is_floating:
        raise c.refuse(f"its input is of the type {c.type_of(x).name}")
    axes, keeps = places(c, x, 9)
    row, count = _rows(c, x, axes)
    shares, method = _shares(c), _method(c)
    # How many numbers there are decides where to look: a line of a table for each count.
    numbers = np.arange(count + 1)[:, None]
    tables = _between(np.maximum(numbers - 1, 0) * shares.reshape(1, -1), method)
    there = c.emit("LogicalNot", c.emit("IsNan", row), T=None)
    found = c.reduce("Sum", c.cast(there, INT32), [-1])
    kinds = (np.dtype(np.int32), np.dtype(np.int32), np.dtype(c.type_of(x).numpy()))
    low_at, high_at, part = (
        _gathered(c, c.const(table.astype(kind), "table"), found)
        for table, kind in zip(tables, kinds, strict=True)
    )
    ordered = _ascending(c, _without(c, row, np.inf), count)
    low, high = (_gathered(c, ordered, at, c.rank(ordered) - 1) for at in (low_at, high_at))
    gap = c.emit("Sub", high, low)
    # Between two infinities there is no way.
    gap = activations.where(c, c.emit("Equal", high, low), c.const(0, like=low), gap)
    y = c.emit("AddV2", low, c.emit("Mul", gap, part))
    nothing = c.expand(c.emit("Equal", found, 0), -1)
    y = activations.where(c, nothing, c.const(np.nan, like=y), y)
    y = y if shares.ndim else c.squeeze(y, c.rank(y) - 1)
    return _shares_first(c, y, axes if keeps else [], shares.ndim)


def _method(c: Call) -> str:
    method = c.get("method", "linear")
    if method not in ("linear", "lower", "higher", "nearest", "midpoint"):
        raise c.refuse(f"its method is {str(method)[:40]}")
    return str(method)


def _ascending(c: Call, row: Value, count: int) -> Value:
    # TopK is what TensorFlow sorts with, and goes downwards.
    node = c.node("TopKV2", c.emit("Neg", row), c.const(count, "k"), name="TopKV2", sorted=True)
    return c.emit("Neg", node.output(0))


def _between(exact: Array, method: str) -> tuple[Array, Array, Array]:
    """Places below and above, and the part of the way between them."""
    below, above = np.floor(exact), np.ceil(exact)
    if method in ("lower", "higher", "nearest"):
        below = above = {"lower": below, "higher": above, "nearest": np.round(exact)}[method]
    return below, above, np.full_like(exact, 0.5) if method == "midpoint" else exact - below


def _gathered(c: Call, x: Value, at: Value, batch: int = 0) -> Value:
    """Elements by their places: of each row by places of its own, or lines of a table."""
    kinds: dict[str, Any] = {"T": None, "Tparams": c.type_of(x), "Tindices": INT32, "Taxis": INT32}
    return c.emit("GatherV2", x, at, c.const(batch, "axis"), batch_dims=batch, **kinds)


def _shares_first(c: Call, y: Value, kept: list[int], several: int) -> Value:
    """With axes of size 1 put back, and the shares, which are last, in front."""
    for axis in sorted(kept):
        y = c.expand(y, axis)
    rank = c.rank(y)
    return c.transpose(y, [rank - 1, *range(rank - 1)]) if several else y


def _picked(c: Call, ordered: Value, numbers: Array) -> Value:
    kinds: dict[str, Any] = {"T": None, "Tparams": c.type_of(ordered), "Tindices": INT32, "Taxis": INT32}
    axis = c.const(c.rank(ordered) - 1, "axis")
    return c.emit("GatherV2", ordered, c.const(np.asarray(numbers, np.int32), "numbers"), axis, **kinds)


# --- without what is no number ------------------------------------------------------------------------------


def _without(c: Call, x: Value, number_instead: float) -> Value:
    """With a number where there is none."""
    return activations.where(c, c.emit("IsNan", x), c.const(number_instead, like=x), x)


def _extreme(op: str, least: float) -> Rule:
    def rule(c: Call) -> Value:
        x = first(c)
        axes, keeps = places(c, x, 1)
        if c.type_of(x) is BOOL:
            return c.reduce("Any" if op == "Max" else "All", x, axes, keeps)
        if not c.type_of(x).is_floating:
            return c.reduce(op, x, axes, keeps)
        found = c.reduce(op, _without(c, x, least), axes, keeps)
        nothing = c.reduce("All", c.emit("IsNan", x), axes, keeps)
        return activations.where(c, nothing, c.const(np.nan, like=x), found)

    return rule


operation("Nanmax")(_extreme("Max", -np.inf))
operation("Nanmin")(_extreme("Min", np.inf))


def _total(op: str, neutral: float) -> Rule:
    def rule(c: Call) -> Value:
        x = first(c)
        x = _without(c, x, neutral) if c.type_of(x).is_floating else widened(c, x)
        return c.reduce(op, x, *places(c, x, 1))

    return rule


operation("Nansum")(_total("Sum", 0.0))
operation("Nanprod")(_total("Prod", 1.0))


def _mean(c: Call, x: Value, axes: list[int], keeps: bool) -> tuple[Value, Value]:
    """The mean of what there is, and how many elements that are."""
    there = c.cast(c.emit("LogicalNot", c.emit("IsNan", x), T=None), c.type_of(x))
    count = c.reduce("Sum", there, axes, keeps)
    return c.emit("RealDiv", c.reduce("Sum", _without(c, x, 0.0), axes, keeps), count), count


@operation("Nanmean")
def nanmean(c: Call) -> Result:
    x = floats(c, first(c))
    return _mean(c, x, *places(c, x, 1))[0]


@operation("Nanvar", "Nanstd")
def nanvar(c: Call) -> Result:
    x = floats(c, first(c))
    axes, keeps = places(c, x, 1)
    mean, count = _mean(c, x, axes, True)
    off = _without(c, c.emit("SquaredDifference", x, mean), 0.0)
    # Of nothing there is no mean, and then no variance either.
    y = c.emit("RealDiv", c.reduce("Sum", off, axes, True), count)
    y = y if keeps else c.emit("Squeeze", y, squeeze_dims=tuple(axes))
    return c.emit("Sqrt", y) if c.layer.kind == "Nanstd" else y


def _place(op: str, least: float) -> Rule:
    def rule(c: Call) -> Value:
        """The place of the extreme; -1 where there is no number at all."""
        x = first(c)
        axis = c.get("axis")
        if axis is not None and not isinstance(axis, int):
            raise c.refuse(f"its axis is {str(axis)[:40]}")
        keeps = c.flag("keepdims")
        sizes = c.shape(x)
        row = c.reshape(x, (None,)) if axis is None else x
        place = 0 if axis is None else c.axis(axis, c.rank(x))
        is_real = c.type_of(x).is_floating
        kinds: dict[str, Any] = {"output_type": INT32, "Tidx": INT32}
        y = c.emit(op, _without(c, row, least) if is_real else row, c.const(place, "dimension"), **kinds)
        if is_real:
            nothing = c.reduce("All", c.emit("IsNan", row), [place])
            y = activations.where(c, nothing, c.const(-1, like=y), y)
        if not keeps:
            return y
        return c.reshape(y, [1] * len(sizes)) if axis is None else c.expand(y, place)

    return rule


operation("Nanargmax")(_place("ArgMax", -np.inf))
operation("Nanargmin")(_place("ArgMin", np.inf))


# --- along an axis ------------------------------------------------------------------------------------------


@operation("Trapezoid")
def trapezoid(c: Call) -> Result:
    """The area below a line through points."""
    y, given, gap = floats(c, first(c)), c.get("x"), c.get("dx", 1.0)
    axis = c.axis(number(c, "axis", 9, -1), c.rank(y))
    order = [*(n for n in range(c.rank(y)) if n != axis), axis]
    y = c.transpose(y, order)
    size, rank = c.size(y, -1), c.rank(y)
    left, right = (
        c.sliced(y, [*[0] * (rank - 1), at], [*[None] * (rank - 1), size - 1 + at]) for at in (0, 1)
    )
    mean = c.emit("Mul", c.emit("AddV2", left, right), 0.5)
    if given is not None:
        points = np.asarray(given, c.type_of(y).numpy())
        if points.shape != (size,):
            raise c.refuse("its x is no vector of its input's size")
        mean = c.emit("Mul", mean, np.diff(points))
    elif isinstance(gap, int | float):
        mean = mean if gap == 1 else c.emit("Mul", mean, float(gap))
    else:
        raise c.refuse("its dx is no number")
    return c.reduce("Sum", mean, [-1])


@operation("Vander")
def vander(c: Call) -> Result:
    """Powers of each element along a new last axis."""
    x = first(c)
    count = c.size(x, 0) if c.get("N") is None else c.integer("N")
    powers = np.arange(count) if c.flag("increasing") else np.arange(count)[::-1]
    wide = floats(c, x)
    y = c.emit("Pow", c.expand(wide, -1), powers.astype(c.type_of(wide).numpy()))
    return c.cast(y, c.type_of(x))
