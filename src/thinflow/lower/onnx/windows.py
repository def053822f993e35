"""Pixels that sliding windows see of images, as places in the flat image: for sums of quantized values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term
from thinflow.onnx.program import Tensor
from thinflow.ops._shapes import same_padding
from thinflow.typing import Array

_MOST = 1 << 22


def _places(size: int, window: int, stride: int, rate: int, padding: str) -> Array:
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
        _places(n or 0, k, s, r, padding)
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
