"""Pictures of another size, and pictures with their own image around them."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.copies import row_major
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Argument, Constant
from thinflow.lower.c.operators.array import ANY, require_one_scale
from thinflow.tflite.model import Operator, Tensor
from thinflow.typing import Array

_DIMENSIONS = 4
_HALF, _ONE = 1 << 9, 1 << 10
"""Places between pixels have 10 bits behind the point."""


@form("RESIZE_BILINEAR", types="float uint8")
def resize_bilinear_floats(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c] -> y [n,oh,ow,c]; LiteRT computes bytes without a sign as floats, too."""
    if _by_xnnpack(b):
        return
    x, y = b.input(0), b.output()
    require_one_scale(b, [x], y)
    words = {"type": x.dtype.name, "half": "0.0f" if x.dtype.name == "float" else "0.5f"}
    b.call("resize_bilinear_float", x, y, b.struct("", **between_pixels(b, b.operator)), **words)


def between_pixels(b: LayerBuilder, op: Operator) -> dict[str, Argument]:
    """Sizes, and which pixels those of the output lie between, in real numbers.

    Args:
        b: of the layer.
        op: that resizes, which may be a part of what the layer does.
    """
    tables: dict[str, Argument] = {}
    for name, axis in (("y", 1), ("x", 2)):
        size, places = _places(b, op, axis)
        lower = np.maximum(np.floor(places), 0).astype(np.int32)
        upper = np.minimum(np.ceil(places), size - 1).astype(np.int32)
        tables |= _tables(b, name, lower, upper, (places - lower).astype(np.float32))
    return {**_sizes(b), **tables}


def _by_xnnpack(b: LayerBuilder) -> bool:
    """Whether XNNPACK's way is asked for, and the layer is written in it."""
    x, y = b.input(0), b.output()
    if b.rounding == "litert" or x.dtype.itemsize != 1:
        return False
    require_one_scale(b, [x], y)
    tables: dict[str, Constant] = {}
    for name, axis in (("y", 1), ("x", 2)):
        size, out = b.shape(x)[axis], b.shape(y)[axis]
        scale, half = _scale(b.operator, size, out), np.float32(0.5)
        moved = half * scale - half if b.option("half_pixel_centers") else np.float32(0)
        places = (np.arange(out, dtype=np.float32) * scale + moved).clip(0, size - 1)
        lower = places.astype(np.int32)
        # The part with 11 bits behind the point, halves to the even number.
        part = np.rint((places - lower) * np.float32(2048)).astype(np.int32)
        tables |= _tables(b, name, lower, np.minimum(lower + 1, size - 1), part)
    b.call("resize_bilinear_twice", x, y, b.struct("", **_sizes(b), **tables), type=x.dtype.name)
    return True


@form("RESIZE_BILINEAR", types="int8 int16")
def resize_bilinear(b: LayerBuilder, op: Operator) -> None:
    """As of floats, in fixed point."""
    if _by_xnnpack(b):
        return
    x, y = b.input(0), b.output()
    require_one_scale(b, [x], y)
    b.call("resize_bilinear", x, y, b.struct("", **in_fixed_point(b, op)), type=x.dtype.name)


