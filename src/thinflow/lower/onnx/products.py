"""Further products of vectors and matrices."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.onnx import kernels
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


@lower("Cross", to="onnx")
def cross(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """The vector product along the last axis."""
    run = kernels.fitting("Mul", x.dtype)
    p, q = Term(b, b.cast(x, run)), Term(b, b.cast(y, run))
    ahead, behind = b.ints([1, 2, 0]), b.ints([2, 0, 1])
    z = p.gathered(ahead, -1) * q.gathered(behind, -1) - p.gathered(behind, -1) * q.gathered(ahead, -1)
    return b.result(b.cast(z.tensor, x.dtype))


@lower("SparseMatMul", to="onnx")
def sparse_mat_mul(
    b: Builder, node: Node, x: Tensor, y: Tensor, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    """Matrices that merely happen to hold many zeros."""
    require(x.dtype is FLOAT and y.dtype is FLOAT, f"a product of {x.dtype} and {y.dtype} has no ONNX form")
    left = b.transposed(x, (1, 0)) if transpose_a else x
    return b.emit("MatMul", left, b.transposed(y, (1, 0)) if transpose_b else y)


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


@lower("ConjugateTranspose", to="onnx")
def conjugate_transpose(b: Builder, node: Node, x: Tensor, order: Tensor) -> Tensor:
    """Real numbers are their own conjugates."""
    axes = b.axes(order, len(shape_of(x, "x")), "the order of axes")
    require(sorted(axes) == list(range(len(axes))), f"{list(axes)} is no order of axes")
    return b.result(b.transposed(x, axes))
