"""Normalization."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.builder import Builder, Tensor, require, shape_of
from thinflow.lower.onnx.conv import is_channels_first
from thinflow.lower.rules import lower


@lower("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", to="onnx")
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
    first = is_channels_first(data_format)
    if not is_training:
        y = _normalized(b, x, scale, offset, mean, variance, epsilon, first)
        return y, mean, variance, mean, variance
    running = (mean, variance)
    rank = len(shape_of(x, "x"))
    require(scale.dtype is FLOAT, f"a batch norm with {scale.dtype} parameters has no ONNX form")
    element, x = x.dtype, b.cast(x, FLOAT)
    axes = [a for a in range(rank) if a != (1 if first else rank - 1)]
    # Keeping the axes costs nothing and lets the results broadcast against x as they are.
    mean = b.reduce("ReduceMean", x, axes, keep=True)
    centred = b.step("Sub", x, mean)
    variance = b.reduce("ReduceMean", b.step("Mul", centred, centred), axes, keep=True)
    if first:
        scale, offset = (b.unsqueezed(t, range(1, rank - 1)) for t in (scale, offset))
    inverse = b.step("Reciprocal", b.step("Sqrt", b.step("Add", variance, b.scalar(epsilon, x, "epsilon"))))
    y = b.step("Add", b.step("Mul", centred, b.step("Mul", inverse, scale)), offset, shape=x.shape)
    y = b.cast(y, element)
    return (y, *_statistics(b, x, axes, (mean, variance), running, exponential_avg_factor))


def _statistics(
    b: Builder,
    x: Tensor,
    axes: list[int],
    used: tuple[Tensor, Tensor],
    running: tuple[Tensor, Tensor],
    share: float,
) -> tuple[Tensor, ...]:
    """The running mean and unbiased variance, of which `share` is new, and those that were used; [c]."""
    mean, variance = (b.squeezed(t, axes) for t in used)
    sizes = [x.shape[a] if x.shape is not None else None for a in axes]
    if None not in sizes:
        count = int(np.prod([n or 0 for n in sizes]))
        correction = b.scalar(count / max(count - 1, 1), x, "correction")
    else:
        now = b.step("Gather", b.sizes_of(x), b.ints(axes, "axes"), shape=(len(axes),), axis=0)
        elements = b.cast(b.reduce("ReduceProd", now, (0,)), FLOAT)
        one = b.scalar(1, x, "one")
        correction = b.step("Div", elements, b.step("Max", b.step("Sub", elements, one), one))
    new = (mean, b.step("Mul", variance, correction, shape=variance.shape))
    if share == 1:
        return (*new, mean, variance)
    part, rest = b.scalar(share, x, "share"), b.scalar(1 - share, x, "kept")
    mixed = [
        b.step("Add", b.step("Mul", old, rest), b.step("Mul", fresh, part), shape=fresh.shape)
        for old, fresh in zip(running, new, strict=True)
    ]
    return (*mixed, mean, variance)


def _normalized(
    b: Builder,
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: float,
    first: bool,
) -> Tensor:
    """A BatchNormalization over the channels, which run-time optimizers fold into a convolution in front."""
    rank = len(shape_of(x, "x"))
    element, x = x.dtype, b.cast(x, scale.dtype)
    require(3 <= rank <= 5 or rank == 2, f"no batch norm of rank {rank}")
    moves = not first and rank > 2
    moved = b.channels_first(x) if moves else x
    y = b.step(
        "BatchNormalization", moved, scale, offset, mean, variance, shape=moved.shape, epsilon=float(epsilon)
    )
    y = b.emit_channels_last(y) if moves and element is y.dtype else _back(b, y, moves)
    return b.cast(y, element)


def _back(b: Builder, y: Tensor, moves: bool) -> Tensor:
    rank = len(shape_of(y))
    return b.transposed(y, (0, *range(2, rank), 1)) if moves else y


@lower("_FusedBatchNormEx", to="onnx")
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
        b, node, x, scale, offset, mean, variance,
        epsilon=epsilon, data_format=data_format, is_training=is_training,
    )  # fmt: skip
    for addend in side:
        y = b.emit("Add", y, addend)
    require(activation_mode in ("Identity", "Relu"), f"activation_mode {activation_mode} is not known")
    return b.emit("Relu", y) if activation_mode == "Relu" else y, *rest


@lower("BatchNormWithGlobalNormalization", to="onnx")
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
    if not scale_after_normalization:
        (count,) = shape_of(beta, "beta", 1)
        require(count is not None, "the number of channels is not known")
        gamma = b.const(np.ones(count or 0, beta.dtype.numpy()), "gamma")
    return _normalized(b, x, gamma, beta, mean, variance, variance_epsilon, False)


@lower("LRN", to="onnx")
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
    """ONNX divides alpha by the number of channels that are summed."""
    shape_of(x, "x", 4)
    size = 2 * depth_radius + 1
    moved = b.channels_first(x)
    y = b.step("LRN", moved, size=size, alpha=float(alpha) * size, beta=float(beta), bias=float(bias))
    return b.emit_channels_last(y)


@lower("AdjustContrastv2", to="onnx")
def adjust_contrast(b: Builder, node: Node, x: Tensor, factor: Tensor) -> Tensor:
    """Each channel moves away from its mean over height and width."""
    require(x.dtype is FLOAT, f"AdjustContrastv2 of {x.dtype} has no ONNX form")
    rank = len(shape_of(x, "x"))
    mean = b.reduce("ReduceMean", x, (rank - 3, rank - 2), keep=True)
    return b.emit("Add", b.step("Mul", b.step("Sub", x, mean), factor), mean)
