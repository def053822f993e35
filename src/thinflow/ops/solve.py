"""Square matrices: inverses, determinants, factors and linear systems. Leading axes count matrices."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import Shape, TensorSpec, shape_text
from thinflow.ops import solve
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
        return like(np.linalg.inv(_solvable(solve.adjoint(wide) if adjoint else wide)), x)


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
        whole = lower + solve.adjoint(lower) - diagonal
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
        return like(np.linalg.solve(_solvable(solve.adjoint(x) if adjoint else x), b), b)


@op("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
class MatrixTriangularSolve(_System):
    """As MatrixSolve, reading only the lower (or upper) triangle of x; leading axes broadcast."""

    @staticmethod
    def kernel(x: Array, b: Array, *, lower: bool = True, adjoint: bool = False) -> Array:
        triangle = solve.adjoint(x) if adjoint else x
        # The adjoint of a lower triangle is an upper one.
        return like(solve.substitute(widen(triangle), widen(b), lower != adjoint), b)


# ---- Triangular and banded systems, solved row by row for all matrices of a batch at once.


def adjoint(x: Array) -> Array:
    """The conjugate transpose of every matrix."""
    return np.conj(np.swapaxes(x, -1, -2))


def substitute(triangle: Array, b: Array, lower: bool) -> Array:
    """y with triangle @ y = b; leading axes broadcast. A zero on the diagonal gives what division gives."""
    lead = np.broadcast_shapes(triangle.shape[:-2], b.shape[:-2])
    y = np.array(np.broadcast_to(b, (*lead, *b.shape[-2:])), np.result_type(triangle, b))
    size = triangle.shape[-1]
    with np.errstate(all="ignore"):
        for i in range(size) if lower else range(size - 1, -1, -1):
            done = slice(0, i) if lower else slice(i + 1, size)
            known = triangle[..., i : i + 1, done] @ y[..., done, :]
            y[..., i : i + 1, :] = (y[..., i : i + 1, :] - known) / triangle[..., i : i + 1, i : i + 1]
    return y


def banded(bands: Array, lower: bool) -> Array:
    """The triangular matrices [..., n, n] whose bands are rows [..., k, n], each element in its row's place.

    lower: the diagonal is the first band, else the last.
    """
    count, size = bands.shape[-2:]
    matrix = np.zeros((*bands.shape[:-2], size, size), bands.dtype)
    for distance in range(min(count, size)):
        rows = np.arange(distance, size) if lower else np.arange(size - distance)
        columns = rows - distance if lower else rows + distance
        matrix[..., rows, columns] = bands[..., distance if lower else count - 1 - distance, rows]
    return matrix


def tridiagonal(diagonals: Array, b: Array, pivoting: bool) -> Array:
    """y with A @ y = b, A given by (above, main, below) [..., 3, n]: row i has below[i], main[i], above[i].

    Gaussian elimination; with pivoting rows i and i + 1 change places where that makes the pivot larger.
    """
    above, main, below = (np.moveaxis(diagonals, -1, 0)[..., k].copy() for k in range(3))
    y = np.moveaxis(b, -2, 0).astype(np.result_type(diagonals, b))
    size = main.shape[0]
    # An exchange brings row i + 1's own element above the diagonal two columns right of the pivot.
    second = np.zeros_like(above)  # the second diagonal above, which row exchanges fill
    # TensorFlow does not look at above[n-1] and below[0]; whatever is there must not reach the sums.
    above[-1:], second[-1:] = 0, 0
    with np.errstate(all="ignore"):
        for i in range(size - 1):
            _eliminate(i, above, main, below, second, y, pivoting)
        for i in range(size - 1, -1, -1):
            rest = y[i]
            if i + 1 < size:
                rest = rest - above[i][..., None] * y[i + 1]
            if i + 2 < size:
                rest = rest - second[i][..., None] * y[i + 2]
            y[i] = rest / main[i][..., None]
    return np.moveaxis(y, 0, -2)


def _eliminate(
    i: int, above: Array, main: Array, below: Array, second: Array, y: Array, pivoting: bool
) -> None:
    """Clear the element below the diagonal in column i, in place."""
    # Each matrix of the batch decides on its own; `where` on both rows keeps one loop for all.
    swap = (np.abs(below[i + 1]) > np.abs(main[i])) & pivoting
    upper = main[i], above[i], second[i]
    lower = below[i + 1], main[i + 1], above[i + 1]
    first = [np.where(swap, b, a) for a, b in zip(upper, lower, strict=True)]
    other = [np.where(swap, a, b) for a, b in zip(upper, lower, strict=True)]
    wide = swap[..., None]
    top, bottom = np.where(wide, y[i + 1], y[i]), np.where(wide, y[i], y[i + 1])
    factor = other[0] / first[0]
    main[i], above[i], second[i] = first
    main[i + 1], above[i + 1] = other[1] - factor * first[1], other[2] - factor * first[2]
    y[i], y[i + 1] = top, bottom - factor[..., None] * top
