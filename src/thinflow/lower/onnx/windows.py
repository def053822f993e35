"""Sliding windows that are neither convolutions nor plain pools."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT64
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops._shapes import same_padding
from thinflow.typing import Array

_MOST = 1 << 22


def _places(size: int, window: int, stride: int, rate: int, padding: str) -> Array:
    """Which place along an axis each tap of each window reads, [out,window]; some are beyond the ends."""
    require(padding in ("SAME", "VALID"), f"the padding {padding} is not known")
    require(min(window, stride, rate) > 0, "window, strides and rates start at 1")
    extent = (window - 1) * rate + 1
    out = -(-size // stride) if padding == "SAME" else max(-(-(size - extent + 1) // stride), 0)
    before = same_padding(size, window, stride, rate)[0] if padding == "SAME" else 0
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
    """What windows see of images [n,h,w,c]: [n, *flat, c]."""
    n, h, w, c = shape_of(x, "x", 4)
    require(c is not None, "the number of channels is not known")
    pixels = Term(b, b.reshaped(x, (n, (h or 0) * (w or 0), c)))
    return pixels.gathered(flat, 1)


@lower("ExtractImagePatches", to="onnx")
def extract_image_patches(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksizes: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: str,
) -> Tensor:
    flat, inside = plane(x, ksizes[1:3], strides, rates, padding)
    seen = seen_by_windows(b, x, flat)
    if not inside.all():
        there = Term(b, b.const(inside[..., None], "inside"))
        seen = choose(there, seen, 0)
    rows, columns, kh, kw = flat.shape
    n, _, _, c = shape_of(x)
    return b.result(b.reshaped(seen.tensor, (n, rows, columns, kh * kw * (c or 0))))


@lower("Dilation2D", to="onnx")
def dilation_2d(
    b: Builder,
    node: Node,
    x: Tensor,
    w: Tensor,
    *,
    strides: Sequence[int],
    rates: Sequence[int],
    padding: str,
) -> Tensor:
    """The largest of x + w in each window; what is beyond the edge takes no part."""
    require(x.dtype.is_floating, f"dilation of {x.dtype} has no ONNX form")
    window = shape_of(w, "the filter", 3)
    require(None not in window, "the size of the filter is not known")
    flat, inside = plane(x, [n or 0 for n in window[:2]], strides, rates, padding)
    seen = seen_by_windows(b, x, flat) + w
    lowest = np.finfo(x.dtype.numpy()).min
    if not inside.all():
        seen = choose(Term(b, b.const(inside[..., None], "inside")), seen, lowest)
    return b.result(seen.reduced("ReduceMax", 3, 4).tensor)


@lower("MaxPoolWithArgmax", to="onnx")
def max_pool_with_argmax(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    include_batch_in_index: bool = False,
) -> tuple[Tensor, Tensor]:
    """The first of equal ones wins."""
    require(x.dtype.is_floating or x.dtype.itemsize <= 2, f"ONNX Runtime pools no {x.dtype}")
    require((ksize[0], ksize[3]) == (1, 1), "windows over batch and channels have no form")
    flat, inside = plane(x, ksize[1:3], strides, (1, 1, 1, 1), padding)
    n, h, w, c = shape_of(x)
    seen = seen_by_windows(b, x, flat.reshape(*flat.shape[:2], -1)).cast(
        FLOAT if not x.dtype.is_floating else x.dtype
    )
    places = b.const(inside.reshape(*flat.shape[:2], -1, 1), "inside")
    kept = choose(Term(b, places), seen, np.finfo(seen.dtype.numpy()).min)
    shape = (n, *flat.shape[:2], c)
    found = b.step("ArgMax", kept.tensor, shape=shape, element=INT64, axis=3, keepdims=0)
    y = b.cast(kept.reduced("ReduceMax", 3).tensor, x.dtype)
    table = Term(b, b.const(flat.reshape(*flat.shape[:2], 1, -1), "table"))
    taps = flat.shape[2] * flat.shape[3]
    hit = Term(b, b.unsqueezed(found, [4])).equals(np.arange(taps))
    pixel = choose(hit, table, 0).reduced("ReduceSum", 4)
    where = pixel * (c or 0) + np.arange(c or 0)
    if include_batch_in_index:
        require(n is not None, "the batch size is not known")
        where = where + (np.arange(n or 0) * ((h or 0) * (w or 0) * (c or 0))).reshape(-1, 1, 1, 1)
    return b.result(y), b.typed(where.tensor, 1)
