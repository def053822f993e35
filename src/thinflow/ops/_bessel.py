"""Bessel functions of order 0 and 1 on float64 arrays, to about 14 digits.

Near zero the integral representations, which trapezoidal and Gauss sums evaluate to full accuracy; far out
Hankel's asymptotic expansions. Formulas: NIST Digital Library of Mathematical Functions, 10.8-10.9 (power
series, integrals), 10.17 and 10.40 (expansions).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from thinflow.ops._special import _in_float64
from thinflow.typing import Array

_FAR = 25.0
"""From here on the smallest term of the asymptotic expansions is below the last digit."""
# At x = 25 the terms fall until k is about 2x = 50, so all 30 still help; the last one is below 1e-20.
_TERMS = 30
# 64 nodes are exact for polynomials up to degree 127: below x = 25 the waves they integrate have a few
# periods only.
_GAUSS = np.polynomial.legendre.leggauss(64)


def _hankel_terms(order: int, x: Array) -> list[Array]:
    """a_k(order) / x^k for k = 0, 1, ... (DLMF 10.17.1)."""
    terms = [np.ones_like(x)]
    for k in range(1, _TERMS):
        terms.append(terms[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k * x))
    return terms


def _oscillating(order: int, x: Array) -> tuple[Array, Array]:
    """(J, Y) of large x (DLMF 10.17.3-4)."""
    terms = _hankel_terms(order, x)
    even = sum(((-1) ** k * t for k, t in enumerate(terms[::2])), np.zeros_like(x))
    odd = sum(((-1) ** k * t for k, t in enumerate(terms[1::2])), np.zeros_like(x))
    phase = x - order * np.pi / 2 - np.pi / 4
    size = np.sqrt(2 / (np.pi * x))
    cosine, sine = np.cos(phase), np.sin(phase)
    return size * (cosine * even - sine * odd), size * (sine * even + cosine * odd)


def _growing(order: int, x: Array) -> Array:
    """I(x) e^-x of large x (DLMF 10.40.1)."""
    terms = _hankel_terms(order, x)
    alternating = sum(((-1) ** k * t for k, t in enumerate(terms)), np.zeros_like(x))
    return alternating / np.sqrt(2 * np.pi * x)


# Trapezoids over a period are exact but for aliasing: with n nodes the error is about 2 J_n(x) (2 I_n(x) e^-x
# below), and for x < 25 that is under the last digit with 128 nodes, and with the 64 of `_i_near`.
_ANGLES = 2 * np.pi * np.arange(128) / 128


def _j_near(order: int, x: Array) -> Array:
    """(DLMF 10.9.2): the mean of cos(x sin t - order t) over a period, by trapezoids."""
    return np.asarray(np.cos(np.multiply.outer(x, np.sin(_ANGLES)) - order * _ANGLES).mean(axis=-1))


def _i_near(order: int, x: Array) -> Array:
    """I(x) e^-x (DLMF 10.32.3). Order 1 by its series where the mean would cancel."""
    # The exponential is scaled inside: cos t - 1 <= 0, so nothing overflows before e^-x is taken out.
    angle = _ANGLES[::2]
    mean = (np.exp(np.multiply.outer(x, np.cos(angle) - 1)) * np.cos(order * angle)).mean(axis=-1)
    if order == 0:
        return np.asarray(mean)
    # I1 is about x / 2 near 0, but the mean sums terms of size 1: its relative error grows like 1 / x.
    return np.where(x < 2, _power_series(1, np.minimum(x, 2), 1) * np.exp(-np.minimum(x, 2)), mean)


def _power_series(order: int, x: Array, sign: int) -> Array:
    """sum_k (sign x^2/4)^k / (k! (k+order)!) (x/2)^order (DLMF 10.2.2, 10.25.2)."""
    quarter = sign * x * x / 4
    term = (x / 2) ** order / math.factorial(order)
    total = term
    # |x| <= 2 here, so that term k is at most 1 / k!^2: the last one is far below the last digit.
    for k in range(1, 25):
        term = term * quarter / (k * (k + order))
        total = total + term
    return total


def _logarithmic(order: int, x: Array, sign: int) -> Array:
    """sum_k (psi(k+1) + psi(k+order+1)) (sign x^2/4)^k / (k! (k+order)!) (x/2)^order, of small x."""
    quarter = sign * x * x / 4
    term = (x / 2) ** order / math.factorial(order)
    psi = -np.euler_gamma, -np.euler_gamma + sum(1 / j for j in range(1, order + 1))
    total = term * (psi[0] + psi[1])
    for k in range(1, 25):
        term = term * quarter / (k * (k + order))
        psi = psi[0] + 1 / k, psi[1] + 1 / (k + order)
        total = total + term * (psi[0] + psi[1])
    return total


def _y_small(order: int, x: Array) -> Array:
    """(DLMF 10.8.1) for x <= 2."""
    y = 2 / np.pi * np.log(x / 2) * _power_series(order, x, -1) - _logarithmic(order, x, -1) / np.pi
    # The finite sum of 10.8.1 has one term for order 1, and none for order 0.
    return y - 2 / (np.pi * x) if order == 1 else y


def _y_middle(order: int, x: Array) -> Array:
    """(DLMF 10.9.7), both integrals by Gauss's rule."""
    nodes, weights = _GAUSS
    angle = np.pi / 2 * (nodes + 1)
    waves = np.sin(np.multiply.outer(x, np.sin(angle)) - order * angle) @ weights / 2
    # There x sinh t = 42, and e^-42 is below the last digit: the infinite integral ends here.
    reach = np.arcsinh(42 / x)[..., None]
    t = reach / 2 * (nodes + 1)
    # e^t + e^-t for order 0, e^t - e^-t for order 1; the 2 is in the factor of the sum.
    decay = np.exp(-x[..., None] * np.sinh(t)) * (np.sinh(t) if order else 1)
    return np.asarray(waves - (decay * weights).sum(axis=-1) * reach[..., 0] / np.pi)


