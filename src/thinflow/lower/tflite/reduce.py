"""Reductions and running sums."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import INT64, DType
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, Dims, require, shape_of
from thinflow.lower.tflite.program import Tensor
from thinflow.tflite.counterparts import Kind, same_in_tflite

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
