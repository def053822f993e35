"""Functions of pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT
from thinflow.keras.call import Call
from thinflow.keras.layers.reshaping import resized
from thinflow.keras.operations.arrays import number, numbers
from thinflow.keras.operations.elementwise import first
from thinflow.keras.registry import Result, Rule, operation


@operation("Resize", "image.resize", ignores=("preserve_aspect_ratio", "antialias", "crop_to_aspect_ratio"))
def resize(c: Call) -> Result:
    """Another height and width."""
    for option in ("preserve_aspect_ratio", "antialias", "crop_to_aspect_ratio", "pad_to_aspect_ratio"):
        if c.kwargs.get(option) or c.get(option):
            raise c.refuse(f"{option} is not known")
    c.read |= {"images", "fill_mode", "fill_value"}
    sizes = numbers(c, "size", 1)
    method = str(c.argument("method", 2, c.get("interpolation", "bilinear")))
    if sizes is None or len(sizes) != 2 or method not in ("nearest", "bilinear", "bicubic"):
        raise c.refuse(f"it resizes to {sizes} by '{method}'")
    is_first = c.argument("data_format", 9, c.get("data_format")) == "channels_first"
    x = c.transpose(first(c), (0, 2, 3, 1)) if is_first else first(c)
    y = resized(c, x, c.const(sizes, "resize/size"), method)
    return c.transpose(y, (0, 3, 1, 2), "transpose_1") if is_first else y


@operation("compat.v1.image.resize_bilinear", "compat.v1.image.resize_nearest_neighbor")
def old_resize(c: Call) -> Result:
    """As TensorFlow 1 did it: corners may be aligned, and centres need not be at halves."""
    c.read |= {"images"}
    op = (
        "ResizeBilinear"
        if str(c.layer.options.get("function")).endswith("bilinear")
        else "ResizeNearestNeighbor"
    )
    sizes = numbers(c, "size", 1) or []
    flags = {key: bool(c.argument(key, 9)) for key in ("align_corners", "half_pixel_centers")}
    return c.emit(op, first(c), c.const(sizes, "resize/size"), name="resize", **flags)


def _moved(op: str) -> Rule:
    def rule(c: Call) -> Value:
        if c.argument("data_format", 2, c.get("data_format", "NHWC")) not in ("NHWC", "channels_last", None):
            raise c.refuse("its channels are first")
        return c.emit(op, first(c), block_size=number(c, "block_size", 1), data_format="NHWC")

    return rule


operation("nn.depth_to_space", "DepthToSpace")(_moved("DepthToSpace"))
operation("nn.space_to_depth", "SpaceToDepth")(_moved("SpaceToDepth"))


def _colours(op: str) -> Rule:
    def rule(c: Call) -> Value:
        c.read.add("images")
        if c.is_channels_first:
            raise c.refuse("its channels are first")
        return c.emit(op, c[0])

    return rule


operation("RGBToHSV")(_colours("RGBToHSV"))
operation("HSVToRGB")(_colours("HSVToRGB"))


@operation("RGBToGrayscale")
def grayscale(c: Call) -> Result:
    """What an eye sees of the three colours."""
    c.read.add("images")
    if c.is_channels_first:
        raise c.refuse("its channels are first")
    return c.reduce("Sum", c.emit("Mul", c[0], np.array([0.2989, 0.587, 0.114], np.float32)), [-1], True)


@operation("nn.local_response_normalization")
def lrn(c: Call) -> Result:
    numbers_of = {"bias": 1.0, "alpha": 1.0, "beta": 0.5}
    given = {key: c.argument(key, 9, value) for key, value in numbers_of.items()}
    radius = c.argument("depth_radius", 1, 5)
    x = first(c)
    if not isinstance(radius, int) or c.type_of(x) is not FLOAT:
        raise c.refuse(f"its radius is {radius}")
    attrs: dict[str, Any] = {k: float(v) for k, v in given.items() if isinstance(v, int | float)}
    return c.emit("LRN", x, depth_radius=radius, **attrs)
