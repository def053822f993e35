"""ATen's special functions of numbers, and those that tell what kind of number each is."""

from __future__ import annotations

import math

import numpy as np

from thinflow.decompose.terms import Term, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, FLOAT
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.lift.aten.arithmetic import operand


def _x(a: Arguments) -> Term:
    """The operand in the type of the result."""
    return a.body.term(a.cast(a.x, a.dtype))


def _pair(a: Arguments) -> tuple[Term, Term]:
    return operand(a, "self", a.dtype), operand(a, "other", a.dtype)


# --- functions that TensorFlow has --------------------------------------------------------------------------


def _same(op: str, *names: str) -> None:
    aten(*names)(lambda a: _x(a).apply(op).value)


_same("Lgamma", "lgamma", "special_gammaln")
_same("Erfinv", "erfinv", "special_erfinv")
_same("BesselI0", "i0", "special_i0")
_same("BesselI0e", "special_i0e")
_same("BesselI1", "special_i1")
_same("BesselI1e", "special_i1e")
_same("Ndtri", "special_ndtri")
_same("Expm1", "special_expm1")
_same("Log1p", "special_log1p")


def _of_two(op: str, *names: str) -> None:
    @aten(*names)
    def rule(a: Arguments) -> Value:
        x, y = _pair(a)
        return x.apply(op, y).value


_of_two("NextAfter", "nextafter")
_of_two("FloorMod", "remainder.Scalar_Tensor")


@aten("digamma", "special_digamma", "special_psi")
def _digamma(a: Arguments) -> Value:
    """At the poles below zero it is no number, at zero infinite on the side that the zero's sign says."""
    x = _x(a)
    at_zero = x.equal(0.0)
    return where(at_zero, x.of(-1) / where(at_zero, x, x.of(1)), x.apply("Digamma")).value


@aten("xlogy.Tensor", "xlogy.Scalar_Other", "xlogy.Scalar_Self", "special_xlogy")
def _xlogy(a: Arguments) -> Value:
    x, y = _pair(a)
    # TensorFlow has 0 beside whatever is no number.
    return where(y.apply("IsNan"), y, x.apply("Xlogy", y)).value


def _gamma_part(op: str, at_zero: float, *names: str) -> None:
    @aten(*names)
    def rule(a: Arguments) -> Value:
        """TensorFlow has no answer for the shape 0, whose whole part lies at 0."""
        x, y = _pair(a)
        limit = where(y > 0.0, y.of(at_zero), y.of(np.nan))
        return where(x.equal(0.0), limit, x.apply(op, y)).value


_gamma_part("Igamma", 1, "igamma", "special_gammainc")
_gamma_part("Igammac", 0, "igammac", "special_gammaincc")


def _shift(kind: str, op: str, is_filled: bool) -> None:
    forms = (f"bitwise_{kind}_shift.Tensor", f"bitwise_{kind}_shift.Tensor_Scalar")

    @aten(*forms, f"__{kind[0]}shift__.Tensor", f"__{kind[0]}shift__.Scalar")
    def rule(a: Arguments) -> Value:
        """By as many bits as there are, by more, or by fewer than none: none are left, or those of the sign.

        TensorFlow takes the nearest number of bits that leaves one.
        """
        x, count = _pair(a)
        bits = 8 * x.dtype.itemsize
        if count.known is not None and ((count.known >= 0) & (count.known < bits)).all():
            return x.apply(op, count).value
        is_inside = (count >= 0) & (count < bits)
        if is_filled and x.dtype.numpy().kind == "i":
            return x.apply(op, where(is_inside, count, bits - 1)).value
        return where(is_inside, x.apply(op, count), 0).value


_shift("left", "LeftShift", is_filled=False)
_shift("right", "RightShift", is_filled=True)


# --- formulas of one operand --------------------------------------------------------------------------------


@aten("exp2", "special_exp2")
def _exp2(a: Arguments) -> Value:
    x = _x(a)
    # TensorFlow has no power of two of its own.
    return x.of(2).apply("Pow", x).value


@aten("deg2rad")
def _deg2rad(a: Arguments) -> Value:
    return (_x(a) * (math.pi / 180)).value


