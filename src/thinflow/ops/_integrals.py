"""Functions defined by integrals, and incomplete gamma and beta functions; float64, to about 14 digits.

Formulas: NIST Digital Library of Mathematical Functions, chapters 6 (exponential integral), 7 (Dawson,
Fresnel) and 25.12 (dilogarithm).
"""

from __future__ import annotations

import math

import numpy as np

from thinflow.ops._special import _horner, _in_float64, digamma, lgamma
from thinflow.typing import Array

# The error exp(-(pi / 0.4)^2) is 2e-27.
_RYBICKI_STEP = 0.2
_RYBICKI = 2 * np.arange(-18, 18) + 1
"""Odd numbers; exp(-(n step)^2) is below 1e-22 beyond them."""


@_in_float64
def dawson(x: Array) -> Array:
    """exp(-x^2) times the integral of exp(t^2) from 0 to x.

    Small x: its Taylor series. Else G. Rybicki, "Dawson's integral and the sampling theorem", 1989: a sum of
    shifted Gaussians whose error is exp(-(pi / 2 step)^2). Far out 1/2x and its corrections.
    """
    a = np.abs(x)
    # The sum of Gaussians cancels where the function goes through 0; the series is exact relative to x there.
    small = _series(np.minimum(a, 0.5))
    # The sum is centred on an even multiple of the step, so that even + odd below is never 0.
    nearest = 2 * np.rint(np.minimum(a, 100.0) / (2 * _RYBICKI_STEP))
    rest = np.minimum(a, 100.0) - nearest * _RYBICKI_STEP
    # The sum over odd n of exp(-(x - n h)^2) / n, shifted by `nearest` so that the large terms are always
    # among these.
    weights = np.exp(-np.square(rest[:, None] - _RYBICKI * _RYBICKI_STEP)) / (nearest[:, None] + _RYBICKI)
    middle = weights.sum(axis=1) / math.sqrt(math.pi)
    # From 100 on the first term left out is 105/16 x^-8, 7e-16.
    w = 1 / np.square(np.maximum(a, 100.0))
    far = (1 + w * (0.5 + w * (0.75 + w * 1.875))) / (2 * np.maximum(a, 100.0))
    y = np.where(a < 0.5, small, np.where(a <= 100.0, middle, far))
    y = np.where(np.isinf(a), 0.0, y)
    return np.where(np.isnan(x), np.nan, np.where(np.isinf(a), y, np.copysign(y, x)))


def _series(x: Array) -> Array:
    """sum_k (-2 x^2)^k x / (2k+1)!! (DLMF 7.6.2)."""
    term = total = x
    for k in range(1, 20):
        term = term * (-2 * x * x) / (2 * k + 1)
        total = total + term
    return total


@_in_float64
def expint(x: Array) -> Array:
    """Ei(x), the integral of e^t / t from minus infinity to x > 0; -inf at 0.

    NaN below 0 and, as in TensorFlow, at infinity (DLMF 6.6.2, 6.12.2).
    """
    # gamma + log x + sum x^k / (k k!): all terms are positive, so nothing cancels up to 40.
    near = np.clip(x, 1e-300, 40.0)
    term, total = near, near
    # At x = 40 the terms grow up to k = 40, and at 140 are below 1e-16, of a sum of 6e15.
    for k in range(2, 140):
        term = term * near / k
        total = total + term / k
    total = total + np.log(near) + np.euler_gamma
    far = np.maximum(x, 40.0)
    factor, sum_far = np.ones_like(far), np.ones_like(far)
    # The asymptotic series falls until k = x, so at x >= 40 all these terms still help.
    for k in range(1, 40):
        factor = factor * np.minimum(k / far, 1.0)
        sum_far = sum_far + factor
    y = np.where(x < 40.0, total, np.exp(far) / far * sum_far)
    return np.where((x > 0) & np.isfinite(x), y, np.where(x == 0, -np.inf, np.nan))


