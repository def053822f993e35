"""Batch normalization and local response normalization."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT, Shape, TensorSpec
from thinflow.ops._numeric import like, quiet, widen
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
