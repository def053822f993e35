"""Factors of matrices: orthogonal, triangular, eigenvectors. Leading axes count matrices.

Columns of eigenvectors and singular vectors are unique up to a factor of size 1 only; TensorFlow's and these
may differ by it.
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT32, DType, Shape, TensorSpec, dtype, shape_text
from thinflow.ops._numeric import like, widen
from thinflow.ops._shapes import Dim
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.solve import _cubic, _square, adjoint, substitute
from thinflow.typing import Array

COMPLEX64 = dtype("complex64")


def _lead_and_sides(x: TensorSpec) -> tuple[Shape, Dim, Dim]:
    """Leading axes, rows and columns; None for what is not known."""
    if x.shape is None:
        return None, None, None
    require(len(x.shape) >= 2, f"a matrix is needed, not shape {shape_text(x.shape)}")
    return x.shape[:-2], x.shape[-2], x.shape[-1]


def _least(a: Dim, b: Dim) -> Dim:
    return None if a is None or b is None else min(a, b)


def _matrix(x: TensorSpec, lead: Shape, *dims: Dim) -> TensorSpec:
    return x.with_shape(None if lead is None else (*lead, *dims))


def _nothing(x: Array) -> Array:
    return np.zeros(0, x.dtype)


@op("Qr")
class Qr(OpDef):
    """(q, r), x = q @ r with orthonormal columns in q and r upper triangular.

    x [...,m,n] -> q [...,m,p], r [...,p,n], p = min(m, n); with full_matrices p = m.
    """

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, *, full_matrices: bool = False) -> tuple[TensorSpec, TensorSpec]:
        lead, m, n = _lead_and_sides(x)
        p = m if full_matrices else _least(m, n)
        return _matrix(x, lead, m, p), _matrix(x, lead, p, n)

    @staticmethod
    def kernel(x: Array, *, full_matrices: bool = False) -> tuple[Array, Array]:
        q, r = np.linalg.qr(widen(x), "complete" if full_matrices else "reduced")
        return like(q, x), like(r, x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec) -> Cost:
        return _cubic(x)


@op("Svd", "BatchSvd")
class Svd(OpDef):
    """(s, u, v), x = u @ diag(s) @ v* with s falling.

    x [...,m,n] -> s [...,p], u [...,m,p], v [...,n,p], p = min(m, n); with full_matrices u and v are square;
    without compute_uv both are empty, [0].
    """

    num_outputs = 3

    @staticmethod
    def infer(
        x: TensorSpec, *, compute_uv: bool = True, full_matrices: bool = False
    ) -> tuple[TensorSpec, ...]:
        lead, m, n = _lead_and_sides(x)
        p = _least(m, n)
        s = _matrix(x, lead, p)
        if not compute_uv:
            return s, x.with_shape((0,)), x.with_shape((0,))
        return (
            s,
            _matrix(x, lead, m, m if full_matrices else p),
            _matrix(x, lead, n, n if full_matrices else p),
        )

    @staticmethod
    def kernel(x: Array, *, compute_uv: bool = True, full_matrices: bool = False) -> tuple[Array, ...]:
        if not compute_uv:
            return like(np.linalg.svd(x, compute_uv=False), x), _nothing(x), _nothing(x)
        u, s, v = np.linalg.svd(x, full_matrices=full_matrices)
        # numpy gives v*, TensorFlow v.
        return like(s, x), like(u, x), like(adjoint(v), x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec) -> Cost:
        return _cubic(x)


@op("SelfAdjointEigV2", "BatchSelfAdjointEigV2")
class SelfAdjointEigV2(OpDef):
    """(e, v), x @ v = v @ diag(e) with e rising, of a Hermitian x whose lower triangle is read.

    x [...,n,n] -> e [...,n], v like x; without compute_v v is empty, [0].
    """

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, *, compute_v: bool = True) -> tuple[TensorSpec, TensorSpec]:
        lead, n = _square(x)
        return _matrix(x, lead, n), _matrix(x, lead, n, n) if compute_v else x.with_shape((0,))

    @staticmethod
    def kernel(x: Array, *, compute_v: bool = True) -> tuple[Array, Array]:
        if not compute_v:
            # numpy, too, reads the lower triangle.
            return like(np.linalg.eigvalsh(x), x), _nothing(x)
        e, v = np.linalg.eigh(x)
        return like(e, x), like(v, x)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec) -> Cost:
        return _cubic(x)


@op("SelfAdjointEig", "BatchSelfAdjointEig")
class SelfAdjointEig(OpDef):
    """Eigenvalues in row 0, eigenvectors in the columns below.   x [...,n,n] -> y [...,n+1,n]."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        lead, n = _square(x)
        return _matrix(x, lead, None if n is None else n + 1, n)

    @staticmethod
    def kernel(x: Array) -> Array:
        e, v = np.linalg.eigh(x)
        return like(np.concatenate([e[..., None, :], v], axis=-2), x)


