"""Functions that take elements from between the places of a tensor."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.keras import activations
from thinflow.keras.call import Call
from thinflow.keras.config import Literal
from thinflow.keras.operations.elementwise import tensor
from thinflow.keras.registry import Result, operation
from thinflow.ops.resample import KERNELS, spread_weights
from thinflow.typing import Array

# --- at any places ------------------------------------------------------------------------------------------


@operation("MapCoordinates")
def map_coordinates(c: Call) -> Result:
    """Elements at places that are numbers.   x of rank r, places [r, ...] -> [...]"""
    x = tensor(c, "inputs", 0)
    at = c.literal(c.argument("coordinates", 1))
    at = at if c.type_of(at).is_floating else c.cast(at, FLOAT)
    order, fill = c.integer("order"), c.number("fill_value", 0.0)
    mode = c.choice("fill_mode", "constant", "nearest", "wrap", "reflect", "mirror")
    if order not in (0, 1) or mode == "mirror":
        # Keras mirrors at the first element beyond the end, which is not there.
        raise c.refuse(f"its order is {order}, its fill_mode '{mode}'")
    node = c.node("Unpack", at, name="unstack", num=c.rank(x), axis=0)
    kind = c.type_of(at)
    ways = [_neighbours(c, node.output(n), c.dim(x, n), order, mode) for n in range(c.rank(x))]
    total: Value | None = None
    for corner in itertools.product(*ways):
        places = c.emit("Pack", *(place for place, _, _ in corner), N=len(corner), axis=c.rank(at) - 1)
        kinds: dict[str, Any] = {"T": None, "Tparams": c.type_of(x), "Tindices": INT32}
        value = c.cast(c.emit("GatherNd", x, places, **kinds), kind)
        if mode == "constant":
            valid = corner[0][1]
            for _, other, _ in corner[1:]:
                valid = c.emit("LogicalAnd", valid, other, T=None)
            value = activations.where(c, valid, value, fill)
        for _, _, share in corner:
            value = value if share is None else c.emit("Mul", value, share)
        total = value if total is None else c.emit("AddV2", total, value)
    assert total is not None
    return c.cast(c.emit("Round", total) if c.type_of(x).is_integer else total, c.type_of(x))


_Neighbour = tuple[Value, Value, Value | None]
"""A place that there is, whether it is the one that was meant, and its share."""


def _neighbours(c: Call, at: Value, size: Value | int, order: int, mode: str) -> list[_Neighbour]:
    """The elements beside a place along one axis."""
    if order == 0:
        return [(*_inside(c, c.cast(c.emit("Round", at), INT32), size, mode), None)]
    low = c.emit("Floor", at)
    above = c.emit("Sub", at, low)
    below = c.emit("Sub", c.const(1, like=at), above)
    index = c.cast(low, INT32)
    return [
        (*_inside(c, index, size, mode), below),
        (*_inside(c, c.emit("AddV2", index, 1), size, mode), above),
    ]


def _inside(c: Call, index: Value, size: Value | int, mode: str) -> tuple[Value, Value]:
    """The place that stands for one that may lie outside, and whether that is itself."""
    lies = c.emit("LogicalAnd", c.emit("GreaterEqual", index, 0), c.emit("Less", index, size), T=None)
    if mode == "wrap":
        return c.emit("FloorMod", index, size), lies
    if mode == "reflect":
        twice = c.dim_of("Mul", size, 2)
        part = c.emit("FloorMod", c.emit("Abs", index), twice)
        back = c.emit("Sub", c.emit("Sub", c.literal(twice, part), part), 1)
        return activations.where(c, c.emit("Less", part, size), part, back), lies
    last = c.dim_of("AddV2", size, -1)
    return c.emit("Maximum", c.emit("Minimum", index, last), 0), lies


# --- at places that a scale and a shift give ----------------------------------------------------------------


def _numbers(c: Call, name: str, place: int) -> Array:
    """Numbers that the config holds."""
    given = c.argument(name, place)
    given = given.value if isinstance(given, Literal) else given
    if not isinstance(given, int | float | list | tuple):
        raise c.refuse(f"its {name} is computed")
    return np.asarray(given, np.float32).reshape(-1)


@operation("ScaleAndTranslate")
def scale_and_translate(c: Call) -> Result:
    """Some axes resampled, each by a matrix."""
    x = tensor(c, "images", 0)
    sizes = [int(n) for n in _numbers(c, "output_shape", 1)]
    scales, moves = _numbers(c, "scale", 2), _numbers(c, "translation", 3)
    axes = [c.axis(n, c.rank(x)) for n in c.ints("spatial_dims")]
    method = c.text("method")
    kernel = next((kind for kind, names in _METHODS.items() if method in names), method)
    if kernel not in KERNELS:
        raise c.refuse(f"its method is '{method[:40]}'")
    if not axes:
        return x
    kind, y = c.type_of(x), x if c.type_of(x).is_floating else c.cast(x, FLOAT)
    for axis, scale, move in zip(axes, scales, moves, strict=True):
        if scale <= 0:
            raise c.refuse(f"its scale is {scale}")
        matrix = spread_weights(
            c.size(x, axis), sizes[axis], scale, move, kernel, c.flag("antialias", True)
        ).T
        order = [*(n for n in range(c.rank(x)) if n != axis), axis]
        back = [order.index(n) for n in range(c.rank(x))]
        product = c.matmul(c.transpose(y, order), c.const(matrix.astype(c.type_of(y).numpy()), "spread"))
        y = c.transpose(product, back)
    if kind.is_floating:
        return y
    ends = [c.cast(c.reduce(op, x, range(c.rank(x))), c.type_of(y)) for op in ("Max", "Min")]
    return c.cast(c.emit("Maximum", c.emit("Minimum", c.emit("Round", y), ends[0]), ends[1]), kind)


_METHODS = {
    "triangle": ("linear", "bilinear", "trilinear", "triangle"),
    "keyscubic": ("cubic", "bicubic", "tricubic"),
}
"""Kernels by the names that Keras has for them."""
