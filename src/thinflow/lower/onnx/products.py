"""Further products of vectors and matrices."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.onnx import kernels
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


@lower("SparseTensorDenseMatMul", to="onnx")
def sparse_dense(
    b: Builder,
    node: Node,
    indices: Tensor,
    values: Tensor,
    shape: Tensor,
    y: Tensor,
    *,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
) -> Tensor:
    """The sparse matrix is filled in first; what stands twice adds up."""
    run = kernels.combining(values.dtype)
    zeros = b.filled(b.index(shape), 0, run)
    summed = b.step(
        "ScatterND", zeros, b.index(indices), b.cast(values, run), shape=zeros.shape, reduction="add"
    )
    dense = b.cast(summed, values.dtype)
    if dense.shape is None:
        dense.shape = (None, None)
    left = b.transposed(dense, (1, 0)) if adjoint_a else dense
    return b.emit("MatMul", left, b.transposed(y, (1, 0)) if adjoint_b else y)


@lower("MatrixDeterminant", "BatchMatrixDeterminant", to="onnx")
def determinant(b: Builder, node: Node, x: Tensor) -> Tensor:
    require(x.dtype is FLOAT, f"ONNX Runtime has no Det for {x.dtype}")
    sizes = shape_of(x, "x")
    require(len(sizes) >= 2, "a matrix is needed")
    return b.emit("Det", x)
