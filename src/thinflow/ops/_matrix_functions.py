"""Functions of square matrices [..., n, n].

N. Higham, "Functions of Matrices", 2008: chapters 6 (square root by the Schur method), 10 (exponential by
scaling, squaring and a Pade approximant of degree 13) and 11 (logarithm by inverse scaling and squaring).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from thinflow.typing import Array

_DEGREE = 13
_PADE = tuple(
    math.factorial(2 * _DEGREE - j)
    * math.factorial(_DEGREE)
    / (math.factorial(2 * _DEGREE) * math.factorial(_DEGREE - j) * math.factorial(j))
    for j in range(_DEGREE + 1)
)
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
    # The 1-norm. Halved until the approximant is exact, and squared as often.
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
