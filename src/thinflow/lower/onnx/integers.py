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
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.conv import geometry
from thinflow.lower.onnx.terms import Term
from thinflow.lower.quantized.geometry import centred_windows
from thinflow.onnx.program import Operator, Tensor
from thinflow.ops._shapes import same_padding
from thinflow.program.model import Dims
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
        x_params: Sequence[Tensor] = (),
        element: DType,
    ) -> Tensor:
        """The op over x, what it wants to know of x, the filters and the rest: [n,oh,ow,k]."""
        n, rows, columns, count = self.shape
        # Its own form of the op reads channels-last images: no Transpose around it.
        if code.startswith("com.microsoft."):
            inputs = (self.x, *x_params, self.filters(b, w), *rest)
            return b.step(code, *inputs, shape=self.shape, element=element, channels_last=1, **self.options)
        inputs = (b.channels_first(self.x), *x_params, self.filters(b, w), *rest)
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
    """True if sums of a filter's products with 8-bit values are so small that float holds them all."""
    if not (w.is_constant and zero.is_constant):
        return False
    # 255 is the largest |x - zero point| of eight bits.
    sizes = np.abs(w.array().astype(np.int64) - int(zero.array()))
    return int(sizes.sum(axis=(0, 1, 2)).max(initial=0)) * 255 < 2**24


def is_product(conv: Conv, w: Tensor) -> bool:
    """True if a convolution is best made a product of what each window sees; else ConvInteger is better.

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
        # Filled with the zero point, which the product takes off again: the border adds 0.
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


# ---- Zeros around images, left to the convolution that reads them.


Border = tuple[int, ...]
"""Pixels above, left of, below and right of an image."""


def inside_border(b: Builder, x: Tensor) -> tuple[Tensor, Border | None]:
    """An image x [n,h,w,c] without the zeros around it, and how many: above, left, below and right."""
    pad = b.producer(x, "Pad")
    border = None if pad is None else border_of_zeros(pad)
    if pad is None or border is None or pad.inputs[0] is None:
        return x, None
    return pad.inputs[0], border


def with_border(b: Builder, values: Tensor, zero: Tensor, border: Border | None, shape: Dims) -> Tensor:
    """Values with their zero point around them, which a convolution that reads them may add itself."""
    if border is None:
        return values
    pads = b.ints([0, *border[:2], 0, 0, *border[2:], 0], "pads")
    whole = b.step("Pad", values, pads, zero, shape=shape, mode="constant")
    b.notes["border", whole] = values, border
    return whole


def border_of_zeros(pad: Operator) -> Border | None:
    """The border if it is one of zeros, around height and width alone; else None."""
    pads = pad.inputs[1].array() if pad.inputs[1] is not None and pad.inputs[1].is_constant else None
    value = pad.inputs[2] if len(pad.inputs) > 2 else None
    is_zero = value is None or (value.is_constant and not value.array().any())
    if (
        pads is None
        or len(pad.inputs) > 3
        or not is_zero
        or pad.options.get("mode", "constant") != "constant"
    ):
        return None
    # ONNX lists the beginnings of all axes, then the ends; images are channels-last here. Numbers below 0 cut
    # off instead.
    begins, ends = pads.reshape(2, -1)
    if len(begins) != 4 or (pads < 0).any() or begins[[0, 3]].any() or ends[[0, 3]].any():
        return None
    return tuple(int(n) for n in (*begins[1:3], *ends[1:3]))


def without_border(b: Builder, x: Tensor) -> tuple[Tensor, Border]:
    """Values without the zeros around them, and how many there were: above, left, below and right."""
    found = b.notes.get(("border", x))
    return (x, (0, 0, 0, 0)) if found is None else found


# ---- Pixels that sliding windows see of images, as places in the flat image: for sums of quantized values.


# Elements of a constant that is made here and is in no file.
_MOST = 1 << 22


def _taps(size: int, window: int, stride: int, rate: int, padding: str) -> Array:
    """The place along an axis that each tap of each window reads, [out,window]; some are beyond the ends."""
    require(padding in ("SAME", "VALID"), f"the padding {padding} is not known")
    require(min(window, stride, rate) > 0, "window, strides and rates start at 1")
    extent = (window - 1) * rate + 1
    out = -(-size // stride) if padding == "SAME" else max(-(-(size - extent + 1) // stride), 0)
    before = same_padding(size, window, stride, rate)[0] if padding == "SAME" else 0
    # A tap's place: the window's corner and its own steps, less the border in front.
    return np.arange(out)[:, None] * stride + np.arange(window) * rate - before


def plane(
    x: Tensor,
    window: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: str,
    taps: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Flat places [rows,columns,kh,kw] in the plane of an image, and which of them are inside of it.

    Args:
        taps: which places windows read, [out,window] along each axis; default: as TensorFlow puts them.
    """
    h, w = shape_of(x, "x", 4)[1:3]
    require(h is not None and w is not None, "the size of the image is not known")
    rows, columns = taps or [
        _taps(n or 0, k, s, r, padding)
        for n, k, s, r in zip((h, w), window, strides[1:3], rates[1:3], strict=True)
    ]
    inside = ((rows >= 0) & (rows < (h or 0)))[:, None, :, None] & ((columns >= 0) & (columns < (w or 0)))[
        :, None
    ]
    flat = (
        np.clip(rows, 0, (h or 1) - 1)[:, None, :, None] * (w or 0)
        + np.clip(columns, 0, (w or 1) - 1)[:, None]
    )
    require(flat.size <= _MOST, "the image is too large")
    return flat, np.broadcast_to(inside, flat.shape)


def seen_by_windows(b: Builder, x: Tensor, flat: Array) -> Term:
    """The pixels that windows see of images [n,h,w,c]: [n, *flat, c]."""
    n, h, w, c = shape_of(x, "x", 4)
    require(c is not None, "the number of channels is not known")
    pixels = Term(b, b.reshaped(x, (n, (h or 0) * (w or 0), c)))
    return pixels.gathered(flat, 1)
