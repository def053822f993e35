"""Resizing by weighted sums along each side, as products with matrices of weights; and crops."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor
from thinflow.ops._interpolate import cubic, overlaps
from thinflow.typing import Array

_MOST = 1 << 24


def _sides(b: Builder, x: Tensor, size: Tensor) -> tuple[list[int], list[int]]:
    """Height and width before and after."""
    now, wanted = shape_of(x, "x", 4)[1:3], b.elements(size) or (None, None)
    require(None not in now and None not in wanted, "the sizes of the image are not known")
    before, after = ([int(n or 0) for n in sides] for sides in (now, wanted))
    require(min(before + after) > 0, "an image is empty")
    require(max(n * m for n, m in zip(before, after, strict=True)) <= _MOST, "the wanted size is too large")
    return before, after


def _weighted(b: Builder, x: Tensor, rows: Array, columns: Array) -> Tensor:
    """y[n,i,j,c] = sum of rows[i,h] columns[j,w] x[n,h,w,c], in float."""
    n, h, w, c = shape_of(x, "x", 4)
    require(c is not None, "the number of channels is not known")
    depth = c or 0
    flat = b.reshaped(b.cast(x, FLOAT), (n, h, (w or 0) * depth))
    tall = b.step("MatMul", b.const(rows, "rows"), flat, shape=(n, len(rows), (w or 0) * depth))
    batch = None if n is None else n * len(rows)
    wide = b.step(
        "MatMul", b.const(columns, "columns"), b.reshaped(tall, (batch, w, depth)),
        shape=(batch, len(columns), depth),
    )  # fmt: skip
    return b.reshaped(wide, (n, len(rows), len(columns), depth))


def _dense(index: Array, weights: Array, size: int) -> Array:
    """A matrix [out,size] of weights [taps,out] at places [taps,out]."""
    matrix = np.zeros((index.shape[1], size), np.float32)
    for taps, values in zip(index, weights, strict=True):
        np.add.at(matrix, (np.arange(len(taps)), taps), values)
    return matrix


@lower("ResizeBicubic", to="onnx")
def resize_bicubic(
    b: Builder,
    node: Node,
    x: Tensor,
    size: Tensor,
    *,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Tensor:
    require(not (align_corners and half_pixel_centers), "align_corners excludes half_pixel_centers")
    sides = zip(*_sides(b, x, size), strict=True)
    matrices = [_dense(*cubic(n, m, align_corners, half_pixel_centers), n) for n, m in sides]
    return b.result(_weighted(b, x, *matrices))


@lower("ResizeArea", to="onnx")
def resize_area(b: Builder, node: Node, x: Tensor, size: Tensor, *, align_corners: bool = False) -> Tensor:
    matrices = []
    for n, m in zip(*_sides(b, x, size), strict=True):
        first, weights, scale = overlaps(n, m, align_corners)
        index = np.clip(first + np.arange(len(weights))[:, None], 0, n - 1)
        matrices.append(_dense(index, weights / scale, n))
    return b.result(_weighted(b, x, *matrices))
