"""Matrices in batches: factors, systems, inverses and determinants, a row or a column at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, concat, one_hot, refuse_unless, stack, where
from thinflow.ir.types import DOUBLE, FLOAT, INT32, DType

MOST = 32
"""Rows of the largest matrix that is written step by step: about 20 operators for each row."""


def working_type(x: Term) -> DType:
    """The type that x is computed in: half and bfloat16 in float, as TensorFlow does.

    Raises:
        UnsupportedOp: x is no real matrix.
    """
    refuse_unless(x.dtype.is_floating, f"its matrices are {x.dtype}, not of real numbers")
    return DOUBLE if x.dtype is DOUBLE else FLOAT


def square_size(x: Term) -> int:
    """Rows of square matrices.

    Raises:
        UnsupportedOp: they are not square, open, empty, or too many.
    """
    refuse_unless(len(x.shape) >= 2, "a matrix is needed")
    rows, columns = x.shape[-2:]
    refuse_unless(
        rows is not None or columns is not None, "the size of its matrices is open", "fix it with --shape"
    )
    size = rows if rows is not None else columns
    assert size is not None
    refuse_unless(rows in (None, size) and columns in (None, size), "its matrices are not square")
    return limited(size)


def limited(size: int) -> int:
    """A number of rows that can be written out.

    Raises:
        UnsupportedOp: too many, or none.
    """
    refuse_unless(size > 0, "its matrices are empty")
    refuse_unless(
        size <= MOST,
        f"matrices of up to {MOST} rows have a form, and this one has {size}",
        "let the interpreter run it",
    )
    return size


def flat(x: Term, rows: int, columns: int) -> Term:
    """The matrices on one leading axis, in the type to compute in.   x [..., m, n] -> [b, m, n]."""
    x = x.cast(working_type(x))
    return x if len(x.shape) == 3 else x.reshape([-1, rows, columns])


def unflat(y: Term, like: Term, *last: int) -> Term:
    """Results with the leading axes and the type of `like` [..., m, n].   y [b, *last] -> [..., *last]."""
    y = y.cast(like.dtype)
    lead = like.shape[:-2]
    if len(lead) == 1:
        return y
    # Fixed sizes where they are known, else those of the model's run.
    if None not in lead:
        return y.reshape([*(n or 0 for n in lead), *last])
    return y.reshape(concat([like.sizes().cut(0, 0, len(lead)), y.body.constant(last, INT32)], 0))


def identity(like: Term, size: int) -> Term:
    """The unit matrix [size, size] in the type of `like`."""
    return like.of(np.eye(size))


@decompose("Cholesky", "BatchCholesky")
def cholesky(x: Term) -> Term:
    """Each column, divided by the root of its diagonal element; its products leave the rest.

    Where x is not positive definite a root of a negative number makes NaN, as in TensorFlow.
    """
    size = square_size(x)
    rest, columns = flat(x, size, size), []
    for j in range(size):
        # Above the diagonal is what the other triangle holds, which is not read.
        below = (np.arange(size) >= j).astype(np.float32)
        column = rest.at(-1, j)
        column = column / column.cut(-1, j, j + 1).sqrt() * below  # [b, n]
        columns.append(column)
        # What this column explains is taken off the rest: x - l l'.
        if j + 1 < size:
            rest = rest - column.expand_dims(-1) * column.expand_dims(-2)
    return unflat(stack(columns, -1), x, size, size)


@decompose("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def triangular_solve(x: Term, b: Term, *, lower: bool = True, adjoint: bool = False) -> Term:
    """Substitution. Leading axes have to be alike."""
    size = square_size(x)
    refuse_unless(len(b.shape) == len(x.shape), "its leading axes are broadcast")
    lead = zip(x.shape[:-2], b.shape[:-2], strict=True)
    refuse_unless(all(n == m for n, m in lead), "its leading axes are broadcast")
    columns = b.static_size(-1, "the number of right sides")
    refuse_unless(columns > 0, "there are no right sides")
    given = flat(x, size, size)
    given = given.matrix_transpose() if adjoint else given
    solved = substituted(given, flat(b, size, columns), size, lower=lower != adjoint)
    return unflat(solved, b, size, columns)


def substituted(x: Term, b: Term, size: int, *, lower: bool) -> Term:
    """y with x @ y = b.   Triangular x [b, n, n], b [b, n, k] -> y like b."""
    limited(size)
    rows: dict[int, Term] = {}
    order = range(size) if lower else range(size - 1, -1, -1)
    for j in order:
        diagonal = x.cut(-2, j, j + 1).cut(-1, j, j + 1)  # [b, 1, 1]
        rows[j] = b.cut(-2, j, j + 1) / diagonal  # [b, 1, k]
        # The known row is moved to the right side, for all that follow.
        if len(rows) < size:
            b = b - x.cut(-1, j, j + 1) * rows[j]
    return concat([rows[j] for j in range(size)], -2)


@decompose("MatrixSolve", "BatchMatrixSolve")
def matrix_solve(x: Term, b: Term, *, adjoint: bool = False) -> Term:
    size = square_size(x)
    refuse_unless(x.shape[:-2] == b.shape[:-2], "its leading axes are not alike")
    columns = b.static_size(-1, "the number of right sides")
    refuse_unless(columns > 0, "there are no right sides")
    given = flat(x, size, size)
    given = given.matrix_transpose() if adjoint else given
    return unflat(_solved(given, flat(b, size, columns), size), b, size, columns)


@decompose("MatrixInverse", "BatchMatrixInverse")
def matrix_inverse(x: Term, *, adjoint: bool = False) -> Term:
    """The solution for the columns of the unit matrix."""
    size = square_size(x)
    given = flat(x, size, size)
    given = given.matrix_transpose() if adjoint else given
    # As many unit matrices as there are matrices.
    units = given * 0.0 + identity(given, size)
    return unflat(_solved(given, units, size), x, size, size)


def _solved(x: Term, b: Term, size: int) -> Term:
    # Right sides go through elimination beside the matrix.
    rows = concat([row.expand_dims(-2) for row in eliminated(concat([x, b], -1), size).rows], -2)
    return substituted(rows.cut(-1, 0, size), rows.cut(-1, size, None), size, lower=False)


@decompose("MatrixDeterminant", "BatchMatrixDeterminant")
def determinant(x: Term) -> Term:
    """The product of the pivots, with the sign of their order."""
    size = square_size(x)
    done = eliminated(flat(x, size, size), size)
    return unflat(done.pivots.reduced("Prod", -1) * done.sign, x)


@decompose("LogMatrixDeterminant")
def log_determinant(x: Term) -> tuple[Term, Term]:
    """The sign, 0 of a matrix without inverse, and the sum of the logarithms of the pivots."""
    size = square_size(x)
    done = eliminated(flat(x, size, size), size)
    sign = done.pivots.apply("Sign").reduced("Prod", -1) * done.sign
    return unflat(sign, x), unflat(done.pivots.abs().log().sum(-1), x)


@dataclass(frozen=True)
class Elimination:
    """Matrices after elimination, without an exchange of rows.

    Attributes:
        rows: the row that was the pivot's, for every column, [b, columns]: an upper triangle.
        indices: the number of that row, int32 [b, n].
    """

    rows: list[Term]
    indices: Term

    @property
    def pivots(self) -> Term:
        """The diagonal of the triangle.   [b, n]."""
        return concat([row.cut(-1, j, j + 1) for j, row in enumerate(self.rows)], -1)

    @property
    def sign(self) -> Term:
        """1 or -1: the sign of the order of the rows, from how many stand the wrong way round.   [b]."""
        size = len(self.rows)
        like = self.rows[0]
        later = self.indices.expand_dims(-1) > self.indices.expand_dims(-2)
        wrong = later.cast(like.dtype) * np.triu(np.ones((size, size)), 1)
        count = wrong.sum(-2, -1)
        # 1 for an even count, -1 for an odd one.
        return 1.0 - (count - (count * 0.5).apply("Floor") * 2.0) * 2.0


def eliminated(x: Term, size: int) -> Elimination:
    """Elimination of the first `size` columns.   x [b, n, columns]."""
    # Rows are marked and not exchanged: an exchange would be a gather of the whole matrix for each column.
    used = (x.cut(-1, 0, 1) * 0.0).reshape([-1, size])  # 1 for rows that were a pivot's
    rows, indices = [], []
    for j in range(size):
        column = x.at(-1, j)
        place = where(used > 0.5, -1.0, column.abs()).argmax(-1)  # [b]
        chosen = one_hot(place, size, x.dtype)  # [b, n]
        # The pivot's row by its mark: a product and a sum instead of a gather for each matrix.
        row = (chosen.expand_dims(-1) * x).sum(-2)  # [b, columns]
        rows.append(row)
        indices.append(place.cast(INT32))
        if j + 1 == size:
            break
        used = used + chosen
        pivot = row.cut(-1, j, j + 1)
        # A column of nothing but zeros leaves the rows as they are, and a zero on the diagonal.
        factor = where(used > 0.5, 0.0, column / where(pivot.equal(0.0), 1.0, pivot))
        x = x - factor.expand_dims(-1) * row.expand_dims(-2)
    return Elimination(rows, stack(indices, -1))


@decompose("Qr")
def qr(x: Term, *, full_matrices: bool = False) -> tuple[Term, Term]:
    refuse_unless(len(x.shape) >= 2, "a matrix is needed")
    m, n = (
        limited(x.static_size(-2, "the number of rows")),
        limited(x.static_size(-1, "the number of columns")),
    )
    r = flat(x, m, n)
    # A unit matrix for each matrix of the batch, whose number may be open.
    q = (r @ r.matrix_transpose()) * 0.0 + identity(r, m)
    for j in range(min(m, n)):
        reflector, scale = _reflector(r.at(-1, j), j, m)
        # I - f v v' applied by two products with vectors, instead of one with a matrix [m,m].
        r = r - reflector.expand_dims(-1) * (scale * (reflector.expand_dims(-2) @ r))
        q = q - (scale * (q @ reflector.expand_dims(-1))) * reflector.expand_dims(-2)
    p = m if full_matrices else min(m, n)
    # What is left of roundings below the diagonal is cleared.
    upper = r.cut(-2, 0, p) * np.triu(np.ones((p, n)))
    return unflat(q.cut(-1, 0, p), x, m, p), unflat(upper, x, p, n)


def _reflector(column: Term, j: int, size: int) -> tuple[Term, Term]:
    """v [b, m] and the factor f [b, 1, 1] of the reflection I - f v v' that clears a column below row j.

    The diagonal becomes minus the sign of what it was, 0 being positive; a column that is clear stays.
    """
    rows = np.arange(size)
    first = column.cut(-1, j, j + 1)  # [b, 1]
    tail = (column * (rows > j).astype(np.float32)).square().sum(-1, keep=True)
    norm = (first.square() + tail).sqrt()
    is_clear = tail.equal(0.0)
    diagonal = where(first >= 0.0, -norm, norm)
    # The sign is opposite to `first`, so nothing cancels here.
    difference = first - diagonal
    v = column * (rows > j).astype(np.float32) + difference * (rows == j).astype(np.float32)
    length = difference.square() + tail
    factor = where(is_clear, 0.0, 2.0 / where(is_clear, 1.0, length))
    return v, factor.expand_dims(-1)


@decompose("Einsum")
def einsum(*xs: Term, equation: str) -> Term:
    """A product of more than two tensors, two at a time from the left."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    refuse_unless(bool(arrow) and len(xs) == len(terms) > 2, "only more than two tensors are taken apart")
    y, own = xs[0], terms[0]
    for n, (x, term) in enumerate(zip(xs[1:], terms[1:], strict=True), 2):
        # What is summed over is what nobody behind asks for.
        kept = own + term if n == len(xs) else "".join(terms[n:]) + result
        both = [c for c in dict.fromkeys(own + term) if c in kept and c != "."]
        dots = "..." if "." in own + term else ""
        following = result if n == len(xs) else dots + "".join(both)
        parts = [y.value, x.value]
        y = y.body.add("Einsum", parts, T=y.dtype, N=2, equation=f"{own},{term}->{following}".encode())[0]
        own = following
    return y
