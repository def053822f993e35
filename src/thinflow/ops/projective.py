"""Images seen through projective transforms: rotations, shears, translations of data augmentation layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._shapes import rank_of
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array

_F = np.float32


def _folded(at: Array, size: int, mode: str) -> Array:
    """Coordinates brought inside [0, size - 1] as the mode says; CONSTANT leaves them."""
    if mode == "CONSTANT":
        return at
    # A single pixel can neither be reflected nor wrapped.
    if mode == "NEAREST" or size <= 1:
        return np.clip(at, _F(0), _F(size - 1))
    # The periods are cut towards zero, as TensorFlow's (and scipy's) arithmetic does.
    if mode == "REFLECT":
        # The edge pixel is repeated: d c b a | a b c d | d c b a.
        period = 2 * size
        low = at + period * np.trunc(-at / _F(period))
        low = np.where(low < -size, low + period, -low - 1)
        high = at - period * np.trunc(at / _F(period))
        high = np.where(high >= size, period - high - 1, high)
    else:
        low = at + size * (np.trunc(-at / _F(size - 1)) + 1)
        high = at - size * np.trunc(at / _F(size - 1))
    folded = np.where(at < 0, low, np.where(at > size - 1, high, at))
    return np.clip(folded, _F(0), _F(size - 1)).astype(_F)


def _coordinates(transform: Array, height: int, width: int) -> tuple[Array, Array, Array]:
    """Input rows and columns of every output pixel [height, width], and where they are infinite."""
    t = transform.astype(_F)
    x, y = np.arange(width, dtype=_F), np.arange(height, dtype=_F)[:, None]
    # Homogeneous coordinates with the ninth entry 1.
    depth = t[6] * x + t[7] * y + _F(1)
    infinite = depth == 0
    columns = (t[0] * x + t[1] * y + t[2]) / depth
    rows = (t[3] * x + t[4] * y + t[5]) / depth
    return rows, columns, infinite


def _read(image: Array, rows: Array, columns: Array, fill: Any) -> Array:
    """Pixels [h,w,c] of an image, `fill` outside it."""
    # Outside means the fill value for each of the four neighbours alone: edges fade into it.
    height, width = image.shape[:2]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    found = image[np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
    return np.asarray(np.where(inside[..., None], found, fill))


def _bilinear(image: Array, rows: Array, columns: Array, fill: Any) -> Array:
    top, left = np.floor(rows), np.floor(columns)
    down, right = (rows - top)[..., None], (columns - left)[..., None]
    i, j = top.astype(np.int64), left.astype(np.int64)
    wide = [[_read(image, i + a, j + b, fill).astype(_F) for b in (0, 1)] for a in (0, 1)]
    # Not 1 - right: TensorFlow subtracts from the next pixel, which rounds differently.
    left_share, top_share = (left + 1 - columns)[..., None], (top + 1 - rows)[..., None]
    above, below = (left_share * w[0] + right * w[1] for w in wide)
    return np.asarray(top_share * above + down * below)


def _transformed(
    image: Array, transform: Array, sides: tuple[int, int], fill: Any, bilinear: bool, mode: str
) -> Array:
    with np.errstate(all="ignore"):
        rows, columns, infinite = _coordinates(transform, *sides)
        rows, columns = _folded(rows, image.shape[0], mode), _folded(columns, image.shape[1], mode)
        # Far enough outside to be read as such, and yet an index.
        rows, columns = (np.clip(np.where(infinite, _F(-9), c), -(2**30), 2**30) for c in (rows, columns))
        rows, columns = np.nan_to_num(rows, nan=-9), np.nan_to_num(columns, nan=-9)
        if bilinear:
            y = _bilinear(image, rows, columns, fill)
        else:
            # Halves away from zero, C's round.
            i, j = (np.trunc(a + np.copysign(_F(0.5), a)).astype(np.int64) for a in (rows, columns))
            y = _read(image, i, j, fill)
        return np.where(infinite[..., None], fill, y.astype(image.dtype))


def _project(
    x: Array, transforms: Array, size: Array, fill: Any, interpolation: str, fill_mode: str
) -> Array:
    require(x.ndim == 4, f"images have rank {x.ndim}, 4 is needed")
    require(
        transforms.ndim == 2 and transforms.shape[1] == 8,
        f"transforms are {list(transforms.shape)}, not [n, 8]",
    )
    require(len(transforms) in (1, len(x)), f"{len(transforms)} transforms for {len(x)} images")
    require(interpolation in ("NEAREST", "BILINEAR"), f"interpolation {interpolation} is not known")
    require(fill_mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"), f"fill_mode {fill_mode} is not known")
    require(size.shape == (2,), f"output_shape has shape {list(size.shape)}, [2] is needed")
    sides = int(size[0]), int(size[1])
    require(min(sides) > 0, f"output size {sides[0]} x {sides[1]} is not positive")
    each = np.broadcast_to(transforms, (len(x), 8))
    value = np.asarray(fill).astype(x.dtype)[()]
    bilinear = interpolation == "BILINEAR"
    y = [_transformed(i, t, sides, value, bilinear, fill_mode) for i, t in zip(x, each, strict=True)]
    return np.stack(y) if y else np.zeros((0, *sides, x.shape[3]), x.dtype)


def _infer(x: TensorSpec, size: TensorSpec) -> TensorSpec:
    n, _, _, c = rank_of(x, 4, "images")
    sides = (None, None) if size.elements is None else size.elements
    require(len(sides) == 2, f"output_shape has {len(sides)} values, 2 are needed")
    return x.with_shape((n, *sides, c))


@op("ImageProjectiveTransformV2")
class ImageProjectiveTransformV2(OpDef):
    """y(u, v) = x at ((a0 u + a1 v + a2) / k, (b0 u + b1 v + b2) / k), k = c0 u + c1 v + 1; 0 outside.

    images [n,h,w,c], transforms [n or 1, 8] = a0 a1 a2 b0 b1 b2 c0 c1, output_shape [2].
    u counts columns, v rows. fill_mode says what lies beyond the edge.
    """

    @staticmethod
    def infer(x: TensorSpec, transforms: TensorSpec, size: TensorSpec) -> TensorSpec:
        return _infer(x, size)

    @staticmethod
    def kernel(
        x: Array, transforms: Array, size: Array, *, interpolation: str, fill_mode: str = "CONSTANT"
    ) -> Array:
        return _project(x, transforms, size, 0, interpolation, fill_mode)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, transforms: TensorSpec, size: TensorSpec) -> Cost:
        return Cost(flops=9 * (y.size or 0))


@op("ImageProjectiveTransformV3")
class ImageProjectiveTransformV3(OpDef):
    """As ImageProjectiveTransformV2, with fill_value (a scalar) instead of 0."""

    @staticmethod
    def infer(x: TensorSpec, transforms: TensorSpec, size: TensorSpec, fill: TensorSpec) -> TensorSpec:
        return _infer(x, size)

    @staticmethod
    def kernel(
        x: Array, transforms: Array, size: Array, fill: Array, *, interpolation: str,
        fill_mode: str = "CONSTANT",
    ) -> Array:  # fmt: skip
        return _project(x, transforms, size, fill.reshape(())[()], interpolation, fill_mode)

    @staticmethod
    def cost(
        y: TensorSpec, x: TensorSpec, transforms: TensorSpec, size: TensorSpec, fill: TensorSpec
    ) -> Cost:
        return Cost(flops=9 * (y.size or 0))