# The last node is 27 steps out, where the Gaussian is at most exp(-pi/2 (27 * 0.125 * 1.6)^2) = 1e-20.
_FRESNEL_NODES = np.arange(28)


def _fresnel(x: Array) -> tuple[Array, Array]:
    """(S, C) of |x|: power series (DLMF 7.6.4-6), else the auxiliary functions (7.5.3-4, 7.7.10-11)."""
    a = np.abs(x)
    small = np.minimum(a, 1.6)
    square = np.pi / 2 * small * small
    term, cosine, sine = small, np.zeros_like(small), np.zeros_like(small)
    for k in range(40):
        sign = -1 if k // 2 % 2 else 1
        part = sign * term / (2 * k + 1)
        cosine, sine = (cosine, sine + part) if k % 2 else (cosine + part, sine)
        term = term * square / (k + 1)
    # Beyond 1e15 both are 1/2 to 15 digits: the limit only keeps infinity out of the remainder below.
    large = np.clip(a, 1.6, 1e15)
    # Trapezoids of an even function that decays like a Gaussian, in steps that fit its width and, close by,
    # the distance of its poles; the first node counts half.
    step = np.minimum(0.125, 0.4 / large)
    u = step[:, None] * _FRESNEL_NODES
    decay = np.exp(-np.pi / 2 * np.square(large[:, None] * u)) / (u**4 + 1)
    decay[:, 0] /= 2
    f, g = (math.sqrt(2) / np.pi * step * part.sum(axis=1) for part in (decay, decay * u * u))
    # The period is taken off before pi comes in: the remainder of a float64 is exact, that of a multiple of
    # pi not.
    phase = np.pi / 2 * np.mod(large * large, 4.0)
    far_sine = 0.5 - f * np.cos(phase) - g * np.sin(phase)
    far_cosine = 0.5 + f * np.sin(phase) - g * np.cos(phase)
    return np.where(a < 1.6, sine, far_sine), np.where(a < 1.6, cosine, far_cosine)


@_in_float64
def fresnel_sin(x: Array) -> Array:
    """The integral of sin(pi t^2 / 2) from 0 to x."""
    return np.where(np.isnan(x), np.nan, np.copysign(_fresnel(x)[0], x))


@_in_float64
def fresnel_cos(x: Array) -> Array:
    """The integral of cos(pi t^2 / 2) from 0 to x."""
    return np.where(np.isnan(x), np.nan, np.copysign(_fresnel(x)[1], x))


_BERNOULLI = (
    -174611 / 330, 43867 / 798, -3617 / 510, 7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6,
)  # fmt: skip
_DEBYE = tuple(b / math.factorial(2 * n + 1) for n, b in zip(range(10, 0, -1), _BERNOULLI, strict=True))


def _dilogarithm_core(z: Array) -> Array:
    """Li2(z) for -1 <= z <= 1/2, by powers of u = -log(1 - z): sum B_n u^(n+1) / (n+1)!."""
    u = -np.log1p(-z)
    square = u * u
    return np.asarray(u - square / 4 + u * square * _horner(square, _DEBYE))


@_in_float64
def spence(x: Array) -> Array:
    """Li2(1 - x), the integral of log(t) / (1 - t) from 1 to x; NaN below 0 (DLMF 25.12.3-6)."""
    inside = np.where((x > 0) & np.isfinite(x), x, 1.0)
    large = inside > 2.0
    t = np.where(large, 1 / inside, inside)
    small = t < 0.5
    core = _dilogarithm_core(np.where(small, t, 1 - t))
    # Li2(z) + Li2(1 - z) = pi^2/6 - log z log(1 - z) for z near 1; Li2(1 - 1/x) for x > 2.
    y = np.where(small, np.pi**2 / 6 - np.log(t) * np.log1p(-np.where(small, t, 0.0)) - core, core)
    y = np.where(large, -y - np.log(t) ** 2 / 2, y)
    y = np.where(x == 0, np.pi**2 / 6, y)
    return np.where((x < 0) | ~np.isfinite(x), np.nan, y)


