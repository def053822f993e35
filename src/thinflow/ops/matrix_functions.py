"""Functions of square matrices [..., n, n], and linear systems of special form."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from thinflow.ir.types import TensorSpec, shape_text
from thinflow.ops import solve
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
        return like(exponential(x), x)


@op("MatrixLogarithm")
class MatrixLogarithm(_Square):
    """y with e^y = x.   x [...,n,n], complex -> y like x."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return like(logarithm(x), x)


@op("MatrixSquareRoot")
class MatrixSquareRoot(_Square):
    """y with y @ y = x; NaN if there is no real one.   x [...,n,n] -> y like x."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return like(square_root(x), x)


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
        y = solve.tridiagonal(diagonals, b, partial_pivoting)
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
        matrix = solve.banded(bands, lower)
        if adjoint:
            matrix = solve.adjoint(matrix)
        # The adjoint of a lower triangle is an upper one.
        return like(solve.substitute(matrix, b, lower != adjoint), b)


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
        star = solve.adjoint(x)
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
        right = solve.substitute(lower, b if wide else star @ b, lower=True)
        y = solve.substitute(solve.adjoint(lower), right, lower=False)
        return like(star @ y if wide else y, b)


# ---- Functions of square matrices [..., n, n].
#
# N. Higham, "Functions of Matrices", 2008: chapters 6 (square root by the Schur method), 10 (exponential by
# scaling, squaring and a Pade approximant of degree 13) and 11 (logarithm by inverse scaling and squaring).


_DEGREE = 13
# The numerator's coefficients; the denominator is the same polynomial at -x.
_PADE = tuple(
    math.factorial(2 * _DEGREE - j)
    * math.factorial(_DEGREE)
    / (math.factorial(2 * _DEGREE) * math.factorial(_DEGREE - j) * math.factorial(j))
    for j in range(_DEGREE + 1)
)
# Higham's theta_13.
_LARGEST_NORM = 5.371920351148152
"""1-norm up to which the approximant of degree 13 is exact to float64."""
# log(1 + g) is the integral of g / (1 + t g) over t in [0, 1]; Gauss's rule of 8 nodes is its Pade
# approximant of degree [8/8].
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def _each(function: Callable[[Array], Array], x: Array) -> Array:
    """The function of every matrix, in double precision."""
    wide = x.astype(np.result_type(x, np.float64))
    if not wide.size:
        return wide
    flat = wide.reshape(-1, *x.shape[-2:])
    return np.asarray(np.stack([function(m) for m in flat]).reshape(x.shape))


def exponential(x: Array) -> Array:
    """e^x."""
    return _each(_exponential, x)


def _exponential(x: Array) -> Array:
    # Halved until its 1-norm is small enough for the approximant, and the result squared as often.
    norm = float(np.abs(x).sum(axis=0).max())
    if not math.isfinite(norm):
        return np.full_like(x, np.nan)
    halvings = max(math.ceil(math.log2(norm / _LARGEST_NORM)), 0) if norm > 0 else 0
    scaled = x / 2.0**halvings
    square = scaled @ scaled
    power = np.eye(len(x), dtype=x.dtype)
    # The numerator is even + odd and the denominator, its value at -x, even - odd: half the matrix products.
    even, odd = np.zeros_like(x), np.zeros_like(x)
    for j in range(0, _DEGREE + 1, 2):
        even, odd = even + _PADE[j] * power, odd + _PADE[j + 1] * power
        power = power @ square
    odd = scaled @ odd
    y = np.linalg.solve(even - odd, even + odd)
    for _ in range(halvings):
        y = y @ y
    return np.asarray(y)


def _schur(x: Array) -> tuple[Array, Array]:
    """Unitary q and upper triangular t with x = q t q*; q spans what the eigenvectors span, one by one."""
    if not np.any(np.tril(x, -1)):
        return np.eye(len(x), dtype=np.complex128), x.astype(np.complex128)
    # numpy has no Schur decomposition. The first k eigenvectors span an invariant space, and so do the first
    # k columns of q: q* x q is triangular up to rounding, which triu drops.
    q, _ = np.linalg.qr(np.linalg.eig(x)[1].astype(np.complex128))
    return q, np.triu(q.conj().T @ x @ q)


def _triangular_root(t: Array) -> Array:
    """The principal square root of an upper triangular matrix, one diagonal after the other."""
    size = len(t)
    r = np.diag(np.sqrt(np.diag(t)))
    with np.errstate(all="ignore"):
        for distance in range(1, size):
            for i in range(size - distance):
                j = i + distance
                known = r[i, i + 1 : j] @ r[i + 1 : j, j]
                gap = t[i, j] - known
                # Two zeros on the diagonal leave 0/0 for a singular matrix; 0 solves it where nothing is
                # asked of it.
                r[i, j] = gap / (r[i, i] + r[j, j]) if gap else 0
    return r


def _real_if_possible(y: Array, x: Array) -> Array:
    """y as the type of x; NaN throughout where a real matrix has a complex result."""
    if x.dtype.kind == "c":
        return y
    size = np.abs(y).max(initial=0)
    # Rounding leaves tiny imaginary parts in a real result; half the digits of float64 are allowed for them.
    return y.real if np.abs(y.imag).max(initial=0) <= 1e-8 * size else np.full_like(x, np.nan)


def square_root(x: Array) -> Array:
    """The principal y with y @ y = x; NaN where a real x has no real one."""
    return _each(_square_root, x)


def _square_root(x: Array) -> Array:
    q, t = _schur(x)
    return _real_if_possible(q @ _triangular_root(t) @ q.conj().T, x)


def logarithm(x: Array) -> Array:
    """The principal y with e^y = x."""
    return _each(_logarithm, x)


def _logarithm(x: Array) -> Array:
    q, t = _schur(x)
    diagonal, one, doublings = np.diag(t), np.eye(len(t)), 0
    with np.errstate(all="ignore"):
        # Roots are taken until the approximant holds; those of a singular matrix never get near 1, hence the
        # limit.
        while np.abs(t - one).sum(axis=0).max() > 0.25 and doublings < 100:
            t, doublings = _triangular_root(t), doublings + 1
        gap = t - one
        terms = (
            w / 2 * np.linalg.solve(one + (n + 1) / 2 * gap, gap)
            for n, w in zip(_NODES, _WEIGHTS, strict=True)
        )
        y = sum(terms, np.zeros_like(t)) * 2.0**doublings
        # The diagonal is known exactly; doubling would carry the rounding errors of all the roots into it.
        np.fill_diagonal(y, np.log(diagonal))
    return np.asarray(q @ y @ q.conj().T)
