"""Normalization."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, Dims, require, require_nhwc, shape_of
from thinflow.lower.tflite.program import Tensor


@lower("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", to="tflite")
def fused_batch_norm(
    b: Builder,
    node: Node,
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-4,
    exponential_avg_factor: float = 1.0,
    data_format: str = "NHWC",
    is_training: bool = True,
) -> tuple[Tensor, ...]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset; training takes mean and variance of the batch.

    The statistics TensorFlow also returns are provided as far as they are those used here.
    """
    require_nhwc(data_format, "normalizes")
    if not is_training:
        return normalized(b, x, scale, offset, mean, variance, epsilon), mean, variance, mean, variance
    shape = shape_of(x, "x")
    channels = shape[-1]
    axes = b.ints(range(len(shape) - 1), "axes")
    # Keeping the axes costs nothing and lets the results broadcast against x as they are.
    kept: Dims = (*(1,) * (len(shape) - 1), channels)
    mean = b.step("MEAN", x, axes, shape=kept, suffix="mean", keep_dims=True)
    squares = b.step("SQUARED_DIFFERENCE", x, mean, shape=shape, suffix="squared_difference")
    variance = b.step("MEAN", squares, axes, shape=kept, suffix="variance", keep_dims=True)
    return (normalized(b, x, scale, offset, mean, variance, epsilon),)


@lower("_FusedBatchNormEx", to="tflite")
def fused_batch_norm_ex(
    b: Builder,
    node: Node,
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    mean: Tensor,
    variance: Tensor,
    *side: Tensor,
    epsilon: float = 1e-4,
    data_format: str = "NHWC",
    is_training: bool = True,
    activation_mode: str = "Identity",
) -> tuple[Tensor, ...]:
    """A batch norm, what is added to it, and an activation."""
    y, *rest = fused_batch_norm(
        b,
        node,
        x,
        scale,
        offset,
        mean,
        variance,
        epsilon=epsilon,
        data_format=data_format,
        is_training=is_training,
    )
    for addend in side:
        y = b.emit("ADD", y, addend)
    require(activation_mode in ("Identity", "Relu"), f"activation_mode {activation_mode} is not known")
    return b.emit("RELU", y) if activation_mode == "Relu" else y, *rest


@lower("BatchNormWithGlobalNormalization", to="tflite")
def batch_norm_with_global_normalization(
    b: Builder,
    node: Node,
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    beta: Tensor,
    gamma: Tensor,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Tensor:
    return normalized(
        b, x, gamma if scale_after_normalization else None, beta, mean, variance, variance_epsilon
    )


def normalized(
    b: Builder,
    x: Tensor,
    scale: Tensor | None,
    offset: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: float,
) -> Tensor:
    """x * factor + rest, with factor = scale / sqrt(variance + epsilon) and rest = offset - mean * factor.

    With constant parameters a MUL and an ADD of constants remain.
    """
    parameters = [t for t in (scale, offset, mean, variance) if t is not None]
    if all(t.is_constant for t in parameters):
        arrays = [
            None if t is None else np.asarray(t.array(), np.float32) for t in (scale, offset, mean, variance)
        ]
        gamma, beta, mu, var = arrays
        assert beta is not None
        assert mu is not None
        assert var is not None
        factor = (1.0 if gamma is None else gamma) / np.sqrt(var + np.float32(epsilon))
        factor = factor.astype(np.float32)
        scaled = b.step("MUL", x, b.const(factor, "factor"), shape=x.shape, suffix="scaled")
        return b.emit("ADD", scaled, b.const((beta - mu * factor).astype(np.float32), "offset"))
    around = variance.shape
    inverse = b.step("ADD", variance, b.scalar(epsilon, variance, "epsilon"), shape=around)
    inverse = b.step("RSQRT", inverse, shape=around)
    factors = inverse if scale is None else b.step("MUL", inverse, scale, shape=around, suffix="factor")
    moved = b.step("SUB", offset, b.step("MUL", mean, factors, shape=around), shape=around, suffix="offset")
    return b.emit("ADD", b.step("MUL", x, factors, shape=x.shape, suffix="scaled"), moved)


@lower("LRN", to="tflite")
def lrn(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Tensor:
    return b.emit("LOCAL_RESPONSE_NORMALIZATION", x, radius=depth_radius, bias=bias, alpha=alpha, beta=beta)