@op("Eig")
class Eig(OpDef):
    """(e, v), x @ v = v @ diag(e), both complex.   x [...,n,n] -> e [...,n], v like x, or [0]."""

    num_outputs = 2

    @staticmethod
    def infer(
        x: TensorSpec, *, compute_v: bool = True, Tout: DType = COMPLEX64
    ) -> tuple[TensorSpec, TensorSpec]:
        lead, n = _square(x)
        y = TensorSpec(Tout)
        return _matrix(y, lead, n), _matrix(y, lead, n, n) if compute_v else y.with_shape((0,))

    @staticmethod
    def kernel(x: Array, *, compute_v: bool = True, Tout: DType = COMPLEX64) -> tuple[Array, Array]:
        made = Tout.numpy()
        if not compute_v:
            return np.linalg.eigvals(x).astype(made), np.zeros(0, made)
        e, v = np.linalg.eig(x)
        return e.astype(made), v.astype(made)


@op("Lu")
class Lu(OpDef):
    """(lu, p): row i of l @ u is row p[i] of x; l is below the diagonal of lu, with a unit diagonal, u above.

    x [...,n,n] -> lu like x, p [...,n].
    """

    num_outputs = 2

    @staticmethod
    def infer(x: TensorSpec, *, output_idx_type: DType = INT32) -> tuple[TensorSpec, TensorSpec]:
        lead, n = _square(x)
        return _matrix(x, lead, n, n), TensorSpec(output_idx_type, None if lead is None else (*lead, n))

    @staticmethod
    def kernel(x: Array, *, output_idx_type: DType = INT32) -> tuple[Array, Array]:
        size = x.shape[-1]
        lu = x.reshape(-1, size, size).copy()
        order = np.tile(np.arange(size), (len(lu), 1))
        every = np.arange(len(lu))
        for k in range(size):
            # Partial pivoting: the largest element of the column, the first of equals.
            pivot = k + np.abs(lu[:, k:, k]).argmax(axis=1)
            # Fancy indices copy, so both rows are read before either is written.
            for rows in (lu, order):
                rows[every, k], rows[every, pivot] = rows[every, pivot], rows[every, k].copy()
            # As TensorFlow refuses it: an exact 0 alone, however small the others are.
            require(bool((lu[:, k, k] != 0).all()), "the matrix has no inverse")
            lu[:, k + 1 :, k] /= lu[:, k, k, None]
            lu[:, k + 1 :, k + 1 :] -= lu[:, k + 1 :, k, None] * lu[:, k, None, k + 1 :]
        return lu.reshape(x.shape), order.reshape(x.shape[:-1]).astype(output_idx_type.numpy())

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec) -> Cost:
        return _cubic(x)


@op("CholeskyGrad", "BatchCholeskyGrad")
class CholeskyGrad(OpDef):
    """The gradient at x of a function whose gradient at l = Cholesky(x) is `grad`.   All [...,n,n].

    I. Murray, "Differentiation of the Cholesky decomposition", 2016, equation 10.
    """

    @staticmethod
    def infer(x: TensorSpec, grad: TensorSpec) -> TensorSpec:
        lead, n = _square(x)
        return _matrix(x, lead, n, n)

    @staticmethod
    def kernel(x: Array, grad: Array) -> Array:
        lower = np.tril(x)
        inner = np.tril(np.swapaxes(lower, -1, -2) @ np.tril(grad))
        # Phi of the paper: the lower triangle with half its diagonal.
        inner -= inner * np.eye(x.shape[-1], dtype=x.dtype) / 2
        transposed = np.swapaxes(lower, -1, -2)
        # l^-T Phi(l^T grad) l^-1, by two triangular solves instead of inverses; then made symmetric.
        half = substitute(transposed, inner, lower=False)
        whole = np.swapaxes(substitute(transposed, np.swapaxes(half, -1, -2), lower=False), -1, -2)
        return like((whole + np.swapaxes(whole, -1, -2)) / 2, x)
