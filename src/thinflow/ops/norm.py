"""Batch normalization and local response normalization, and their gradients."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT, Shape, TensorSpec
from thinflow.ops._numeric import like, pick, quiet, widen
from thinflow.ops._shapes import Dim, merge, rank_of
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _channel_axis(rank: int, data_format: str) -> int:
    return 1 if data_format.startswith("NC") else rank - 1


def _batch_norm_shapes(
    x: TensorSpec, data_format: str, parameters: tuple[TensorSpec, ...]
) -> tuple[Shape, Dim]:
    """The shape of y and the number of channels, from whatever input knows it."""
    channels: Shape = (None,)
    for parameter in parameters:
        # Training without running averages passes empty ones.
        if parameter.shape is not None and parameter.shape != (0,):
            channels = merge(channels, rank_of(parameter, 1, "a per-channel parameter"))
    if x.shape is None:
        return None, (channels or (None,))[0]
    require(len(x.shape) in (4, 5), f"x has rank {len(x.shape)}, 4 or 5 is needed")
    axis = _channel_axis(len(x.shape), data_format)
    channels = merge(channels, (x.shape[axis],)) or (None,)
    return (*x.shape[:axis], channels[0], *x.shape[axis + 1 :]), channels[0]


def _normalized(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, epsilon: float, axis: int
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset along one axis, in float32."""
    sizes = (-1, *(1,) * (x.ndim - 1 - axis))
    # Scale and deviation are joined per channel first: one product per element, as in TensorFlow's kernel.
    factor = scale / np.sqrt(variance + np.float32(epsilon))
    return np.asarray((x - mean.reshape(sizes)) * factor.reshape(sizes) + offset.reshape(sizes))


class _FusedBatchNorm(OpDef):
    """y = (x - mean) / sqrt(variance + epsilon) * scale + offset, per channel.

    x [n,h,w,c] (NHWC), [n,c,h,w] (NCHW) or the same with a depth; scale, offset, mean, variance [c] -> y like
    x, then the means and variances [c]. Training normalizes by the batch's own mean and variance, and returns
    running ones: (1 - f) * mean + f * batch mean with f = exponential_avg_factor; the variance for that is
    unbiased, n / (n - 1). The reserve outputs are what the gradient needs: the mean and the biased variance
    that were used.
    """

    num_outputs = 5

    @classmethod
    def infer(
        cls, x: TensorSpec, scale: TensorSpec, offset: TensorSpec, mean: TensorSpec, variance: TensorSpec,
        *, data_format: str = "NHWC", is_training: bool = True,
    ) -> tuple[TensorSpec, ...]:  # fmt: skip
        # In training the running averages may be empty: they say nothing of the channels.
        running = () if is_training else (mean, variance)
        shape, channels = _batch_norm_shapes(x, data_format, (scale, offset, *running))
        statistics = TensorSpec(scale.dtype or FLOAT, (channels,))
        extra = (TensorSpec(scale.dtype or FLOAT, (0,)),) if cls.num_outputs == 6 else ()
        return (x.with_shape(shape), *(statistics,) * 4, *extra)

    @classmethod
    @quiet
    def kernel(
        cls, x: Array, scale: Array, offset: Array, mean: Array, variance: Array,
        *, epsilon: float = 1e-4, exponential_avg_factor: float = 1.0, data_format: str = "NHWC",
        is_training: bool = True,
    ) -> tuple[Array, ...]:  # fmt: skip
        axis = _channel_axis(x.ndim, data_format)
        wide = widen(x)
        used_mean, used_variance = widen(mean), widen(variance)
        new_mean, new_variance = used_mean, used_variance
        if is_training:
            others = tuple(a for a in range(x.ndim) if a != axis)
            count = x.size // max(x.shape[axis], 1)
            used_mean = (
                wide.mean(axis=others, dtype=np.float32) if count else np.zeros(x.shape[axis], np.float32)
            )
            # The batch is normalized by the biased variance, and the running one averages the unbiased: so in
            # TensorFlow.
            used_variance = wide.var(axis=others, dtype=np.float32) if count else np.zeros_like(used_mean)
            new_mean, new_variance = used_mean, used_variance * np.float32(count / max(count - 1, 1))
            if exponential_avg_factor != 1.0:
                share = np.float32(exponential_avg_factor)
                new_mean = (1 - share) * widen(mean) + share * new_mean
                new_variance = (1 - share) * widen(variance) + share * new_variance
        y = _normalized(wide, widen(scale), widen(offset), used_mean, used_variance, epsilon, axis)
        statistics = (new_mean, new_variance, used_mean, used_variance)
        extra = (np.zeros(0, scale.dtype),) if cls.num_outputs == 6 else ()
        return (like(y, x), *(like(s, scale) for s in statistics), *extra)

    @staticmethod
    def cost(
        y: TensorSpec, x: TensorSpec, scale: TensorSpec, offset: TensorSpec, mean: TensorSpec,
        variance: TensorSpec, *, is_training: bool = True,
    ) -> Cost:  # fmt: skip
        return Cost(
            flops=(7 if is_training else 2) * (y.size or 0)
        )  # inference is one multiply-add per element


