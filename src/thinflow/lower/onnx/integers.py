"""Products of 8-bit values by ONNX's integer ops, which add them up in 32 bits that wrap around.

They take the zero point as one of the values: a range has to be known, and to hold 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, INT32, DType
from thinflow.lower.onnx.borders import without_border
from thinflow.lower.onnx.builder import Builder, shape_of
from thinflow.lower.onnx.conv import geometry
from thinflow.lower.quantized.geometry import centred_windows
from thinflow.onnx.program import Tensor
from thinflow.typing import Array

_FEWEST_CHANNELS = 16
"""Below, copying what windows see takes longer than the product saves: pixels are copied one by one."""
_MOST_PLACES = 1 << 20
"""Pixels that windows see up to which the model holds where each of them is."""


@dataclass(frozen=True)
class Conv:
    """A convolution of x [n,h,w,c] with w [kh,kw,c,m]: what its ONNX op reads.

    Attributes:
        x: the image, less the pixels that no window sees.
        options: kernel_shape, strides, pads and, where they are not 1, dilations and group.
        shape: of the result [n,oh,ow,k].
    """

    x: Tensor
    options: dict[str, Any]
    shape: tuple[int | None, ...]

    def filters(self, b: Builder, w: Tensor) -> Tensor:
        """[kh,kw,c,m] as [k,c,kh,kw], or [c m,1,kh,kw] per channel."""
        kh, kw, depth, count = (n or 0 for n in shape_of(w))
        if "group" not in self.options:
            return b.transposed(w, (3, 2, 0, 1))
        return b.reshaped(b.transposed(w, (2, 3, 0, 1)), (depth * count, 1, kh, kw))

    def emit(
        self,
        b: Builder,
        code: str,
        w: Tensor,
        *rest: Tensor | None,
        of_x: Sequence[Tensor] = (),
        element: DType,
    ) -> Tensor:
        """The op over x, what it wants to know of x, the filters and the rest: [n,oh,ow,k]."""
        n, rows, columns, count = self.shape
        # Its own form of the op reads channels-last images: no Transpose around it.
        if code.startswith("com.microsoft."):
            inputs = (self.x, *of_x, self.filters(b, w), *rest)
            return b.step(code, *inputs, shape=self.shape, element=element, channels_last=1, **self.options)
        inputs = (b.channels_first(self.x), *of_x, self.filters(b, w), *rest)
        y = b.step(code, *inputs, shape=(n, count, rows, columns), element=element, **self.options)
        return b.transposed(y, (0, 2, 3, 1))


def conv_of(
    b: Builder,
    x: Tensor,
    w: Tensor,
    strides: Sequence[int],
    padding: str,
    dilations: Sequence[int] | None,
    *,
    per_channel: bool = False,
) -> Conv | None:
    """A convolution of quantized values, uint8 x [n,h,w,c] with w [kh,kw,c,m].

    Args:
        dilations: None for the geometry of QuantizedConv2D, whose windows move to the centre when the stride
            leaves pixels over.
        per_channel: whether each channel has m filters of its own (k = c m, else k = m).

    Returns:
        None if a size is not known, or x is signed.
    """
    sizes = shape_of(x, "x", 4)[1:3]
    kh, kw, depth, count = shape_of(w, "the filter", 4)
    if None in (*sizes, kh, kw, depth, count) or x.dtype.name != "uint8":
        return None
    if dilations is None:
        found = _centred_windows(b, x, (kh or 0, kw or 0), strides, padding)
        if found is None:
            return None
        x, options = found
    else:
        options = geometry(sizes, (kh, kw), strides[1:3], dilations[1:3], padding)
        # Zeros that a Pad has put around the image are the convolution's own pads instead, and are not
        # copied.
        x, border = without_border(b, x)
        if any(border):
            own = options.get("pads", (0, 0, 0, 0))
            options["pads"] = tuple(a + c for a, c in zip(own, border, strict=True))
    if per_channel:
        options["group"] = depth
    shape = b.result_spec().shape
    return Conv(x, options, shape if shape is not None and len(shape) == 4 else (None,) * 4)


def whole_conv(b: Builder, conv: Conv, w: Tensor, zeros: tuple[Tensor, Tensor]) -> Tensor:
    """A convolution of x less its zero point with w less its own, int32 [n,oh,ow,k]."""
    if is_product(conv, w):
        return as_product(b, conv, w, zeros)
    # Sums below 2**24 are exact in float32, in whatever order they are added up.
    if _is_small(w, zeros[1]):
        ones = b.const(np.float32(1), "scale")
        x, filters = (
            b.step("DequantizeLinear", q, ones, zero, shape=q.shape, element=FLOAT)
            if not q.is_constant
            else b.const(q.array().astype(np.float32) - zero.array().astype(np.float32), "filters")
            for q, zero in ((conv.x, zeros[0]), (w, zeros[1]))
        )
        return b.cast(replace(conv, x=x).emit(b, "Conv", filters, element=FLOAT), INT32)
    return conv.emit(b, "ConvInteger", w, *zeros, element=INT32)


def _is_small(w: Tensor, zero: Tensor) -> bool:
    """Whether sums of a filter's products with 8-bit values are so small that float holds them all."""
    if not (w.is_constant and zero.is_constant):
        return False
    # 255 is the largest |x - zero point| of eight bits.
    sizes = np.abs(w.array().astype(np.int64) - int(zero.array()))
    return int(sizes.sum(axis=(0, 1, 2)).max(initial=0)) * 255 < 2**24


