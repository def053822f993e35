"""Normalization."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, require_nhwc, shape_of
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
    """(x - mean) / sqrt(variance + epsilon) * scale + offset; training takes those of the batch."""
    if is_training:
        channels = channels_axis(x, data_format)
        running = (mean, variance)
        return _of_the_batch(b, x, scale, offset, running, epsilon, exponential_avg_factor, channels)
    require_nhwc(data_format, "normalizes")
    return normalized(b, x, scale, offset, mean, variance, epsilon), mean, variance, mean, variance


def channels_axis(x: Tensor, data_format: str) -> int:
    """Where the channels of x are; training needs no other layout for that."""
    rank = len(shape_of(x, "x"))
    return 1 if data_format in ("NCHW", "NCDHW") else rank - 1


def _of_the_batch(
    b: Builder,
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    running: tuple[Tensor, Tensor],
    epsilon: float,
    share: float,
    channels: int,
) -> tuple[Tensor, ...]:
    """Normalized by the mean and variance of x itself; then the statistics.

    Those are the running mean and unbiased variance, of which `share` is new, and the ones used here. x is
    centred first: x * factor - mean * factor would cancel where the mean is large.
    """
    shape = shape_of(x, "x")
    count = shape[channels]
    # Axes of one element need no sum: layer norms written as batch norms have two of them.
    others = [n for n in range(len(shape)) if n != channels]
    summed = [n for n in others if shape[n] != 1] or others[:1]
    axes = b.ints(summed, "axes")
    # Keeping the axes costs nothing and lets the results broadcast against x as they are.
    kept: tuple[int | None, ...] = tuple(count if n == channels else 1 for n in range(len(shape)))
    mean = b.step("MEAN", x, axes, shape=kept, suffix="mean", keep_dims=True)
    centred = b.step("SUB", x, mean, shape=shape, suffix="centred")
    squares = b.step("MUL", centred, centred, shape=shape, suffix="squares")
    variance = b.step("MEAN", squares, axes, shape=kept, suffix="variance", keep_dims=True)
    factor = b.step("ADD", variance, b.scalar(epsilon, variance, "epsilon"), shape=kept)
    factor = b.step("RSQRT", factor, shape=kept, suffix="inverse")
    if not _is_all(scale, 1):
        factor = b.step("MUL", factor, _along(b, scale, kept), shape=kept, suffix="factor")
    if _is_all(offset, 0):
        y = b.emit("MUL", centred, factor)
    else:
        scaled = b.step("MUL", centred, factor, shape=shape, suffix="scaled")
        y = b.emit("ADD", scaled, _along(b, offset, kept))
    used = [b.reshaped(t, (count,), suffix="statistics") for t in (mean, variance)]
    correction = _correction(b, x, summed, used[1])
    unbiased = b.step("MUL", used[1], correction, shape=(count,), suffix="unbiased")
    new = [_mixed(b, old, t, share) for old, t in zip(running, (used[0], unbiased), strict=True)]
    return (y, *new, *used)


def _is_all(x: Tensor, number: float) -> bool:
    return x.is_constant and bool((np.asarray(x.array()) == number).all())


def _along(b: Builder, x: Tensor, shape: tuple[int | None, ...]) -> Tensor:
    """One number per channel [c], to broadcast against tensors with the channels where `shape` has them."""
    return x if all(n == 1 for n in shape[:-1]) else b.reshaped(x, shape)


def _correction(b: Builder, x: Tensor, axes: list[int], like: Tensor) -> Tensor:
    """n / (n - 1) for n elements per channel, n if there is one."""
    sizes = shape_of(x)
    known = [sizes[n] for n in axes]
    if None not in known:
        count = int(np.prod([n or 0 for n in known]))
        return b.scalar(count / max(count - 1, 1), like, "correction")
    now = b.step("SHAPE", x, shape=(len(sizes),), element=INT32, out_type=INT32)
    now = b.step("GATHER", now, b.ints(axes, "axes"), shape=(len(axes),), axis=0)
    now = b.step("REDUCE_PROD", now, b.ints([0], "axis"), shape=(), keep_dims=False)
    elements = b.cast(now, like.dtype)
    fewer = b.step("SUB", elements, b.scalar(1, like, "one"), shape=())
    fewer = b.step("MAXIMUM", fewer, b.scalar(1, like, "one"), shape=())
    return b.step("DIV", elements, fewer, shape=(), suffix="correction")


def _mixed(b: Builder, old: Tensor, new: Tensor, share: float) -> Tensor:
    """(1 - share) * old + share * new."""
    if share == 1:
        return new
    fresh = b.step("MUL", new, b.scalar(share, new, "share"), shape=new.shape)
    kept = b.step("MUL", old, b.scalar(1 - share, new, "kept"), shape=new.shape)
    return b.step("ADD", kept, fresh, shape=new.shape)


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
