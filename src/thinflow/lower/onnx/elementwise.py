"""Arithmetic, functions of one operand, comparisons, choices, activation functions, bits of integers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT64, DType, dtype
from thinflow.lower.building import whole_exponent
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.operators import Trait, has, same_in_onnx
from thinflow.onnx.program import Tensor

_BINARY = same_in_onnx(Trait.BINARY)
_BOOL = Tensor("", None, BOOL)


@lower(*_BINARY, to="onnx")
def binary(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """One operator that broadcasts as TensorFlow does."""
    code = _BINARY[node.op]
    return b.emit(code, x, y, like=_BOOL if has(code, Trait.GIVES_BOOL) else None)


@lower("Maximum", "Minimum", to="onnx")
def maximum(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    if x.dtype is INT64:
        return b.result(larger(b, x, y, smaller=node.op == "Minimum"))
    return b.emit("Max" if node.op == "Maximum" else "Min", x, y)


def larger(b: Builder, x: Tensor, y: Tensor, *, smaller: bool = False) -> Tensor:
    """The larger (or smaller) operand. Of int64 it is chosen: Max compares no more than 32 bits of them."""
    if x.dtype is not INT64:
        return b.step("Min" if smaller else "Max", x, y)
    return b.step("Where", b.step("Less" if smaller else "Greater", x, y), x, y)


def _divisor(b: Builder, y: Tensor, *, also: Sequence[int] = ()) -> Tensor:
    """y with ones for its zeros where it is an integer: dividing by one of them would end the process.

    Args:
        also: other numbers to put ones for.
    """
    if y.dtype.is_floating:
        return y
    if y.is_constant:
        require(bool(y.array().all()), "it divides by zero")
    for number in (0, *also):
        if not y.is_constant or (y.array() == number).any():
            is_there = b.step("Equal", y, b.scalar(number, y))
            y = b.step("Where", is_there, b.scalar(1, y, "one"), y)
    return y


def _quotient(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """x / y, of integers towards 0. That of the lowest int64 and -1 would end the process: it is -x."""
    if y.dtype is not INT64:
        return b.step("Div", x, _divisor(b, y))
    quotient = b.step("Div", x, _divisor(b, y, also=[-1]))
    if y.is_constant and not (y.array() == -1).any():
        return quotient
    return b.step("Where", b.step("Equal", y, b.scalar(-1, y)), b.step("Neg", x), quotient)


def _has_signs(x: Tensor) -> bool:
    return not x.dtype.name.startswith("u")


@lower("RealDiv", "Div", "TruncateDiv", to="onnx")
def div(b: Builder, node: Node, x: Tensor, y: Tensor, *, _is_safe: bool = False) -> Tensor:
    """Integers are divided towards zero.

    Args:
        _is_safe: a decomposition's word that y is above 0.
    """
    if _is_safe:
        return b.emit("Div", x, y)
    require(node.op != "RealDiv" or x.dtype.is_floating, f"RealDiv of {x.dtype} has no ONNX form")
    if node.op == "TruncateDiv" and x.dtype.is_floating:
        return _truncated(b, b.step("Div", x, y))
    return b.emit("Div", x, y) if x.dtype.is_floating else b.result(_quotient(b, x, y))


def _truncated(b: Builder, x: Tensor) -> Tensor:
    """x without its fraction."""
    negative = b.step("Less", x, b.scalar(0, x, "zero"))
    return b.emit("Where", negative, b.step("Ceil", x), b.step("Floor", x))


@lower("FloorDiv", to="onnx")
def floor_div(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """floor(x / y); for integers one less than the quotient towards 0 where that is above it."""
    if x.dtype.is_floating:
        return b.emit("Floor", b.step("Div", x, y))
    quotient = _quotient(b, x, y)
    if not _has_signs(x):
        return b.result(quotient)
    zero = b.scalar(0, x, "zero")
    rest = b.step("Mod", x, _divisor(b, y, also=[-1]))
    # The quotient towards 0 is above the floor only where signs differ and there is a rest.
    signs_differ = b.step("Xor", b.step("Less", x, zero), b.step("Less", y, zero))
    is_above = b.step("And", b.step("Not", b.step("Equal", rest, zero)), signs_differ)
    return b.emit("Sub", quotient, b.cast(is_above, x.dtype))


@lower("FloorMod", to="onnx")
def floor_mod(b: Builder, node: Node, x: Tensor, y: Tensor, *, _is_safe: bool = False) -> Tensor:
    """The rest has the sign of y, as Mod has for integers only.

    Args:
        _is_safe: a decomposition's word that y is above 0.
    """
    if _is_safe:
        return b.emit("Mod", x, y)
    if not x.dtype.is_floating:
        return b.emit("Mod", x, _divisor(b, y, also=[-1] if _has_signs(x) else []))
    rest = b.step("Mod", x, y, fmod=1)
    zero = b.scalar(0, x, "zero")
    signs_differ = b.step("Xor", b.step("Less", rest, zero), b.step("Less", y, zero))
    moves = b.step("And", b.step("Not", b.step("Equal", rest, zero)), signs_differ)
    # fmod's rest has the sign of x; adding y moves it to that of y.
    return b.emit("Where", moves, b.step("Add", rest, y), rest)


@lower("Mod", "TruncateMod", to="onnx")
def truncate_mod(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """The rest has the sign of x. Of integers it is what the quotient leaves: Mod would divide doubles."""
    if x.dtype.is_floating:
        return b.emit("Mod", x, y, fmod=1)
    if not _has_signs(x):
        return b.emit("Mod", x, _divisor(b, y))
    y = _divisor(b, y, also=[-1])
    return b.emit("Sub", x, b.step("Mul", b.step("Div", x, y), y))


@lower("Pow", to="onnx")
def pow_(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """A square or a root where the exponent says so: both are many times faster."""
    if not x.dtype.is_floating:
        return _whole_power(b, x, y)
    if y.is_constant and y.shape == ():
        exponent = float(y.array().reshape(()))
        if exponent == 2:
            return b.emit("Mul", x, x)
        if abs(exponent) == 0.5:
            root = b.step("Sqrt", x)
            return root if exponent > 0 else b.emit("Reciprocal", root)
    return b.emit("Pow", x, y)


def _whole_power(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """A product of as many factors as a constant says: Pow of integers rounds, and stops at the limits."""
    count = whole_exponent(b.elements(y), y.shape)
    product = x
    for _ in range(count - 2):
        product = b.step("Mul", product, x)
    return b.emit("Mul", product, x) if count > 1 else x


@lower("AddN", "AccumulateNV2", to="onnx")
def add_n(b: Builder, node: Node, *xs: Tensor) -> Tensor:
    require(len(xs) > 0, "there is nothing to add")
    total = xs[0]
    for x in xs[1:-1]:
        total = b.step("Add", total, x)
    return b.emit("Add", total, xs[-1]) if len(xs) > 1 else total


@lower("Atan2", to="onnx")
def atan2(b: Builder, node: Node, y: Tensor, x: Tensor) -> Tensor:
    require(x.dtype is FLOAT, f"Atan2 of {x.dtype} has no ONNX form")
    return b.result(angle(b, y, x))


def angle(b: Builder, y: Tensor, x: Tensor) -> Tensor:
    """The angle of the point (x, y): that of (|x|, |y|), mirrored. Also zeros have signs."""
    across, up = Term(b, x), Term(b, y)
    sizes = across.magnitude(), up.magnitude()
    # Also 0 / 0, which is 0, and inf / inf, which is 1.
    slope = choose(sizes[0].equals(sizes[1]), sizes[0].apply("Sign"), sizes[1] / sizes[0])
    found = slope.apply("Atan")
    found = choose(_is_negative(across), math.pi - found, found)
    return choose(_is_negative(up), -found, found).tensor


def _is_negative(x: Term) -> Term:
    """True if x is below 0, or the zero that is."""
    # Comparisons take -0 for 0; its reciprocal is -inf.
    return (x < 0) | (1 / x < 0)


@lower("ClipByValue", to="onnx")
def clip_by_value(b: Builder, node: Node, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    fixed = low.is_constant and high.is_constant and low.shape == high.shape == ()
    # For bounds out of order ONNX's Clip gives the upper one, TensorFlow's the lower.
    if fixed and x.dtype is not INT64 and low.array() <= high.array():
        return b.emit("Clip", x, low, high)
    return b.result(larger(b, larger(b, x, high, smaller=True), low))


# ---- Functions of one operand.


_UNARY = same_in_onnx(Trait.UNARY)


@lower(*_UNARY, to="onnx")
def unary(b: Builder, node: Node, x: Tensor) -> Tensor:
    """One operator. Floor, Ceil and Round of an integer are the integer itself."""
    if _UNARY[node.op] in ("Floor", "Ceil", "Round") and x.dtype.is_integer:
        return x
    if node.op == "Sign" and x.dtype is INT64:
        return _sign(b, x)
    return b.emit(_UNARY[node.op], x)


def _sign(b: Builder, x: Tensor) -> Tensor:
    """By comparing: ONNX Runtime looks at no more than 32 bits of an int64."""
    zero = b.scalar(0, x, "zero")
    above, below = (b.cast(b.step(code, x, zero), INT64) for code in ("Greater", "Less"))
    return b.emit("Sub", above, below)


@lower("Rsqrt", to="onnx")
def rsqrt(b: Builder, node: Node, x: Tensor) -> Tensor:
    # ONNX has no Rsqrt.
    return b.emit("Reciprocal", b.step("Sqrt", x))


# ---- Comparisons, logic and choices.


@lower("NotEqual", to="onnx")
def not_equal(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    # ONNX has no NotEqual.
    return b.emit("Not", b.step("Equal", x, y), like=_BOOL)


@lower("Select", to="onnx")
def select(b: Builder, node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """A vector condition chooses whole slices of x and y; Where would spread it along the last axis."""
    rank = len(shape_of(condition, "the condition"))
    if rank == 1:
        extra = len(shape_of(x, "x")) - 1
        condition = b.unsqueezed(condition, range(1, 1 + extra))
    return b.emit("Where", condition, x, y, like=x)


@lower("SelectV2", to="onnx")
def select_v2(b: Builder, node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return b.emit("Where", condition, x, y, like=x)


@lower("Where", to="onnx")
def where(b: Builder, node: Node, condition: Tensor) -> Tensor:
    """Coordinates of what is not zero."""
    # NonZero gives a row for each axis, TensorFlow's Where one for each element.
    return b.emit("Transpose", nonzero(b, condition), perm=(1, 0))


def nonzero(b: Builder, condition: Tensor) -> Tensor:
    """Coordinates of what is not zero, int64 [rank,n]."""
    rank = len(shape_of(condition, "the condition"))
    return b.step("NonZero", b.cast(condition, BOOL), shape=(rank, None), element=INT64)


# ---- Activation functions.


# From Klambauer et al., Self-Normalizing Neural Networks (2017). ONNX's defaults are these rounded to
# float32.
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@lower("Relu", to="onnx")
def relu(b: Builder, node: Node, x: Tensor) -> Tensor:
    # ONNX's Relu takes integers only since opset 14.
    return b.emit("Relu", x) if x.dtype.is_floating else b.emit("Max", x, b.scalar(0, x, "zero"))


@lower("Relu6", to="onnx")
def relu6(b: Builder, node: Node, x: Tensor) -> Tensor:
    return clipped(b, x, 0, 6)


def clipped(b: Builder, x: Tensor, low: float, high: float) -> Tensor:
    """The node's output: x within fixed limits."""
    return b.emit("Clip", x, b.scalar(low, x, "low"), b.scalar(high, x, "high"), like=x)


