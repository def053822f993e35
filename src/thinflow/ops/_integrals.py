"""Functions defined by integrals of elementary ones, on float64 arrays, to about 14 digits.

Formulas: NIST Digital Library of Mathematical Functions, chapters 6 (exponential integral), 7 (Dawson,
Fresnel) and 25.12 (dilogarithm).
"""

from __future__ import annotations

import math

import numpy as np

from thinflow.ops._special import _horner, _in_float64
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
