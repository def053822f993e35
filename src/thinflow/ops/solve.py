"""Square matrices: inverses, determinants, factors and linear systems. Leading axes count matrices."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import Shape, TensorSpec, shape_text
from thinflow.ops import _triangular
from thinflow.ops._numeric import like, widen
from thinflow.ops._shapes import Dim, broadcast, merge
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array


def _square(x: TensorSpec) -> tuple[Shape, Dim]:
    """Leading axes (None if the rank is unknown) and size of the matrices."""
    if x.shape is None:
        return None, None
    require(len(x.shape) >= 2, f"a matrix is needed, not shape {shape_text(x.shape)}")
    size = merge(x.shape[-1:], x.shape[-2:-1])
    assert size is not None
    return x.shape[:-2], size[0]


def _like_square(x: TensorSpec) -> TensorSpec:
    lead, size = _square(x)
    return x.with_shape(None if lead is None else (*lead, size, size))


def _solvable(x: Array) -> Array:
    """x, if every matrix has an inverse."""
    # In double: the determinant of a matrix of small float32 numbers would be flushed to 0.
    pivots = np.abs(np.linalg.det(x.astype(np.result_type(x, np.float64))))
    require(bool((pivots > 0).all()), "the matrix has no inverse")
    return x


def _cubic(x: TensorSpec) -> Cost:
    return Cost(flops=(x.size or 0) * ((x.shape or (0,))[-1] or 0))


class _Square(OpDef):
    """y like x, both square."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return _like_square(x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec) -> Cost:
        return _cubic(x)


@op("MatrixInverse", "BatchMatrixInverse")
class MatrixInverse(_Square):
    """y = inverse of x, or of its conjugate transpose.   x [...,n,n] -> y like x."""

    @staticmethod
    def kernel(x: Array, *, adjoint: bool = False) -> Array:
        wide = widen(x)
        return like(np.linalg.inv(_solvable(_triangular.adjoint(wide) if adjoint else wide)), x)


@op("Cholesky", "BatchCholesky")
class Cholesky(_Square):
    """Lower y with y @ y* = x, of which only the lower triangle is read.   x [...,n,n] -> y like x.

    NaN in the lower triangle where x is not positive definite, as in TensorFlow.
    """

    @staticmethod
    def kernel(x: Array) -> Array:
        lower = np.tril(x)
        # Whatever is above the diagonal is ignored: the lower triangle is mirrored, its diagonal counted
        # once.
        diagonal = np.einsum("...ii->...i", x)[..., None] * np.eye(x.shape[-1], dtype=x.dtype)
        whole = lower + _triangular.adjoint(lower) - diagonal
        try:
            return like(np.linalg.cholesky(whole), x)
        # numpy refuses the whole batch; only the matrices at fault become NaN.
        except np.linalg.LinAlgError:
            each = [_cholesky_or_nan(m) for m in whole.reshape(-1, *x.shape[-2:])]
            return like(np.stack(each).reshape(x.shape), x)


def _cholesky_or_nan(x: Array) -> Array:
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return np.tril(np.full_like(x, np.nan))


@op("MatrixDeterminant", "BatchMatrixDeterminant")
class MatrixDeterminant(OpDef):
    """y = determinant.   x [...,n,n] -> y [...]."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x.with_shape(_square(x)[0])

    @staticmethod
    def kernel(x: Array) -> Array:
        return like(np.linalg.det(widen(x)), x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec) -> Cost:
        return _cubic(x)


@op("LogMatrixDeterminant")
class LogMatrixDeterminant(OpDef):
    """(sign, log |determinant|).   x [...,n,n] -> both [...]."""

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        spec = x.with_shape(_square(x)[0])
        return spec, spec

    @staticmethod
    def kernel(x: Array) -> tuple[Array, Array]:
        sign, log = np.linalg.slogdet(x)
        return like(sign, x), like(log, x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec) -> Cost:
        return _cubic(x)


class _System(OpDef):
    """y with x @ y = b.   x [...,n,n], b [...,n,k] -> y like b, leading axes broadcast."""

    @staticmethod
    def infer(x: TensorSpec, b: TensorSpec) -> TensorSpec:
        lead, size = _square(x)
        if lead is None or b.shape is None:
            return TensorSpec(b.dtype if x.dtype is None else x.dtype)
        require(len(b.shape) >= 2, f"the right side is a matrix, not of shape {shape_text(b.shape)}")
        rows = merge((size,), b.shape[-2:-1])
        assert rows is not None
        batch = broadcast(lead, b.shape[:-2])
        assert batch is not None
        return b.with_shape((*batch, rows[0], b.shape[-1]))

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, b: TensorSpec) -> Cost:
        return _cubic(x)


@op("MatrixSolve", "BatchMatrixSolve")
class MatrixSolve(_System):
    """y with x @ y = b, or x* @ y = b.   x [...,n,n], b [...,n,k] -> y like b."""

    @staticmethod
    def kernel(x: Array, b: Array, *, adjoint: bool = False) -> Array:
        return like(np.linalg.solve(_solvable(_triangular.adjoint(x) if adjoint else x), b), b)


@op("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
class MatrixTriangularSolve(_System):
    """As MatrixSolve, reading only the lower (or upper) triangle of x; leading axes broadcast."""

    @staticmethod
    def kernel(x: Array, b: Array, *, lower: bool = True, adjoint: bool = False) -> Array:
        triangle = _triangular.adjoint(x) if adjoint else x
        # The adjoint of a lower triangle is an upper one.
        return like(_triangular.substitute(widen(triangle), widen(b), lower != adjoint), b)
