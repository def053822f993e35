"""Eigenvalues and singular values, by Jacobi's rotations of all pairs of columns in turn.

Half of the columns is rotated at once, each with its partner; then they move on, as the players of a
tournament do, until each has met each. Eigenvectors and singular vectors are refused: each is unique up to
its sign only, which hangs on the steps that LAPACK takes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.decompose.loops import for_loop
from thinflow.decompose.matrices import flat, limited, square_size, unflat
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, refuse_unless, where
from thinflow.ir.types import DOUBLE, INT32
from thinflow.typing import Array

_SWEEPS = {4: 6, 8: 8, 32: 10}
"""Size up to which so many rounds leave nothing beside the diagonal that a float would show; they converge
quadratically (R. Brent, F. Luk, 1985: about log2 of the size for the first part, then 2 or 3)."""
_VECTORS = "vectors are unique up to their sign, which hangs on the steps that TensorFlow's library takes"


@dataclass(frozen=True)
class _Tournament:
    """Pairs of columns: (0, n-1), (1, n-2)..., then all but the first move on by one index.

    An odd number of columns has no fixed one, and the last is without a partner.

    Attributes:
        partner: the index of each one's partner, its own without one, [n].
        meets: 1 where row and column are partners, [n, n].
        side: 1 for the first of a pair, -1 for the second, 0 without a partner, [n].
        order: who comes to each index then, [n].
    """

    partner: Array
    meets: Array
    side: Array
    order: Array

    @staticmethod
    def of(size: int) -> _Tournament:
        partner, side = np.arange(size), np.zeros(size)
        # Of an odd number the last one sits out, and all move on, so that each sits out once.
        last = size - 1 if size % 2 == 0 else size - 2
        first = np.arange((last + 1) // 2)
        partner[first], partner[last - first] = last - first, first
        side[first], side[last - first] = 1, -1
        fixed = 1 - size % 2
        order = np.concatenate([np.arange(fixed), np.roll(np.arange(fixed, size), 1)])
        return _Tournament(partner, np.eye(size)[partner] * np.abs(side)[:, None], side, order)


def _turns(size: int, element: object) -> int:
    sweeps = next(n for most, n in _SWEEPS.items() if size <= most) + 2 * (element is DOUBLE)
    # So many turns until each has met each.
    return sweeps * (size - 1 if size % 2 == 0 else size)


def _rotation(own: Term, other: Term, inner: Term, plan: _Tournament) -> Term:
    """The matrix [b, n, n] that rotates each column with its partner and moves them on.

    Args:
        own, other, inner: squares of a column and of its partner, and their product, each [b, n].
    """
    is_done = inner.equal(0.0)
    # As the first of the pair sees it, so that both take the same angle.
    slope = (other - own) * plan.side / where(is_done, 1.0, inner * 2.0)
    # t = sign / (|s| + sqrt(s^2 + 1)), the root of t^2 + 2 s t = 1 of at most 45 degrees: those converge.
    # Without a partner `side` is 0 and the angle, too.
    # Where the square overflows the angle becomes 0, and it is below 1e-19 there.
    size = slope.abs() + (slope.square() + 1.0).sqrt()
    tangent = where(is_done, 0.0, where(slope < 0.0, -1.0 / size, 1.0 / size)) * plan.side
    cosine = 1.0 / (tangent.square() + 1.0).sqrt()
    turned = cosine.expand_dims(-1) * np.eye(len(plan.side)) + (tangent * cosine).expand_dims(-1) * plan.meets
    return _picked(turned, plan.order)


def _picked(x: Term, places: Array) -> Term:
    """Some columns.   [..., n] -> [..., len(indices)]."""
    return x.gather(x.body.constant(places, INT32), -1)


def _in_order(values: Term, size: int, *, falling: bool) -> Term:
    count = values.body.constant(size, INT32)
    given = values if falling else -values
    sorted_, _ = values.body.add("TopKV2", [given.value, count.value], ports=2, T=values.dtype, sorted=True)
    return sorted_ if falling else -sorted_


@decompose("SelfAdjointEigV2", "BatchSelfAdjointEigV2")
def eigenvalues(x: Term, *, compute_v: bool = True) -> tuple[Term, ...]:
    """Rising; the lower triangle is read."""
    refuse_unless(not compute_v, f"its eigen{_VECTORS}", "ask for eigenvalues alone (compute_v=False)")
    size = square_size(x)
    # LAPACK reads one triangle; the other may hold anything.
    lower = flat(x, size, size) * np.tril(np.ones((size, size)))
    whole = lower + (lower * (1 - np.eye(size))).matrix_transpose()
    if size > 1:
        plan = _Tournament.of(size)

        def turn(a: Term) -> list[Term]:
            diagonal = (a * np.eye(size)).sum(-1)
            inner = (a * plan.meets).sum(-1)
            rotation = _rotation(diagonal, _picked(diagonal, plan.partner), inner, plan)
            # Two-sided: similar matrices, whose diagonal tends to the eigenvalues.
            return [rotation.matrix_transpose() @ a @ rotation]

        (whole,) = for_loop(_turns(size, whole.dtype), turn, whole)
    values = _in_order((whole * np.eye(size)).sum(-1), size, falling=False)
    return unflat(values, x, size), x.body.constant(np.zeros(0), x.dtype)


@decompose("Svd", "BatchSvd")
def singular_values(x: Term, *, compute_uv: bool = True, full_matrices: bool = False) -> tuple[Term, ...]:
    """Falling: the lengths of the columns once they are orthogonal."""
    refuse_unless(
        not compute_uv, f"its singular {_VECTORS}", "ask for singular values alone (compute_uv=False)"
    )
    refuse_unless(len(x.shape) >= 2, "a matrix is needed")
    rows, columns = x.static_size(-2, "the number of rows"), x.static_size(-1, "the number of columns")
    size = limited(min(rows, columns))
    given = flat(x, rows, columns)
    # The transposed matrix has the same singular values, and fewer columns to turn.
    tall = given if rows >= columns else given.matrix_transpose()
    if size > 1:
        plan = _Tournament.of(size)

        def turn(a: Term) -> list[Term]:
            partners = _picked(a, plan.partner)
            inner = (a * partners).sum(-2)
            # One-sided (Hestenes): rotating columns until they are orthogonal needs no product with the
            # transposed matrix, which would square the condition.
            return [a @ _rotation(a.square().sum(-2), partners.square().sum(-2), inner, plan)]

        (tall,) = for_loop(_turns(size, tall.dtype), turn, tall)
    values = _in_order(tall.square().sum(-2).sqrt(), size, falling=True)
    nothing = x.body.constant(np.zeros(0), x.dtype)
    return unflat(values, x, size), nothing, nothing