@aten("rad2deg")
def _rad2deg(a: Arguments) -> Value:
    return (_x(a) * (180 / math.pi)).value


@aten("frac")
def _frac(a: Arguments) -> Value:
    """What is behind the point, with the number's sign."""
    x = _x(a)
    return (x - where(x < 0.0, x.apply("Ceil"), x.apply("Floor"))).value


@aten("round.decimals")
def _round(a: Arguments) -> Value:
    x, digits = _x(a), a.integer("decimals")
    if not digits:
        return x.apply("Round").value
    # By a whole number both ways: tenths have no exact value.
    step = float(10 ** abs(digits))
    return ((x * step).apply("Round") / step if digits > 0 else (x / step).apply("Round") * step).value


@aten("sinc", "special_sinc")
def _sinc(a: Arguments) -> Value:
    x = _x(a)
    angle = where(x.equal(0.0), x.of(1), x * math.pi)
    return where(x.equal(0.0), x.of(1), angle.apply("Sin") / angle).value


@aten("logit", "special_logit")
def _logit(a: Arguments) -> Value:
    x = _x(a)
    if a.has("eps"):
        eps = a.number("eps")
        x = x.clip(eps, 1 - eps)
    return (x / (x.of(1) - x)).log().value


@aten("special_ndtr")
def _normal(a: Arguments) -> Value:
    """The share of a normal distribution that is below."""
    return ((_x(a) * -math.sqrt(0.5)).apply("Erfc") * 0.5).value


@aten("special_xlog1py", "special_xlog1py.other_scalar", "special_xlog1py.self_scalar")
def _xlog1py(a: Arguments) -> Value:
    x, y = _pair(a)
    return where(y.apply("IsNan"), y, x.apply("Xlog1py", y)).value


@aten("special_entr")
def _entropy(a: Arguments) -> Value:
    """-x ln x; nothing of zero, and minus infinity below."""
    x = _x(a)
    inner = -(x * where(x > 0.0, x, x.of(1)).log())
    return where(x < 0.0, x.of(-np.inf), where(x.equal(0.0), x.of(0), inner)).value


@aten("nan_to_num")
def _nan_to_num(a: Arguments) -> Value:
    x = _x(a)
    if not a.dtype.is_floating:
        a.ignore("nan", "posinf", "neginf")
        return a.emit("Identity", x.value)
    limits = np.finfo(a.dtype.numpy())
    found = where(x.apply("IsNan"), x.of(a.number("nan", 0.0)), x)
    found = where(x.equal(np.inf), x.of(a.number("posinf", float(limits.max))), found)
    return where(x.equal(-np.inf), x.of(a.number("neginf", float(limits.min))), found).value


# --- kinds of numbers ---------------------------------------------------------------------------------------


def _truths(a: Arguments, of_whole: bool) -> Value | None:
    """The answer for whole numbers, which are all of one kind."""
    x = a.term()
    if x.dtype.is_floating:
        return None
    zero = x.cast(a.body.constant(0, a.body.term(a.x).dtype).dtype)
    same = zero.equal(zero) if of_whole else ~zero.equal(zero)
    return same.value


@aten("isfinite")
def _isfinite(a: Arguments) -> Value:
    whole = _truths(a, True)
    return a.emit("IsFinite", a.x) if whole is None else whole


@aten("isposinf")
def _isposinf(a: Arguments) -> Value:
    whole = _truths(a, False)
    return a.term().equal(np.inf).value if whole is None else whole


@aten("isneginf")
def _isneginf(a: Arguments) -> Value:
    whole = _truths(a, False)
    return a.term().equal(-np.inf).value if whole is None else whole


def _is_negative(x: Term) -> Term:
    """True for minus zero, too, whose reciprocal is minus infinity."""
    if not x.dtype.is_floating:
        return x < 0
    at_zero = x.equal(0.0)
    return where(at_zero, x.of(1) / where(at_zero, x, x.of(1)), x) < 0.0


@aten("signbit")
def _signbit(a: Arguments) -> Value:
    x = a.term()
    if x.dtype is BOOL:
        raise UnsupportedOp("it takes the sign of truths")
    return _is_negative(x).value


