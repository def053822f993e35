"""Resizing images."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT64
from thinflow.lower.onnx.builder import TO_CHANNELS_LAST, Builder, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.operators import facts_of
from thinflow.onnx.program import Tensor
from thinflow.typing import Array


def _mode(align_corners: bool, half_pixel_centers: bool) -> str:
    require(
        not (align_corners and half_pixel_centers), "align_corners and half_pixel_centers exclude each other"
    )
    return "align_corners" if align_corners else "half_pixel" if half_pixel_centers else "asymmetric"


def _resized(b: Builder, x: Tensor, size: Tensor, coordinates: str, mode: str, nearest: str = "") -> Tensor:
    """x [n,h,w,c] with other sides."""
    n, _, _, c = shape_of(x, "x", 4)
    sides = b.elements(size) or (None, None)
    require(len(sides) == 2, "the size needs two values")
    moved = b.channels_first(x)
    outer = b.sizes_of(moved)
    outer = b.ints([n or 0, c or 0]) if None not in (n, c) else b.sliced(outer, [0], [2], [0], shape=(2,))
    sizes = b.joined(outer, b.index(size))
    options: dict[str, Any] = {"nearest_mode": nearest} if nearest else {}
    y = b.step(
        "Resize", moved, None, None, sizes, shape=(n, c, *sides), mode=mode,
        coordinate_transformation_mode=coordinates, **options,
    )  # fmt: skip
    return b.transposed(y, TO_CHANNELS_LAST[4])


def bilinear(b: Builder, x: Tensor, size: Tensor, coordinates: str) -> Tensor:
    """x [n,h,w,c] as float with other sides."""
    return _resized(b, b.cast(x, FLOAT), size, coordinates, "linear")


@lower("ResizeBilinear", to="onnx")
def resize_bilinear(
    b: Builder,
    node: Node,
    x: Tensor,
    size: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    """The result is float whatever x is."""
    return b.result(bilinear(b, x, size, _mode(align_corners, half_pixel_centers)))


@lower("ResizeNearestNeighbor", to="onnx")
def resize_nearest(
    b: Builder,
    node: Node,
    x: Tensor,
    size: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    """A Resize where it picks the very places that TensorFlow picks, else a Gather along each side."""
    coordinates = _mode(align_corners, half_pixel_centers)
    shape_of(size, "the size", 1)
    sides, wanted = shape_of(x, "x", 4)[1:3], b.elements(size) or (None, None)
    if None in sides or None in wanted:
        lists = [_computed_places(b, x, size, axis, coordinates) for axis in (1, 2)]
    else:
        require(max(n or 0 for n in wanted) <= 1 << 20, "the wanted size is too large")
        # float32 decides halves and whole numbers: TensorFlow multiplies by size / wanted, ONNX Runtime
        # divides by wanted / size.
        picks = [_places(coordinates, n or 1, m or 0) for n, m in zip(sides, wanted, strict=True)]
        if x.dtype.name in facts_of("Resize").types and all(same for _, same in picks):
            # round_prefer_ceil is floor(x + 0.5), which undoes the half that half_pixel takes off.
            nearest = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
            return b.result(_resized(b, x, size, coordinates, "nearest", nearest))
        lists = [b.const(places, "places") for places, _ in picks]
    for axis, places in enumerate(lists, 1):
        shape = tuple(wanted[axis - 1] if a == axis else n for a, n in enumerate(shape_of(x)))
        x = b.step("Gather", x, places, shape=shape, axis=axis)
    return b.result(x)


def _computed_places(b: Builder, x: Tensor, size: Tensor, axis: int, coordinates: str) -> Tensor:
    """As `_places`, while the model runs."""
    here = b.squeezed(b.sliced(b.sizes_of(x), [axis], [axis + 1], [0], shape=(1,)), [0])
    there = b.squeezed(b.sliced(b.index(size), [axis - 1], [axis], [0], shape=(1,)), [0])
    one, half = b.const(np.float32(1), "one"), b.const(np.float32(0.5), "half")
    n, m = b.cast(here, FLOAT), b.cast(there, FLOAT)
    at = b.cast(b.step("Range", b.int64(0), there, b.int64(1), shape=(None,)), FLOAT)
    if coordinates == "align_corners":
        scale = b.step("Div", b.step("Sub", n, one), b.step("Max", b.step("Sub", m, one), one))
        at = b.step("Add", b.step("Mul", at, scale), half)
    else:
        at = b.step("Add", at, half) if coordinates == "half_pixel" else at
        at = b.step("Mul", at, b.step("Div", n, m))
    last = b.step("Sub", here, b.int64(1))
    # Rounding up the last place may point behind the image.
    return b.step("Min", b.cast(b.step("Floor", at), INT64), last)


def _places(coordinates: str, size: int, wanted: int) -> tuple[Array, bool]:
    """The element that TensorFlow takes for each place of a side, and whether Resize takes the same."""
    at = np.arange(wanted, dtype=np.float32)
    one, half = np.float32(1), np.float32(0.5)
    if coordinates == "align_corners":
        scale = np.float32(size - 1) / np.float32(max(wanted - 1, 1))
        # TensorFlow rounds halves away from 0 here, which is up, as places are not negative.
        mine = np.floor(at * scale + half)
        theirs = np.floor(at * np.float32(size - 1) / np.float32(max(wanted - 1, 1)) + half)
    else:
        scale, inverse = np.float32(size) / np.float32(wanted), np.float32(wanted) / np.float32(size)
        if coordinates == "half_pixel":
            mine = np.floor((at + half) * scale)
            theirs = np.floor((at + half) / inverse - half + half)
        else:
            mine, theirs = np.floor(at * scale), np.floor(at / inverse)
    mine, theirs = (np.clip(places, 0, size - one).astype(np.int64) for places in (mine, theirs))
    return mine, bool(np.array_equal(mine, theirs))
