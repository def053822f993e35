"""Resizing images."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.program import Tensor


@lower("ResizeBilinear", to="tflite")
def resize_bilinear(
    b: Builder,
    node: Node,
    x: Tensor,
    size: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    """The result is float whatever x is."""
    x = b.cast(x, FLOAT)
    return b.emit(
        "RESIZE_BILINEAR",
        x,
        b.index(size),
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )


@lower("ResizeNearestNeighbor", to="tflite")
def resize_nearest(
    b: Builder,
    node: Node,
    x: Tensor,
    size: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    return b.emit(
        "RESIZE_NEAREST_NEIGHBOR",
        x,
        b.index(size),
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
    )