# ---- Incomplete gamma and beta functions, Hurwitz's zeta function, polygamma; float64, to about 13 digits.
#
# Formulas: NIST Digital Library of Mathematical Functions, 8.7-8.11 and 8.17 (incomplete gamma, beta), 25.11
# (zeta), 5.11 and 5.15 (gamma, polygamma). Continued fractions by Lentz's method.


# Lentz's method replaces a vanishing numerator or denominator by this; it cancels in the next step.
_TINY = 1e-300
_ROUNDS = 20000
"""At most so many terms; sums end as soon as nothing changes any more."""


def _spread(*inputs: Array) -> tuple[list[Array], tuple[int, ...]]:
    """Inputs broadcast, flattened, as float64; and their common shape."""
    same = np.broadcast_arrays(*inputs)
    return [np.asarray(x, np.float64).reshape(-1) for x in same], same[0].shape


# B_2n / (2n (2n - 1)); at a = 15 the last of them is 2e-16.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def _stirling(a: Array) -> Array:
    """lgamma(a) - ((a - 1/2) log a - a + log(2 pi) / 2) of a >= 15 (DLMF 5.11.1)."""
    w = 1 / (a * a)
    total = np.zeros_like(a)
    for c in reversed(_STIRLING):
        total = total * w + c
    return total / a


def _log_power(a: Array, x: Array) -> Array:
    """log(x^a e^-x / gamma(a)): for large a without the cancellation of its parts."""
    plain = a * np.log(x) - x - lgamma(a)
    big = np.maximum(a, 15.0)
    m = (x - big) / big
    # With x = a (1 + m) the large terms a log a and -a cancel by hand: what is left is a (log(1 + m) - m) and
    # half of log(a / 2 pi).
    balanced = big * (_log1p_rest(m)) + np.log(big / (2 * np.pi)) / 2 - _stirling(big)
    return np.where(a < 15.0, plain, balanced)


def _log1p_rest(m: Array) -> Array:
    """log(1 + m) - m, by its series near 0."""
    small = np.where(np.abs(m) < 0.1, m, 0.0)
    total = np.zeros_like(m)
    # 0.1^17 is below the last digit of the leading m^2 / 2.
    for k in range(17, 1, -1):
        total = total * -small + 1 / k
    series = -total * small * small
    return np.where(np.abs(m) < 0.1, series, np.log1p(m) - m)


def _gamma_series(a: Array, x: Array) -> Array:
    """P(a, x), best for x < a + 1 (DLMF 8.11.4)."""
    term = 1 / a
    total = term.copy()
    for k in range(1, _ROUNDS):
        term = term * x / (a + k)
        # Written with `not ... any()`, so that NaN ends the loop, too.
        if not (np.abs(term) > np.abs(total) * 1e-17).any():
            break
        total += term
    return np.asarray(total * np.exp(_log_power(a, x)))


def _gamma_fraction(a: Array, x: Array) -> Array:
    """Q(a, x), best for x > a + 1 (DLMF 8.9.2)."""
    b = x + 1 - a
    # Lentz's start: C is infinite (1 / tiny), D the first partial denominator's inverse.
    c, d = np.full_like(x, 1 / _TINY), 1 / b
    h = d.copy()
    for k in range(1, _ROUNDS):
        numerator = -k * (k - a)
        b = b + 2
        d = 1 / _nonzero(numerator * d + b)
        c = _nonzero(b + numerator / c)
        h *= d * c
        if not (np.abs(d * c - 1) > 1e-16).any():
            break
    return np.asarray(h * np.exp(_log_power(a, x)))


