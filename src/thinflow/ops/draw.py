"""Boxes drawn into images, and windows cut out of them."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops import _philox
from thinflow.ops._shapes import Dim, rank_of, same_padding, shape_from, window_output
from thinflow.ops.random import _generator
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

_COLORS = np.array(
    [
        [1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1],
    ],
    np.float32,
)  # fmt: skip
"""Yellow, blue, red, lime, purple, olive, maroon, navy, aqua, fuchsia."""


def _draw(canvas: Array, box: Array, color: Array) -> None:
    """The outline of a box [ymin, xmin, ymax, xmax], as fractions of the sides, where it is visible."""
    height, width = canvas.shape[:2]
    # 1.0 is the centre of the last pixel; the product is float32 and cut, as in TensorFlow.
    top, left, bottom, right = (int(v) for v in box * (np.array([height, width] * 2, np.float32) - 1))
    # Boxes turned inside out or wholly outside are not drawn; of others only the edges in sight.
    if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows, columns = (
        slice(max(top, 0), min(bottom, height - 1) + 1),
        slice(max(left, 0), min(right, width - 1) + 1),
    )
    for row in (top, bottom):
        if 0 <= row < height:
            canvas[row, columns] = color
    for column in (left, right):
        if 0 <= column < width:
            canvas[rows, column] = color


def _drawn(x: Array, boxes: Array, colors: Array) -> Array:
    require(x.ndim == 4 and x.shape[3] in (1, 3, 4), f"images are {list(x.shape)}, not [n, h, w, 1, 3 or 4]")
    require(boxes.ndim == 3 and boxes.shape[2] == 4, f"boxes are {list(boxes.shape)}, not [n, k, 4]")
    require(len(x) == len(boxes), f"{len(x)} images, but boxes for {len(boxes)}")
    require(bool(np.isfinite(boxes).all()), "a box is not finite")
    y = x.copy()
    for canvas, each in zip(y, boxes, strict=True):
        for number, box in enumerate(each):
            _draw(canvas, box, colors[number % len(colors), : x.shape[3]].astype(x.dtype))
    return np.asarray(y)


def _default_colors(channels: int) -> Array:
    colors = _COLORS.copy()
    # Only the first channel is used then; some of the ten have none of it and would be invisible.
    if channels == 1:
        colors[:, 0] = 1
    return np.asarray(colors)


@op("DrawBoundingBoxes")
class DrawBoundingBoxes(OpDef):
    """x with the outlines of boxes, in ten colours by turns.   images [n,h,w,c], boxes [n,k,4] -> like it.

    A box is ymin, xmin, ymax, xmax, as fractions of the sides.
    """

    @staticmethod
    def infer(x: TensorSpec, boxes: TensorSpec) -> TensorSpec:
        return x.with_shape(rank_of(x, 4, "images"))

    @staticmethod
    def kernel(x: Array, boxes: Array) -> Array:
        return _drawn(x, boxes, _default_colors(x.shape[-1]))


@op("DrawBoundingBoxesV2")
class DrawBoundingBoxesV2(OpDef):
    """As DrawBoundingBoxes, in colours of one's own: [m, at least c]; none means the ten."""

    @staticmethod
    def infer(x: TensorSpec, boxes: TensorSpec, colors: TensorSpec) -> TensorSpec:
        return x.with_shape(rank_of(x, 4, "images"))

    @staticmethod
    def kernel(x: Array, boxes: Array, colors: Array) -> Array:
        require(colors.ndim == 2, f"colors have shape {list(colors.shape)}, rank 2 is needed")
        require(
            colors.shape[1] >= x.shape[-1], f"colors have {colors.shape[1]} channels, images {x.shape[-1]}"
        )
        return _drawn(x, boxes, colors if colors.size else _default_colors(x.shape[-1]))


def _noise(shape: tuple[int, ...], noise: str) -> Array:
    """Pixels of a glimpse beyond the edge. Random noise differs from run to run."""
    require(noise in ("uniform", "gaussian", "zero"), f"noise '{noise}' is not known")
    if noise == "zero":
        return np.zeros(shape, np.float32)
    fill = _philox.uniform if noise == "uniform" else _philox.normal
    return fill(_generator(0, 0), int(np.prod(shape)), np.dtype(np.float32)).reshape(shape)


class _Glimpse(OpDef):
    traits = Trait.STATEFUL

    @staticmethod
    def infer(x: TensorSpec, size: TensorSpec, offsets: TensorSpec) -> TensorSpec:
        n, _, _, c = rank_of(x, 4, "input")
        sides = shape_from(size) or (None, None)
        require(len(sides) == 2, f"size has {len(sides)} values, 2 are needed")
        return x.with_shape((n, *sides, c))


