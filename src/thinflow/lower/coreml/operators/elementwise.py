"""Functions of each number: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.coreml.builder import Builder, Var, mil_type
from thinflow.lower.coreml.rules import says
from thinflow.onnx.program import Operator
from thinflow.typing import Array

_FLOAT_ONLY = {
    "Acos": "acos",
    "Asin": "asin",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}
_ANY = {"Abs": "abs", "Sign": "sign"}
_BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Mod": "mod",
    "Pow": "pow",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
}
_VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}
_LOGICAL = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}


@says(*_FLOAT_ONLY)
def function(b: Builder, o: Operator) -> Var:
    return getattr(b.mb, _FLOAT_ONLY[o.code])(x=b.require_float(b.read(o, 0)))


@says(*_ANY)
def function_of_any(b: Builder, o: Operator) -> Var:
    return getattr(b.mb, _ANY[o.code])(x=b.read(o, 0))


@says(*_BINARY)
def binary(b: Builder, o: Operator) -> Var:
    x, y = b.read(o, 0), b.read(o, 1)
    if o.code == "Mod" and o.options.get("fmod", 0):
        # The sign of the dividend, which is what is left behind the quotient without its fraction.
        quotient = b.mb.real_div(x=b.require_float(x), y=y)
        cut = b.mb.mul(x=b.mb.sign(x=quotient), y=b.mb.floor(x=b.mb.abs(x=quotient)))
        return b.mb.sub(x=x, y=b.mb.mul(x=cut, y=y))
    return getattr(b.mb, _BINARY[o.code])(x=x, y=y)


@says(*_VARIADIC)
def variadic(b: Builder, o: Operator) -> Var:
    y = b.read(o, 0)
    for place in range(1, len(o.inputs)):
        y = getattr(b.mb, _VARIADIC[o.code])(x=y, y=b.read(o, place))
    return y if len(o.inputs) > 1 else b.mb.identity(x=y)


@says("Equal")
def equal(b: Builder, o: Operator) -> Var:
    """Truths are compared as numbers: MIL compares no others."""
    x, y = b.read(o, 0), b.read(o, 1)
    if b.type(x) == "bool":
        x, y = b.cast(x, "int32"), b.cast(y, "int32")
    return b.mb.equal(x=x, y=y)


@says(*_LOGICAL)
def logical(b: Builder, o: Operator) -> Var:
    return getattr(b.mb, _LOGICAL[o.code])(x=b.read(o, 0), y=b.read(o, 1))


@says("Not")
def logical_not(b: Builder, o: Operator) -> Var:
    return b.mb.logical_not(x=b.read(o, 0))


@says("Div")
def div(b: Builder, o: Operator) -> Var:
    """Whole numbers are divided towards 0, where MIL's own division goes down."""
    x, y = b.read(o, 0), b.read(o, 1)
    if b.is_float(x):
        return b.mb.real_div(x=x, y=y)
    quotient = b.mb.floor_div(x=b.mb.abs(x=x), y=b.mb.abs(x=y))
    return b.mb.mul(x=quotient, y=b.mb.mul(x=b.mb.sign(x=x), y=b.mb.sign(x=y)))


@says("Neg")
def neg(b: Builder, o: Operator) -> Var:
    x = b.read(o, 0)
    return b.mb.mul(x=x, y=b.like(-1, x))


@says("Reciprocal")
def reciprocal(b: Builder, o: Operator) -> Var:
    """Not MIL's `inverse`, which adds something to what it divides by."""
    return b.mb.real_div(x=np.float32(1), y=b.require_float(b.read(o, 0)))


@says("Log")
def log(b: Builder, o: Operator) -> Var:
    return b.mb.log(x=b.require_float(b.read(o, 0)), epsilon=np.float32(1e-45))


@says("Acosh")
def acosh(b: Builder, o: Operator) -> Var:
    """log(x + sqrt(x^2 - 1))."""
    x = b.require_float(b.read(o, 0))
    root = b.mb.sqrt(x=b.mb.sub(x=b.mb.square(x=x), y=np.float32(1)))
    return b.mb.log(x=b.mb.add(x=x, y=root), epsilon=np.float32(1e-45))


