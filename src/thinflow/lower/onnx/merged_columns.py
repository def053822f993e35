"""Convolutions of images with few channels: several columns at once.

ONNX Runtime's convolution of codes reads channels by fours; of images with 3 it first copies every window,
pixel by pixel. A row of pixels [w,c] is also one of blocks [w/n, n c], and what n/s neighbouring results add
up of it (s is the stride) is a filter with n/s times as many channels:

    x [w,c] * f [k,c,m], stride s   =   x [w/n, n c] * g [k', n c, (n/s) m], stride 1

Most of g is 0, and it is several times as fast.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from thinflow.lower.onnx.builder import Builder, shape_of
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
    size = math.lcm(stride, _ALIGNED // math.gcd(depth, _ALIGNED))
    times = size // stride
    if width % size or conv.shape[2] != width // stride or (count * times) % _ALIGNED or count > _MANY:
        return None
    first = -(-left // size)  # blocks before the one that results are counted from
    last = ((times - 1) * stride - left + kw - 1) // size
    if last < 0 or kh * (first + 1 + last) * size * depth > _DEEPEST:
        return None
    filters = np.zeros((kh, (first + 1 + last) * size, depth, times, count), weights.dtype)
    for number in range(times):
        start = number * stride - left + first * size
        filters[:, start : start + kw, :, number] = weights
    blocks = b.reshaped(conv.x, (conv.shape[0], height, width // size, size * depth))
    changed = {
        "kernel_shape": (kh, first + 1 + last),
        "strides": (options.get("strides", (1, 1))[0], 1),
        "pads": (top, first, bottom, last),
    }
    shape = (*conv.shape[:2], width // size, times * count)
    wide = filters.reshape(kh, first + 1 + last, size * depth, times * count)
    return replace(conv, x=blocks, options=options | changed, shape=shape), wide, times