def _glimpse(
    x: Array, size: Array, offsets: Array, centered: bool, normalized: bool, noise: str, first_version: bool
) -> Array:
    """Windows [n, *size, c] around the offsets.

    Args:
        first_version: offsets are the middles of the windows; the second has their corners, unless they are
            centered and normalized.
    """
    require(x.ndim == 4, f"input has rank {x.ndim}, 4 is needed")
    require(size.shape == (2,), f"size has shape {list(size.shape)}, [2] is needed")
    require(
        offsets.shape == (len(x), 2), f"offsets have shape {list(offsets.shape)}, [{len(x)}, 2] is needed"
    )
    window = np.array([int(s) for s in size])
    require(bool((window >= 0).all()), f"size {window.tolist()} is negative")
    sides = np.array(x.shape[1:3])
    at = offsets.astype(np.float32)
    if normalized:
        at = at * sides.astype(np.float32)
    if centered:
        # From -1..1 to the image. The first version halves offsets in pixels, too; V2 does not.
        at = (at / 2 if first_version or normalized else at) + sides / np.float32(2)
    # V2 keeps the middle as the meaning of an offset only where both are set.
    if first_version or (centered and normalized):
        at = at - window / np.float32(2)
    # The whole window is noise first; the part inside the image is written over it.
    y = _noise((len(x), *window.tolist(), x.shape[3]), noise)
    for image, target, place in zip(x, y, np.trunc(at).astype(np.int64), strict=True):
        first, last = np.maximum(place, 0), np.minimum(place + window, sides)
        # A window wholly outside is noise alone.
        if (first < last).all():
            (a, b), (c, d) = first - place, last - place
            target[a:c, b:d] = image[first[0] : last[0], first[1] : last[1]]
    return y


@op("ExtractGlimpse")
class ExtractGlimpse(_Glimpse):
    """Windows around offsets [n,2] (y, x), noise beyond the edge.   input [n,h,w,c], size [2] -> [n,*size,c].

    normalized: offsets are fractions of the sides; centered: they count from the middle, in half sides. The
    offset is the middle of the window.
    """

    @staticmethod
    def kernel(
        x: Array, size: Array, offsets: Array, *, centered: bool = True, normalized: bool = True,
        noise: str = "uniform",
    ) -> Array:  # fmt: skip
        return _glimpse(x, size, offsets, centered, normalized, noise, first_version=True)


@op("ExtractGlimpseV2")
class ExtractGlimpseV2(_Glimpse):
    """As ExtractGlimpse, offsets being corners of the windows unless they are centered and normalized."""

    @staticmethod
    def kernel(
        x: Array, size: Array, offsets: Array, *, centered: bool = True, normalized: bool = True,
        noise: str = "uniform",
    ) -> Array:  # fmt: skip
        return _glimpse(x, size, offsets, centered, normalized, noise, first_version=False)


@op("ExtractVolumePatches")
class ExtractVolumePatches(OpDef):
    """y[n,i,j,k] = the box of x at (i, j, k) * strides, flattened; zeros beyond the edge.

    x [n,d,h,w,c] -> y [n,od,oh,ow, kd*kh*kw*c].
    """

    @staticmethod
    def infer(
        x: TensorSpec, *, ksizes: tuple[int, ...], strides: tuple[int, ...], padding: str
    ) -> TensorSpec:
        n, *sides, c = rank_of(x, 5, "input")
        require(len(ksizes) == len(strides) == 5, "ksizes and strides need 5 values")
        out: list[Dim] = [
            window_output(s, ksizes[a], strides[a], padding) for a, s in enumerate(sides, start=1)
        ]
        return x.with_shape((n, *out, None if c is None else int(np.prod(ksizes[1:4])) * c))

    @staticmethod
    def kernel(x: Array, *, ksizes: tuple[int, ...], strides: tuple[int, ...], padding: str) -> Array:
        require(x.ndim == 5, f"input has rank {x.ndim}, 5 is needed")
        pads = [(0, 0)] * 5
        if padding == "SAME":
            pads[1:4] = [same_padding(x.shape[a], ksizes[a], strides[a]) for a in (1, 2, 3)]
        padded = np.pad(x, pads)
        require(all(padded.shape[a] >= ksizes[a] for a in (1, 2, 3)), "the box is larger than the input")
        boxes = np.lib.stride_tricks.sliding_window_view(padded, ksizes[1:4], (1, 2, 3))
        taken = boxes[:, :: strides[1], :: strides[2], :: strides[3]]  # [n, od, oh, ow, c, kd, kh, kw]
        moved = np.moveaxis(taken, 4, -1)
        return moved.reshape(*moved.shape[:4], -1) if moved.size else np.zeros((*moved.shape[:4], 0), x.dtype)
