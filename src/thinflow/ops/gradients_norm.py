"""Gradients of normalizations."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.ops._numeric import like, pick, quiet, widen
from thinflow.ops._shapes import merge, rank_of
from thinflow.ops.norm import _batch_norm_shapes, _channel_axis
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array


def _infer(dy: TensorSpec, x: TensorSpec, scale: TensorSpec, data_format: str) -> tuple[TensorSpec, ...]:
    shape, channels = _batch_norm_shapes(x.with_shape(merge(x.shape, dy.shape)), data_format, (scale,))
    moment, nothing = (TensorSpec(scale.dtype or FLOAT, s) for s in ((channels,), ()))
    return TensorSpec(pick(dy, x), shape), moment, moment, nothing, nothing


def _gradient(
    dy: Array, x: Array, scale: Array, mean: Array, variance: Array,
    epsilon: float, data_format: str, is_training: bool,
) -> tuple[Array, ...]:  # fmt: skip
    """(dx, dscale, doffset, two zeros), sums in float32.

    S. Ioffe and C. Szegedy, "Batch normalization", 2015, section 3.
    """
    require(dy.shape == x.shape, f"shapes {list(dy.shape)} and {list(x.shape)} differ")
    axis = _channel_axis(x.ndim, data_format)
    others = tuple(a for a in range(x.ndim) if a != axis)
    sizes = (-1, *(1,) * (x.ndim - 1 - axis))
    slope, wide = widen(dy), widen(x)
    inverse = 1 / np.sqrt(widen(variance) + np.float32(epsilon))
    normal = (wide - widen(mean).reshape(sizes)) * inverse.reshape(sizes)
    doffset, dscale = slope.sum(axis=others), (slope * normal).sum(axis=others)
    if is_training:
        count = np.float32(max(x.size // max(x.shape[axis], 1), 1))
        # In training mean and variance depend on x, too: dy less its mean and less its part along the
        # normalized x.
        slope = slope - (doffset / count).reshape(sizes) - normal * (dscale / count).reshape(sizes)
    dx = slope * (widen(scale) * inverse).reshape(sizes)
    nothing = np.zeros((), scale.dtype)
    return like(dx, x), like(dscale, scale), like(doffset, scale), nothing, nothing


@op("FusedBatchNormGrad", "FusedBatchNormGradV2")
class FusedBatchNormGrad(OpDef):
    """(dx, dscale, doffset) of FusedBatchNorm, and two zeros.

    dy and x [n,h,w,c] (or with a depth, or NC first), scale, mean and variance [c]: in training those of the
    batch, as the reserve outputs have them.
    """

    num_outputs = 5

    @staticmethod
    def infer(
        dy: TensorSpec, x: TensorSpec, scale: TensorSpec, mean: TensorSpec, variance: TensorSpec,
        *, data_format: str = "NHWC",
    ) -> tuple[TensorSpec, ...]:  # fmt: skip
        return _infer(dy, x, scale, data_format)

    @staticmethod
    @quiet
    def kernel(
        dy: Array, x: Array, scale: Array, mean: Array, variance: Array,
        *, epsilon: float = 1e-4, data_format: str = "NHWC", is_training: bool = True,
    ) -> tuple[Array, ...]:  # fmt: skip
        return _gradient(dy, x, scale, mean, variance, epsilon, data_format, is_training)


@op("FusedBatchNormGradV3")
class FusedBatchNormGradV3(OpDef):
    """As FusedBatchNormGrad; a sixth input is for GPUs and not read."""

    num_outputs = 5

    @staticmethod
    def infer(
        dy: TensorSpec, x: TensorSpec, scale: TensorSpec, mean: TensorSpec, variance: TensorSpec,
        extra: TensorSpec, *, data_format: str = "NHWC",
    ) -> tuple[TensorSpec, ...]:  # fmt: skip
        return _infer(dy, x, scale, data_format)

    @staticmethod
    @quiet
    def kernel(
        dy: Array, x: Array, scale: Array, mean: Array, variance: Array, extra: Array,
        *, epsilon: float = 1e-4, data_format: str = "NHWC", is_training: bool = True,
    ) -> tuple[Array, ...]:  # fmt: skip
        return _gradient(dy, x, scale, mean, variance, epsilon, data_format, is_training)


@op("BatchNormWithGlobalNormalizationGrad")
class BatchNormWithGlobalNormalizationGrad(OpDef):
    """(dx, dmean, dvariance, dbeta, dgamma) of BatchNormWithGlobalNormalization.   x, dy [n,h,w,c]."""

    num_outputs = 5

    @staticmethod
    def infer(
        x: TensorSpec, mean: TensorSpec, variance: TensorSpec, gamma: TensorSpec, dy: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        shape, channels = _batch_norm_shapes(x, "NHWC", (mean, variance, gamma))
        moment = mean.with_shape((channels,))
        return x.with_shape(shape), moment, moment, moment, moment

    @staticmethod
    @quiet
    def kernel(
        x: Array, mean: Array, variance: Array, gamma: Array, dy: Array,
        *, variance_epsilon: float, scale_after_normalization: bool,
    ) -> tuple[Array, ...]:  # fmt: skip
        slope, gap = widen(dy), widen(x) - widen(mean)
        shifted = widen(variance) + slope.dtype.type(variance_epsilon)
        inverse = 1 / np.sqrt(shifted)
        others = tuple(range(x.ndim - 1))
        dbeta, product = slope.sum(axis=others), (slope * gap).sum(axis=others)
        dgamma = product * inverse if scale_after_normalization else np.zeros_like(product)
        factor = inverse * widen(gamma) if scale_after_normalization else inverse
        # d/dv of (v + epsilon)^(-1/2) is that over -2 (v + epsilon).
        outputs = slope * factor, -dbeta * factor, product * factor / shifted / -2, dbeta, dgamma
        return tuple(like(y, x) for y in outputs)


@op("LRNGrad")
class LRNGrad(OpDef):
    """dx of LRN.   dy, x, y [n,h,w,c] -> like x."""

    @staticmethod
    def infer(dy: TensorSpec, x: TensorSpec, y: TensorSpec) -> TensorSpec:
        return x.with_shape(rank_of(x, 4, "x"))

    @staticmethod
    @quiet
    def kernel(
        dy: Array, x: Array, y: Array, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0,
        beta: float = 0.5,
    ) -> Array:  # fmt: skip
        require(dy.shape == x.shape == y.shape, "gradient, input and output differ in shape")
        slope, wide, out = widen(dy), widen(x), widen(y)
        one = wide.dtype.type
        norm = one(bias) + one(alpha) * _around(np.square(wide), depth_radius)
        # x_i is in the sums of its neighbours j, too: -2 alpha beta x_i times the sum of dy_j y_j / norm_j.
        spread = _around(slope * out / norm, depth_radius)
        return like(slope * np.power(norm, one(-beta)) - one(2 * alpha * beta) * wide * spread, x)


def _around(x: Array, radius: int) -> Array:
    """Sums over the channels up to `radius` away."""
    sums = x.copy()
    for distance in range(1, min(radius, x.shape[-1] - 1) + 1):
        sums[..., distance:] += x[..., :-distance]
        sums[..., :-distance] += x[..., distance:]
    return np.asarray(sums)
