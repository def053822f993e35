"""Normalization."""

from __future__ import annotations

from thinflow.ir.graph import Node
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
    data_format: str = "NHWC",
    is_training: bool = True,
) -> tuple[Tensor, ...]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, with parameters of its own."""
    require(not is_training, "ONNX Runtime normalizes by the statistics of a batch in training builds only")
    first = is_channels_first(data_format)
    y = _normalized(b, x, scale, offset, mean, variance, epsilon, first)
    # The other outputs are the statistics that went in: nothing new was measured.
    return y, mean, variance, mean, variance


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
    # FusedBatchNormV2 and V3 have half x with float parameters; ONNX Runtime normalizes in one type.
    element, x = x.dtype, b.cast(x, scale.dtype)
    require(2 <= rank <= 5, f"no batch norm of rank {rank}")
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
