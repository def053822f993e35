"""Source pixels of a resized image along one axis, and their weights.

Everything is float32 with one rounding per step, as in TensorFlow's kernels: a position that lands exactly on
a pixel boundary must fall on the same side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from thinflow.ir.types import FLOAT, DType, TensorSpec
from thinflow.ops._shapes import rank_of
from thinflow.ops.registry import require
from thinflow.typing import Array

_F = np.float32
_HALF = _F(0.5)
_TABLE_SIZE = 1 << 10


@dataclass(frozen=True)
class Lerp:
    """Linear interpolation along an axis: y[i] = x[low[i]] + (x[high[i]] - x[low[i]]) * fraction[i]."""

    low: Array
    high: Array
    fraction: Array


def check_flags(align_corners: bool, half_pixel_centers: bool) -> None:
    """TensorFlow's float resizes refuse both conventions at once."""
    require(
        not (align_corners and half_pixel_centers),
        "align_corners and half_pixel_centers are both set",
        hint="set one of them to false",
    )


def target_size(x: Array, size: Array) -> tuple[int, int]:
    """(height, width) asked for.

    Raises:
        ShapeError: x is no batch of images, or a size is not positive.
    """
    require(x.ndim == 4, f"images have rank {x.ndim}, 4 is needed")
    require(size.shape == (2,), f"size has shape {list(size.shape)}, [2] is needed")
    height, width = int(size[0]), int(size[1])
    require(height > 0 and width > 0, f"output size {height} x {width} is not positive")
    require(x.shape[1] > 0 and x.shape[2] > 0, "images are empty")
    return height, width


def infer_resize(x: TensorSpec, size: TensorSpec, dtype: DType | None = FLOAT) -> TensorSpec:
    """[n, *size, c]."""
    n, _, _, c = rank_of(x, 4, "images")
    sides = (None, None) if size.elements is None else size.elements
    require(len(sides) == 2, f"size has {len(sides)} values, 2 are needed")
    return TensorSpec(dtype, (n, *sides, c))


def scale_of(size: int, out: int, align_corners: bool) -> np.float32:
    """Input pixels per output pixel."""
    # The corner pixels' centres coincide; with one output pixel there is no second corner to align.
    if align_corners and out > 1:
        size, out = size - 1, out - 1
    scale: np.float32 = _F(size) / _F(out)
    return scale


def positions(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Input coordinate of every output pixel [out]."""
    scale = scale_of(size, out, align_corners)
    steps = np.arange(out, dtype=_F)
    return (steps + _HALF) * scale - _HALF if half_pixel_centers else steps * scale


def linear(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Lerp:
    """Bilinear interpolation along one axis."""
    at = positions(size, out, align_corners, half_pixel_centers)
    floor = np.floor(at)
    high = np.minimum(np.ceil(at).astype(np.int64), size - 1)
    # Half-pixel positions may be below 0 or past the end. The fraction still counts from the unclamped floor:
    # there low and high are the same pixel, so it does not matter.
    low = np.minimum(np.maximum(floor.astype(np.int64), 0), high)
    return Lerp(low, high, at - floor)


def lerp(x: Array, axis: int, by: Lerp) -> Array:
    """A float32 array interpolated along an axis."""
    shape = [1] * x.ndim
    shape[axis] = -1
    low = np.take(x, by.low, axis=axis)
    # In place, and in this order: top + (bottom - top) * fraction rounds as TensorFlow's kernel does.
    step = np.take(x, by.high, axis=axis)
    step -= low
    step *= by.fraction.reshape(shape)
    step += low
    return step


def nearest(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Index of the input pixel of every output pixel [out]."""
    scale = scale_of(size, out, align_corners)
    steps = np.arange(out, dtype=_F)
    at = (steps + _HALF) * scale if half_pixel_centers else steps * scale
    index = np.floor(at)
    # TensorFlow rounds (roundf) under align_corners and floors otherwise.
    if align_corners:
        index += (at - index) >= _HALF  # positions are not negative: halves go up
    return np.clip(index.astype(np.int64), 0, size - 1)


@cache
def _cubic_table(a: float) -> Array:
    """Weights of the two nearer-left pixels for each of 1025 fractions, [1025, 2]: distance d and 1 + d."""
    # TensorFlow looks the fraction up in a table of 1024 steps instead of evaluating the cubic, so the result
    # of a resize depends on it.
    near = np.arange(_TABLE_SIZE + 1) / _TABLE_SIZE
    far = near + 1.0
    table = np.stack(
        [((a + 2) * near - (a + 3)) * near * near + 1, ((a * far - 5 * a) * far + 8 * a) * far - 4 * a],
        axis=1,
    ).astype(_F)
    table.flags.writeable = False
    return table


def cubic(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> tuple[Array, Array]:
    """Indices [4, out] and weights [4, out] of bicubic interpolation along one axis.

    The half-pixel convention uses Keys' a = -0.5 and drops pixels beyond the edge; the old one uses -0.75 and
    repeats the edge pixel.
    """
    at = positions(size, out, align_corners, half_pixel_centers)
    floor = np.floor(at)
    table = _cubic_table(-0.5 if half_pixel_centers else -0.75)
    offset = np.rint((at - floor) * _F(_TABLE_SIZE)).astype(np.int64)
    # The right-hand pixels see the mirrored fraction.
    left, right = table[offset], table[_TABLE_SIZE - offset]
    weights = np.stack([left[:, 1], left[:, 0], right[:, 0], right[:, 1]])
    wanted = floor.astype(np.int64) + np.arange(-1, 3)[:, None]
    index = np.clip(wanted, 0, size - 1)
    if half_pixel_centers:
        weights = np.where(index == wanted, weights, _F(0))
        total = ((weights[0] + weights[1]) + weights[2]) + weights[3]
        # Weights of dropped pixels are missing from the sum: the rest is scaled up to 1, unless they cancel
        # out.
        usable = np.abs(total) >= _F(1000) * np.finfo(_F).tiny
        weights = weights * np.where(usable, _F(1) / np.where(usable, total, _F(1)), _F(1))
    return index, weights


def overlaps(size: int, out: int, align_corners: bool) -> tuple[Array, Array, np.float32]:
    """For area averaging: first pixel [out], weights [taps, out] (0 past the end), pixels per output."""
    # One pixel under align_corners gives scale 0; an area that is merely tiny gives the pixel back, as in
    # TensorFlow.
    scale = scale_of(size, out, align_corners) or _F(2.0**-24)
    begin = np.arange(out, dtype=_F) * scale
    end = np.arange(1, out + 1, dtype=_F) * scale
    first = np.floor(begin).astype(np.int64)
    last = np.ceil(end).astype(np.int64)
    taps = int((last - first).max())
    pixel = first + np.arange(taps)[:, None]
    left = pixel.astype(_F)
    # A pixel that the area enters late or leaves early counts for the part inside; one that holds the whole
    # area counts for the scale.
    beyond = left + _F(1) > end
    cut_left = np.where(beyond, scale, left + _F(1) - begin)
    cut_right = np.where(beyond, end - left, _F(1))
    weights = np.where(left < begin, cut_left, cut_right)
    return first, np.where(pixel < last, weights, _F(0)).astype(_F), scale