@says("Asinh")
def asinh(b: Builder, o: Operator) -> Var:
    """sign(x) * log(|x| + sqrt(x^2 + 1)): of the size alone, as the sum would cancel below 0."""
    x = b.require_float(b.read(o, 0))
    root = b.mb.sqrt(x=b.mb.add(x=b.mb.square(x=x), y=np.float32(1)))
    size = b.mb.log(x=b.mb.add(x=b.mb.abs(x=x), y=root), epsilon=np.float32(1e-45))
    return b.mb.mul(x=b.mb.sign(x=x), y=size)


@says("IsNaN")
def is_nan(b: Builder, o: Operator) -> Var:
    """What is not equal to itself."""
    x = b.require_float(b.read(o, 0))
    return b.mb.not_equal(x=x, y=x)


@says("IsInf")
def is_inf(b: Builder, o: Operator) -> Var:
    """Of a size beyond all numbers."""
    x = b.require_float(b.read(o, 0))
    if not (o.options.get("detect_positive", 1) and o.options.get("detect_negative", 1)):
        raise UnsupportedOp("it looks for one of the two infinities")
    return b.mb.equal(x=b.mb.abs(x=x), y=np.float32(math.inf))


@says("Relu")
def relu(b: Builder, o: Operator) -> Var:
    x = b.read(o, 0)
    return b.mb.relu(x=x) if b.is_float(x) else b.mb.maximum(x=x, y=b.like(0, x))


@says("Clip")
def clip(b: Builder, o: Operator) -> Var:
    """Within limits; relu6 where they are 0 and 6, which Core ML has kernels of."""
    x = b.read(o, 0)
    low, high = (b.maybe_known(o, place) for place in (1, 2))
    if (low is None) == b.has(o, 1) or (high is None) == b.has(o, 2) or not b.is_float(x):
        for place, bound in ((1, b.mb.maximum), (2, b.mb.minimum)):
            x = bound(x=x, y=b.read(o, place)) if b.has(o, place) else x
        return b.mb.identity(x=x) if not (b.has(o, 1) or b.has(o, 2)) else x
    if low is not None and high is not None:
        if (float(low), float(high)) == (0.0, 6.0):
            return b.mb.relu6(x=x)
        return b.mb.clip(x=x, alpha=np.float32(low), beta=np.float32(high))
    if low is not None:
        return b.mb.relu(x=x) if float(low) == 0 else b.mb.maximum(x=x, y=np.float32(low))
    return b.mb.identity(x=x) if high is None else b.mb.minimum(x=x, y=np.float32(high))


@says("LeakyRelu")
def leaky_relu(b: Builder, o: Operator) -> Var:
    x = b.require_float(b.read(o, 0))
    return b.mb.leaky_relu(x=x, alpha=np.float32(o.options.get("alpha", 0.01)))


@says("Elu")
def elu(b: Builder, o: Operator) -> Var:
    return b.mb.elu(x=b.require_float(b.read(o, 0)), alpha=np.float32(o.options.get("alpha", 1.0)))


@says("Selu")
def selu(b: Builder, o: Operator) -> Var:
    """gamma * elu(x, alpha)."""
    alpha, gamma = o.options.get("alpha", 1.6732632), o.options.get("gamma", 1.0507010)
    y = b.mb.elu(x=b.require_float(b.read(o, 0)), alpha=np.float32(alpha))
    return b.mb.mul(x=y, y=np.float32(gamma))


@says("HardSigmoid")
def hard_sigmoid(b: Builder, o: Operator) -> Var:
    return b.mb.sigmoid_hard(
        x=b.require_float(b.read(o, 0)),
        alpha=np.float32(o.options.get("alpha", 0.2)),
        beta=np.float32(o.options.get("beta", 0.5)),
    )


@says("HardSwish")
def hard_swish(b: Builder, o: Operator) -> Var:
    x = b.require_float(b.read(o, 0))
    return b.mb.mul(x=x, y=b.mb.sigmoid_hard(x=x, alpha=np.float32(1 / 6), beta=np.float32(0.5)))