def _k_small(order: int, x: Array) -> Array:
    """(DLMF 10.31.1-2) for x <= 2."""
    if order == 0:
        return -np.log(x / 2) * _power_series(0, x, 1) + _logarithmic(0, x, 1) / 2
    return np.asarray(1 / x + np.log(x / 2) * _power_series(1, x, 1) - _logarithmic(1, x, 1) / 2)


def _k_scaled(order: int, x: Array) -> Array:
    """K(x) e^x of x >= 2 (DLMF 10.32.9), by trapezoids in t / sqrt(x): the integrand is nearly Gaussian."""
    # 60 steps reach t sqrt(x / 2) = 9.6; the factor exp(-2x sinh^2(t / 2)) is 0 long before.
    step = 0.16
    t = step * np.arange(60) / np.sqrt(np.maximum(x, 2) / 2)[..., None]
    # cosh t - 1 without cancellation.
    values = np.exp(-2 * x[..., None] * np.sinh(t / 2) ** 2) * np.cosh(order * t)
    # The integrand is even, and only its half from 0 on is summed.
    values[..., 0] /= 2
    return np.asarray(values.sum(axis=-1) * (t[..., 1] - t[..., 0]))


def _pieces(x: Array, limits: tuple[float, ...], functions: tuple[Callable[[Array], Array], ...]) -> Array:
    """The function that is in charge of each element; they change at the limits."""
    y = np.empty_like(x)
    which = np.searchsorted(np.asarray(limits), x, side="right")
    for i, function in enumerate(functions):
        chosen = which == i
        if chosen.any():
            y[chosen] = function(x[chosen])
    return y


def _finite(x: Array, y: Array, at_infinity: float) -> Array:
    return np.where(np.isnan(x), np.nan, np.where(np.isinf(x), at_infinity, y))


def _first_kind(order: int) -> Callable[[Array], Array]:
    @_in_float64
    def j(x: Array) -> Array:
        a = np.abs(np.where(np.isfinite(x), x, 1.0))
        # The mean over a period loses relative digits near 0, where J1 vanishes; the series does not.
        small = lambda z: _power_series(order, z, -1)  # noqa: E731
        near = lambda z: _j_near(order, z)  # noqa: E731
        y = _pieces(a, (1.0, _FAR), (small, near, lambda z: _oscillating(order, z)[0]))
        return _finite(x, np.where((x < 0) & (order == 1), -y, y), np.nan)

    return j


def _second_kind(order: int) -> Callable[[Array], Array]:
    @_in_float64
    def y(x: Array) -> Array:
        inside = np.where((x > 0) & np.isfinite(x), x, 1.0)
        values = _pieces(
            inside,
            (2.0, _FAR),
            (
                lambda z: _y_small(order, z),
                lambda z: _y_middle(order, z),
                lambda z: _oscillating(order, z)[1],
            ),
        )
        # Below 0 the function is not real; Eigen, and so TensorFlow, gives -inf there as at 0.
        return np.where(x <= 0, -np.inf, _finite(x, values, np.nan))

    return y


def _modified_first(order: int, scaled: bool) -> Callable[[Array], Array]:
    @_in_float64
    def i(x: Array) -> Array:
        a = np.abs(np.where(np.isfinite(x), x, 1.0))
        y = _pieces(a, (_FAR,), (lambda z: _i_near(order, z), lambda z: _growing(order, z)))
        if not scaled:
            y = y * np.exp(a / 2) * np.exp(a / 2)  # e^a alone overflows before the product does
        return _finite(x, np.where((x < 0) & (order == 1), -y, y), 0.0 if scaled else np.nan)

    return i


def _modified_second(order: int, scaled: bool) -> Callable[[Array], Array]:
    @_in_float64
    def k(x: Array) -> Array:
        inside = np.where((x > 0) & np.isfinite(x), x, 1.0)
        small = lambda z: _k_small(order, z) * (np.exp(z) if scaled else 1)  # noqa: E731
        large = lambda z: _k_scaled(order, z) * (1 if scaled else np.exp(-z))  # noqa: E731
        values = _pieces(inside, (2.0,), (small, large))
        return np.where(x <= 0, np.inf, _finite(x, values, 0.0))

    return k


j0, j1 = _first_kind(0), _first_kind(1)
y0, y1 = _second_kind(0), _second_kind(1)
i0, i1 = _modified_first(0, False), _modified_first(1, False)
i0e, i1e = _modified_first(0, True), _modified_first(1, True)
k0, k1 = _modified_second(0, False), _modified_second(1, False)
k0e, k1e = _modified_second(0, True), _modified_second(1, True)
