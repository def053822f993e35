"""Special functions as formulas in double precision.

Sources: Lanczos' approximation of the gamma function (g = 7, 9 terms); the asymptotic series of digamma; the
inverse error function after M. Giles, "Approximating the erfinv function", 2010.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT
from thinflow.lower.onnx.builder import Builder, require
from thinflow.lower.onnx.making import seed_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)
_GILES_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_GILES_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
_DIGAMMA_SERIES = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132)  # of 1/x^2, 1/x^4, ...


def _in_double(b: Builder, x: Tensor) -> Term:
    require(x.dtype.is_floating and x.dtype is not DOUBLE, f"no formula is exact enough for {x.dtype}")
    return Term(b, b.cast(x, DOUBLE))


def _polynomial(x: Term, coefficients: Sequence[float]) -> Term:
    """Highest power first."""
    y = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        y = y * x + c
    return y


@lower("Lgamma", to="onnx")
def lgamma(b: Builder, node: Node, x: Tensor) -> Tensor:
    """Below 1/2 by reflection: log |gamma(x)| = log(pi / |sin(pi x)|) - log gamma(1 - x)."""
    z = _in_double(b, x)
    small = z < 0.5
    at = choose(small, 1 - z, z) - 1
    series = _constant(at, _LANCZOS[0])
    for n, c in enumerate(_LANCZOS[1:], 1):
        series = series + c / (at + float(n))
    t = at + 7.5
    direct = (at + 0.5) * t.apply("Log") - t + series.apply("Log") + 0.5 * math.log(2 * math.pi)
    # Near whole numbers the sine is taken of the distance to them, which is exact.
    rest = z - z.rounded()
    sine = (rest * math.pi).apply("Sin").magnitude()
    reflected = math.log(math.pi) - sine.apply("Log") - direct
    y = choose(small, reflected, direct)
    pole = (z <= 0) & rest.equals(0)
    y = choose(pole | z.magnitude().equals(np.inf), _constant(z, np.inf), y)
    return b.result(b.cast(y.tensor, x.dtype))


def _constant(like: Term, value: float) -> Term:
    return Term(like.b, like.of(value))


@lower("Digamma", to="onnx")
def digamma(b: Builder, node: Node, x: Tensor) -> Tensor:
    """Moved up past 6 by digamma(x) = digamma(x + 1) - 1/x, then the series; below 0 by reflection."""
    z = _in_double(b, x)
    negative = z <= 0
    at = choose(negative, 1 - z, z)
    total = _constant(at, 0.0)
    for _ in range(7):
        near = at < 7.0
        total = choose(near, total - 1 / at, total)
        at = choose(near, at + 1, at)
    inverse = 1 / (at * at)
    series = _polynomial(inverse, (*_DIGAMMA_SERIES[::-1], 0.0))
    direct = total + at.apply("Log") - 0.5 / at + series
    rest = z - z.rounded()
    angle = rest * math.pi
    slope = angle.apply("Cos") / angle.apply("Sin") * math.pi
    y = choose(negative, direct - slope, direct)
    y = choose(negative & rest.equals(0), _constant(z, math.nan), y)
    return b.result(b.cast(y.tensor, x.dtype))


def _inverse_error(x: Term) -> Term:
    """The inverse of erf; NaN outside of [-1, 1]."""
    w = -((1 - x) * (x + 1)).apply("Log")
    near = _polynomial(w - 2.5, _GILES_NEAR)
    far = _polynomial(w.most(0).apply("Sqrt") - 3, _GILES_FAR)
    y = choose(w < 5.0, near, far) * x
    return choose(x.magnitude().equals(1), x.apply("Sign") * np.inf, y)


@lower("Erfinv", to="onnx")
def erfinv(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.result(b.cast(_inverse_error(_in_double(b, x)).tensor, x.dtype))


@lower("Ndtri", to="onnx")
def ndtri(b: Builder, node: Node, x: Tensor) -> Tensor:
    """The quantile of the standard normal distribution."""
    y = _inverse_error(_in_double(b, x) * 2 - 1) * math.sqrt(2)
    return b.result(b.cast(y.tensor, x.dtype))


@lower("Xlog1py", to="onnx")
def xlog1py(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """0 wherever x is 0."""
    require(x.dtype.is_floating, f"Xlog1py of {x.dtype} makes no sense")
    factor = Term(b, x)
    value = factor * (Term(b, b.cast(y, DOUBLE)) + 1).apply("Log").cast(x.dtype)
    return b.result(choose(factor.equals(0), Term(b, b.scalar(0, x, "zero")), value).tensor)


@lower("TruncatedNormal", to="onnx")
def truncated_normal(b: Builder, node: Node, sizes: Tensor, *, seed: int = 0, seed2: int = 0) -> Tensor:
    """Other numbers of the same distribution: a normal one within two deviations, by its quantiles."""
    element = b.result_spec().dtype or FLOAT
    like = b.filled(b.index(sizes), 0, DOUBLE, shape=b.result_spec().shape)
    limit = math.erf(math.sqrt(2))
    drawn = Term(b, b.step("RandomUniformLike", like, low=-limit, high=limit, seed=seed_of(seed, seed2)))
    y = _inverse_error(drawn) * math.sqrt(2)
    return b.result(b.cast(y.tensor, element))
