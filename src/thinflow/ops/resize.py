"""Resizing of image batches [n,h,w,c]."""

from __future__ import annotations

import numpy as np

from thinflow.errors import ShapeError
from thinflow.ir.types import TensorSpec
from thinflow.ops._interpolate import (
    check_flags,
    cubic,
    infer_resize,
    lerp,
    linear,
    nearest,
    overlaps,
    target_size,
)
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Role, Trait
from thinflow.typing import Array


def resize_bilinear(
    x: Array, height: int, width: int, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """[n,h,w,c] -> float32 [n,height,width,c]: horizontal interpolation first, then vertical."""
    x = x.astype(np.float32, copy=False)
    # With equal sizes every convention gives each pixel itself.
    if x.shape[1:3] == (height, width):
        return x
    rows = linear(x.shape[1], height, align_corners, half_pixel_centers)
    columns = linear(x.shape[2], width, align_corners, half_pixel_centers)
    if 2 * height < x.shape[1]:
        # Most input rows are never read: interpolate only those that are.
        used, places = np.unique(np.concatenate([rows.low, rows.high]), return_inverse=True)
        x = x[:, used]
        places = places.reshape(2, height)
        rows = type(rows)(places[0], places[1], rows.fraction)
    with np.errstate(invalid="ignore", over="ignore"):
        return lerp(lerp(x, 2, columns), 1, rows)


@op("ResizeBilinear")
class ResizeBilinear(OpDef):
    """Linear interpolation between the four nearest pixels.

    images [n,h,w,c], size [2] -> float32 [n,*size,c].
    """

    roles = (None, Role.SIDES)

    traits = Trait.RESIZE | Trait.TAKES_IMAGES | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(x: TensorSpec, size: TensorSpec) -> TensorSpec:
        return infer_resize(x, size)

    @staticmethod
    def kernel(
        x: Array, size: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Array:
        check_flags(align_corners, half_pixel_centers)
        return resize_bilinear(x, *target_size(x, size), align_corners, half_pixel_centers)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=9 * (y.size or 0))


@op("ResizeNearestNeighbor")
class ResizeNearestNeighbor(OpDef):
    """The nearest pixel.   images [n,h,w,c], size [2] -> [n,*size,c], same dtype."""

    roles = (None, Role.SIDES)

    traits = Trait.RESIZE | Trait.TAKES_IMAGES | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(x: TensorSpec, size: TensorSpec) -> TensorSpec:
        return infer_resize(x, size, x.dtype)

    @staticmethod
    def kernel(
        x: Array, size: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Array:
        check_flags(align_corners, half_pixel_centers)
        height, width = target_size(x, size)
        rows = nearest(x.shape[1], height, align_corners, half_pixel_centers)
        columns = nearest(x.shape[2], width, align_corners, half_pixel_centers)
        return np.take(np.take(x, rows, axis=1), columns, axis=2)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost()


@op("ResizeBicubic")
class ResizeBicubic(OpDef):
    """Cubic convolution of the 4 x 4 nearest pixels.   images [n,h,w,c], size [2] -> float32 [n,*size,c]."""

    roles = (None, Role.SIDES)

    traits = Trait.RESIZE | Trait.TAKES_IMAGES | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(x: TensorSpec, size: TensorSpec) -> TensorSpec:
        return infer_resize(x, size)

    @staticmethod
    def kernel(
        x: Array, size: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Array:
        check_flags(align_corners, half_pixel_centers)
        height, width = target_size(x, size)
        y = x.astype(np.float32, copy=False)
        # Rows first, then columns, as TensorFlow sums them: the last bits depend on it.
        for axis, out in ((1, height), (2, width)):
            index, weights = cubic(y.shape[axis], out, align_corners, half_pixel_centers)
            shape = (-1, 1, 1) if axis == 1 else (-1, 1)
            with np.errstate(invalid="ignore", over="ignore"):
                total = np.take(y, index[0], axis=axis) * weights[0].reshape(shape)
                for k in range(1, 4):
                    total += np.take(y, index[k], axis=axis) * weights[k].reshape(shape)
            y = total
        return y

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=35 * (y.size or 0))


@op("ResizeArea")
class ResizeArea(OpDef):
    """Mean over the area each output pixel covers.   images [n,h,w,c], size [2] -> float32 [n,*size,c]."""

    roles = (None, Role.SIDES)

    traits = Trait.RESIZE | Trait.TAKES_IMAGES | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(x: TensorSpec, size: TensorSpec) -> TensorSpec:
        return infer_resize(x, size)

    @staticmethod
    def kernel(x: Array, size: Array, *, align_corners: bool = False) -> Array:
        height, width = target_size(x, size)
        rows = overlaps(x.shape[1], height, align_corners)
        columns = overlaps(x.shape[2], width, align_corners)
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            y = _overlap_sum(_overlap_sum(x.astype(np.float32, copy=False), 2, *columns[:2]), 1, *rows[:2])
            # One factor for both axes, rounded before the product, as in TensorFlow's kernel.
            return np.asarray(y * np.float32(np.float32(1) / np.float32(rows[2] * columns[2])))

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, size: TensorSpec) -> Cost:
        return Cost(flops=2 * max(y.size or 0, x.size or 0))


def _overlap_sum(x: Array, axis: int, first: Array, weights: Array) -> Array:
    """sum over k of x[first + k] * weights[k] along an axis; terms of weight 0 are not even read."""
    y = np.zeros((*x.shape[:axis], first.size, *x.shape[axis + 1 :]), np.float32)
    for k, weight in enumerate(weights):
        (active,) = np.nonzero(weight)
        source = np.clip(first[active] + k, 0, x.shape[axis] - 1)
        where = (slice(None),) * axis + (active,)
        y[where] += np.take(x, source, axis=axis) * weight[active].reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    return y


@op("CropAndResize")
class CropAndResize(OpDef):
    """Boxes cut from images and resized.

    images [b,h,w,c], boxes [n,4] (y1,x1,y2,x2; 0..1 spans the image), box_ind [n], size [2] -> float32
    [n,*size,c].

    Points outside the image get extrapolation_value. A box with y1 > y2 is flipped.
    """

    @staticmethod
    def infer(x: TensorSpec, boxes: TensorSpec, box_ind: TensorSpec, size: TensorSpec) -> TensorSpec:
        inferred = infer_resize(x, size)
        count = next((s.shape[0] for s in (boxes, box_ind) if s.shape and s.shape[0] is not None), None)
        assert inferred.shape is not None
        return inferred.with_shape((count, *inferred.shape[1:]))

    @staticmethod
    def kernel(
        x: Array,
        boxes: Array,
        box_ind: Array,
        size: Array,
        *,
        method: str = "bilinear",
        extrapolation_value: float = 0.0,
    ) -> Array:
        height, width = target_size(x, size)
        if method not in {"bilinear", "nearest"}:
            raise ShapeError(f"method '{method}' is not known", hint="use bilinear or nearest")
        require(
            boxes.ndim == 2 and boxes.shape[1] == 4, f"boxes have shape {list(boxes.shape)}, [n,4] is needed"
        )
        require(
            box_ind.shape == (boxes.shape[0],),
            f"box_ind has shape {list(box_ind.shape)}, [{boxes.shape[0]}] is needed",
        )
        require(
            not box_ind.size or 0 <= box_ind.min() <= box_ind.max() < x.shape[0],
            "box_ind is outside the batch",
        )
        y = np.full((boxes.shape[0], height, width, x.shape[3]), extrapolation_value, np.float32)
        for target, box, image in zip(y, boxes.astype(np.float32, copy=False), box_ind, strict=True):
            _crop(x[image], box, target, method)
        return y

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=9 * (y.size or 0))


