"""Layers that move, repeat, cut and pad."""

from __future__ import annotations

import math
from collections.abc import Callable

from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.keras.call import Call
from thinflow.keras.registry import Result, Rule, layer


@layer("Flatten")
def flatten(c: Call) -> Result:
    x = c.to_last(c[0]) if c.rank(c[0]) > 2 else c[0]
    if not c.rank(x):
        raise c.refuse("its input has no batch")
    c.read.add("data_format")
    rest = c.shape(x)[1:]
    if None in rest and c.shape(x)[0] is not None:
        return c.reshape(x, (c.shape(x)[0], None))
    return c.reshape(x, (None, math.prod(c.size(x, n) for n in range(1, c.rank(x)))))


@layer("Reshape")
def reshape(c: Call) -> Result:
    """The sizes behind the batch; -1 stands for what is left."""
    target = c.ints("target_shape")
    rest = c.shape(c[0])[1:]
    if None not in rest:
        known = math.prod(n for n in target if n != -1)
        size = math.prod(n for n in rest if n is not None)
        # Else elements of one sample would go to another: the batch is open.
        fits = known and size % known == 0 and target.count(-1) <= 1
        if not fits or (-1 not in target and size != known):
            raise c.refuse(f"{size} elements cannot become {list(target)}")
        target = tuple(size // known if n == -1 else n for n in target)
    return c.shaped(c[0], [c.dim(c[0], 0) if -1 in target else None, *target])


@layer("Permute")
def permute(c: Call) -> Result:
    dims = c.ints("dims")
    if sorted(dims) != list(range(1, c.rank(c[0]))):
        raise c.refuse(f"its dims are {list(dims)}, and its input has {c.rank(c[0])} axes")
    return c.transpose(c[0], (0, *dims))


@layer("RepeatVector")
def repeat_vector(c: Call) -> Result:
    """x [b, n] -> [b, times, n]."""
    times = c.const([1, c.integer("n"), 1], "stack")
    return c.emit("Tile", c.expand(c[0], 1), times, Tmultiples=INT32)


# --- cropping, padding, repeating ---------------------------------------------------------------------------


def _pairs(c: Call, option: str, dims: int) -> list[tuple[int, int]]:
    """Pairs of before and behind for each axis, from the ways in which Keras says them."""
    given = c.get(option)
    if isinstance(given, dict):
        raise c.refuse(f"its {option} is given for sides by name")
    items = given if isinstance(given, list | tuple) else [given] * dims
    if dims == 1 and len(items) == 2 and all(isinstance(n, int) for n in items):
        items = [items]
    # Keras 1: four numbers, a pair for each of two axes.
    if dims == 2 and len(items) == 4:
        items = [items[:2], items[2:]]
    pairs: list[tuple[int, int]] = []
    for item in items:
        pair = item if isinstance(item, list | tuple) else (item, item)
        if len(pair) != 2 or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in pair):
            raise c.refuse(f"its {option} is {given}")
        pairs.append((pair[0], pair[1]))
    if len(pairs) != dims:
        raise c.refuse(f"its {option} is {given}, for {dims} axes")
    return pairs


def _padded(c: Call, dims: int) -> Value:
    pairs = _pairs(c, "padding", dims)
    axes = [(0, 0), *pairs, (0, 0)]
    if (dims > 1 and c.is_channels_first) or (dims == 1 and c.get("data_format") == "channels_first"):
        axes = [(0, 0), (0, 0), *pairs]
    return c.pad(c[0], axes)


def _cropped(c: Call, dims: int) -> Value:
    pairs = _pairs(c, "cropping", dims)
    start = 2 if c.is_channels_first else 1
    begin, end = [0] * start, [None] * start  # type: list[int], list[int | None]
    for axis, (before, behind) in enumerate(pairs, start=start):
        size = c.shape(c[0])[axis]
        if size is not None and before + behind >= size:
            raise c.refuse(f"nothing is left of {size} when {before} and {behind} are cut off")
        begin.append(before)
        end.append(-behind if behind else None)
    return c.sliced(c[0], begin, end)


def _upsampled(c: Call, dims: int) -> Value:
    """Each element several times along each axis."""
    sizes = c.ints("size", dims)
    y = c.to_last(c[0])
    for axis, times in enumerate(sizes, start=1):
        y = repeated(c, y, axis, times)
    return c.from_last(y)


def repeated(c: Call, x: Value, axis: int, times: int) -> Value:
    """Each element of an axis so many times."""
    if times == 1:
        return x
    sizes = c.shape(x)
    multiples = [1] * (len(sizes) + 1)
    multiples[axis + 1] = times
    tiled = c.emit("Tile", c.expand(x, axis + 1), c.const(multiples, "multiples"), Tmultiples=INT32)
    found: list[Value | int | None] = [c.dim(x, n) for n in range(len(sizes))]
    found[axis] = c.dim_of("Mul", c.dim(x, axis), times)
    return c.shaped(tiled, found)


def _for_dims(function: Callable[[Call, int], Value], dims: int) -> Rule:
    return lambda c: function(c, dims)


for _dims in (1, 2, 3):
    layer(f"ZeroPadding{_dims}D")(_for_dims(_padded, _dims))
    layer(f"Cropping{_dims}D")(_for_dims(_cropped, _dims))


@layer("UpSampling1D")
def up_sampling_1d(c: Call) -> Result:
    return _upsampled(c, 1)


@layer("UpSampling3D")
def up_sampling_3d(c: Call) -> Result:
    return _upsampled(c, 3)


_RESIZES = {"nearest": "NearestNeighbor", "bilinear": "Bilinear", "bicubic": "Bicubic"}
"""What a way of resizing is called behind "Resize"."""


@layer("UpSampling2D")
def up_sampling_2d(c: Call) -> Result:
    """Pictures some whole times as large."""
    factors = c.ints("size", 2)
    method = c.choice("interpolation", *_RESIZES)
    x = c.to_last(c[0])
    sizes = c.sizes_vector([c.dim_of("Mul", c.dim(x, 1 + n), factor) for n, factor in enumerate(factors)])
    return c.from_last(resized(c, x, sizes, method))


def resized(c: Call, x: Value, sizes: Value, method: str) -> Value:
    """Pictures of another size; pixels have their centres at halves, as in TensorFlow 2."""
    y = c.emit(
        f"Resize{_RESIZES[method]}", x, sizes, name="resize", align_corners=False, half_pixel_centers=True
    )
    return y if y.spec.dtype is x.spec.dtype else c.cast(y, c.type_of(x))
