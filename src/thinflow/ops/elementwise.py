"""Arithmetic of two inputs, element by element, with broadcasting."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from thinflow.errors import NodeError
from thinflow.ir.types import BOOL, TensorSpec
from thinflow.ops._numeric import binary, broadcast_spec, like, pick, quiet, widen
from thinflow.ops._shapes import merge
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


class Binary(OpDef):
    """z = f(x, y).   x, y broadcast; z has their common type."""

    traits = Trait.ELEMENTWISE | Trait.T_OF_ALL_INPUTS
    on_ints: ClassVar[Callable[..., Any] | None] = None
    """The op on Python integers (None: no answer), for elements known before the run."""

    @classmethod
    def infer(cls, x: TensorSpec, y: TensorSpec) -> TensorSpec:
        return broadcast_spec(pick(x, y), x, y, on_ints=cls.on_ints)


# ---- Sums and products


@op("Add", "AddV2")
class Add(Binary):
    """z = x + y.   Any number type; integers wrap around. Add also joins strings."""

    # Commutative not for strings: who reorders inputs must look at the type.
    traits = Trait.COMMUTATIVE | Trait.ADD | Trait.LINEAR
    on_ints = staticmethod(operator.add)

    @staticmethod
    @quiet
    def kernel(x: Array, y: Array) -> Array:
        if x.dtype.kind == "O":
            return np.asarray(np.add(x, y), dtype=object)
        return like(np.add(widen(x), widen(y)), x)


@op("Sub")
class Sub(Binary):
    """z = x - y.   Any number type; integers wrap around."""

    traits = Trait.SUBTRACT | Trait.LINEAR

    on_ints = staticmethod(operator.sub)
    kernel = staticmethod(binary(np.subtract))


@op("Mul")
class Mul(Binary):
    """z = x * y.   Any number type; integers wrap around."""

    traits = Trait.COMMUTATIVE | Trait.MULTIPLY
    on_ints = staticmethod(operator.mul)
    kernel = staticmethod(binary(np.multiply))


@op("MulNoNan")
class MulNoNan(Binary):
    """z = x * y, but 0 wherever y is 0, even if x is infinite or NaN.   Floats, complex."""

    kernel = staticmethod(binary(lambda x, y: np.where(y == 0, 0, x * y)))


@op("SquaredDifference")
class SquaredDifference(Binary):
    """z = (x - y)^2; for complex numbers conj(d) * d."""

    traits = Trait.COMMUTATIVE | Trait.NOT_NEGATIVE
    on_ints = staticmethod(lambda x, y: (x - y) ** 2)

    @staticmethod
    def compute(x: Any, y: Any) -> Any:
        d = x - y
        return np.conj(d) * d

    kernel = staticmethod(binary(compute))


@op("AddN", "AccumulateNV2")
class AddN(OpDef):
    """y = x0 + x1 + ...   All of one shape, no broadcasting; integers wrap around."""

    traits = Trait.COMMUTATIVE | Trait.ELEMENTWISE | Trait.T_OF_ALL_INPUTS | Trait.LINEAR

    @staticmethod
    def infer(*xs: TensorSpec) -> TensorSpec:
        require(len(xs) > 0, "a sum of no tensors has no type")
        shape = xs[0].shape
        for x in xs[1:]:
            shape = merge(shape, x.shape)
        return TensorSpec(pick(*xs), shape)

    @staticmethod
    @quiet
    def kernel(*xs: Array) -> Array:
        require(len({x.shape for x in xs}) == 1, "the tensors to add differ in shape")
        total = widen(xs[0])
        for x in xs[1:]:
            total = np.asarray(total + widen(x))
        return like(total, xs[0])

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=(len(xs) - 1) * (y.size or 0))


# ---- Division


def _no_zero(y: Array) -> None:
    if y.dtype.kind in "iu" and not np.all(y):
        raise NodeError("integer division by zero", hint="feed a divisor without zeros")


def _truncated(x: Array, y: Array) -> Array:
    """Integer quotient rounded towards zero, as C divides; the smallest integer by -1 wraps to itself."""
    # One more where the floor went below a quotient that is negative and not whole.
    quotient = np.floor_divide(x, y)
    return np.asarray(quotient + (((x < 0) != (y < 0)) & (quotient * y != x)).astype(quotient.dtype))


def _divide(x: Array, y: Array) -> Array:
    _no_zero(y)
    return _truncated(x, y) if x.dtype.kind in "iu" else np.true_divide(x, y)


def _quotient(x: Array, y: Array) -> Array:
    """x / y, rounded to the type of x before anything else is done with it."""
    return widen(like(np.true_divide(widen(x), widen(y)), x))


@quiet
def _floor_divide(x: Array, y: Array) -> Array:
    _no_zero(y)
    return np.floor_divide(x, y) if x.dtype.kind in "iu" else like(np.floor(_quotient(x, y)), x)


@quiet
def _truncate_divide(x: Array, y: Array) -> Array:
    _no_zero(y)
    return _truncated(x, y) if x.dtype.kind in "iu" else like(np.trunc(_quotient(x, y)), x)


def _remainder(x: Array, y: Array) -> Array:
    _no_zero(y)
    return np.asarray(np.fmod(x, y))


def _floor_remainder(x: Array, y: Array) -> Array:
    rest = _remainder(x, y)
    # numpy's mod would differ from TensorFlow in the sign of a zero.
    return np.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)


def _int_truncated(x: int, y: int) -> int | None:
    if y == 0:
        return None
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


@op("RealDiv", "Div")
class RealDiv(Binary):
    """z = x / y.   Integers (Div only) round towards zero and refuse a zero divisor; floats follow IEEE."""

    traits = Trait.DIVIDE | Trait.HAS_DIVISOR
    on_ints = staticmethod(_int_truncated)
    kernel = staticmethod(binary(_divide))


@op("FloorDiv")
class FloorDiv(Binary):
    """z = floor(x / y).   Floats round the quotient first, so 1 by 0.1 is 10, unlike Python's //."""

    traits = Trait.HAS_DIVISOR
    on_ints = staticmethod(lambda x, y: x // y if y else None)
    kernel = staticmethod(_floor_divide)


@op("TruncateDiv")
class TruncateDiv(Binary):
    """z = x / y rounded towards zero."""

    traits = Trait.HAS_DIVISOR
    on_ints = staticmethod(_int_truncated)
    kernel = staticmethod(_truncate_divide)


@op("FloorMod")
class FloorMod(Binary):
    """z = x - floor(x / y) * y: the sign of y.   Integers, floats."""

    traits = Trait.HAS_DIVISOR
    on_ints = staticmethod(lambda x, y: x % y if y else None)
    kernel = staticmethod(binary(_floor_remainder))


@op("Mod", "TruncateMod")
class TruncateMod(Binary):
    """z = x - trunc(x / y) * y: the sign of x, as C's % and fmod.   Integers, floats."""

    traits = Trait.HAS_DIVISOR
    on_ints = staticmethod(lambda x, y: abs(x) % abs(y) * (-1 if x < 0 else 1) if y else None)
    kernel = staticmethod(binary(_remainder))


@op("DivNoNan")
class DivNoNan(Binary):
    """z = x / y, but 0 wherever y is 0, even if x is NaN.   Floats, complex."""

    traits = Trait.HAS_DIVISOR
    kernel = staticmethod(binary(lambda x, y: np.where(y == 0, 0, x / y)))


@op("Xdivy")
class Xdivy(Binary):
    """z = x / y, but 0 wherever x is 0, whatever y is.   Floats, complex."""

    kernel = staticmethod(binary(lambda x, y: np.where(x == 0, 0, x / y)))


# ---- Powers and logarithms


def _power(x: Array, y: Array) -> Array:
    if y.dtype.kind == "i" and np.any(y < 0):
        raise NodeError(
            "an integer has no negative integer power", hint="cast the base to a float type first"
        )
    if x.dtype.kind in "iu":
        return np.power(x, y)
    result = np.asarray(np.power(x, y))
    return np.where(y == 0, 1, result) if x.dtype.kind == "c" else result


@op("Pow")
class Pow(Binary):
    """z = x^y.   Integers wrap around and refuse a negative exponent."""

    # Exponents beyond 63 are no sizes; Python's integers would grow without end.
    on_ints = staticmethod(lambda x, y: x**y if 0 <= y < 64 else None)
    kernel = staticmethod(binary(_power))


@op("Xlogy")
class Xlogy(Binary):
    """z = x log(y), but 0 wherever x is 0.   Floats, complex."""

    kernel = staticmethod(binary(lambda x, y: np.where(x == 0, 0, x * np.log(y))))


@op("Xlog1py")
class Xlog1py(Binary):
    """z = x log(1 + y), but 0 wherever x is 0.   Floats, complex."""

    kernel = staticmethod(binary(lambda x, y: np.where(x == 0, 0, x * np.log1p(y))))


@op("Atan2")
class Atan2(Binary):
    """z = angle of the point (y, x), its first coordinate last, in (-pi, pi].

    Floats; the inputs are y, x.
    """

    kernel = staticmethod(binary(np.arctan2))


@op("NextAfter")
class NextAfter(Binary):
    """z = the float next to x in the direction of y.   float, double."""

    traits = Trait.TYPE_BITS
    kernel = staticmethod(binary(np.nextafter))


# ---- Extremes and comparison within a tolerance


@op("Maximum")
class Maximum(Binary):
    """z = the larger of x and y, NaN if either is."""

    traits = Trait.COMMUTATIVE | Trait.EXTREME
    on_ints = staticmethod(max)
    kernel = staticmethod(binary(np.maximum))


@op("Minimum")
class Minimum(Binary):
    """z = the smaller of x and y, NaN if either is."""

    traits = Trait.COMMUTATIVE | Trait.EXTREME
    on_ints = staticmethod(min)
    kernel = staticmethod(binary(np.minimum))


@op("ClipByValue")
class ClipByValue(OpDef):
    """y = max(min(t, high), low): low wins if they cross.   low, high: scalars or of t's shape."""

    traits = Trait.ELEMENTWISE | Trait.T_OF_ALL_INPUTS

    @staticmethod
    def infer(t: TensorSpec, low: TensorSpec, high: TensorSpec) -> TensorSpec:
        clipped = broadcast_spec(t.dtype, t, low, high, on_ints=lambda t, low, high: max(min(t, high), low))
        # A low or high of unknown rank may only be a scalar or like t.
        return clipped if clipped.shape is not None else t.with_shape(t.shape)

    @staticmethod
    @quiet
    def kernel(t: Array, low: Array, high: Array) -> Array:
        return like(np.maximum(np.minimum(widen(t), widen(high)), widen(low)), t)

    @staticmethod
    def cost(y: TensorSpec, t: TensorSpec, low: TensorSpec, high: TensorSpec) -> Cost:
        return Cost(flops=2 * (y.size or 0))


@op("ApproximateEqual")
class ApproximateEqual(OpDef):
    """z = |x - y| < tolerance, bool.   x, y: one shape, no broadcasting."""

    traits = Trait.COMMUTATIVE | Trait.ELEMENTWISE | Trait.T_OF_ALL_INPUTS

    @staticmethod
    def infer(x: TensorSpec, y: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, merge(x.shape, y.shape))

    @staticmethod
    @quiet
    def kernel(x: Array, y: Array, *, tolerance: float = 1e-5) -> Array:
        require(x.shape == y.shape, f"shapes {list(x.shape)} and {list(y.shape)} differ")
        difference = np.abs(widen(x) - widen(y))
        # The attribute is a float32, whatever the type of x and y.
        return np.asarray(np.less(difference, np.float32(tolerance).astype(difference.dtype)))
