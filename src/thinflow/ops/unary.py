"""Mathematical functions of one input, element by element."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from thinflow.ir.types import BOOL, UINT8, TensorSpec
from thinflow.ops import _special
from thinflow.ops._numeric import broadcast_spec, quiet, unary, widen
from thinflow.ops.registry import OpDef, op
from thinflow.ops.traits import Trait
from thinflow.typing import Array


class Unary(OpDef):
    """y = f(x).   y has the shape and type of x."""

    traits = Trait.ELEMENTWISE | Trait.T_OF_ALL_INPUTS
    on_ints: ClassVar[Callable[..., Any] | None] = None
    """The op on Python integers, for elements known before the run."""

    @classmethod
    def infer(cls, x: TensorSpec) -> TensorSpec:
        return broadcast_spec(x.dtype, x, on_ints=cls.on_ints)


class Test(OpDef):
    """y = whether x has a property, bool.   Floats."""

    traits = Trait.ELEMENTWISE | Trait.T_OF_ALL_INPUTS

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, x.shape)


# ---- Sign and rounding


@op("Neg")
class Neg(Unary):
    """y = -x.   The smallest integer stays as it is."""

    traits = Trait.LINEAR

    on_ints = staticmethod(operator.neg)
    kernel = staticmethod(unary(np.negative))


@op("Abs")
class Abs(Unary):
    """y = |x|.   The smallest integer stays as it is; complex numbers have ComplexAbs."""

    traits = Trait.NOT_NEGATIVE
    on_ints = staticmethod(abs)
    kernel = staticmethod(unary(np.abs))


def _sign(x: Array) -> Any:
    if x.dtype.kind == "c":
        return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))
    return np.sign(x)


@op("Sign")
class Sign(Unary):
    """y = -1, 0 or 1; NaN stays. For complex numbers x / |x|, 0 at 0."""

    on_ints = staticmethod(lambda x: (x > 0) - (x < 0))
    kernel = staticmethod(unary(_sign))


@op("Floor")
class Floor(Unary):
    """y = the largest whole number <= x.   Floats."""

    kernel = staticmethod(unary(np.floor))


@op("Ceil")
class Ceil(Unary):
    """y = the smallest whole number >= x.   Floats."""

    kernel = staticmethod(unary(np.ceil))


@op("Round", "Rint")
class Round(Unary):
    """y = the nearest whole number, halves to the even one: 0.5 and 2.5 give 0 and 2."""

    on_ints = staticmethod(operator.pos)
    kernel = staticmethod(unary(lambda x: x if x.dtype.kind in "iu" else np.rint(x)))


# ---- Powers and roots


@op("Square")
class Square(Unary):
    """y = x * x.   Integers wrap around."""

    traits = Trait.NOT_NEGATIVE
    on_ints = staticmethod(lambda x: x * x)
    kernel = staticmethod(unary(lambda x: x * x))


@op("Sqrt")
class Sqrt(Unary):
    """y = square root, NaN below 0.   Floats, complex."""

    traits = Trait.NOT_NEGATIVE
    kernel = staticmethod(unary(np.sqrt))


@op("Rsqrt")
class Rsqrt(Unary):
    """y = 1 / sqrt(x).   Infinite at 0, NaN below."""

    kernel = staticmethod(unary(lambda x: 1 / np.sqrt(x)))


@op("Reciprocal", "Inv")
class Reciprocal(Unary):
    """y = 1 / x.   Integers round towards zero."""

    # Only 1 and -1 have a whole reciprocal; others round to 0, and so does 0 here.
    kernel = staticmethod(unary(lambda x: x * (np.abs(x) == 1) if x.dtype.kind in "iu" else 1 / x))


# ---- Exponentials and logarithms


@op("Exp")
class Exp(Unary):
    """y = e^x.   Floats, complex."""

    traits = Trait.NOT_NEGATIVE
    kernel = staticmethod(unary(np.exp))


@op("Expm1")
class Expm1(Unary):
    """y = e^x - 1, exact near 0.   Floats, complex."""

    kernel = staticmethod(unary(np.expm1))


@op("Log")
class Log(Unary):
    """y = natural logarithm.   Floats, complex."""

    kernel = staticmethod(unary(np.log))


@op("Log1p")
class Log1p(Unary):
    """y = log(1 + x), exact near 0.   Floats, complex."""

    kernel = staticmethod(unary(np.log1p))


@op("Sigmoid")
class Sigmoid(Unary):
    """y = 1 / (1 + e^-x).   Floats, complex."""

    traits = Trait.NOT_NEGATIVE

    # exp overflows far below 0, to infinity, of which 1 / x is the right 0.
    kernel = staticmethod(unary(lambda x: 1 / (1 + np.exp(-x))))


# ---- Trigonometric and hyperbolic functions, angles in radians


@op("Sin")
class Sin(Unary):
    """y = sin x."""

    kernel = staticmethod(unary(np.sin))


@op("Cos")
class Cos(Unary):
    """y = cos x."""

    kernel = staticmethod(unary(np.cos))


@op("Tan")
class Tan(Unary):
    """y = tan x."""

    kernel = staticmethod(unary(np.tan))


@op("Asin")
class Asin(Unary):
    """y = arc sine, NaN outside [-1, 1]."""

    kernel = staticmethod(unary(np.arcsin))


@op("Acos")
class Acos(Unary):
    """y = arc cosine, NaN outside [-1, 1]."""

    kernel = staticmethod(unary(np.arccos))


@op("Atan")
class Atan(Unary):
    """y = arc tangent."""

    kernel = staticmethod(unary(np.arctan))


@op("Sinh")
class Sinh(Unary):
    """y = hyperbolic sine."""

    kernel = staticmethod(unary(np.sinh))


@op("Cosh")
class Cosh(Unary):
    """y = hyperbolic cosine."""

    kernel = staticmethod(unary(np.cosh))


@op("Tanh")
class Tanh(Unary):
    """y = hyperbolic tangent."""

    kernel = staticmethod(unary(np.tanh))


@op("Asinh")
class Asinh(Unary):
    """y = inverse hyperbolic sine."""

    kernel = staticmethod(unary(np.arcsinh))


@op("Acosh")
class Acosh(Unary):
    """y = inverse hyperbolic cosine, NaN below 1."""

    kernel = staticmethod(unary(np.arccosh))


@op("Atanh")
class Atanh(Unary):
    """y = inverse hyperbolic tangent, infinite at -1 and 1, NaN outside."""

    kernel = staticmethod(unary(np.arctanh))


# ---- Special functions, computed in float64


@op("Erf")
class Erf(Unary):
    """y = error function.   Floats."""

    kernel = staticmethod(unary(_special.erf))


@op("Erfc")
class Erfc(Unary):
    """y = 1 - erf(x), without cancellation.   Floats."""

    kernel = staticmethod(unary(_special.erfc))


@op("Erfinv")
class Erfinv(Unary):
    """y = inverse of erf, NaN outside [-1, 1].   Floats."""

    kernel = staticmethod(unary(_special.erfinv))


@op("Ndtri")
class Ndtri(Unary):
    """y = quantile of the standard normal distribution, NaN outside [0, 1].   Floats."""

    kernel = staticmethod(unary(_special.ndtri))


@op("Lgamma")
class Lgamma(Unary):
    """y = log |gamma(x)|, infinite at 0 and the negative integers.   Floats."""

    kernel = staticmethod(unary(_special.lgamma))


@op("Digamma")
class Digamma(Unary):
    """y = derivative of lgamma, NaN at 0 and the negative integers.   Floats."""

    kernel = staticmethod(unary(_special.digamma))


# ---- Properties


@op("IsNan")
class IsNan(Test):
    """y = x is not a number."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return np.isnan(widen(x))


@op("IsInf")
class IsInf(Test):
    """y = x is infinite, of either sign."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return np.isinf(widen(x))


@op("IsFinite")
class IsFinite(Test):
    """y = x is neither infinite nor NaN."""

    @staticmethod
    def kernel(x: Array) -> Array:
        return np.isfinite(widen(x))


# ---- Bits


@op("Invert")
class Invert(Unary):
    """y = every bit of x flipped.   Integers."""

    on_ints = staticmethod(operator.invert)
    kernel = staticmethod(unary(np.invert))


@op("PopulationCount")
class PopulationCount(OpDef):
    """y = number of set bits, uint8.   Integers."""

    traits = Trait.ELEMENTWISE

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(UINT8, x.shape)

    @staticmethod
    @quiet
    def kernel(x: Array) -> Array:
        as_bytes = np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint8)
        return np.asarray(np.unpackbits(as_bytes, axis=-1).sum(axis=-1, dtype=np.uint8))


@op("LogicalNot")
class LogicalNot(Unary):
    """y = not x.   bool."""

    on_ints = staticmethod(operator.not_)
    kernel = staticmethod(unary(np.logical_not))
