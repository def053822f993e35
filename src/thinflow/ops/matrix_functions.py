"""Functions of square matrices, and linear systems of special form."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import TensorSpec, shape_text
from thinflow.ops import _matrix_functions, _triangular
from thinflow.ops._numeric import like
from thinflow.ops._shapes import broadcast
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.solve import _Square
from thinflow.typing import Array


@op("MatrixExponential")
class MatrixExponential(_Square):
    """y = e^x, the sum of x^k / k!.   x [...,n,n] -> y like x."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return like(_matrix_functions.exponential(x), x)


@op("MatrixLogarithm")
class MatrixLogarithm(_Square):
    """y with e^y = x.   x [...,n,n], complex -> y like x."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return like(_matrix_functions.logarithm(x), x)


@op("MatrixSquareRoot")
class MatrixSquareRoot(_Square):
    """y with y @ y = x; NaN if there is no real one.   x [...,n,n] -> y like x."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return like(_matrix_functions.square_root(x), x)


def _right_side(x: TensorSpec, b: TensorSpec) -> TensorSpec:
    """b, its leading axes broadcast with those of x."""
    if x.shape is None or b.shape is None:
        return b.with_shape(None)
    require(len(x.shape) >= 2 and len(b.shape) >= 2, "matrices are needed on both sides")
    batch = broadcast(x.shape[:-2], b.shape[:-2])
    return b.with_shape(None if batch is None else (*batch, *b.shape[-2:]))


@op("TridiagonalSolve")
class TridiagonalSolve(OpDef):
    """y with A @ y = b.   diagonals [...,3,n]: above, main and below, b [...,n,k] -> y like b."""

    @staticmethod
    def infer(diagonals: TensorSpec, b: TensorSpec) -> TensorSpec:
        return _right_side(diagonals, b)

    @staticmethod
    def kernel(diagonals: Array, b: Array, *, partial_pivoting: bool = True) -> Array:
        require(diagonals.ndim >= 2 and diagonals.shape[-2] == 3, "diagonals must be [..., 3, n]")
        require(b.shape[-2:-1] == diagonals.shape[-1:], "diagonals and the right side differ in length")
        y = _triangular.tridiagonal(diagonals, b, partial_pivoting)
        require(not partial_pivoting or bool(np.isfinite(y).all()), "the matrix has no inverse")
        return like(y, b)


@op("TridiagonalMatMul")
class TridiagonalMatMul(OpDef):
    """y = A @ x.   above, main, below [...,1,n], x [...,n,k] -> y like x."""

    @staticmethod
    def infer(above: TensorSpec, main: TensorSpec, below: TensorSpec, x: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(above: Array, main: Array, below: Array, x: Array) -> Array:
        above, main, below = (np.swapaxes(d, -1, -2) for d in (above, main, below))
        y = main * x
        y[..., :-1, :] += above[..., :-1, :] * x[..., 1:, :]
        y[..., 1:, :] += below[..., 1:, :] * x[..., :-1, :]
        return like(y, x)


@op("BandedTriangularSolve")
class BandedTriangularSolve(OpDef):
    """y with A @ y = b, or A* @ y = b.

    bands [...,k,n] of a triangular A, its diagonal first if lower, else last; each element stands in its
    row's place. b [...,n,m] -> y like b, leading axes broadcast.
    """

    @staticmethod
    def infer(bands: TensorSpec, b: TensorSpec) -> TensorSpec:
        return _right_side(bands, b)

    @staticmethod
    def kernel(bands: Array, b: Array, *, lower: bool = True, adjoint: bool = False) -> Array:
        require(bands.ndim >= 2 and bands.shape[-2] > 0, "there are no bands")
        require(b.shape[-2:-1] == bands.shape[-1:], "the bands and the right side differ in length")
        matrix = _triangular.banded(bands, lower)
        if adjoint:
            matrix = _triangular.adjoint(matrix)
        # The adjoint of a lower triangle is an upper one.
        return like(_triangular.substitute(matrix, b, lower != adjoint), b)


@op("MatrixSolveLs", "BatchMatrixSolveLs")
class MatrixSolveLs(OpDef):
    """The y that makes |x @ y - b|^2 + l2 |y|^2 smallest; of several the shortest.

    x [...,m,n], b [...,m,k], l2 scalar -> y [...,n,k]. l2 counts only if `fast`.
    """

    @staticmethod
    def infer(x: TensorSpec, b: TensorSpec, l2: TensorSpec) -> TensorSpec:
        if x.shape is None or b.shape is None:
            return b.with_shape(None)
        require(len(x.shape) >= 2, f"a matrix is needed, not shape {shape_text(x.shape)}")
        return b.with_shape((*x.shape[:-2], x.shape[-1], b.shape[-1]))

    @staticmethod
    def kernel(x: Array, b: Array, l2: Array, *, fast: bool = True) -> Array:
        require(x.shape[:-1] == b.shape[:-1], "the matrix and the right side differ in rows or batch")
        if not fast:
            return like(np.linalg.pinv(x) @ b, b)
        star = _triangular.adjoint(x)
        rows, columns = x.shape[-2:]
        # Of more unknowns than equations the shortest solution is x* (x x* + l2)^-1 b; else the normal
        # equations (x* x + l2) y = x* b. Both matrices are the smaller of the two products.
        wide = rows < columns
        normal = (x @ star if wide else star @ x) + x.dtype.type(float(l2)) * np.eye(min(rows, columns))
        try:
            lower = np.linalg.cholesky(normal.astype(x.dtype))
        except np.linalg.LinAlgError:
            require(False, "the matrix has not full rank", hint="set fast=false, or a larger l2_regularizer")
            raise
        right = _triangular.substitute(lower, b if wide else star @ b, lower=True)
        y = _triangular.substitute(_triangular.adjoint(lower), right, lower=False)
        return like(star @ y if wide else y, b)
