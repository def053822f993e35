"""Colour and contrast of images [...,h,w,c], in TensorFlow's formulas."""

from __future__ import annotations

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless, stacked, where
from thinflow.ir.types import FLOAT

# Channels are taken apart without an axis of size 1: along one ONNX Runtime broadcasts 5 to 15 times slower.
# Of 224 x 224 pixels RGBToHSV takes 6.5 ms instead of 1.2, and HSVToRGB with a vector of three numbers 3.5
# instead of 0.24.


def _channels(x: Term) -> tuple[Term, ...]:
    """The three channels [...]."""
    refuse_unless(x.shape[-1:] == (3,), "a colour has three channels")
    return x.body.add("Unpack", [x.value], ports=3, T=x.dtype, num=3, axis=len(x.shape) - 1)


def _sectors(hue: Term) -> list[Term]:
    """The pure colour of a hue from 0 to 1, each channel within 0..1."""
    angle = hue * 6.0
    # Over six sectors each channel is 1 for two, 0 for two and a slope in between: a clipped triangle, around
    # the hues 0 (red, by its complement at 3), 2 (green) and 4 (blue).
    edges = (angle - 3.0).magnitude() - 1.0, 2.0 - (angle - 2.0).magnitude(), 2.0 - (angle - 4.0).magnitude()
    return [edge.clipped(0.0, 1.0) for edge in edges]


def _to_rgb(hue: Term, saturation: Term, value: Term) -> Term:
    pale = 1.0 - saturation
    return stacked([(c * saturation + pale) * value for c in _sectors(hue)], -1)


def _to_hsv(red: Term, green: Term, blue: Term) -> tuple[Term, Term, Term]:
    """Hue, saturation and value [...]; grey has hue 0."""
    high, low = red.most(green).most(blue), red.least(green).least(blue)
    spread = high - low
    is_grey = spread.equals(0.0)
    unit = (1 / 6) / where(is_grey, 1.0, spread)
    others = where(green.equals(high), (blue - red) * unit + 1 / 3, (red - green) * unit + 2 / 3)
    # Red first, then green, as TensorFlow decides where two channels are the largest.
    angle = where(red.equals(high), (green - blue) * unit, others)
    hue = where(is_grey, 0.0, where(angle < 0.0, angle + 1.0, angle))
    is_lit = high > 0.0
    return hue, where(is_lit, spread / where(is_lit, high, 1.0), 0.0), high


@decompose("RGBToHSV")
def rgb_to_hsv(x: Term) -> Term:
    return stacked(_to_hsv(*_channels(x)), -1)


@decompose("HSVToRGB")
def hsv_to_rgb(x: Term) -> Term:
    return _to_rgb(*_channels(x))


@decompose("AdjustSaturation")
def adjust_saturation(x: Term, scale: Term) -> Term:
    hue, saturation, value = _to_hsv(*_channels(x.cast(FLOAT)))
    return _to_rgb(hue, (saturation * scale).clipped(0.0, 1.0), value).cast(x.dtype)


@decompose("AdjustHue")
def adjust_hue(x: Term, delta: Term) -> Term:
    """The hue is turned; the largest and the smallest component of each pixel stay."""
    red, green, blue = _channels(x.cast(FLOAT))
    hue = _to_hsv(red, green, blue)[0] + delta
    high, low = red.most(green).most(blue), red.least(green).least(blue)
    spread = high - low
    # A whole turn is 1, so the fraction of the hue is the hue.
    parts = [low + spread * c for c in _sectors(hue - hue.apply("Floor"))]
    return stacked(parts, -1).cast(x.dtype)


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