def is_product(conv: Conv, w: Tensor) -> bool:
    """Whether a convolution is best made a product of what each window sees; else ConvInteger is better.

    ONNX Runtime multiplies matrices of signed weights several times as fast as it convolves with them. But it
    copies the few channels of an image one by one.
    """
    kh, kw, depth, _ = (n or 0 for n in shape_of(w))
    is_plain = "group" not in conv.options and None not in conv.shape[1:]
    return is_plain and w.is_constant and depth >= (_FEWEST_CHANNELS if kh * kw > 1 else 1)


def as_product(b: Builder, conv: Conv, w: Tensor, zeros: tuple[Tensor, Tensor]) -> Tensor:
    """The convolution as a product of what each window sees, int32 [n,oh,ow,k]."""
    kh, kw, depth, count = (n or 0 for n in shape_of(w))
    seen = _windows(b, conv, (kh, kw), zeros[0])
    filters = b.reshaped(w, (kh * kw * depth, count))
    return b.step("MatMulInteger", seen, filters, *zeros, shape=conv.shape, element=INT32)


def _windows(b: Builder, conv: Conv, window: tuple[int, int], zero: Tensor) -> Tensor:
    """The pixels that each window sees [n,oh,ow,kh kw c]; borders have the zero point."""
    x, options = conv.x, conv.options
    n, height, width, depth = shape_of(x)
    top, left, bottom, right = options.get("pads", (0, 0, 0, 0))
    if any((top, left, bottom, right)):
        pads = b.ints([0, top, left, 0, 0, bottom, right, 0], "pads")
        height, width = (height or 0) + top + bottom, (width or 0) + left + right
        x = b.step("Pad", x, pads, zero, shape=(n, height, width, depth))
    steps, gaps = options.get("strides", (1, 1)), options.get("dilations", (1, 1))
    sizes = [m or 0 for m in conv.shape[1:3]]
    if window == (1, 1):
        return _every(b, x, (0, 0), sizes, steps)
    # One slice of the image per tap instead, without a table.
    if math.prod((*sizes, *window)) > _MOST_PLACES:
        corners = [(row * gaps[0], column * gaps[1]) for row, column in np.ndindex(*window)]
        parts = [_every(b, x, corner, sizes, steps) for corner in corners]
        return b.step("Concat", *parts, shape=(n, *sizes, len(parts) * (depth or 0)), axis=3)
    rows, columns = (
        np.arange(m)[:, None] * s + np.arange(k) * g
        for m, s, g, k in zip(sizes, steps, gaps, window, strict=True)
    )
    return _gathered(b, x, rows, columns)


def _every(
    b: Builder, x: Tensor, corner: Sequence[int], sizes: Sequence[int], steps: Sequence[int]
) -> Tensor:
    """Pixels of x [n,h,w,c] some steps apart, so many of them from a corner on."""
    n, height, width, depth = shape_of(x)
    ends = [at + (m - 1) * s + 1 for at, m, s in zip(corner, sizes, steps, strict=True)]
    # All of the pixels: no copy is needed.
    if (list(corner), ends, list(steps)) == ([0, 0], [height, width], [1, 1]):
        return x
    return b.sliced(x, corner, ends, [1, 2], list(steps), shape=(n, *sizes, depth))


def _gathered(b: Builder, x: Tensor, rows: Array, columns: Array) -> Tensor:
    """The pixels that windows read of x [n,h,w,c], each copied once: [n,oh,ow,kh kw c].

    Few channels are copied row by row first: then there are fewer pieces, and longer ones.

    Args:
        rows, columns: which of them, [oh,kh] and [ow,kw].
    """
    batch = shape_of(x)[0]
    height, width, depth = (size or 0 for size in shape_of(x)[1:])
    # Two gathers: of columns first, in each row, then of the rows that windows see.
    if depth < _FEWEST_CHANNELS:
        x = b.step("Gather", x, _places(b, columns), shape=(batch, height, columns.size, depth), axis=2)
        width, depth = columns.shape[0], columns.shape[1] * depth
        columns = np.arange(width)[:, None]
    # The number of a pixel among all of an image: [oh,1,kh,1] with [ow,1,kw] is [oh,ow,kh,kw].
    places = rows[:, None, :, None] * width + columns[:, None]
    pixels = b.reshaped(x, (batch, height * width, depth))
    seen = b.step("Gather", pixels, _places(b, places), shape=(batch, places.size, depth), axis=1)
    taps = places.shape[2] * places.shape[3] * depth
    return b.reshaped(seen, (batch, *places.shape[:2], taps))


def _places(b: Builder, indices: Array) -> Tensor:
    return b.const(indices.reshape(-1).astype(np.int32), "places", INT32)


def _centred_windows(
    b: Builder, x: Tensor, window: tuple[int, int], strides: Sequence[int], padding: str
) -> tuple[Tensor, dict[str, Any]] | None:
    """x without the pixels that no window sees, and the options of its convolution; None without windows."""
    inner, border = without_border(b, x)
    batch, *sizes, depth = shape_of(inner)
    axes = centred_windows([n or 0 for n in sizes], window, strides[1:3], padding, border)
    # No window fits: the result is empty, which is left to the general form.
    if min(axis.count for axis in axes) < 1:
        return None
    starts, ends = [axis.start for axis in axes], [axis.end for axis in axes]
    if starts != [0, 0] or ends != sizes:
        shape = (batch, *(end - start for start, end in zip(starts, ends, strict=True)), depth)
        inner = b.sliced(inner, starts, ends, [1, 2], shape=shape)
    pads = (*(axis.before for axis in axes), *(axis.after for axis in axes))
    return inner, {"kernel_shape": window, "strides": tuple(strides[1:3]), "pads": pads}