@op("FusedBatchNorm", "FusedBatchNormV2")
class FusedBatchNorm(_FusedBatchNorm):
    traits = Trait.FUSED_BATCH_NORM | Trait.BATCH_NORM | Trait.T_OF_FIRST_INPUT
    __doc__ = _FusedBatchNorm.__doc__


@op("FusedBatchNormV3")
class FusedBatchNormV3(_FusedBatchNorm):
    traits = Trait.FUSED_BATCH_NORM | Trait.BATCH_NORM | Trait.T_OF_FIRST_INPUT
    __doc__ = f"{_FusedBatchNorm.__doc__}\n    A sixth output is for GPUs and empty here."

    num_outputs = 6


@op("_FusedBatchNormEx")
class FusedBatchNormEx(_FusedBatchNorm):
    """y = activation(FusedBatchNormV3(x) + side input).

    activation_mode: Identity or Relu; at most one side input.
    """

    num_outputs = 6

    @classmethod
    def infer(
        cls, x: TensorSpec, scale: TensorSpec, offset: TensorSpec, mean: TensorSpec, variance: TensorSpec,
        *side: TensorSpec, data_format: str = "NHWC", is_training: bool = True,
    ) -> tuple[TensorSpec, ...]:  # fmt: skip
        return super().infer(
            x, scale, offset, mean, variance, data_format=data_format, is_training=is_training
        )

    @classmethod
    @quiet
    def kernel(
        cls, x: Array, scale: Array, offset: Array, mean: Array, variance: Array,
        *side: Array, epsilon: float = 1e-4, exponential_avg_factor: float = 1.0, data_format: str = "NHWC",
        is_training: bool = True, activation_mode: str = "Identity",
    ) -> tuple[Array, ...]:  # fmt: skip
        require(
            activation_mode in ("Identity", "Relu"),
            f"activation_mode is '{activation_mode}', not Identity or Relu",
        )
        y, *rest = super().kernel(
            x, scale, offset, mean, variance, epsilon=epsilon, exponential_avg_factor=exponential_avg_factor,
            data_format=data_format, is_training=is_training,
        )  # fmt: skip
        wide = widen(y)
        for addend in side:
            wide = wide + widen(addend)
        return like(np.maximum(wide, 0) if activation_mode == "Relu" else wide, x), *rest

    @staticmethod
    def cost(
        y: TensorSpec, x: TensorSpec, scale: TensorSpec, offset: TensorSpec, mean: TensorSpec,
        variance: TensorSpec, *side: TensorSpec, is_training: bool = True,
    ) -> Cost:  # fmt: skip
        return Cost(flops=(7 if is_training else 2) * (y.size or 0))


@op("BatchNormWithGlobalNormalization")
class BatchNormWithGlobalNormalization(OpDef):
    """y = (x - mean) / sqrt(variance + epsilon) [* gamma] + beta.

    x [n,h,w,c], the rest [c]; TensorFlow 0.x wrote it.
    """

    traits = Trait.BATCH_NORM | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(
        x: TensorSpec, mean: TensorSpec, variance: TensorSpec, beta: TensorSpec, gamma: TensorSpec
    ) -> TensorSpec:
        shape, _ = _batch_norm_shapes(x, "NHWC", (mean, variance, beta, gamma))
        return x.with_shape(shape)

    @staticmethod
    @quiet
    def kernel(
        x: Array, mean: Array, variance: Array, beta: Array, gamma: Array,
        *, variance_epsilon: float, scale_after_normalization: bool,
    ) -> Array:  # fmt: skip
        scale = widen(gamma) if scale_after_normalization else np.ones_like(widen(variance))
        moments = widen(beta), widen(mean), widen(variance)
        return like(_normalized(widen(x), scale, *moments, variance_epsilon, x.ndim - 1), x)

    @staticmethod
    def cost(
        y: TensorSpec,
        x: TensorSpec,
        mean: TensorSpec,
        variance: TensorSpec,
        beta: TensorSpec,
        gamma: TensorSpec,
    ) -> Cost:
        return Cost(flops=2 * (y.size or 0))


@op("LRN")
class LRN(OpDef):
    """y = x / (bias + alpha * s)^beta, s the sum of squares over the 2 depth_radius + 1 channels around.

    x [n,h,w,c].
    """

    traits = Trait.TAKES_IMAGES | Trait.T_OF_FIRST_INPUT

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x.with_shape(rank_of(x, 4, "x"))

    @staticmethod
    @quiet
    def kernel(
        x: Array, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
    ) -> Array:
        wide = widen(x)
        squares = np.square(wide)
        sums = squares.copy()
        for distance in range(1, min(depth_radius, x.shape[-1] - 1) + 1):
            sums[..., distance:] += squares[..., :-distance]
            sums[..., :-distance] += squares[..., distance:]
        one = wide.dtype.type
        return like(wide * np.power(one(bias) + one(alpha) * sums, one(-beta)), x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, *, depth_radius: int = 5) -> Cost:
        return Cost(flops=(2 * depth_radius + 5) * (y.size or 0))


# ---- Gradients of normalizations.


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
