"""Special functions of mathematics beyond those of `unary`, computed in float64 and rounded at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops import _bessel, _integrals
from thinflow.ops._numeric import binary, broadcast_spec, like, pick, quiet, unary, widen
from thinflow.ops.registry import OpDef, op
from thinflow.ops.traits import Trait
from thinflow.ops.unary import Unary
from thinflow.typing import Array


class _Binary(OpDef):
    """z = f(x, y).   Inputs broadcast; floats."""

    traits = Trait.ELEMENTWISE

    @staticmethod
    def infer(x: TensorSpec, y: TensorSpec) -> TensorSpec:
        return broadcast_spec(pick(x, y), x, y)


@op("BesselI0")
class BesselI0(Unary):
    """y = modified Bessel function of the first kind, order 0."""

    kernel = staticmethod(unary(_bessel.i0))


@op("BesselI0e")
class BesselI0e(Unary):
    """y = BesselI0(x) e^-|x|."""

    kernel = staticmethod(unary(_bessel.i0e))


@op("BesselI1")
class BesselI1(Unary):
    """y = modified Bessel function of the first kind, order 1."""

    kernel = staticmethod(unary(_bessel.i1))


@op("BesselI1e")
class BesselI1e(Unary):
    """y = BesselI1(x) e^-|x|."""

    kernel = staticmethod(unary(_bessel.i1e))


@op("BesselJ0")
class BesselJ0(Unary):
    """y = Bessel function of the first kind, order 0."""

    kernel = staticmethod(unary(_bessel.j0))


@op("BesselJ1")
class BesselJ1(Unary):
    """y = Bessel function of the first kind, order 1."""

    kernel = staticmethod(unary(_bessel.j1))


@op("BesselY0")
class BesselY0(Unary):
    """y = Bessel function of the second kind, order 0; -inf up to 0."""

    kernel = staticmethod(unary(_bessel.y0))


@op("BesselY1")
class BesselY1(Unary):
    """y = Bessel function of the second kind, order 1; -inf up to 0."""

    kernel = staticmethod(unary(_bessel.y1))


@op("BesselK0")
class BesselK0(Unary):
    """y = modified Bessel function of the second kind, order 0; inf up to 0."""

    kernel = staticmethod(unary(_bessel.k0))


@op("BesselK0e")
class BesselK0e(Unary):
    """y = BesselK0(x) e^x."""

    kernel = staticmethod(unary(_bessel.k0e))


@op("BesselK1")
class BesselK1(Unary):
    """y = modified Bessel function of the second kind, order 1; inf up to 0."""

    kernel = staticmethod(unary(_bessel.k1))


@op("BesselK1e")
class BesselK1e(Unary):
    """y = BesselK1(x) e^x."""

    kernel = staticmethod(unary(_bessel.k1e))


@op("Dawsn")
class Dawsn(Unary):
    """y = e^(-x^2) times the integral of e^(t^2) from 0 to x."""

    kernel = staticmethod(unary(_integrals.dawson))


@op("Expint")
class Expint(Unary):
    """y = exponential integral Ei(x); -inf at 0, NaN below."""

    kernel = staticmethod(unary(_integrals.expint))


@op("FresnelSin")
class FresnelSin(Unary):
    """y = the integral of sin(pi t^2 / 2) from 0 to x."""

    kernel = staticmethod(unary(_integrals.fresnel_sin))


@op("FresnelCos")
class FresnelCos(Unary):
    """y = the integral of cos(pi t^2 / 2) from 0 to x."""

    kernel = staticmethod(unary(_integrals.fresnel_cos))


@op("Spence")
class Spence(Unary):
    """y = the integral of log(t) / (1 - t) from 1 to x; NaN below 0."""

    kernel = staticmethod(unary(_integrals.spence))


@op("Igamma")
class Igamma(_Binary):
    """z = P(x, y), the part of gamma(x) that is below y."""

    kernel = staticmethod(binary(lambda a, x: _integrals.gamma_ratios(a, x)[0]))


@op("Igammac")
class Igammac(_Binary):
    """z = Q(x, y) = 1 - P(x, y)."""

    kernel = staticmethod(binary(lambda a, x: _integrals.gamma_ratios(a, x)[1]))


@op("Zeta")
class Zeta(_Binary):
    """z = Hurwitz's zeta function, the sum of (k + y)^-x over k = 0, 1, ..."""

    kernel = staticmethod(binary(_integrals.zeta))


@op("Polygamma")
class Polygamma(_Binary):
    """z = the x-th derivative of digamma at y."""

    kernel = staticmethod(binary(_integrals.polygamma))


@op("Betainc")
class Betainc(OpDef):
    """y = the regularized incomplete beta integral of x.   a, b, x of one shape, or scalars."""

    traits = Trait.ELEMENTWISE

    @staticmethod
    def infer(a: TensorSpec, b: TensorSpec, x: TensorSpec) -> TensorSpec:
        return broadcast_spec(pick(a, b, x), a, b, x)

    @staticmethod
    @quiet
    def kernel(a: Array, b: Array, x: Array) -> Array:
        # float64 inside, as elsewhere here; rounded once.
        y: Any = _integrals.beta_ratio(widen(a), widen(b), widen(x))
        return like(np.asarray(y), x)
