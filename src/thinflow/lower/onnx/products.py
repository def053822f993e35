"""Further products of vectors and matrices."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


@lower("MatrixDeterminant", "BatchMatrixDeterminant", to="onnx")
def determinant(b: Builder, node: Node, x: Tensor) -> Tensor:
    require(x.dtype is FLOAT, f"ONNX Runtime has no Det for {x.dtype}")
    sizes = shape_of(x, "x")
    require(len(sizes) >= 2, "a matrix is needed")
    return b.emit("Det", x)
