"""Pooling: over windows, over everything, and to a given size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from thinflow.ir.graph import Value
from thinflow.keras.call import Call
from thinflow.keras.registry import Result, Rule, layer


def pooled(c: Call, op: str, dims: int) -> Value:
    """`MaxPool` or `AvgPool` over windows of one, two or three axes, by the options that all of them have."""
    x = c.to_last(c[0])
    sizes = c.ints("pool_size", dims)
    strides = sizes if c.get("strides") is None else c.ints("strides", dims)
    padding = c.choice("padding", "valid", "same").upper()
    if dims == 1:
        x, sizes, strides = c.expand(x, 1), (1, *sizes), (1, *strides)
    op, layout = (f"{op}3D", "NDHWC") if dims == 3 else (op, "NHWC")
    y = c.emit(op, x, ksize=(1, *sizes, 1), strides=(1, *strides, 1), padding=padding, data_format=layout)
    return c.from_last(c.squeeze(y, 1) if dims == 1 else y)


# --- over everything ----------------------------------------------------------------------------------------


def _axes(c: Call) -> list[int]:
    """The axes between batch and channels."""
    rank = c.rank(c[0])
    return list(range(2, rank)) if c.is_channels_first else list(range(1, rank - 1))


@layer(*(f"GlobalMax{word}{n}D" for word in ("Pooling", "Pool") for n in (1, 2, 3)))
def global_max_pooling(c: Call) -> Result:
    return c.reduce("Max", c[0], _axes(c), c.flag("keepdims"))


@layer(
    *(f"GlobalAverage{word}{n}D" for word in ("Pooling",) for n in (2, 3)),
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
)
def global_average_pooling(c: Call) -> Result:
    return c.reduce("Mean", c[0], _axes(c), c.flag("keepdims"))


@layer("GlobalAveragePooling1D", "GlobalAvgPool1D")
def global_average_pooling_1d(c: Call) -> Result:
    """The mean over steps; over those that the mask keeps where there is one."""
    mask = c.mask()
    if mask is None:
        return global_average_pooling(c)
    axis = _axes(c)[0]
    kept = c.expand(c.cast(mask, c.type_of(c[0])), 1 if axis == 2 else 2)
    total = c.reduce("Sum", c.emit("Mul", c[0], kept), [axis], c.flag("keepdims"))
    return c.emit("RealDiv", total, c.reduce("Sum", kept, [axis], c.flag("keepdims")))


# --- to a given size ----------------------------------------------------------------------------------------


def adapted(c: Call, reduction: str, dims: int) -> Value:
    """Windows as even as can be: the one of number i goes from floor(i n / m) to ceil((i + 1) n / m)."""
    y = c.to_last(c[0])
    for axis, count in enumerate(c.ints("output_size", dims), start=1):
        size = c.size(y, axis)
        if count < 1 or count > size:
            raise c.refuse(f"{size} sizes cannot become {count}")
        y = _evenly(c, y, axis, size, count, reduction)
    return c.from_last(y)


def _evenly(c: Call, x: Value, axis: int, size: int, count: int, reduction: str) -> Value:
    sizes = c.shape(x)
    if size % count == 0:
        split: list[int | None] = [*sizes[:axis], count, size // count, *sizes[axis + 1 :]]
        return c.reduce(reduction, c.reshape(x, split), [axis + 1])
    bounds = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    parts = [c.reduce(reduction, _part(c, x, axis, b), [axis], True) for b in bounds]
    return c.concat(parts, axis)


def _part(c: Call, x: Value, axis: int, bounds: Sequence[int]) -> Value:
    begin = [0] * axis + [bounds[0]]
    return c.sliced(x, begin, [*[None] * axis, bounds[1]])


# --- the layers over one, two and three axes ----------------------------------------------------------------


_Window: TypeAlias = Callable[[Call, str, int], Value]


def _of(window: _Window, op: str, dims: int) -> Rule:
    return lambda c: window(c, op, dims)


for _dims in (1, 2, 3):
    layer(f"MaxPooling{_dims}D", f"MaxPool{_dims}D")(_of(pooled, "MaxPool", _dims))
    layer(f"AveragePooling{_dims}D", f"AvgPool{_dims}D")(_of(pooled, "AvgPool", _dims))
    layer(f"AdaptiveMaxPooling{_dims}D")(_of(adapted, "Max", _dims))
    layer(f"AdaptiveAveragePooling{_dims}D")(_of(adapted, "Mean", _dims))
