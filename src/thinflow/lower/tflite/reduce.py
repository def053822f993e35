"""Reductions, running sums and normalization."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import INT64, DType
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, require_nhwc, shape_of
from thinflow.program.model import Dims
from thinflow.tflite.counterparts import Kind, same_in_tflite
from thinflow.tflite.model import Tensor

_REDUCERS = same_in_tflite(Kind.REDUCTION)


@lower(*_REDUCERS, to="tflite")
def reduce(b: Builder, node: Node, x: Tensor, axes: Tensor, *, keep_dims: bool = False) -> Tensor:
    """Over no axes at all, x stays as it is."""
    if axes.is_constant and axes.shape and 0 in axes.shape:
        return x
    if node.op in ("Max", "Min"):
        # TensorFlow gives minus infinity for the largest of nothing.
        require(0 not in (x.shape or ()), "of nothing, LiteRT's largest number is not minus infinity")
    return b.emit(_REDUCERS[node.op], x, b.index(axes), keep_dims=keep_dims)


@lower("EuclideanNorm", to="tflite")
def euclidean_norm(b: Builder, node: Node, x: Tensor, axes: Tensor, *, keep_dims: bool = False) -> Tensor:
    """The square root of the sum of squares."""
    squares = b.step("SQUARE", x, shape=x.shape)
    if axes.is_constant and axes.shape and 0 in axes.shape:
        return b.emit("SQRT", squares)
    reduced: Dims = b.result_spec().shape
    return b.emit("SQRT", b.step("SUM", squares, b.index(axes), shape=reduced, keep_dims=keep_dims))


@lower("ArgMax", "ArgMin", to="tflite")
def arg_max(b: Builder, node: Node, x: Tensor, axis: Tensor, *, output_type: DType = INT64) -> Tensor:
    code = "ARG_MAX" if node.op == "ArgMax" else "ARG_MIN"
    return b.emit(code, x, b.index(axis), output_type=output_type)


@lower("Cumsum", to="tflite")
def cumsum(
    b: Builder, node: Node, x: Tensor, axis: Tensor, *, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    shape_of(x, "x")
    return b.emit("CUMSUM", x, b.index(axis), exclusive=exclusive, reverse=reverse)


# ---- Normalization.


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
    data_format: str = "NHWC",
    is_training: bool = True,
) -> tuple[Tensor, ...]:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, with parameters of its own."""
    require(not is_training, "LiteRT has no operator that normalizes by the statistics of a batch")
    require_nhwc(data_format, "normalizes")
    return normalized(b, x, scale, offset, mean, variance, epsilon), mean, variance, mean, variance


def normalized(
    b: Builder,
    x: Tensor,
    scale: Tensor,
    offset: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: float,
) -> Tensor:
    """x * factor + rest, with factor = scale / sqrt(variance + epsilon) and rest = offset - mean * factor.

    With constant parameters a MUL and an ADD of constants remain.
    """
    if all(t.is_constant for t in (scale, offset, mean, variance)):
        gamma, beta, mu, var = (np.asarray(t.array(), np.float32) for t in (scale, offset, mean, variance))
        # In float32, as the kernel computes it from the same parameters.
        factor = (gamma / np.sqrt(var + np.float32(epsilon))).astype(np.float32)
        scaled = b.step("MUL", x, b.const(factor, "factor"), shape=x.shape, suffix="scaled")
        return b.emit("ADD", scaled, b.const((beta - mu * factor).astype(np.float32), "offset"))
    around = variance.shape
    factors = b.step("ADD", variance, b.scalar(epsilon, variance, "epsilon"), shape=around)
    factors = b.step("RSQRT", factors, shape=around)
    # Norms without a scale have one of ones: a product less for each.
    if not (scale.is_constant and bool((np.asarray(scale.array()) == 1).all())):
        factors = b.step("MUL", factors, scale, shape=around, suffix="factor")
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