# --- formulas of two operands -------------------------------------------------------------------------------


@aten("copysign.Tensor", "copysign.Scalar")
def _copysign(a: Arguments) -> Value:
    x, y = _pair(a)
    return where(_is_negative(y), -x.abs(), x.abs()).value


def _but_nan(op: str, *names: str) -> None:
    @aten(*names)
    def rule(a: Arguments) -> Value:
        """The larger or the smaller of two numbers, the other one where one is none."""
        x, y = _pair(a)
        found = x.apply(op, y)
        if not x.dtype.is_floating:
            return found.value
        return where(x.apply("IsNan"), y, where(y.apply("IsNan"), x, found)).value


_but_nan("Maximum", "fmax")
_but_nan("Minimum", "fmin")


@aten("hypot")
def _hypot(a: Arguments) -> Value:
    """The larger, and how much longer the line is: squares alone would overflow."""
    x, y = (v.abs() for v in _pair(a))
    large = where(x.equal(np.inf) | y.equal(np.inf), x.of(np.inf), x.maximum(y))
    # Of two zeros or two infinities there is no ratio; an infinity is longer than what is no number, too.
    plain = large.equal(0.0) | large.equal(np.inf)
    ratio = where(plain, large.of(0), x.minimum(y) / where(plain, large.of(1), large))
    return (large * (ratio.square() + 1.0).sqrt()).value


def _logaddexp(a: Arguments, base: float) -> Value:
    x, y = _pair(a)
    large, gap = x.maximum(y), -(x - y).abs()
    more = (gap * base).apply("Exp").apply("Log1p") / base
    # Of two equal infinities the gap is no number.
    return where(x.equal(y), large + math.log(2) / base, large + more).value


@aten("logaddexp")
def _log_add_exp(a: Arguments) -> Value:
    return _logaddexp(a, 1.0)


@aten("logaddexp2")
def _log_add_exp2(a: Arguments) -> Value:
    return _logaddexp(a, math.log(2))


@aten("heaviside")
def _heaviside(a: Arguments) -> Value:
    """0 below zero, 1 above, and at zero what the other operand says."""
    x = a.body.term(a.cast(a.x, a.dtype))
    at_zero = a.body.term(a.cast(a.tensor("values"), a.dtype))
    return where(x.equal(0), at_zero, (x > 0).cast(a.dtype)).value


@aten("ldexp.Tensor")
def _ldexp(a: Arguments) -> Value:
    x, y = _pair(a)
    return (x * y.of(2).apply("Pow", y)).value


@aten("float_power.Tensor_Scalar", "float_power.Tensor_Tensor", "float_power.Scalar")
def _float_power(a: Arguments) -> Value:
    return operand(a, "self", a.dtype).apply("Pow", operand(a, "exponent", a.dtype)).value


@aten("isclose", "allclose", "isin.Tensor_Tensor")
def _compared(a: Arguments) -> Value:
    name = a.call.node.op.removeprefix("aten.")
    if name == "isin.Tensor_Tensor":
        return _isin(a)
    x, y = a.term(), a.term("other")
    if not x.dtype.is_floating:
        # As PyTorch: differences of whole numbers might wrap, and there are none of truths.
        x, y = x.cast(FLOAT), y.cast(FLOAT)
    gap = (x - y).abs()
    near = gap <= y.abs() * a.number("rtol", 1e-5) + a.number("atol", 1e-8)
    # Infinities are near to themselves alone.
    found = x.equal(y) | (near & gap.apply("IsFinite"))
    if a.flag("equal_nan"):
        found = found | (x.apply("IsNan") & y.apply("IsNan"))
    return (found.reduced("All", *range(len(found.shape))) if name == "allclose" else found).value


def _isin(a: Arguments) -> Value:
    x, members = a.term("elements"), a.term("test_elements").reshape([-1])
    a.ignore("assume_unique")
    found = x.expand_dims(len(x.shape)).equal(members).reduced("Any", len(x.shape))
    return (~found if a.flag("invert") else found).value
