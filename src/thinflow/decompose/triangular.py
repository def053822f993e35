"""Triangular matrices: Cholesky's factor and substitution, a column at a time."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.matrices import flat, limited, square_size, unflat
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, joined, refuse_unless, stacked


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
        column = column / column.cut(-1, j, j + 1).root() * below  # [b, n]
        columns.append(column)
        # What this column explains is taken off the rest: x - l l'.
        if j + 1 < size:
            rest = rest - column.expanded(-1) * column.expanded(-2)
    return unflat(stacked(columns, -1), x, size, size)


@decompose("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def triangular_solve(x: Term, b: Term, *, lower: bool = True, adjoint: bool = False) -> Term:
    """Substitution. Leading axes have to be alike."""
    size = square_size(x)
    refuse_unless(len(b.shape) == len(x.shape), "its leading axes are broadcast")
    lead = zip(x.shape[:-2], b.shape[:-2], strict=True)
    refuse_unless(all(n == m for n, m in lead), "its leading axes are broadcast")
    columns = b.sized(-1, "the number of right sides")
    refuse_unless(columns > 0, "there are no right sides")
    given = flat(x, size, size)
    given = given.transposed() if adjoint else given
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
    return joined([rows[j] for j in range(size)], -2)
