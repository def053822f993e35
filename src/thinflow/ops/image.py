"""Colour of images [...,3]: spaces, contrast, hue, saturation; boxes drawn on them."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.ops._shapes import merge
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array


def _infer_colours(x: TensorSpec, least_rank: int = 1) -> TensorSpec:
    """The shape of x, whose last axis is red, green, blue (or hue, saturation, value)."""
    if x.shape is None:
        return x.with_shape(None)
    require(len(x.shape) >= least_rank, f"images have rank {len(x.shape)}, at least {least_rank} is needed")
    return x.with_shape(merge(x.shape, (*x.shape[:-1], 3)))


def _channels(x: Array) -> tuple[Array, Array, Array]:
    require(x.ndim >= 1 and x.shape[-1] == 3, f"images have shape {list(x.shape)}, the last axis must be 3")
    return x[..., 0], x[..., 1], x[..., 2]


def _safe_divide(a: Array, b: Array) -> Array:
    """a / b where b > 0, else 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _to_hsv(x: Array) -> Array:
    r, g, b = _channels(x)
    value = x.max(axis=-1)
    spread = value - x.min(axis=-1)
    kind = x.dtype.type
    # A sixth of the circle per pair of colours, so hue is a difference over 6 times the spread.
    norm = _safe_divide(np.full_like(spread, 1), kind(6) * spread)
    hue = np.where(
        r == value,
        norm * (g - b),
        np.where(g == value, norm * (b - r) + kind(2 / 6), norm * (r - g) + kind(4 / 6)),
    )
    # Grey has no hue; 0 by convention.
    hue = np.where(spread > 0, hue, kind(0))
    return np.stack([np.where(hue < 0, hue + kind(1), hue), _safe_divide(spread, value), value], axis=-1)


def _from_hsv(x: Array) -> Array:
    hue, saturation, value = _channels(x)
    kind = x.dtype.type
    dh = hue * kind(6)
    one, two = kind(1), kind(2)
    # Each colour is a trapezoid over the circle: red is full around 0 (and 6), green around 2, blue around 4.
    parts = (np.abs(dh - kind(3)) - one, two - np.abs(dh - two), two - np.abs(dh - kind(4)))
    rest = one - saturation
    return np.stack(
        [(rest + saturation * np.minimum(np.maximum(p, kind(0)), one)) * value for p in parts], axis=-1
    )


@op("RGBToHSV")
class RGBToHSV(OpDef):
    """Hue, saturation and value, all 0..1.   images [...,3] -> same shape and dtype."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return _infer_colours(x)

    @staticmethod
    def kernel(x: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            return _to_hsv(x)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=5 * (y.size or 0))


@op("HSVToRGB")
class HSVToRGB(OpDef):
    """Red, green and blue.   images [...,3] -> same shape and dtype."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return _infer_colours(x)

    @staticmethod
    def kernel(x: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            return _from_hsv(x)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=7 * (y.size or 0))


def _contrast(x: Array, factor: Array) -> Array:
    """(x - mean) * factor + mean, with the mean over the height and width of each image and channel."""
    require(x.ndim >= 3, f"images have rank {x.ndim}, at least 3 is needed")
    if not x.size:
        return x
    mean = x.mean(axis=(-3, -2), keepdims=True, dtype=np.float32)
    return np.asarray((x - mean) * np.float32(factor.reshape(())) + mean)


@op("AdjustContrastv2")
class AdjustContrastv2(OpDef):
    """(x - mean) * factor + mean.   images [...,h,w,c], factor float scalar -> same shape and dtype."""

    @staticmethod
    def infer(x: TensorSpec, factor: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(x: Array, factor: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            return _contrast(x.astype(np.float32, copy=False), factor).astype(x.dtype, copy=False)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=4 * (y.size or 0))


@op("AdjustContrast")
class AdjustContrast(OpDef):
    """AdjustContrastv2, then clamped.

    images [...,h,w,c] of any number type, factor, least, most -> float.
    """

    @staticmethod
    def infer(x: TensorSpec, factor: TensorSpec, least: TensorSpec, most: TensorSpec) -> TensorSpec:
        return TensorSpec(FLOAT, x.shape)

    @staticmethod
    def kernel(x: Array, factor: Array, least: Array, most: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            y = _contrast(x.astype(np.float32), factor)
        return np.asarray(np.minimum(np.maximum(y, np.float32(least)), np.float32(most)))


# The six orders of (red, green, blue) by size, indexed by the sixth of the hue circle: 0 most, 1 middle, 2
# least.
_RANKS = np.array([[0, 1, 2], [1, 0, 2], [2, 0, 1], [2, 1, 0], [1, 2, 0], [0, 2, 1]])


def _shift_hue(x: Array, delta: np.float32) -> Array:
    """Rotate hues by delta turns, keeping each pixel's largest and smallest component."""
    r, g, b = _channels(x)
    ordered = np.sort(x, axis=-1)
    least, middle, most = ordered[..., 0], ordered[..., 1], ordered[..., 2]
    # The sixth of the circle from comparisons alone, as TensorFlow's kernel: no hue is computed by division
    # first.
    rising = np.where(b < r, 1, np.where(b > g, 3, 2))
    falling = np.where(b < g, 0, np.where(b > r, 4, 5))
    sixth = np.where(r < g, rising, falling)
    # Within a sixth the middle colour rises in even ones and falls in odd ones.
    ratio = _safe_divide(middle - least, most - least)
    hue = sixth.astype(x.dtype) + np.where(sixth % 2 == 0, ratio, np.float32(1) - ratio)
    hue = np.where(most == least, np.float32(0), hue) + delta * np.float32(6)
    hue = np.mod(hue, np.float32(6))
    # mod of a tiny negative number rounds to 6 itself.
    sixth = np.minimum(np.where(np.isfinite(hue), hue, 0).astype(np.int64), 5)
    ratio = hue - sixth.astype(x.dtype)
    ratio = np.where(sixth % 2 == 0, ratio, np.float32(1) - ratio)
    # The sixth of the hue says which colour is largest, middle and smallest; the extremes stay as they were.
    shades = np.stack([most, least + ratio * (most - least), least], axis=-1)
    return np.take_along_axis(shades, _RANKS[sixth], axis=-1)


@op("AdjustHue")
class AdjustHue(OpDef):
    """Hues turned by delta (1 = full circle).

    images [...,h,w,3], delta float scalar -> same shape and dtype.
    """

    @staticmethod
    def infer(x: TensorSpec, delta: TensorSpec) -> TensorSpec:
        return _infer_colours(x, 3)

    @staticmethod
    def kernel(x: Array, delta: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            return _shift_hue(x.astype(np.float32, copy=False), np.float32(delta)).astype(x.dtype, copy=False)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=7 * (y.size or 0))


@op("AdjustSaturation")
class AdjustSaturation(OpDef):
    """Saturations times scale, at most 1.

    images [...,h,w,3], scale float scalar -> same shape and dtype.
    """

    @staticmethod
    def infer(x: TensorSpec, scale: TensorSpec) -> TensorSpec:
        return _infer_colours(x, 3)

    @staticmethod
    def kernel(x: Array, scale: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            hsv = _to_hsv(x.astype(np.float32, copy=False))
            hsv[..., 1] = np.minimum(
                np.float32(1), np.maximum(np.float32(0), hsv[..., 1] * np.float32(scale))
            )
            return _from_hsv(hsv).astype(x.dtype, copy=False)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=13 * (y.size or 0))
