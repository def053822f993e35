"""Convolutions of images with few channels: several columns at once.

ONNX Runtime's convolution of 8-bit values reads channels by fours; of images with 3 it first copies every
window, pixel by pixel. Blocks of columns (see `quantized.geometry`) are several times as fast.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from thinflow.lower.onnx.builder import Builder, shape_of
from thinflow.lower.quantized.geometry import column_blocks
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.lower.onnx.integers import Conv

_ALIGNED = 4
"""Channels that are read at once."""
_FEW = 8
"""Channels from which on windows are copied fast enough."""
_MANY = 64
"""Results per window that are enough; more would be more zeros."""
_DEEPEST = 512
"""Products per sum beyond which the zeros cost more than they save."""


def merged(b: Builder, conv: Conv, weights: Array) -> tuple[Conv, Array, int] | None:
    """The convolution of blocks, its filter, and how many neighbours it computes at once; None to leave it.

    Its result is that of `conv` in another shape.

    Args:
        weights: [kh,kw,c,m], of which 0 stands for 0.
    """
    kh, kw, depth, count = weights.shape
    options = conv.options
    is_wanted = b.extended and depth < _FEW and depth % _ALIGNED and "group" not in options
    if not is_wanted or "dilations" in options or None in (*shape_of(conv.x)[1:], *conv.shape[1:]):
        return None
    _, height, width, _ = (n or 0 for n in shape_of(conv.x))
    stride = options.get("strides", (1, 1))[1]
    top, left, bottom, _ = options.get("pads", (0, 0, 0, 0))
    # The fewest columns that are both whole strides and whole fours of channels.
    times = math.lcm(stride, _ALIGNED // math.gcd(depth, _ALIGNED)) // stride
    blocks = column_blocks(kw, stride, left, times)
    size = blocks.columns
    # Blocks of columns must tile the image, and results be as many as strides: borders of any other kind
    # shift them.
    if width % size or conv.shape[2] != width // stride or (count * times) % _ALIGNED or count > _MANY:
        return None
    behind = blocks.taps - blocks.ahead - 1
    # The window must reach over blocks on the right without a negative border.
    if behind < 0 or kh * blocks.taps * size * depth > _DEEPEST:
        return None
    x = b.reshaped(conv.x, (conv.shape[0], height, width // size, size * depth))
    changed = {
        "kernel_shape": (kh, blocks.taps),
        "strides": (options.get("strides", (1, 1))[0], 1),
        "pads": (top, blocks.ahead, bottom, behind),
    }
    shape = (*conv.shape[:2], width // size, times * count)
    changed_conv = replace(conv, x=x, options=options | changed, shape=shape)
    return changed_conv, blocks.filters(weights), times
