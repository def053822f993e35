"""Gradients of CropAndResize."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, DType, TensorSpec
from thinflow.ops._shapes import rank_of, shape_from
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.resize import _crop_positions, _round
from thinflow.typing import Array

_F = np.float32


def _check(dy: Array, boxes: Array, box_ind: Array, images: int, method: str) -> None:
    require(
        method in ("bilinear", "nearest"), f"method '{method}' is not known", hint="use bilinear or nearest"
    )
    require(dy.ndim == 4, f"the gradient has rank {dy.ndim}, 4 is needed")
    require(boxes.shape == (len(dy), 4), f"boxes have shape {list(boxes.shape)}, [{len(dy)}, 4] is needed")
    require(box_ind.shape == (len(dy),), f"box_ind has shape {list(box_ind.shape)}, [{len(dy)}] is needed")
    inside = not box_ind.size or 0 <= box_ind.min() <= box_ind.max() < images
    require(inside, "box_ind is outside the batch")


def _weights(start: Any, stop: Any, size: int, out: int, method: str) -> Array:
    """Weight of each input along an axis in each output, [out, size]; 0 outside the image."""
    at = _crop_positions(start, stop, size, out)
    # Outputs beyond the image were the extrapolation value, which has no gradient.
    (rows,) = np.nonzero((at >= 0) & (at <= size - 1))
    seen = at[rows]
    weights = np.zeros((out, size), _F)
    if method == "nearest":
        weights[rows, _round(seen)] = 1
        return weights
    low = np.floor(seen)
    # Set, then added to: on a whole pixel low and high are the same, and the second adds 0.
    weights[rows, low.astype(np.int64)] = _F(1) - (seen - low)
    weights[rows, np.ceil(seen).astype(np.int64)] += seen - low
    return weights


@op("CropAndResizeGradImage")
class CropAndResizeGradImage(OpDef):
    """dx of CropAndResize.   dy [n,ch,cw,c], boxes [n,4], box_ind [n], image_size [4] -> T of that size."""

    @staticmethod
    def infer(
        dy: TensorSpec, boxes: TensorSpec, box_ind: TensorSpec, size: TensorSpec, *, T: DType = FLOAT
    ) -> TensorSpec:
        return TensorSpec(T, shape_from(size) or (None,) * 4)

    @staticmethod
    def kernel(
        dy: Array, boxes: Array, box_ind: Array, size: Array, *, method: str = "bilinear", T: DType = FLOAT
    ) -> Array:
        sizes = [int(d) for d in size]
        require(len(sizes) == 4 and min(sizes) > 0, f"image_size {sizes} is no shape of images")
        _check(dy, boxes, box_ind, sizes[0], method)
        dx = np.zeros(sizes, np.float64 if T.numpy() == np.float64 else _F)
        for slope, (top, left, bottom, right), image in zip(dy, boxes.astype(_F), box_ind, strict=True):
            rows = _weights(top, bottom, sizes[1], dy.shape[1], method)
            columns = _weights(left, right, sizes[2], dy.shape[2], method)
            # Bilinear interpolation is separable, so its transpose is a matrix per axis; boxes of one image
            # add up.
            dx[image] += np.einsum("ih,ijc,jw->hwc", rows, slope, columns, optimize=True)
        return dx.astype(T.numpy())


@op("CropAndResizeGradBoxes")
class CropAndResizeGradBoxes(OpDef):
    """dboxes of CropAndResize.   dy [n,ch,cw,c], images [b,h,w,c], boxes [n,4], box_ind [n] -> [n,4]."""

    @staticmethod
    def infer(dy: TensorSpec, x: TensorSpec, boxes: TensorSpec, box_ind: TensorSpec) -> TensorSpec:
        return TensorSpec(FLOAT, rank_of(boxes, 2, "boxes"))

    @staticmethod
    def kernel(dy: Array, x: Array, boxes: Array, box_ind: Array, *, method: str = "bilinear") -> Array:
        require(method == "bilinear", f"boxes have no gradient by the method '{method}'", hint="use bilinear")
        require(x.ndim == 4, f"images have rank {x.ndim}, 4 is needed")
        _check(dy, boxes, box_ind, len(x), method)
        each = [_box(d, x[i].astype(_F), b) for d, i, b in zip(dy, box_ind, boxes.astype(_F), strict=True)]
        return np.asarray(np.array(each, _F).reshape(boxes.shape))


def _box(dy: Array, image: Array, box: Array) -> list[Any]:
    """The gradients to y1, x1, y2, x2 of one box."""
    sides, out = image.shape[:2], dy.shape[:2]
    at = [_crop_positions(box[a], box[a + 2], sides[a], out[a]) for a in (0, 1)]
    used = [np.nonzero((p >= 0) & (p <= n - 1))[0] for p, n in zip(at, sides, strict=True)]
    rows, columns = at[0][used[0]], at[1][used[1]]
    top, left = np.floor(rows), np.floor(columns)
    down, right = (rows - top)[:, None, None], (columns - left)[:, None]
    corners = [
        [image[np.ix_(i.astype(np.int64), j.astype(np.int64))] for j in (left, np.ceil(columns))]
        for i in (top, np.ceil(rows))
    ]
    slope = dy[np.ix_(*used)]
    (a, b), (c, d) = corners
    # d/dy of (1-u)(1-v) a + ... : the difference of the rows, interpolated across, and likewise for x.
    vertical = (slope * ((1 - right) * (c - a) + right * (d - b))).sum(axis=(1, 2))
    across = (slope * ((1 - down) * (b - a) + down * (d - c))).sum(axis=(0, 2))
    ends = [_ends(v, u, n, m) for v, u, n, m in zip((vertical, across), used, sides, out, strict=True)]
    return [ends[0][0], ends[1][0], ends[0][1], ends[1][1]]


def _ends(slope: Array, used: Array, size: int, out: int) -> tuple[Any, Any]:
    """Gradients to both ends of an axis, from those to the places of its outputs."""
    # One output sits in the middle, (start + stop) / 2 (size - 1).
    if out == 1:
        both = slope.sum() * _F(0.5) * _F(size - 1)
        return both, both
    # Output i sits at (start + (stop - start) i / (out - 1)) (size - 1).
    share = used.astype(_F) / _F(out - 1)
    return (slope * (1 - share)).sum() * _F(size - 1), (slope * share).sum() * _F(size - 1)
