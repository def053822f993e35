"""ScaleAndTranslate, the resize behind antialiased `tf.image.resize`, and the gradients of resizes.

Each is linear and separable: a matrix of weights along the rows, one along the columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.ops._interpolate import check_flags, cubic, infer_resize, linear, nearest, target_size
from thinflow.ops._shapes import rank_of
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array

_F = np.float32


def _lanczos(radius: float) -> Callable[[Array], Array]:
    # Kernels get distances, so that x is never negative.
    def weigh(x: Array) -> Array:
        # sin(x)/x by its limit near 0, with TensorFlow's threshold.
        safe = np.where(np.abs(x) <= 1e-3, _F(1), x)
        angle = _F(np.pi) * safe
        value = _F(radius) * np.sin(angle) * np.sin(angle / _F(radius)) / (angle * angle)
        return np.asarray(np.where(x > radius, _F(0), np.where(np.abs(x) <= 1e-3, _F(1), value)))

    return weigh


def _gaussian(x: Array) -> Array:
    # The exponent is x^2 / (2 sigma^2) with TensorFlow's sigma of 0.5, cut off at 3 sigma.
    return np.asarray(np.where(x >= 1.5, _F(0), np.exp(-x * x / _F(2 * 0.5 * 0.5))))


def _box(x: Array) -> Array:
    return np.asarray(np.where(x < 0.5, _F(1), np.where(x == 0.5, _F(0.5), _F(0))))


def _triangle(x: Array) -> Array:
    return np.asarray(np.maximum(_F(1) - x, _F(0)))


def _keys(x: Array) -> Array:
    # Keys' cubic with a = -1/2.
    near = ((_F(1.5) * x - _F(2.5)) * x) * x + _F(1)
    far = ((_F(-0.5) * x + _F(2.5)) * x - _F(4)) * x + _F(2)
    return np.asarray(np.where(x >= 2, _F(0), np.where(x >= 1, far, near)))


def _mitchell(x: Array) -> Array:
    # Mitchell and Netravali's cubic with B = C = 1/3.
    near = ((_F(7 / 6) * x - _F(2)) * x) * x + _F(8 / 9)
    far = ((_F(-7 / 18) * x + _F(2)) * x - _F(10 / 3)) * x + _F(16 / 9)
    return np.asarray(np.where(x >= 2, _F(0), np.where(x >= 1, far, near)))


KERNELS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "lanczos1": (1.0, _lanczos(1.0)),
    "lanczos3": (3.0, _lanczos(3.0)),
    "lanczos5": (5.0, _lanczos(5.0)),
    "gaussian": (1.5, _gaussian),
    "box": (1.0, _box),
    "triangle": (1.0, _triangle),
    "keyscubic": (2.0, _keys),
    "mitchellcubic": (2.0, _mitchell),
}
"""Name -> radius, and the weight at a distance."""


def spread_weights(size: int, out: int, scale: Any, shift: Any, kernel_type: str, antialias: bool) -> Array:
    """Weights [out, size] of every input pixel for every output pixel; they sum to 1 or are all 0."""
    radius, weigh = KERNELS[kernel_type]
    inverse = _F(1.0 / float(scale))
    # Shrinking, the kernel covers all input pixels that fall into an output pixel; growing, it keeps its
    # width.
    width = max(inverse, _F(1)) if antialias else _F(1)
    # Centres of output pixels in input coordinates; always half-pixel, so corners are never aligned.
    at = (np.arange(out, dtype=_F) + _F(0.5)) * inverse - inverse * shift
    reach = _F(radius) * width
    first = np.clip(np.ceil(at - reach - _F(0.5)), 0, size - 1)
    last = np.clip(np.floor(at + reach - _F(0.5)), 0, size - 1)
    pixel = np.arange(size, dtype=_F)
    weights = weigh(np.abs((pixel + _F(0.5) - at[:, None]) * (_F(1) / width))).astype(_F)
    seen = (pixel >= first[:, None]) & (pixel <= last[:, None]) & ((at >= 0) & (at <= size))[:, None]
    weights = np.where(seen, weights, _F(0))
    total = weights.sum(axis=1, keepdims=True, dtype=_F)
    # TensorFlow's limit, below which the weights cancel out and give 0.
    usable = np.abs(total) >= _F(1000) * np.finfo(_F).tiny
    return np.asarray(np.where(usable, weights / np.where(usable, total, _F(1)), _F(0)))


def _apply(rows: Array, x: Array, columns: Array) -> Array:
    """rows [H,h] and columns [W,w] applied to x [n,h,w,c]: [n,H,W,c]."""
    n, h, w, c = x.shape
    # Along the rows first, as one matrix product over all columns and channels.
    tall = (rows @ x.reshape(n, h, w * c)).reshape(n, len(rows), w, c)
    return np.asarray(columns @ tall)


def spread_matrices(
    shape: tuple[int, ...],
    sides: tuple[int, int],
    scale: Array,
    shift: Array,
    kernel_type: str,
    antialias: bool,
) -> tuple[Array, Array]:
    """The weights [H,h] of rows and [W,w] of columns, for images of a shape that get other sides."""
    require(kernel_type in KERNELS, f"kernel_type '{kernel_type}' is not known", hint=", ".join(KERNELS))
    require(scale.shape == shift.shape == (2,), "scale and translation must have 2 values")
    require(bool((scale > 0).all()), f"scale {scale.tolist()} must be positive")
    axes = zip(shape[1:3], sides, scale.astype(_F), shift.astype(_F), strict=True)
    rows, columns = (spread_weights(n, m, s, t, kernel_type, antialias) for n, m, s, t in axes)
    return rows, columns


@op("ScaleAndTranslate")
class ScaleAndTranslate(OpDef):
    """y(v) = x at (v - translation) / scale, weighted over a kernel.   images [n,h,w,c] -> float [n,*size,c].

    size, scale, translation [2] (rows, columns). antialias widens the kernel when shrinking. Zero where the
    place is outside the image.
    """

    @staticmethod
    def infer(x: TensorSpec, size: TensorSpec, scale: TensorSpec, shift: TensorSpec) -> TensorSpec:
        return infer_resize(x, size)

    @staticmethod
    def kernel(
        x: Array,
        size: Array,
        scale: Array,
        shift: Array,
        *,
        kernel_type: str = "lanczos3",
        antialias: bool = True,
    ) -> Array:
        sides = target_size(x, size)
        rows, columns = spread_matrices(x.shape, sides, scale, shift, kernel_type, antialias)
        return _apply(rows, x.astype(_F), columns)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, size: TensorSpec, scale: TensorSpec, shift: TensorSpec) -> Cost:
        return Cost(flops=12 * (y.size or 0))


@op("ScaleAndTranslateGrad")
class ScaleAndTranslateGrad(OpDef):
    """dx of ScaleAndTranslate.   dy [n,H,W,c], images [n,h,w,c], scale, translation [2] -> like images."""

    @staticmethod
    def infer(dy: TensorSpec, x: TensorSpec, scale: TensorSpec, shift: TensorSpec) -> TensorSpec:
        return x.with_shape(rank_of(x, 4, "images"))

    @staticmethod
    def kernel(
        dy: Array,
        x: Array,
        scale: Array,
        shift: Array,
        *,
        kernel_type: str = "lanczos3",
        antialias: bool = True,
    ) -> Array:
        sides = dy.shape[1], dy.shape[2]
        rows, columns = spread_matrices(x.shape, sides, scale, shift, kernel_type, antialias)
        return _apply(rows.T, dy, columns.T)


def _linear_matrix(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    by = linear(size, out, align_corners, half_pixel_centers)
    weights = np.zeros((out, size), _F)
    # add.at, as both neighbours are one pixel at the edge.
    np.add.at(weights, (np.arange(out), by.low), _F(1) - by.fraction)
    np.add.at(weights, (np.arange(out), by.high), by.fraction)
    return weights


def _cubic_matrix(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    index, weight = cubic(size, out, align_corners, half_pixel_centers)
    weights = np.zeros((out, size), _F)
    # Repeated edge pixels occur several times in a row.
    np.add.at(weights, (np.broadcast_to(np.arange(out), index.shape), index), weight)
    return weights


def _resize_gradient(
    dy: Array, x: Array, matrix: Any, align_corners: bool, half_pixel_centers: bool
) -> Array:
    check_flags(align_corners, half_pixel_centers)
    require(dy.ndim == x.ndim == 4, "gradient and images must have rank 4")
    rows, columns = (
        matrix(n, m, align_corners, half_pixel_centers)
        for n, m in zip(x.shape[1:3], dy.shape[1:3], strict=True)
    )
    kind = np.float64 if x.dtype == np.float64 else _F
    return _apply(rows.T.astype(kind), dy.astype(kind), columns.T.astype(kind)).astype(x.dtype)


class _ResizeGradient(OpDef):
    @staticmethod
    def infer(dy: TensorSpec, x: TensorSpec) -> TensorSpec:
        return TensorSpec(x.dtype or FLOAT, rank_of(x, 4, "images"))


@op("ResizeBilinearGrad")
class ResizeBilinearGrad(_ResizeGradient):
    """dx of ResizeBilinear.   dy [n,H,W,c], images [n,h,w,c] -> like images."""

    @staticmethod
    def kernel(
        dy: Array, x: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Array:
        return _resize_gradient(dy, x, _linear_matrix, align_corners, half_pixel_centers)


@op("ResizeBicubicGrad")
class ResizeBicubicGrad(_ResizeGradient):
    """dx of ResizeBicubic.   dy [n,H,W,c], images [n,h,w,c] -> like images."""

    @staticmethod
    def kernel(
        dy: Array, x: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Array:
        return _resize_gradient(dy, x, _cubic_matrix, align_corners, half_pixel_centers)


@op("ResizeNearestNeighborGrad")
class ResizeNearestNeighborGrad(OpDef):
    """dx of ResizeNearestNeighbor.   dy [n,H,W,c], size [2] of the image -> dx [n,*size,c]."""

    @staticmethod
    def infer(dy: TensorSpec, size: TensorSpec) -> TensorSpec:
        return infer_resize(dy, size, dy.dtype)

    @staticmethod
    def kernel(
        dy: Array, size: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
    ) -> Array:
        height, width = target_size(dy, size)
        rows = nearest(height, dy.shape[1], align_corners, half_pixel_centers)
        columns = nearest(width, dy.shape[2], align_corners, half_pixel_centers)
        dx = np.zeros((dy.shape[0], height, width, dy.shape[3]), dy.dtype)
        images = np.arange(len(dy))[:, None, None]
        np.add.at(dx, (images, rows[:, None], columns), dy)
        return dx
