"""Comparisons, logic and choices."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.program import Tensor


@lower("Select", to="tflite")
def select(b: Builder, node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """A vector condition chooses whole slices of x and y; SELECT_V2 would spread it along the last axis."""
    broadcasts = condition.shape == () or (condition.shape is not None and condition.shape == x.shape)
    return b.emit("SELECT_V2" if broadcasts else "SELECT", condition, x, y)


@lower("SelectV2", to="tflite")
def select_v2(b: Builder, node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return b.emit("SELECT_V2", condition, x, y)


@lower("Where", to="tflite")
def where(b: Builder, node: Node, condition: Tensor) -> Tensor:
    """Coordinates of what is not zero. The kernel is reliable for bool only."""
    if condition.dtype is not BOOL:
        zero = b.scalar(0, condition, "zero")
        condition = b.step("NOT_EQUAL", condition, zero, shape=condition.shape, element=BOOL)
    return b.emit("WHERE", condition)