def _nonzero(x: Array) -> Array:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def gamma_ratios(a: Array, x: Array) -> tuple[Array, Array]:
    """(P, Q), the regularized lower and upper incomplete gamma functions; inputs broadcast.

    NaN for negative arguments and for a = 0, except that P(0, 0) = 0, as in TensorFlow.
    """
    (a, x), shape = _spread(a, x)
    lower, upper = np.full_like(a, np.nan), np.full_like(a, np.nan)
    with np.errstate(all="ignore"):
        inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
        # Each of the two expansions converges fast on its side of x = a + 1 only; the other ratio is 1 minus
        # it.
        rising = inside & (x < a + 1)
        lower[rising] = np.minimum(_gamma_series(a[rising], x[rising]), 1.0)
        upper[rising] = 1 - lower[rising]
        falling = inside & ~rising
        upper[falling] = np.minimum(_gamma_fraction(a[falling], x[falling]), 1.0)
        lower[falling] = 1 - upper[falling]
        # x = 0 or a infinite: nothing lies below x. x infinite: nothing lies above it.
        low = (a > 0) & ((x == 0) | (np.isinf(a) & np.isfinite(x) & (x >= 0)))
        lower[low], upper[low] = 0.0, 1.0
        lower[(a == 0) & (x == 0)] = 0.0
        high = (a > 0) & np.isfinite(a) & np.isposinf(x)
        lower[high], upper[high] = 1.0, 0.0
    return lower.reshape(shape), upper.reshape(shape)


def _beta_fraction(a: Array, b: Array, x: Array) -> Array:
    """The continued fraction of the incomplete beta function (DLMF 8.17.22)."""
    c = np.ones_like(x)
    d = 1 / _nonzero(1 - (a + b) * x / (a + 1))
    h = d.copy()
    for m in range(1, _ROUNDS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for numerator in (even, odd):
            d = 1 / _nonzero(1 + numerator * d)
            c = _nonzero(1 + numerator / c)
            h *= d * c
        if not (np.abs(d * c - 1) > 1e-16).any():
            break
    return np.asarray(h)


def _log_beta_power(a: Array, b: Array, x: Array) -> Array:
    """log(x^a (1-x)^b / B(a, b)), for large a and b without the cancellation of its parts."""
    plain = a * np.log(x) + b * np.log1p(-x) + lgamma(a + b) - lgamma(a) - lgamma(b)
    big_a, big_b = np.maximum(a, 15.0), np.maximum(b, 15.0)
    total = big_a + big_b
    # x = p (1 + u), 1 - x = q (1 - v) with p = a / (a + b), q = b / (a + b).
    # As for the gamma function: with u and v the large logarithms cancel by hand, and log1p keeps what is
    # left.
    gap = x * total - big_a
    balanced = big_a * np.log1p(gap / big_a) + big_b * np.log1p(-gap / big_b)
    balanced += np.log(big_a * big_b / (2 * np.pi * total)) / 2
    balanced += _stirling(total) - _stirling(big_a) - _stirling(big_b)
    return np.asarray(np.where((a < 15.0) | (b < 15.0), plain, balanced))


def beta_ratio(a: Array, b: Array, x: Array) -> Array:
    """The regularized incomplete beta function; inputs broadcast. NaN unless a, b > 0 and 0 <= x <= 1."""
    (a, b, x), shape = _spread(a, b, x)
    y = np.full_like(x, np.nan)
    with np.errstate(all="ignore"):
        valid = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
        inside = valid & (x > 0) & (x < 1)
        # The continued fraction converges fast below this point; above it, I_x(a, b) = 1 - I_(1-x)(b, a).
        direct = inside & (x < (a + 1) / (a + b + 2))
        p, q, z = a[direct], b[direct], x[direct]
        y[direct] = np.exp(_log_beta_power(p, q, z)) * _beta_fraction(p, q, z) / p
        mirrored = inside & ~direct
        p, q, z = b[mirrored], a[mirrored], 1 - x[mirrored]
        y[mirrored] = 1 - np.exp(_log_beta_power(p, q, z)) * _beta_fraction(p, q, z) / p
        y[valid & (x == 0)], y[valid & (x == 1)] = 0.0, 1.0
    return y.reshape(shape)


# (2k)! / B_2k, k = 1, 2, ...: divisors of the corrections in Euler's and Maclaurin's summation.
_MACLAURIN = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
    -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17,
    -7.1661652561756670113e18,
)  # fmt: skip


