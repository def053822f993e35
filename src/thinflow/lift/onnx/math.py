"""ONNX's elementwise ops, products and reductions in TensorFlow's words."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BFLOAT16, BOOL, DOUBLE, FLOAT, HALF, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import (
    integers,
    like,
    rank,
    text,
    typed,
)
from thinflow.lift.rules import Rule, lifts, lifts_counterparts, same, variadic
from thinflow.onnx.operators import Trait, same_in_tensorflow


def _second(c: Call) -> Value:
    """The second operand, shaped as numpy broadcasts where an old model says along which axes it goes."""
    y = c[1]
    if c.get("broadcast", 0) and c.get("axis") is not None and rank(c, 1) < rank(c):
        # Its sizes begin at `axis` of the first; behind them it is broadcast.
        axis = c.get("axis") % rank(c)
        tail = rank(c) - axis - rank(c, 1)
        y = c.emit("Reshape", y, integers(c, (*c.sizes(1), *(1,) * tail)))  # as before version 7
    return y


def _binary(op: str) -> Rule:
    return lambda c: c.emit(op, c[0], _second(c))


@lifts("onnx.Div")
def _div(c: Call) -> Value:
    """Whole numbers are cut off towards zero."""
    is_real = c[0].dtype is not None and c[0].dtype.is_floating
    return c.emit("RealDiv" if is_real else "TruncateDiv", c[0], _second(c))


@lifts("onnx.Mod")
def _mod(c: Call) -> Value:
    """The sign is the divisor's, as in Python; with `fmod` the dividend's, as in C."""
    op, kind = "TruncateMod" if c.flag("fmod") else "FloorMod", c[0].dtype
    if kind not in (HALF, BFLOAT16):
        return c.emit(op, c[0], c[1])
    # TensorFlow has no remainders of short floats. In float32 they are exact, and have as few digits.
    assert kind is not None
    return typed(c, c.emit(op, typed(c, c[0], FLOAT), typed(c, c[1], FLOAT)), kind)


@lifts("onnx.Pow")
def _pow(c: Call) -> Value:
    """The exponent may have a type of its own; the result has that of the base."""
    x, y = c[0], _second(c)
    kind = x.dtype
    if kind is None or y.dtype is None or kind is y.dtype:
        return c.emit("Pow", x, y)
    # A fraction of an exponent would be lost in the type of the base; digits of it in a shorter one.
    is_lost = y.dtype.is_floating and (not kind.is_floating or y.dtype.itemsize > kind.itemsize)
    wide = (DOUBLE if not kind.is_floating else y.dtype) if is_lost else kind
    return typed(c, c.emit("Pow", typed(c, x, wide), typed(c, y, wide)), kind)


@lifts("onnx.Mean")
def _mean(c: Call) -> Value:
    total = variadic("AddV2")(c)
    assert isinstance(total, Value)
    return c.emit("RealDiv", total, like(c, len(c.xs), c[0]))


@lifts("onnx.Where")
def _where(c: Call) -> Value:
    return c.emit("SelectV2", c[0], c[1], c[2], T=c[1].dtype)


@lifts("onnx.IsInf")
def _is_inf(c: Call) -> Value:
    y = c.emit("IsInf", c[0])
    zero = like(c, 0, c[0])
    if not c.get("detect_negative", 1):
        y = c.emit("LogicalAnd", y, c.emit("Greater", c[0], zero))
    if not c.get("detect_positive", 1):
        y = c.emit("LogicalAnd", y, c.emit("Less", c[0], zero))
    return y


@lifts("onnx.Dropout", ignores=("is_test", "ratio", "seed"), unread=(1,))
def _dropout(c: Call) -> list[Value]:
    """As in inference: the input; the mask, where anyone reads it, lets all through."""
    drops = not c.has(1) or c.content(c[1]) is None or bool(c.known(1).any())
    if c.has(2) and bool(c.known(2).any()) and drops:
        raise UnsupportedOp("it drops at random, as in training")
    y = c.emit("Identity", c[0])
    if len(c.node.outputs) < 2:
        return [y]
    ones = c.emit("OnesLike", c[0])
    return [y, typed(c, ones, BOOL)]


def matmul(c: Call, x: Value, w: Value, ranks: tuple[int, int]) -> Value:
    """numpy's product of two tensors; a vector is a row on the left and a column on the right."""
    if ranks[0] == 1:
        x = c.emit("ExpandDims", x, c.constant(0))
    if ranks[1] == 1:
        w = c.emit("ExpandDims", w, c.constant(1))
    is_plain = max(ranks) <= 2
    op, flags = ("MatMul", _PLAIN) if is_plain else ("BatchMatMulV2", _BATCHED)
    y = c.emit(op, x, w, **dict.fromkeys(flags, False))
    gone = [axis for axis, count in zip((-2, -1), ranks, strict=True) if count == 1]
    return c.emit("Squeeze", y, squeeze_dims=tuple(gone)) if gone else y