@lower("LeakyRelu", to="onnx")
def leaky_relu(b: Builder, node: Node, x: Tensor, *, alpha: float = 0.2) -> Tensor:
    return b.emit("LeakyRelu", x, alpha=float(alpha))


@lower("Selu", to="onnx")
def selu(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit("Selu", x, alpha=_SELU_ALPHA, gamma=_SELU_SCALE)


@lower("Softmax", "LogSoftmax", to="onnx")
def softmax(b: Builder, node: Node, x: Tensor) -> Tensor:
    # TensorFlow's runs along the last axis always; ONNX's default was axis 1 before opset 13.
    return b.emit(node.op, x, axis=-1)


# ---- Bits of integers.


_UNSIGNED = {"int8": "uint8", "int16": "uint16", "int32": "uint32", "int64": "uint64"}
# The types of ONNX Runtime's kernels of BitShift.
_SHIFTED = frozenset({"uint8", "uint32", "uint64"})


def _unsigned(b: Builder, x: Tensor) -> Tensor:
    """The same bits as an unsigned number of a type that ONNX Runtime shifts."""
    name = _UNSIGNED.get(x.dtype.name, x.dtype.name)
    return b.cast(b.cast(x, dtype(name)), dtype(name if name in _SHIFTED else "uint32"))


def _distance(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The distance, clamped as TensorFlow does it: at least 0, and at most one less than all bits."""
    bits = 8 * x.dtype.itemsize
    if y.dtype.name == "uint64":
        # Beyond int64 it would turn negative.
        return Term(b, y).least(bits - 1).index().tensor
    far = Term(b, b.cast(y, dtype("int64")))
    positive = choose(far > 0, far, 0)
    return choose(positive < bits, positive, bits - 1).tensor


@lower("LeftShift", to="onnx")
def left_shift(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    require(x.dtype.is_integer, f"bits of {x.dtype} cannot be shifted")
    low = _unsigned(b, x)
    shifted = b.step("BitShift", low, b.cast(_distance(b, x, y), low.dtype), direction="LEFT")
    # Through the unsigned type of x's own size, which cuts off what was shifted beyond it.
    return b.result(b.cast(b.cast(shifted, dtype(_UNSIGNED.get(x.dtype.name, x.dtype.name))), x.dtype))


@lower("RightShift", to="onnx")
def right_shift(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """The sign moves in from above: of a negative number the complement is shifted."""
    require(x.dtype.is_integer, f"bits of {x.dtype} cannot be shifted")
    low = _unsigned(b, x)
    distance = b.cast(_distance(b, x, y), low.dtype)
    if x.dtype.name not in _UNSIGNED:
        return b.result(b.cast(b.step("BitShift", low, distance, direction="RIGHT"), x.dtype))
    # -x - 1 is the complement of x, and is not negative where x is; int64's least wraps around to the right
    # number.
    wide = Term(b, b.cast(x, dtype("int64")))
    negative = wide < 0
    positive = b.step("Where", negative.tensor, (wide * -1 - 1).tensor, wide.tensor)
    unsigned = _unsigned(b, b.cast(positive, x.dtype))
    shifted = Term(b, b.cast(b.step("BitShift", unsigned, distance, direction="RIGHT"), dtype("int64")))
    back = b.step("Where", negative.tensor, (shifted * -1 - 1).tensor, shifted.tensor)
    return b.result(b.cast(back, x.dtype))


@lower("PopulationCount", to="onnx")
def population_count(b: Builder, node: Node, x: Tensor) -> Tensor:
    """The sum of the bits, each shifted to the lowest place."""
    require(x.dtype.is_integer, f"{x.dtype} has no bits to count")
    low = _unsigned(b, x)
    bits = 8 * x.dtype.itemsize
    rank = len(shape_of(x, "x"))
    places = b.const(np.arange(bits).astype(low.dtype.numpy()), "places", low.dtype)
    shifted = b.step("BitShift", b.unsqueezed(low, [rank]), places, direction="RIGHT")
    if low.dtype.name == "uint64":  # the low half is enough, and has kernels
        shifted = b.cast(shifted, dtype("uint32"))
    odd = b.step("Mod", b.cast(shifted, dtype("int64")), b.int64(2))
    return b.result(b.cast(b.reduce("ReduceSum", odd, [rank]), dtype("uint8")))


@lower("Bitcast", to="onnx")
def bitcast(b: Builder, node: Node, x: Tensor, *, type: DType) -> Tensor:
    """Between integers of one size, where converting keeps the bits."""
    wanted = b.plain(type)
    # Between floats and integers a Cast would convert, and up to opset 21 no operator of ONNX reads bits.
    both_whole = x.dtype.kind in "iu" and wanted.kind in "iu"
    require(
        x.dtype is wanted or (both_whole and x.dtype.itemsize == wanted.itemsize),
        f"the bytes of {x.dtype} cannot be read as {type} in ONNX",
    )
    return b.result(b.cast(x, wanted))
