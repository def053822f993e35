"""Comparisons, logic and choices."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, INT64
from thinflow.lower.onnx.builder import Builder, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_BOOL = Tensor("", None, BOOL)


@lower("NotEqual", to="onnx")
def not_equal(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    # ONNX has no NotEqual.
    return b.emit("Not", b.step("Equal", x, y), like=_BOOL)


@lower("Select", to="onnx")
def select(b: Builder, node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """A vector condition chooses whole slices of x and y; Where would spread it along the last axis."""
    rank = len(shape_of(condition, "the condition"))
    if rank == 1:
        extra = len(shape_of(x, "x")) - 1
        condition = b.unsqueezed(condition, range(1, 1 + extra))
    return b.emit("Where", condition, x, y, like=x)


@lower("SelectV2", to="onnx")
def select_v2(b: Builder, node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return b.emit("Where", condition, x, y, like=x)


@lower("Where", to="onnx")
def where(b: Builder, node: Node, condition: Tensor) -> Tensor:
    """Coordinates of what is not zero."""
    # NonZero gives a row for each axis, TensorFlow's Where one for each element.
    return b.emit("Transpose", nonzero(b, condition), perm=(1, 0))


def nonzero(b: Builder, condition: Tensor) -> Tensor:
    """Coordinates of what is not zero, int64 [rank,n]."""
    rank = len(shape_of(condition, "the condition"))
    return b.step("NonZero", b.cast(condition, BOOL), shape=(rank, None), element=INT64)