_PLAIN, _BATCHED = ("transpose_a", "transpose_b"), ("adj_x", "adj_y")
"""Options of TensorFlow's products of two matrices, and of many."""


@lifts("onnx.MatMul")
def _matmul(c: Call) -> Value:
    return matmul(c, c[0], c[1], (rank(c), rank(c, 1)))


@lifts("onnx.Gemm", ignores=("broadcast",))
def _gemm(c: Call) -> Value:
    """alpha * a @ b + beta * c."""
    y = c.emit("MatMul", c[0], c[1], transpose_a=c.flag("transA"), transpose_b=c.flag("transB"))
    alpha, beta = c.get("alpha", 1.0), c.get("beta", 1.0)
    if alpha != 1:
        y = c.emit("Mul", y, like(c, alpha, y))
    return _with_bias(c, y, beta) if c.has(2) else y


def _with_bias(c: Call, y: Value, beta: float) -> Value:
    """y + beta * c: a bias where that is a vector of constants, as long as a row."""
    content = c.content(c[2])
    if content is None or beta == 1:
        bias = c[2] if beta == 1 else c.emit("Mul", c[2], like(c, beta, y))
    else:
        bias = c.constant((content * beta).astype(content.dtype))
    width = (y.spec.shape or (None,))[-1]
    is_vector = content is not None and content.ndim == 1 and content.shape == (width,)
    return c.emit("BiasAdd" if is_vector else "AddV2", y, bias)


@lifts("onnx.Einsum")
def _einsum(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    return c.emit("Einsum", *xs, equation=_explicit(text(c, "equation", "")))


def _explicit(equation: str) -> str:
    """An equation that says what comes out: without `->`, letters that occur once, in alphabetical order."""
    plain = equation.replace(" ", "")
    if "->" in plain:
        return plain
    letters = plain.replace("...", "").replace(",", "")
    once = "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    return f"{plain}->{'...' if '...' in plain else ''}{once}"


@lifts("onnx.Det")
def _det(c: Call) -> Value:
    kind = c[0].dtype
    if kind is None or kind not in (HALF, BFLOAT16):
        return c.emit("MatrixDeterminant", c[0])
    return typed(c, c.emit("MatrixDeterminant", typed(c, c[0], FLOAT)), kind)


def normalized(c: Call, x: Value, axes: Value, epsilon: float) -> Value:
    """x with mean 0 and variance 1 over axes."""
    centred = c.emit("Sub", x, c.emit("Mean", x, axes, keep_dims=True, Tidx=INT64))
    variance = c.emit("Mean", c.emit("Square", centred), axes, keep_dims=True, Tidx=INT64)
    return c.emit("Mul", centred, c.emit("Rsqrt", c.emit("AddV2", variance, like(c, epsilon, x))))


@lifts("onnx.LpNormalization")
def _lp_norm(c: Call) -> Value:
    """x / its norm along an axis."""
    axes, p = integers(c, (c.get("axis", -1),)), c.get("p", 2)
    if p not in (1, 2):
        raise UnsupportedOp(f"its option 'p' is {p}, which is neither 1 nor 2")
    if p == 1:
        norm = c.emit("Sum", c.emit("Abs", c[0]), axes, keep_dims=True, Tidx=INT64)
    else:
        norm = c.emit("Sqrt", c.emit("Sum", c.emit("Square", c[0]), axes, keep_dims=True, Tidx=INT64))
    # A vector of zeros, whose norm is 0, stays zeros.
    return c.emit("DivNoNan", c[0], norm)


lifts("onnx.Identity")(same("Identity"))
# It takes bools only, of which this is the same.
lifts("onnx.Xor")(_binary("NotEqual"))
lifts("onnx.Sum")(variadic("AddV2"))
lifts("onnx.Max")(variadic("Maximum"))
lifts("onnx.Min")(variadic("Minimum"))
lifts_counterparts("onnx", same_in_tensorflow(Trait.UNARY), same)
lifts_counterparts("onnx", same_in_tensorflow(Trait.BINARY), _binary)
