"""Orthogonal and triangular factors, by Householder reflections with the signs that LAPACK chooses."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.matrices import flat, identity, limited, unflat
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless, where


@decompose("Qr")
def qr(x: Term, *, full_matrices: bool = False) -> tuple[Term, Term]:
    refuse_unless(len(x.shape) >= 2, "a matrix is needed")
    m, n = limited(x.sized(-2, "the number of rows")), limited(x.sized(-1, "the number of columns"))
    r = flat(x, m, n)
    # A unit matrix for each matrix of the batch, whose number may be open.
    q = (r @ r.transposed()) * 0.0 + identity(r, m)
    for j in range(min(m, n)):
        reflector, scale = _reflector(r.at(-1, j), j, m)
        # I - f v v' applied by two products with vectors, instead of one with a matrix [m,m].
        r = r - reflector.expanded(-1) * (scale * (reflector.expanded(-2) @ r))
        q = q - (scale * (q @ reflector.expanded(-1))) * reflector.expanded(-2)
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
    tail = (column * (rows > j).astype(np.float32)).squared().total(-1, keep=True)
    norm = (first.squared() + tail).root()
    is_clear = tail.equals(0.0)
    diagonal = where(first >= 0.0, -norm, norm)
    # The sign is opposite to `first`, so nothing cancels here.
    difference = first - diagonal
    v = column * (rows > j).astype(np.float32) + difference * (rows == j).astype(np.float32)
    length = difference.squared() + tail
    factor = where(is_clear, 0.0, 2.0 / where(is_clear, 1.0, length))
    return v, factor.expanded(-1)
