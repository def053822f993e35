"""Special functions on float64 arrays, to about 15 digits; numpy has none of them.

Rational approximations of erf and erfc: Cephes Math Library (S. L. Moshier), `ndtr.c`. First guess of the
inverse error function: M. Giles, "Approximating the erfinv function", 2010.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from thinflow.typing import Array

_ERF_TOP = (
    9.60497373987051638749,
    90.0260197203842689217,
    2232.00534594684319226,
    7003.32514112805075473,
    55592.3013010394962768,
)
_ERF_BOTTOM = (
    1.0,
    33.5617141647503099647,
    521.357949780152679795,
    4594.32382970980127987,
    22629.0000613890934246,
    49267.3942608635921086,
)
_ERFC_TOP = (
    2.46196981473530512524e-10, 0.564189564831068821977, 7.46321056442269912687, 48.6371970985681366614,
    196.520832956077098242, 526.445194995477358631, 934.528527171957607540, 1027.55188689515710272,
    557.535335369399327526,
)  # fmt: skip
_ERFC_BOTTOM = (
    1.0, 13.2281951154744992508, 86.7072140885989742329, 354.937778887819891062, 975.708501743205489753,
    1823.90916687909736289, 2246.33760818710981792, 1656.66309194161350182, 557.535340817727675546,
)  # fmt: skip
_FAR_TOP = (
    0.564189583547755073984,
    1.27536670759978104416,
    5.01905042251180477414,
    6.16021097993053585195,
    7.40974269950448939160,
    2.97886665372100240670,
)
_FAR_BOTTOM = (
    1.0, 2.26052863220117276590, 9.39603524938001434673, 12.0489539808096656605, 17.0814450747565897222,
    9.60896809063285878198, 3.36907645100081516050,
)  # fmt: skip
_GILES_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_DIGAMMA_SERIES = (
    1 / 12,
    -691 / 32760,
    1 / 132,
    -1 / 240,
    1 / 252,
    -1 / 120,
    1 / 12,
)  # B_2n / 2n, n = 7..1, see digamma


def _horner(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Polynomial, highest power first."""
    y = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        y *= x
        y += c
    return y


def _erf_near(x: Array) -> Array:
    z = x * x
    return x * _horner(z, _ERF_TOP) / _horner(z, _ERF_BOTTOM)


def _erfc_tail(a: Array) -> Array:
    """erfc(a) for a >= 1."""
    near = np.minimum(a, 8.0)
    far = np.maximum(a, 8.0)
    # Cephes fits P/Q below 8 and R/S above; clipping keeps each inside its own range.
    ratio = np.where(
        a < 8.0,
        _horner(near, _ERFC_TOP) / _horner(near, _ERFC_BOTTOM),
        # Cephes lists R and S by powers of a, highest first; divided by a^n the same polynomial reads
        # backwards.
        _horner(1 / far, _FAR_TOP[::-1]) / _horner(1 / far, _FAR_BOTTOM[::-1]) / far,
    )
    return np.exp(-np.square(a)) * ratio


_BLOCK = 16384  # elements at a time: the temporary arrays then stay in the processor's cache


