"""Linear systems, inverses and determinants, by elimination with the largest pivot of each column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.decompose.matrices import flat, identity, square_size, unflat
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, joined, one_hot, refuse_unless, stacked, where
from thinflow.decompose.triangular import substituted
from thinflow.ir.types import INT32


@decompose("MatrixSolve", "BatchMatrixSolve")
def matrix_solve(x: Term, b: Term, *, adjoint: bool = False) -> Term:
    size = square_size(x)
    refuse_unless(x.shape[:-2] == b.shape[:-2], "its leading axes are not alike")
    columns = b.sized(-1, "the number of right sides")
    refuse_unless(columns > 0, "there are no right sides")
    given = flat(x, size, size)
    given = given.transposed() if adjoint else given
    return unflat(_solved(given, flat(b, size, columns), size), b, size, columns)


@decompose("MatrixInverse", "BatchMatrixInverse")
def matrix_inverse(x: Term, *, adjoint: bool = False) -> Term:
    """The solution for the columns of the unit matrix."""
    size = square_size(x)
    given = flat(x, size, size)
    given = given.transposed() if adjoint else given
    # As many unit matrices as there are matrices.
    units = given * 0.0 + identity(given, size)
    return unflat(_solved(given, units, size), x, size, size)


def _solved(x: Term, b: Term, size: int) -> Term:
    # Right sides go through elimination beside the matrix.
    rows = joined([row.expanded(-2) for row in eliminated(joined([x, b], -1), size).rows], -2)
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
    return unflat(sign, x), unflat(done.pivots.magnitude().log().total(-1), x)


@dataclass(frozen=True)
class Elimination:
    """Matrices after elimination, without an exchange of rows.

    Attributes:
        rows: the row that was the pivot's, for every column, [b, columns]: an upper triangle.
        places: the number of that row, int32 [b, n].
    """

    rows: list[Term]
    places: Term

    @property
    def pivots(self) -> Term:
        """The diagonal of the triangle.   [b, n]."""
        return joined([row.cut(-1, j, j + 1) for j, row in enumerate(self.rows)], -1)

    @property
    def sign(self) -> Term:
        """1 or -1: the sign of the order of the rows, from how many stand the wrong way round.   [b]."""
        size = len(self.rows)
        like = self.rows[0]
        later = self.places.expanded(-1) > self.places.expanded(-2)
        wrong = later.cast(like.dtype) * np.triu(np.ones((size, size)), 1)
        count = wrong.total(-2, -1)
        # 1 for an even count, -1 for an odd one.
        return 1.0 - (count - (count * 0.5).apply("Floor") * 2.0) * 2.0


def eliminated(x: Term, size: int) -> Elimination:
    """Elimination of the first `size` columns.   x [b, n, columns]."""
    # Rows are marked and not exchanged: an exchange would be a gather of the whole matrix for each column.
    used = (x.cut(-1, 0, 1) * 0.0).reshaped([-1, size])  # 1 for rows that were a pivot's
    rows, places = [], []
    for j in range(size):
        column = x.at(-1, j)
        place = where(used > 0.5, -1.0, column.magnitude()).place_of_most(-1)  # [b]
        chosen = one_hot(place, size, x.dtype)  # [b, n]
        # The pivot's row by its mark: a product and a sum instead of a gather for each matrix.
        row = (chosen.expanded(-1) * x).total(-2)  # [b, columns]
        rows.append(row)
        places.append(place.cast(INT32))
        if j + 1 == size:
            break
        used = used + chosen
        pivot = row.cut(-1, j, j + 1)
        # A column of nothing but zeros leaves the rows as they are, and a zero on the diagonal.
        factor = where(used > 0.5, 0.0, column / where(pivot.equals(0.0), 1.0, pivot))
        x = x - factor.expanded(-1) * row.expanded(-2)
    return Elimination(rows, stacked(places, -1))