def in_fixed_point(b: LayerBuilder, op: Operator) -> dict[str, Argument]:
    """As `between_pixels`, in fixed point."""
    tables: dict[str, Argument] = {}
    for name, axis in (("y", 1), ("x", 2)):
        size, out = b.shape(b.input(0))[axis], b.shape(b.output())[axis]
        # Between the first and the last pixel, or from edge to edge.
        whole, parts = (size - 1, out - 1) if op.options.get("align_corners") and out > 1 else (size, out)
        # height_scale_10 of LiteRT's reference kernel: the quotient to the nearest.
        step = (_ONE * whole + parts // 2) // parts
        places = np.arange(out, dtype=np.int64) * step
        if op.options.get("half_pixel_centers"):
            places += step // 2 - _HALF
        # Divided towards zero, as C does it.
        lower = np.maximum(np.sign(places) * (np.abs(places) // _ONE), 0)
        above = places + _ONE - 1
        upper = np.minimum(np.sign(above) * (np.abs(above) // _ONE), size - 1)
        tables |= _tables(b, name, lower, upper, (places - lower * _ONE).astype(np.int32))
    return {**_sizes(b), **tables}


@form("RESIZE_NEAREST_NEIGHBOR", types=ANY)
def resize_nearest_neighbor(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c] -> y [n,oh,ow,c], each the pixel of the input that is nearest."""
    x, y = b.input(0), b.output()
    require_one_scale(b, [x], y)
    chosen = [np.arange(n) for n in b.shape(y)]
    for axis in (1, 2):
        size, out = b.shape(x)[axis], b.shape(y)[axis]
        scale = _scale(op, size, out)
        offset = np.float32(0.5 if b.option("half_pixel_centers") else 0)
        places = (np.arange(out, dtype=np.float32) + offset) * scale
        # Halves away from zero, as C rounds.
        whole = np.floor(places + np.float32(0.5)) if b.option("align_corners") else np.floor(places)
        chosen[axis] = np.clip(whole.astype(np.int64), 0, size - 1)
    indexed_copy(b, x, y, chosen)


@form("MIRROR_PAD", types=ANY)
def mirror_pad(b: LayerBuilder, op: Operator) -> None:
    """The input with its mirror image around it."""
    x, y = b.input(0), b.output()
    require_one_scale(b, [x], y)
    # The edge itself is in the image or not.
    mode = "reflect" if op.options.get("mode", "REFLECT") == "REFLECT" else "symmetric"
    pads = b.array(1).astype(int)
    chosen = [
        np.pad(np.arange(size), (before, after), mode)  # type: ignore[call-overload]
        for size, (before, after) in zip(b.shape(x), pads, strict=True)
    ]
    indexed_copy(b, x, y, chosen)


def indexed_copy(b: LayerBuilder, x: Tensor, y: Tensor, chosen: list[Array]) -> None:
    """Copy what stands at these places of x along each dimension; places that are all, in order, are runs.

    Raises:
        UnsupportedOp: there are too many dimensions.
    """
    shape, size = b.shape(x), x.dtype.itemsize
    steps = row_major(shape)
    run = size
    # From the last dimension on: whole ones belong to the run.
    while chosen and len(chosen[-1]) == shape[len(chosen) - 1] and _is_whole(chosen[-1]):
        run *= len(chosen.pop())
    tables = [c * steps[n] * size for n, c in enumerate(chosen) if len(c) != 1 or c[0]]
    if len(tables) > _DIMENSIONS:
        raise UnsupportedOp(f"it moves along {len(tables)} dimensions, more than {_DIMENSIONS}")
    tables = [np.zeros(1, np.int64)] * (_DIMENSIONS - len(tables)) + tables
    constants: list[Constant] = [b.constant("places", t, "int32") for t in tables]
    starts = {f"start_{n}": c for n, c in enumerate(constants)}
    settings = b.struct("", count=tuple(map(len, tables)), **starts, run_bytes=run)
    b.call("indexed_copy", x, y, settings)


def _is_whole(chosen: Array) -> bool:
    return bool((chosen == np.arange(len(chosen))).all())


def _scale(op: Operator, size: int, out: int) -> np.floating:
    between = int(bool(op.options.get("align_corners")) and out > 1)
    scale: np.floating = np.float32(size - between) / np.float32(out - between)
    return scale


def _places(b: LayerBuilder, op: Operator, axis: int) -> tuple[int, Array]:
    """The size of the input along an axis, and where each pixel of the output lies in it."""
    size, out = b.shape(b.input(0))[axis], b.shape(b.output())[axis]
    scale, places = _scale(op, size, out), np.arange(out, dtype=np.float32)
    if op.options.get("half_pixel_centers"):
        half = np.float32(0.5)
        return size, (places + half) * scale - half
    return size, places * scale


def _sizes(b: LayerBuilder) -> dict[str, int]:
    batches, height, width, channels = b.shape(b.input(0))
    _, out_height, out_width, _ = b.shape(b.output())
    sizes = {"batches": batches, "in_height": height, "in_width": width, "channels": channels}
    return {**sizes, "out_height": out_height, "out_width": out_width}


def _tables(b: LayerBuilder, name: str, lower: Array, upper: Array, part: Array) -> dict[str, Constant]:
    return {
        f"{name}_lower": b.constant(f"{name}_lower", lower, "int32"),
        f"{name}_upper": b.constant(f"{name}_upper", upper, "int32"),
        f"{name}_part": b.constant(f"{name}_part", part),
    }