# Further to the left than this the sum would have too many terms: a hostile q would make it run for ever.
_FAR = 1e3


def zeta(s: Array, q: Array) -> Array:
    """Hurwitz's zeta function, the sum of (k + q)^-s over k >= 0; inputs broadcast (DLMF 25.11.28).

    Infinite at s = 1, and where q is a pole if s is even; NaN at the other poles, for s < 1, and for q < 0
    unless s is whole.
    """
    (s, q), shape = _spread(s, q)
    with np.errstate(all="ignore"):
        is_far = q < -_FAR
        start = np.where(np.isfinite(q) & ~is_far, q, 1.0)
        # Summed one by one up to a base of 10, from where the corrections below fall fast.
        shifts = np.clip(np.ceil(-start), 0.0, None).max(initial=0) + 10
        total = np.zeros_like(q)
        for k in range(int(shifts)):
            # Terms of a negative base only where needed: the sum starts at q and ends past 9.
            total = total + np.where(start + k < 10, np.power(start + k, -s), 0.0)
        base = start + np.maximum(np.ceil(10 - start), 0.0)
        total = total + base ** (1 - s) / (s - 1) + base**-s / 2
        factor, power = s, base ** (-s - 1)
        for i, divisor in enumerate(_MACLAURIN):
            # Euler and Maclaurin's correction: B_2k / (2k)! s (s+1) ... (s+2k-2) base^(-s-2k+1).
            total = total + factor * power / divisor
            factor = factor * (s + 2 * i + 1) * (s + 2 * i + 2)
            power = power / (base * base)
        pole = (q <= 0) & (q == np.floor(q))
        if is_far.any():
            total[is_far] = _far_zeta(s[is_far], q[is_far])
        total = np.where(np.isposinf(q), 0.0, total)
        total = np.where((q <= 0) & ~pole & (s != np.floor(s)), np.nan, total)
        total = np.where(pole, np.where(np.mod(s, 2) == 0, np.inf, np.nan), total)
        total = np.where(s == 1, np.inf, np.where(s < 1, np.nan, total))
        y = np.where(np.isnan(s) | np.isnan(q), np.nan, total)
    return y.reshape(shape)


def _far_zeta(s: Array, q: Array) -> Array:
    """zeta of a q < 0 that is no pole, of whole s, without a term for each whole number up to 0."""
    # With f = q mod 1 the terms right of 0 are zeta(s, f). Those left of it are (-1)^s (j - f)^-s for j from
    # 1 to -floor(q), and their sum is what zeta(s, 1 - f) has before zeta(s, 1 - q).
    fraction = q - np.floor(q)
    sign = np.where(np.mod(s, 2) == 0, 1.0, -1.0)
    return np.asarray(zeta(s, fraction) + sign * (zeta(s, 1 - fraction) - zeta(s, 1 - q)))


def polygamma(n: Array, x: Array) -> Array:
    """The n-th derivative of digamma at x; NaN unless n is a whole number >= 0; inputs broadcast."""
    (n, x), shape = _spread(n, x)
    with np.errstate(all="ignore"):
        # psi^(n)(x) = (-1)^(n+1) n! zeta(n + 1, x), DLMF 25.11.12; n! through lgamma, as n is a float tensor.
        sign = np.where(np.mod(n, 2) == 1, 1.0, -1.0)
        derived = sign * np.exp(lgamma(n + 1)) * zeta(n + 1, x)
        y = np.where(n == 0, digamma(x), derived)
        y = np.where((n < 0) | (n != np.floor(n)), np.nan, y)
    return y.reshape(shape)
