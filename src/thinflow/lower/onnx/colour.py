"""Colour of images [...,3]."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


def _channels(b: Builder, x: Tensor) -> list[Term]:
    require(shape_of(x, "x")[-1:] == (3,), "the last axis of an image has to be 3")
    return [Term(b, x).gathered(np.int64(n), -1) for n in range(3)]


def _stacked(b: Builder, parts: list[Term]) -> Tensor:
    rank = len(shape_of(parts[0].tensor))
    columns = [p.unsqueezed(rank).tensor for p in parts]
    shape = (*shape_of(parts[0].tensor), 3)
    return b.step("Concat", *columns, shape=shape, axis=rank)


def _ratio(x: Term, y: Term) -> Term:
    """x / y where y > 0, else 0."""
    return choose(y > 0, x / choose(y > 0, y, 1), 0)


def _to_hsv(b: Builder, x: Tensor) -> list[Term]:
    red, green, blue = _channels(b, x)
    value = red.most(green).most(blue)
    spread = value - red.least(green).least(blue)
    norm = _ratio(spread * 0 + 1, spread * 6)
    hue = choose(
        red.equals(value),
        norm * (green - blue),
        choose(green.equals(value), norm * (blue - red) + 2 / 6, norm * (red - green) + 4 / 6),
    )
    hue = choose(spread > 0, hue, 0)
    return [choose(hue < 0, hue + 1, hue), _ratio(spread, value), value]


def _from_hsv(b: Builder, hue: Term, saturation: Term, value: Term) -> Tensor:
    turns = hue * 6
    parts = [
        (turns - 3).magnitude() - 1,
        2 - (turns - 2).magnitude(),
        2 - (turns - 4).magnitude(),
    ]
    rest = 1 - saturation
    return _stacked(b, [(rest + saturation * p.most(0).least(1)) * value for p in parts])


@lower("RGBToHSV", to="onnx")
def rgb_to_hsv(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.result(_stacked(b, _to_hsv(b, x)))


@lower("HSVToRGB", to="onnx")
def hsv_to_rgb(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.result(_from_hsv(b, *_channels(b, x)))


@lower("AdjustSaturation", to="onnx")
def adjust_saturation(b: Builder, node: Node, x: Tensor, scale: Tensor) -> Tensor:
    hue, saturation, value = _to_hsv(b, b.cast(x, FLOAT))
    y = _from_hsv(b, hue, (saturation * scale).most(0).least(1), value)
    return b.result(b.cast(y, x.dtype))


@lower("AdjustHue", to="onnx")
def adjust_hue(b: Builder, node: Node, x: Tensor, delta: Tensor) -> Tensor:
    """The hue is turned; the largest and the smallest component of each pixel stay."""
    image = b.cast(x, FLOAT)
    red, green, blue = _channels(b, image)
    most, least = red.most(green).most(blue), red.least(green).least(blue)
    hue = _to_hsv(b, image)[0] + delta
    turned = (hue - hue.floor()) * 6
    spread = most - least
    parts = [
        (turned - 3).magnitude() - 1,
        2 - (turned - 2).magnitude(),
        2 - (turned - 4).magnitude(),
    ]
    return b.result(b.cast(_stacked(b, [least + spread * p.most(0).least(1) for p in parts]), x.dtype))


@lower("AdjustContrast", to="onnx")
def adjust_contrast(b: Builder, node: Node, x: Tensor, factor: Tensor, least: Tensor, most: Tensor) -> Tensor:
    """Away from the mean of height and width, and clamped."""
    image = Term(b, b.cast(x, FLOAT))
    mean = image.reduced("ReduceMean", -3, -2, keep=True)
    return b.result(((image - mean) * factor + mean).most(least).least(most).tensor)
