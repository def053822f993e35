"""Gamma and Poisson numbers as TensorFlow draws them from Philox: by trial, each from its own blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thinflow.ops._philox import Philox, _box_muller, uniform_double
from thinflow.typing import Array

RESERVED = 256
"""Blocks between the beginnings of two outputs."""


class _Draws:
    """Uniform and normal float64 numbers from consecutive blocks; of the two in a block the second first."""

    def __init__(self, source: Philox, first: int) -> None:
        self.source, self.next = source, first
        self.uniforms: list[float] = []
        self.normals: list[float] = []

    def _block(self) -> Array:
        block = self.source.blocks(self.next, 1)
        self.next += 1
        return block

    def uniform(self) -> float:
        if not self.uniforms:
            self.uniforms = uniform_double(self._block())[0].tolist()
        return self.uniforms.pop()

    def normal(self) -> float:
        if not self.normals:
            self.normals = _box_muller(self._block(), True)[0].tolist()
        return self.normals.pop()


def gamma(draws: _Draws, alpha: float) -> float:
    """A gamma-distributed number of shape alpha, scale 1.

    G. Marsaglia and W. Tsang, "A simple method for generating gamma variables", 2000.
    """
    if alpha == 1.0:
        # Shape 1 is the exponential distribution; TensorFlow takes this way, so one uniform number is used
        # up.
        return -math.log1p(-draws.uniform())
    if not alpha > 0 or math.isinf(alpha):
        return math.nan
    small = alpha < 1
    # d = shape - 1/3; below 1 the shape is raised by 1, and the result multiplied by u^(1/alpha).
    d = alpha + (2.0 / 3 if small else -1.0 / 3)
    c = 1.0 / 3 / math.sqrt(d)
    while True:
        x = draws.normal()
        v = 1 + c * x
        if v <= 0:
            continue
        v = v * v * v
        u = draws.uniform()
        # The first comparison accepts nearly always, and saves the logarithms.
        if u < 1 - 0.0331 * (x * x) * (x * x) or _log(u) < 0.5 * x * x + d * (1 - v + math.log(v)):
            power = draws.uniform() ** (1 / alpha) if small else 1.0
            return float(d * v * power)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def poisson(draws: _Draws, rate: float) -> float:
    """A Poisson-distributed number: D. Knuth's product of uniform numbers, from a rate of 10 on rejection.

    W. Hoermann, "The transformed rejection method for generating Poisson random variables", 1993.
    """
    if not math.isfinite(rate) or rate < 0:
        return math.nan
    return _poisson_small(draws, rate) if rate < 10 else _poisson_large(draws, rate)


def _poisson_small(draws: _Draws, rate: float) -> float:
    # The product of uniform numbers falls below e^-rate after a Poisson number of factors.
    limit, product, count = math.exp(-rate), 1.0, 0
    while (product := product * draws.uniform()) > limit:
        count += 1
    return float(count)


def _poisson_large(draws: _Draws, rate: float) -> float:
    # Constants of Hoermann's algorithm PTRS; the squeeze below accepts without the logarithms.
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    while True:
        u, v = draws.uniform() - 0.5, draws.uniform()
        rest = 0.5 - abs(u)
        # u = -1/2 would divide by 0.
        if rest == 0:
            continue
        k = math.floor((2 * a / rest + b) * u + rate + 0.43)
        if rest >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return float(k)
        # Hoermann's second squeeze, which rejects in the tails.
        if k < 0 or (rest < 0.013 and v > rest):
            continue
        accepted = _log(v * inverse_alpha / (a / (rest * rest) + b))
        if accepted <= -rate + k * math.log(rate) - math.lgamma(k + 1):
            return float(k)


def gammas(source: Philox, alpha: Array, samples: int) -> Array:
    """float64 [samples, *alpha.shape]."""
    return _each(gamma, source, alpha, samples)


def poissons(source: Philox, rate: Array, samples: int) -> Array:
    """float64 [samples, *rate.shape]."""
    return _each(poisson, source, rate, samples)


def _each(draw: Any, source: Philox, parameter: Array, samples: int) -> Array:
    flat = parameter.astype(np.float64).reshape(-1).tolist()
    drawn = [
        # Output numbers run over samples within each parameter; the result has samples first.
        [draw(_Draws(source, RESERVED * (i * samples + s)), value) for s in range(samples)]
        for i, value in enumerate(flat)
    ]
    values = np.array(drawn, np.float64).reshape(len(flat), samples)
    return np.asarray(values.T.reshape(samples, *parameter.shape))