@says("PRelu")
def prelu(b: Builder, o: Operator) -> Var:
    """max(x, 0) + slope * min(x, 0); slopes broadcast, where MIL's own has one for each channel."""
    x = b.require_float(b.read(o, 0))
    below = b.mb.mul(x=b.mb.minimum(x=x, y=np.float32(0)), y=b.read(o, 1))
    return b.mb.add(x=b.mb.relu(x=x), y=below)


@says("Where")
def where(b: Builder, o: Operator) -> Var:
    return b.mb.select(cond=b.read(o, 0), a=b.read(o, 1), b=b.read(o, 2))


_NARROW = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1)}
"""Smallest and largest numbers of types that are kept in int32."""


@says("Cast")
def cast(b: Builder, o: Operator) -> Var:
    """Whole numbers of few bits are kept in int32, where what would not fit wraps around by arithmetic."""
    (x,), (y,) = o.inputs, o.outputs
    assert x is not None
    value, wanted = b.read(o, 0), mil_type(y.dtype)
    if x.dtype.name == "bool" or b.type(value) != wanted:
        value = b.mb.cast(x=value, dtype=wanted)
    limits, own = _NARROW.get(y.dtype.name), _NARROW.get(x.dtype.name)
    if limits is None or x.dtype.name == "bool" or (own and own[0] >= limits[0] and own[1] <= limits[1]):
        return b.mb.identity(x=value)
    low, count = np.int32(limits[0]), np.int32(limits[1] - limits[0] + 1)
    return b.mb.add(x=b.mb.mod(x=b.mb.sub(x=value, y=low), y=count), y=low)


@says("Identity")
def identity(b: Builder, o: Operator) -> Var:
    return b.mb.identity(x=b.read(o, 0))


@says("DequantizeLinear")
def dequantize(b: Builder, o: Operator) -> Var:
    """(x - zero) * scale, in floats; weights are computed here and now."""
    scale, zero = _grid(b, o)
    known = b.maybe_known(o, 0)
    if known is not None:
        stored = known.astype(np.float32)
        return b.mb.const(val=(stored - zero(stored.ndim)) * scale(stored.ndim))
    x = b.cast(b.read(o, 0), "fp32")
    rank = len(x.shape)
    return b.mb.mul(x=b.mb.sub(x=x, y=zero(rank)), y=scale(rank))


@says("QuantizeLinear")
def quantize(b: Builder, o: Operator) -> Var:
    """Codes, in int32: the nearest whole number, halves to even, within the limits of their type."""
    (y,) = o.outputs
    limits = _NARROW.get(y.dtype.name)
    if limits is None:
        raise UnsupportedOp(f"codes of {y.dtype} are not written")
    scale, zero = _grid(b, o)
    x = b.require_float(b.read(o, 0))
    rank = len(x.shape)
    codes = b.mb.add(x=b.mb.round(x=b.mb.real_div(x=x, y=scale(rank))), y=zero(rank))
    held = b.mb.clip(x=codes, alpha=np.float32(limits[0]), beta=np.float32(limits[1]))
    return b.mb.cast(x=held, dtype="int32")


def _grid(b: Builder, o: Operator) -> tuple[Callable[[int], Array], Callable[[int], Array]]:
    """Scale and zero point, as functions of a rank: they go along an axis there."""
    scale = b.known(o, 1, "its scale").astype(np.float32)
    zero = b.maybe_known(o, 2) if b.has(o, 2) else np.zeros_like(scale)
    if zero is None:
        raise UnsupportedOp("its zero point depends on what is fed")
    axis = int(o.options.get("axis", 1))
    return partial(_along, scale, axis), partial(_along, zero.astype(np.float32), axis)


def _along(row: Array, axis: int, rank: int) -> Array:
    """Numbers that go along one of the axes; one number is for all."""
    if row.size == 1:
        return row.reshape(())
    return row.reshape([-1 if a == axis % rank else 1 for a in range(rank)])
