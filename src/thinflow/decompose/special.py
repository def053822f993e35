"""Special functions as formulas in float, for targets that have no double.

Polynomials of log gamma: Chebyshev fits of lgamma(x) / (x - root) on each interval, relative error below a
float's rounding. Digamma: its asymptotic series. Inverse error function: M. Giles, "Approximating the erfinv
function", 2010, in single precision.
"""

from __future__ import annotations

import math

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, polynomial, refuse_unless, where
from thinflow.ir.types import DOUBLE, FLOAT, DType

# Upper end -> zero of lgamma to divide by, middle and half width of the interval, highest power first.
_LGAMMA = {
    1.5: (1.0, 1.0, 0.5, (
        -4.35509424e-05, 8.81031477e-05, -4.88579087e-05, 0.000126628118, -0.000464417447, 0.0010251061,
        -0.00223993212, 0.00528505387, -0.0129634656, 0.0338243558, -0.100171289, 0.411233453, -0.577215666,
    )),
    2.5: (2.0, 2.0, 0.5, (
        2.24616366e-07, -9.91647776e-07, 3.9504485e-06, -1.85287142e-05, 9.03423811e-05, -0.000461636102,
        0.00257259854, -0.0168380703, 0.161233517, 0.422784335,
    )),
    4.5: (2.0, 3.5, 1.0, (
        -3.01898661e-06, 1.19478199e-05, -4.25345927e-05, 0.000184084857, -0.000844790689, 0.00419671978,
        -0.0243285385, 0.201671688, 0.800649068,
    )),
    9.0: (2.0, 6.75, 2.25, (
        -1.177758e-05, 4.01765364e-05, -0.000117282141, 0.00044197782, -0.00176805536, 0.00757177018,
        -0.0374451709, 0.258670383, 1.28756124,
    )),
}  # fmt: skip
_GILES_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_GILES_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _in_float(x: Term) -> Term:
    refuse_unless(x.dtype.is_floating and x.dtype is not DOUBLE, f"no formula is exact enough for {x.dtype}")
    return x.cast(FLOAT)


@decompose("Lgamma")
def lgamma(x: Term) -> Term:
    """log |gamma|. Below 1/2 by gamma(x) = gamma(x + 1) / x, below 0 by -pi / (x sin(pi x) gamma(-x))."""
    z = _in_float(x)
    size = z.abs()
    is_small = size < 0.5
    # Each formula gets operands from its own range, also where another one's result is taken.
    y = _lgamma_from_half(where(is_small, size + 1.0, size))
    y = where(is_small, y - where(is_small, size, 1.0).log(), y)
    # Near whole numbers the sine is taken of the distance to them, which is exact.
    rest = z - z.apply("Rint")
    # |sin(pi z)| has period 1.
    sine = (rest * math.pi).apply("Sin").abs()
    reflected = math.log(math.pi) - sine.log() - size.log() - y
    y = where(z < 0.0, reflected, y)
    is_pole = (z <= 0.0) & rest.equal(0.0)
    return where(is_pole | size.equal(np.inf), np.inf, y).cast(x.dtype)


def _lgamma_from_half(x: Term) -> Term:
    """lgamma(x) for x >= 1/2: Stirling's series from the last interval on."""
    # Below the last end (9) another formula's result is taken: this one only has to stay finite.
    far = x.maximum(8.0)
    inverse = 1.0 / far
    series = polynomial(inverse * inverse, (1 / 1260, -1 / 360, 1 / 12)) * inverse
    y = (far - 0.5) * far.log() - far + (series + 0.5 * math.log(2 * math.pi))
    # From the last interval to the first: below several ends the nearest one is written last.
    for end, (root, middle, half, coefficients) in reversed(_LGAMMA.items()):
        # Clipped to its interval: far outside a polynomial of degree 12 overflows.
        inside = x.maximum(middle - half).minimum(end)
        y = where(x < end, polynomial((inside - middle) * (1 / half), coefficients) * (inside - root), y)
    return y


@decompose("Digamma")
def digamma(x: Term) -> Term:
    """Moved up past 7 by digamma(x) = digamma(x + 1) - 1/x, then the series; below 0 by reflection."""
    z = _in_float(x)
    is_negative = z <= 0.0
    at = where(is_negative, 1.0 - z, z)
    # One step and six more lead from just above 0 past 7, where the series is exact to a float.
    total = where(at < 7.0, -1.0 / at, 0.0)
    at = where(at < 7.0, at + 1.0, at)
    for _ in range(6):
        is_near = at < 7.0
        total = where(is_near, total - 1.0 / at, total)
        at = where(is_near, at + 1.0, at)
    inverse = 1.0 / (at * at)
    series = polynomial(inverse, (-1 / 252, 1 / 120, -1 / 12, 0.0))
    direct = total + (at.log() - 0.5 / at + series)
    rest = z - z.apply("Rint")
    angle = rest * math.pi
    # digamma(z) = digamma(1 - z) - pi / tan(pi z); the tangent has period 1.
    slope = angle.apply("Cos") / angle.apply("Sin") * math.pi
    y = where(is_negative, direct - slope, direct)
    return where(is_negative & rest.equal(0.0), math.nan, y).cast(x.dtype)


@decompose("Erfinv")
def erfinv(x: Term) -> Term:
    """The fit covers all floats between -1 and 1."""
    return _erfinv(_in_float(x)).cast(x.dtype)


def _erfinv(z: Term) -> Term:
    # (1 - z)(1 + z) instead of 1 - z^2, which loses digits near 1.
    w = -((1.0 - z) * (z + 1.0)).log()
    near = polynomial(w - 2.5, _GILES_NEAR)
    far = polynomial(w.maximum(5.0).sqrt() - 3.0, _GILES_FAR)
    y = where(w < 5.0, near, far) * z
    return where(z.abs().equal(1.0), z * np.inf, y)


@decompose("Ndtri")
def ndtri(x: Term) -> Term:
    """The quantile of the standard normal distribution."""
    return (_erfinv(_in_float(x) * 2.0 - 1.0) * math.sqrt(2)).cast(x.dtype)


@decompose("TruncatedNormal")
def truncated_normal(sizes: Term, *, dtype: DType, seed: int = 0, seed2: int = 0) -> Term:
    """Other numbers of the same distribution: a normal one within two deviations, by its quantiles."""
    # The share of a normal distribution within two deviations: uniform numbers of that width, by its
    # quantiles.
    limit = math.erf(math.sqrt(2))
    drawn = sizes.body.add(
        "RandomUniform", [sizes.value], T=sizes.dtype, dtype=FLOAT, seed=seed, seed2=seed2
    )[0]
    return (_erfinv(drawn * (2 * limit) - limit) * math.sqrt(2)).cast(dtype)
