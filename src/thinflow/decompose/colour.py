"""Colour and contrast of images [...,h,w,c], in TensorFlow's formulas."""

from __future__ import annotations

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, joined, refuse_unless, where
from thinflow.ir.types import FLOAT


def _channels(x: Term) -> tuple[Term, ...]:
    """The three channels [...,1]."""
    refuse_unless(x.shape[-1:] == (3,), "a colour has three channels")
    return x.split(3, -1)


def _from_sectors(hue: Term) -> Term:
    """The pure colour of a hue from 0 to 1: |6h - 3| - 1, 2 - |6h - 2|, 2 - |6h - 4|, each within 0..1."""
    apart = (hue * 6.0 - [3, 2, 4]).magnitude() * [1, -1, -1] + [-1, 2, 2]
    return apart.apply("Relu").least(1.0)


def _to_rgb(hue: Term, saturation: Term, value: Term) -> Term:
    return ((_from_sectors(hue) - 1.0) * saturation + 1.0) * value


def _to_hsv(x: Term) -> tuple[Term, Term, Term]:
    """Hue, saturation and value [...,1]; grey has hue 0."""
    red, green, blue = _channels(x)
    high, low = x.reduced("Max", -1, keep=True), x.reduced("Min", -1, keep=True)
    spread = high - low
    is_grey = spread.equals(0.0)
    unit = (1 / 6) / where(is_grey, 1.0, spread)
    others = where(green.equals(high), (blue - red) * unit + 1 / 3, (red - green) * unit + 2 / 3)
    angle = where(red.equals(high), (green - blue) * unit, others)
    hue = where(is_grey, 0.0, where(angle < 0.0, angle + 1.0, angle))
    is_lit = high > 0.0
    return hue, where(is_lit, spread / where(is_lit, high, 1.0), 0.0), high


@decompose("RGBToHSV")
def rgb_to_hsv(x: Term) -> Term:
    return joined(_to_hsv(x), -1)


@decompose("HSVToRGB")
def hsv_to_rgb(x: Term) -> Term:
    hue, saturation, value = _channels(x)
    return _to_rgb(hue, saturation, value)


@decompose("AdjustSaturation")
def adjust_saturation(x: Term, scale: Term) -> Term:
    hue, saturation, value = _to_hsv(x.cast(FLOAT))
    return _to_rgb(hue, (saturation * scale).clipped(0.0, 1.0), value).cast(x.dtype)


@decompose("AdjustHue")
def adjust_hue(x: Term, delta: Term) -> Term:
    """The hue is turned; the largest and the smallest component of each pixel stay."""
    image = x.cast(FLOAT)
    hue = _to_hsv(image)[0] + delta
    low, high = image.reduced("Min", -1, keep=True), image.reduced("Max", -1, keep=True)
    return (low + (high - low) * _from_sectors(hue - hue.apply("Floor"))).cast(x.dtype)


@decompose("AdjustContrastv2")
def adjust_contrast(x: Term, factor: Term) -> Term:
    """Each channel moves away from its mean over height and width."""
    refuse_unless(x.dtype is FLOAT, f"it has no form for {x.dtype}")
    refuse_unless(len(x.shape) >= 3, "the images have no height, width and channels")
    mean = x.mean(-3, -2, keep=True)
    return (x - mean) * factor + mean


@decompose("AdjustContrast")
def adjust_contrast_within(x: Term, factor: Term, least: Term, most: Term) -> Term:
    """As AdjustContrastv2, and clamped; the result is float whatever x is."""
    return adjust_contrast(x.cast(FLOAT), factor).clipped(least, most)