def _crop(image: Array, box: Array, target: Array, method: str) -> None:
    """Fill the points of target [h,w,c] that fall inside the image."""
    rows = _crop_positions(box[0], box[2], image.shape[0], target.shape[0])
    columns = _crop_positions(box[1], box[3], image.shape[1], target.shape[1])
    # Points beyond the image keep the extrapolation value; a NaN in the box fails both comparisons.
    (to_rows,) = np.nonzero((rows >= 0) & (rows <= image.shape[0] - 1))
    (to_columns,) = np.nonzero((columns >= 0) & (columns <= image.shape[1] - 1))
    y, x = rows[to_rows], columns[to_columns]
    if method == "nearest":
        picked = image[np.ix_(_round(y), _round(x))].astype(np.float32)
    else:
        top, left = np.floor(y), np.floor(x)
        bottom, right = np.ceil(y), np.ceil(x)
        a, b = (_row(image, side, left, right, x - left) for side in (top, bottom))
        picked = a + (b - a) * (y - top)[:, None, None]
    target[np.ix_(to_rows, to_columns)] = picked


def _row(image: Array, rows: Array, left: Array, right: Array, fraction: Array) -> Array:
    lines = image[rows.astype(np.int64)].astype(np.float32)
    start = lines[:, left.astype(np.int64)]
    return start + (lines[:, right.astype(np.int64)] - start) * fraction[:, None]


def _crop_positions(start: np.float32, stop: np.float32, size: int, out: int) -> Array:
    """Input coordinates of a crop's pixels along one axis, float32 [out]."""
    span = np.float32(size - 1)
    with np.errstate(invalid="ignore", over="ignore"):
        if out == 1:
            # The 0.5 is a double in TensorFlow's source, so this product alone is not float32.
            return np.array([0.5 * float(np.float32(start + stop)) * (size - 1)], np.float32)
        scale = np.float32(np.float32((stop - start) * span) / np.float32(out - 1))
        return np.asarray(np.float32(start * span) + np.arange(out, dtype=np.float32) * scale)


def _round(at: Array) -> Array:
    """Nearest index of non-negative positions, halves up."""
    floor = np.floor(at)
    return np.asarray(floor + (at - floor >= np.float32(0.5))).astype(np.int64)
