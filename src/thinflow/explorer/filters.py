"""Filters of a convolution as a small picture: colour where they read three channels, else gray."""

from __future__ import annotations

import base64
import math

import numpy as np

from thinflow.explorer.document import Picture
from thinflow.ir.graph import Node
from thinflow.ir.tensor import Tensor
from thinflow.typing import Array

MOST_SIDE = 64
"""Pixels of a picture's side, about; so 4 kB gray or 12 kB in colour at most."""
_LARGEST_FILTER = 31
_SMALLEST_FILTER = 3
_COLOURS = 3

# Height and width, channels read (i) and filters (o); of each op that has such weights.
_BY_VOCABULARY = {"": "hwio", "tfl": "ohwi", "onnx": "oihw", "aten": "oihw"}


def layout_of(node: Node) -> str:
    """Order of the axes of a weight with four of them, by who writes such files; "" for another."""
    tensor = node.tensor
    if tensor is None or len(tensor.shape) != 4:
        return ""
    for use in node.output().uses:
        layout = _BY_VOCABULARY.get(use.node.op.partition(".")[0] if "." in use.node.op else "", "")
        if layout:
            return layout
    return ""


def filter_picture(tensor: Tensor, layout: str) -> Picture | None:
    """Filters side by side, each in its own range of grays; None if they are too small or too large to see.

    Reads the filters that are shown and no others.
    """
    sizes = dict(zip(layout, tensor.shape, strict=True))
    sides = sizes["h"], sizes["w"]
    if min(sides) < _SMALLEST_FILTER or max(sides) > _LARGEST_FILTER or tensor.dtype.kind not in "fiuq":
        return None
    filters = _chosen(tensor.numpy(), layout, sizes, max(sides) + 1)
    tiles = np.stack([_scaled(f) for f in filters])
    return _tiled(tiles)


def _chosen(array: Array, layout: str, sizes: dict[str, int], step: int) -> Array:
    """The first filters, [n, h, w, c] in float64; c is 3 for colours, else 1."""
    room = (MOST_SIDE // step) ** 2
    # [o, i, h, w] as a view: nothing is read yet.
    view = array.transpose([layout.index(axis) for axis in "oihw"])
    if sizes["i"] == _COLOURS:
        return np.asarray(view[:room].transpose(0, 2, 3, 1), np.float64)
    # The filters on the first channels they read; of a depthwise convolution that is all of them.
    planes = [view[o, i] for o in range(min(sizes["o"], room)) for i in range(min(sizes["i"], room))][:room]
    return np.asarray(np.stack(planes)[..., None], np.float64)


def _scaled(tile: Array) -> Array:
    """One filter in 0..255; what is not finite is black."""
    tile = np.where(np.isfinite(tile), tile, np.nan)
    if np.isnan(tile).all():
        return np.zeros(tile.shape, np.uint8)
    low, high = np.nanmin(tile), np.nanmax(tile)
    with np.errstate(invalid="ignore"):
        shades = np.full(tile.shape, 128.0) if high <= low else (tile - low) / (high - low) * 255
    return np.asarray(np.nan_to_num(shades), np.uint8)


def _tiled(tiles: Array) -> Picture:
    """The tiles in rows, a dark pixel between them."""
    count, height, width, channels = tiles.shape
    columns = max(1, min(count, math.ceil(math.sqrt(count))))
    rows = -(-count // columns)
    canvas = np.zeros((rows * (height + 1) - 1, columns * (width + 1) - 1, channels), np.uint8)
    for number, tile in enumerate(tiles):
        y, x = number // columns * (height + 1), number % columns * (width + 1)
        canvas[y : y + height, x : x + width] = tile
    pixels = base64.b64encode(canvas.tobytes()).decode()
    return Picture(canvas.shape[1], canvas.shape[0], channels, pixels)