def _in_float64(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Decorator: an element-wise function of float64 vectors, as one of arrays of any shape and type."""

    def run(x: Array) -> Array:
        x = np.asarray(x)
        flat = x.reshape(-1)
        result = np.empty(flat.shape, np.float64)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, _BLOCK):
                result[start : start + _BLOCK] = function(flat[start : start + _BLOCK].astype(np.float64))
        return result.reshape(x.shape)

    return run


@_in_float64
def erf(x: Array) -> Array:
    """Error function."""
    y = _erf_near(np.clip(x, -1.0, 1.0))
    large = np.abs(x) >= 1.0
    outside = x[large]
    # From 6 on the tail is below the last digit of 1.
    a = np.minimum(np.abs(outside), 6.0)
    tail = np.exp(-a * a) * _horner(a, _ERFC_TOP) / _horner(a, _ERFC_BOTTOM)
    y[large] = np.copysign(1.0 - tail, outside)
    return y


@_in_float64
def erfc(x: Array) -> Array:
    """1 - erf(x), without cancellation for large x."""
    # erfc underflows from 27 on; clipping at 30 keeps squares of infinity out of the quotient.
    tail = _erfc_tail(np.clip(np.abs(x), 1.0, 30.0))
    return np.where(
        np.abs(x) < 1.0, 1.0 - _erf_near(np.clip(x, -1.0, 1.0)), np.where(x < 0, 2.0 - tail, tail)
    )


def _erfc_inverse(q: Array) -> Array:
    """y >= 0 with erfc(y) = q, for 0 < q <= 1: a guess, then Newton's method on log(erfc)."""
    # -log(1 - x^2) of Giles for x = 1 - q, without forming 1 - x^2; his polynomial holds for w < 5, and
    # beyond it the asymptotic sqrt(w - log(pi w) / 2) is near enough for Newton.
    w = -np.log(q * (2.0 - q))
    near = _horner(np.minimum(w, 5.0) - 2.5, _GILES_NEAR) * (1.0 - q)
    y = np.where(w < 5.0, near, np.sqrt(np.maximum(w - 0.5 * np.log(np.pi * np.maximum(w, 1.0)), 0.1)))
    # On the logarithm, as erfc itself falls like e^-y^2 and plain Newton steps would overshoot in the tail.
    target = np.log(q)
    # Newton doubles the digits: two iterations are enough for Giles's guess, the asymptotic one is coarser.
    for _ in range(4):
        c = erfc(y)
        y = y + (np.log(c) - target) * c * (math.sqrt(math.pi) / 2) * np.exp(y * y)
    return y


@_in_float64
def erfinv(x: Array) -> Array:
    """Inverse of erf on [-1, 1], NaN outside."""
    a = np.abs(x)
    inside = np.where(a < 1.0, a, 0.5)
    y = _erfc_inverse(1.0 - inside)
    # Near 0 the tail form loses digits relative to x; the series y = x sqrt(pi)/2 (1 + pi x^2 / 12) does not.
    small = inside * (math.sqrt(math.pi) / 2) * (1.0 + math.pi / 12 * inside * inside)
    # The next term of the series, 7 pi^2 / 480 x^4, is 1e-17 there.
    y = np.where(inside < 1e-4, small, y)
    return np.copysign(np.where(a < 1.0, y, np.where(a == 1.0, np.inf, np.nan)), x)


@_in_float64
def ndtri(p: Array) -> Array:
    """Quantile of the standard normal distribution, for p in [0, 1], NaN outside."""
    # Both tails by the lower one, so that tiny p keep their relative precision.
    low = np.minimum(p, 1.0 - p)
    inside = (low > 0.0) & (low <= 0.5)
    y = math.sqrt(2.0) * _erfc_inverse(2.0 * np.where(inside, low, 0.25))
    y = np.where(inside, y, np.where(low == 0.0, np.inf, np.nan))
    return np.where(p < 0.5, -y, y)


@_in_float64
def digamma(x: Array) -> Array:
    """Derivative of log(gamma), NaN at 0 and the negative integers."""
    mirrored = x <= 0.0
    pole = mirrored & ((x == np.floor(x)) | np.isinf(x))
    z = np.where(mirrored, 1.0 - x, x)
    total = np.zeros_like(z)
    for _ in range(10):  # digamma(z) = digamma(z + 1) - 1/z, until the series below is exact
        step = z < 10.0
        total = total - np.where(step, 1.0 / z, 0.0)
        z = np.where(step, z + 1.0, z)
    w = 1.0 / (z * z)
    y = total + np.log(z) - 0.5 / z - w * _horner(w, _DIGAMMA_SERIES)
    # Reflection: digamma(1 - x) - digamma(x) = pi cot(pi x); only the fraction counts, and it is exact.
    fraction = x - np.floor(x)
    y = np.where(mirrored, y - np.pi / np.tan(np.pi * fraction), y)
    return np.where(pole, np.nan, y)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or beyond float64
        return math.inf


# C's own, one element at a time: numpy has no such function.
_lgamma_each = np.frompyfunc(_lgamma, 1, 1)


@_in_float64
def lgamma(x: Array) -> Array:
    """log |gamma(x)|."""
    return np.asarray(_lgamma_each(x), np.float64)
