"""ATen's arithmetic, comparisons and logic, with PyTorch's promotion of types."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from thinflow.decompose.terms import Term, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, DOUBLE, FLOAT, INT32, INT64, DType, dtype
from thinflow.lift.aten.arguments import Arguments, aten

_NAMES = ("self", "other")


def operand(a: Arguments, name: str, kind: DType) -> Term:
    """A tensor or a number as a term of a type."""
    if a.call.get(name) is None:
        return a.body.term(a.cast(a.tensor(name), kind))
    return _number(a, name, kind)


def _number(a: Arguments, name: str, kind: DType) -> Term:
    """A number in a type; what goes beyond it wraps around, as in PyTorch: -1 is the largest of uint8."""
    return a.body.constant(np.array(a.number(name)).astype(kind.numpy()), kind)


def promoted(a: Arguments, first: str = "self", second: str = "other") -> DType:
    """The type in which PyTorch computes with two operands.

    A kind of numbers (truth, whole, real, complex) goes over one below it; of the same kind a tensor goes
    over a single number, and the wider over the narrower.
    """
    sides = [_side(a, name) for name in (first, second)]
    top = max(level for level, _, _ in sides)
    tops = [s for s in sides if s[0] == top]
    tensors = [s for s in tops if s[1]] or tops
    kinds = [s[2] for s in tensors]
    if len(kinds) == 1 or kinds[0] is kinds[1]:
        return kinds[0]
    if top == 2:
        # float16 and bfloat16 meet in float32.
        wide = DOUBLE if DOUBLE in kinds else FLOAT
        return wide
    return dtype(np.promote_types(kinds[0].numpy(), kinds[1].numpy()))


def _side(a: Arguments, name: str) -> tuple[int, bool, DType]:
    """Kind of numbers, whether it is a tensor with axes, and type."""
    number = a.call.get(name)
    if number is not None:
        kind = BOOL if isinstance(number, bool) else INT64 if isinstance(number, int) else FLOAT
        return _level(kind), False, kind
    term = a.term(name)
    return _level(term.dtype), len(term.shape) > 0, term.dtype


def _level(kind: DType) -> int:
    return 0 if kind is BOOL else 3 if kind.kind == "c" else 2 if kind.is_floating else 1


def _pair(a: Arguments, kind: DType | None = None) -> tuple[Term, Term]:
    """Both operands in the type of the result."""
    kind = a.dtype if kind is None else kind
    return operand(a, "self", kind), operand(a, "other", kind)


def _scaled(a: Arguments, y: Term) -> Term:
    """An operand times the argument alpha."""
    return y if a.number("alpha", 1) == 1 else y * _number(a, "alpha", y.dtype)


def _plain(op: str) -> Callable[[Arguments], Value]:
    def rule(a: Arguments) -> Value:
        x, y = _pair(a)
        return x.apply(op, y).value

    return rule


@aten("add.Tensor", "add.Scalar")
def _add(a: Arguments) -> Value:
    x, y = _pair(a)
    y = _scaled(a, y)
    return ((x | y) if a.dtype is BOOL else x + y).value


@aten("sub.Tensor", "sub.Scalar", "subtract.Tensor")
def _sub(a: Arguments) -> Value:
    x, y = _pair(a)
    return (x - _scaled(a, y)).value


@aten("rsub.Scalar", "rsub.Tensor")
def _rsub(a: Arguments) -> Value:
    x, y = _pair(a)
    return (y - _scaled(a, x)).value


@aten("mul.Tensor", "mul.Scalar", "multiply.Tensor")
def _mul(a: Arguments) -> Value:
    x, y = _pair(a)
    return ((x & y) if a.dtype is BOOL else x * y).value


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor", "divide.Tensor")
def _div(a: Arguments) -> Value:
    x, y = _pair(a)
    return (x / y).value


@aten("div.Tensor_mode", "div.Scalar_mode")
def _div_rounded(a: Arguments) -> Value:
    mode = a.text("rounding_mode", "")
    if mode == "floor":
        return _plain("FloorDiv")(a)
    x, y = _pair(a)
    if mode == "":
        return (x / y).value
    if mode != "trunc":
        raise UnsupportedOp(f"it rounds by '{mode[:40]}'")
    if not a.dtype.is_floating:
        return x.apply("TruncateDiv", y).value
    quotient = x / y
    return where(quotient < 0.0, quotient.apply("Ceil"), quotient.apply("Floor")).value


aten("floor_divide", "floor_divide.Scalar")(_plain("FloorDiv"))
aten("remainder.Tensor", "remainder.Scalar")(_plain("FloorMod"))
aten("maximum", "max.other")(_plain("Maximum"))
aten("minimum", "min.other")(_plain("Minimum"))
aten("atan2")(_plain("Atan2"))


@aten("fmod.Tensor", "fmod.Scalar")
def _fmod(a: Arguments) -> Value:
    x, y = _pair(a)
    # The sign of what is divided, as in C; FloorMod has that of the divisor.
    return a.onnx("Mod", x.value, y.value, fmod=1)


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(a: Arguments) -> Value:
    """By name where TensorFlow has one: what others export then writes these."""
    kind = a.dtype
    x = operand(a, "self", kind)
    exponent = a.call.get("exponent")
    if exponent is not None and kind.is_floating:
        a.number("exponent")
        named = {2: "Square", 0.5: "Sqrt", -0.5: "Rsqrt", -1: "Reciprocal"}.get(float(exponent))
        if exponent == 1:
            return a.emit("Identity", x.value)
        if named:
            return x.apply(named).value
        return x.apply("Pow", float(exponent)).value
    y = operand(a, "exponent", kind)
    if not kind.is_floating and (y.known is None or (y.known < 0).any()):
        raise UnsupportedOp("its exponent of whole numbers is computed, or negative")
    return x.apply("Pow", y).value


# --- one operand --------------------------------------------------------------------------------------------


def _unary(name: str, op: str) -> None:
    """A function of real numbers; whole ones become real first, as the file states."""

    @aten(name)
    def rule(a: Arguments) -> Value:
        return a.emit(op, a.cast(a.x, a.dtype))


_unary("neg", "Neg")
_unary("exp", "Exp")
_unary("expm1", "Expm1")
_unary("log", "Log")
_unary("log1p", "Log1p")
_unary("sqrt", "Sqrt")
_unary("rsqrt", "Rsqrt")
_unary("square", "Square")
_unary("reciprocal", "Reciprocal")
_unary("sin", "Sin")
_unary("cos", "Cos")
_unary("tan", "Tan")
_unary("asin", "Asin")
_unary("acos", "Acos")
_unary("atan", "Atan")
_unary("sinh", "Sinh")
_unary("cosh", "Cosh")
_unary("tanh", "Tanh")
_unary("asinh", "Asinh")
_unary("acosh", "Acosh")
_unary("atanh", "Atanh")
_unary("erf", "Erf")
_unary("erfc", "Erfc")
_unary("sign", "Sign")
_unary("sgn", "Sign")


def _stepped(name: str, op: str) -> None:
    @aten(name)
    def rule(a: Arguments) -> Value:
        # PyTorch gives whole numbers back as they are; TensorFlow's Floor and Ceil take floats only.
        return a.emit(op, a.x) if a.dtype.is_floating else a.emit("Identity", a.x)


_stepped("floor", "Floor")
_stepped("ceil", "Ceil")
_stepped("round", "Round")


@aten("trunc", "fix")
def _trunc(a: Arguments) -> Value:
    x = a.term()
    return where(x < 0.0, x.apply("Ceil"), x.apply("Floor")).value


@aten("log2")
def _log2(a: Arguments) -> Value:
    # TensorFlow has the natural logarithm alone.
    return (a.body.term(a.cast(a.x, a.dtype)).log() * (1 / math.log(2.0))).value


@aten("log10")
def _log10(a: Arguments) -> Value:
    return (a.body.term(a.cast(a.x, a.dtype)).log() * (1 / math.log(10.0))).value


# --- comparisons and logic ----------------------------------------------------------------------------------


def _comparison(name: str, op: str) -> None:
    @aten(f"{name}.Tensor", f"{name}.Scalar")
    def rule(a: Arguments) -> Value:
        kind = promoted(a)
        # TensorFlow orders numbers only: 0 and 1, then, for false and true.
        if kind is BOOL and op not in ("Equal", "NotEqual"):
            kind = INT32
        x, y = _pair(a, kind)
        return a.emit(op, x.value, y.value)


_comparison("eq", "Equal")
_comparison("ne", "NotEqual")
_comparison("lt", "Less")
_comparison("le", "LessEqual")
_comparison("gt", "Greater")
_comparison("ge", "GreaterEqual")


def _logical(kind: str, op: str, of_bits: str) -> None:
    @aten(f"logical_{kind}")
    def rule(a: Arguments) -> Value:
        return a.emit(op, *(truth(a, a.tensor(n)) for n in _NAMES))

    @aten(
        *(f"bitwise_{kind}.{form}" for form in ("Tensor", "Scalar", "Scalar_Tensor")),
        *(f"__{kind}__.{form}" for form in ("Tensor", "Scalar")),
    )
    def bitwise(a: Arguments) -> Value:
        x, y = _pair(a)
        return a.emit(op if a.dtype is BOOL else of_bits, x.value, y.value)


def truth(a: Arguments, value: Value) -> Value:
    """True where a number is not 0."""
    return value if value.dtype is BOOL else a.emit("NotEqual", value, a.like(0, value))


_logical("and", "LogicalAnd", "BitwiseAnd")
_logical("or", "LogicalOr", "BitwiseOr")
# TensorFlow has no op for exclusive or of truth values; it is being different.
_logical("xor", "NotEqual", "BitwiseXor")


@aten("logical_not", "bitwise_not")
def _not(a: Arguments) -> Value:
    if a.call.node.op == "aten.bitwise_not" and a.dtype is not BOOL:
        return a.emit("Invert", a.x)
    return a.emit("LogicalNot", truth(a, a.x))


@aten("isnan")
def _isnan(a: Arguments) -> Value:
    return a.emit("IsNan", a.x)


@aten("isinf")
def _isinf(a: Arguments) -> Value:
    return a.emit("IsInf", a.x)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(a: Arguments) -> Value:
    x, y = _pair(a)
    return a.emit("SelectV2", truth(a, a.tensor("condition")), x.value, y.value, T=a.dtype)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(a: Arguments) -> Value:
    value = operand(a, "value", a.dtype)
    return a.emit("SelectV2", truth(a, a.tensor("mask")), value.value, a.x, T=a.dtype)


@aten("lerp.Scalar", "lerp.Tensor")
def _lerp(a: Arguments) -> Value:
    start, end, weight = a.term(), a.term("end"), operand(a, "weight", a.dtype)
    return (start + (end - start) * weight).value


@aten("addcmul")
def _addcmul(a: Arguments) -> Value:
    return _added(a, lambda x, y: x * y)


@aten("addcdiv")
def _addcdiv(a: Arguments) -> Value:
    return _added(a, lambda x, y: x / y)


def _added(a: Arguments, joined: Callable[[Term, Term], Term]) -> Value:
    """self + value * (tensor1 joined to tensor2), in the type that holds all of them."""
    x, y, z = (operand(a, name, a.dtype) for name in ("self", "tensor1", "tensor2"))
    factor = a.number("value", 1)
    joint = joined(y, z)
    return (x + (joint if factor == 1 else joint * factor)).value


# --- numbers that stand for sizes ---------------------------------------------------------------------------


@aten("sym_size.int")
def _sym_size(a: Arguments) -> Value:
    x, axis = a.term(), a.axis()
    known = x.shape[axis]
    if known is not None:
        return a.integers(known)
    return x.sizes().at(0, axis).cast(INT64).value


@aten("sym_numel")
def _sym_numel(a: Arguments) -> Value:
    return a.emit("Size", a.x, out_type=INT64)


def _compared(name: str, op: str) -> None:
    """What Python asks of sizes: exporters check so what a run gives."""

    @aten(f"operator.{name}")
    def rule(a: Arguments) -> Value:
        x, y = (operand(a, n, INT64) for n in ("a", "b"))
        return x.apply(op, y).value


_compared("lt", "Less")
_compared("le", "LessEqual")
_compared("gt", "Greater")
_compared("ge", "GreaterEqual")
_compared("eq", "Equal")
_compared("ne", "NotEqual")


def _of_numbers(name: str, op: str) -> None:
    """What Python computes with sizes."""

    @aten(f"operator.{name}")
    def rule(a: Arguments) -> Value:
        x, y = (operand(a, n, a.dtype) for n in ("a", "b"))
        return x.apply(op, y).value


_of_numbers("add", "AddV2")
_of_numbers("sub", "Sub")
_of_numbers("mul", "Mul")
_of_numbers("floordiv", "FloorDiv")
_of_numbers("mod", "FloorMod")
_of_numbers("truediv", "RealDiv")


@aten("scalar_tensor", "prims.scalar_tensor")
def _scalar_tensor(a: Arguments) -> Value:
    a.ignore("dtype", "layout", "device")
    return operand(a, "s", a.dtype).value
