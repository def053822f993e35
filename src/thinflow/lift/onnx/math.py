"""ONNX's elementwise ops, products and reductions in TensorFlow's words."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, INT32, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.values import (
    NUMBERS,
    integers,
    like,
    numbers,
    rank,
    text,
    typed,
)
from thinflow.lift.rules import Rule, lifts, lifts_counterparts, same, variadic
from thinflow.onnx.operators import Trait, same_in_tensorflow


def _binary(op: str) -> Rule:
    def rule(c: Call) -> Value:
        y = c[1]
        if c.get("broadcast", 0) and c.get("axis") is not None and rank(c, 1) < rank(c):
            # The second operand's sizes begin at `axis` of the first; behind them it is broadcast.
            axis = c.get("axis") % rank(c)
            tail = rank(c) - axis - rank(c, 1)
            y = c.emit("Reshape", y, integers(c, (*c.sizes(1), *(1,) * tail)))  # as before version 7
        return c.emit(op, c[0], y)

    return rule


@lifts("onnx.Div")
def _div(c: Call) -> Value:
    """Whole numbers are cut off towards zero."""
    is_real = c[0].dtype is not None and c[0].dtype.is_floating
    return _binary("RealDiv" if is_real else "TruncateDiv")(c)  # type: ignore[return-value]


@lifts("onnx.Mod")
def _mod(c: Call) -> Value:
    # The sign is the divisor's, as in Python; with `fmod` the dividend's, as in C.
    return c.emit("TruncateMod" if c.get("fmod", 0) else "FloorMod", c[0], c[1])


@lifts("onnx.Pow")
def _pow(c: Call) -> Value:
    # ONNX allows the exponent a type of its own; the result has that of the base.
    return c.emit("Pow", c[0], c[1] if c[0].dtype is None else typed(c, c[1], c[0].dtype))


@lifts("onnx.Mean")
def _mean(c: Call) -> Value:
    total = variadic("AddV2")(c)
    assert isinstance(total, Value)
    return c.emit("RealDiv", total, like(c, len(c.xs), c[0]))


@lifts("onnx.Cast", "onnx.CastLike")
def _cast(c: Call) -> Value:
    kind = NUMBERS.get(c.get("to", 0)) if c.node.op == "onnx.Cast" else c[1].dtype
    if kind is None:
        raise UnsupportedOp("it casts to a type that TensorFlow does not have")
    x, most = c[0], _FLOAT8_MOST.get(kind.name)
    if most is not None and c.get("saturate", 1):
        x = c.emit("Maximum", c.emit("Minimum", x, like(c, most, x)), like(c, -most, x))
    return c.emit("Cast", x, SrcT=c[0].dtype, DstT=kind)


_FLOAT8_MOST = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
"""The largest number of each type, at which a cast that saturates stops; others give infinity or NaN."""


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
    if c.has(2) and bool(c.known(2).any()):
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
    y = c.emit("BatchMatMulV2", x, w, adj_x=False, adj_y=False)
    gone = [axis for axis, count in zip((-2, -1), ranks, strict=True) if count == 1]
    return c.emit("Squeeze", y, squeeze_dims=tuple(gone)) if gone else y


@lifts("onnx.MatMul")
def _matmul(c: Call) -> Value:
    return matmul(c, c[0], c[1], (rank(c), rank(c, 1)))


@lifts("onnx.Gemm", ignores=("broadcast",))
def _gemm(c: Call) -> Value:
    """alpha * a @ b + beta * c."""
    y = c.emit(
        "MatMul", c[0], c[1], transpose_a=bool(c.get("transA", 0)), transpose_b=bool(c.get("transB", 0))
    )
    alpha, beta = c.get("alpha", 1.0), c.get("beta", 1.0)
    if alpha != 1:
        y = c.emit("Mul", y, like(c, alpha, y))
    if c.has(2):
        y = c.emit("AddV2", y, c[2] if beta == 1 else c.emit("Mul", c[2], like(c, beta, y)))
    return y


@lifts("onnx.Einsum")
def _einsum(c: Call) -> Value:
    xs = [c[i] for i in range(len(c.xs))]
    return c.emit("Einsum", *xs, equation=text(c, "equation", ""), N=len(xs))


def reduction_axes(c: Call) -> Value | None:
    """The axes that a reduction goes over; None for none at all.

    Options before version 13 or 18, an input since; left out means all.
    """
    axes, keeps = numbers(c, "axes", 1), c.get("noop_with_empty_axes", 0)
    if axes:
        return integers(c, axes)
    if keeps:
        return None
    if c[0].spec.shape is not None:
        return integers(c, tuple(range(rank(c))))
    # All axes, of which only the run knows how many there are.
    return c.emit("Range", c.constant(0), c.emit("Rank", c[0]), c.constant(1), Tidx=INT32)


def _reduction(op: str, before: str = "", behind: str = "") -> Rule:
    def rule(c: Call) -> Value:
        axes, is_kept = reduction_axes(c), bool(c.get("keepdims", 1))
        x = c.emit(before, c[0]) if before else c[0]
        if axes is None:
            return c.emit(behind or "Identity", x)
        kind = _OF_BOOLS.get(op, op) if x.dtype is BOOL else op
        y = c.emit(kind, x, axes, keep_dims=is_kept, Tidx=INT64)
        return c.emit(behind, y) if behind else y

    return rule


# With false below true, as ONNX orders them.
_OF_BOOLS = {"Max": "Any", "Min": "All"}


@lifts("onnx.ReduceLogSumExp")
def _log_sum_exp(c: Call) -> Value:
    """log(sum(exp(x))), with the largest value taken out first."""
    axes, is_kept = reduction_axes(c), c.get("keepdims", 1)
    if axes is None:
        return c.emit("Identity", c[0])
    high = c.emit("Max", c[0], axes, keep_dims=True, Tidx=INT64)
    # An infinite one would be taken from itself: of all -inf the sum is 0, and its logarithm -inf.
    high = c.emit("SelectV2", c.emit("IsFinite", high), high, like(c, 0, high), T=high.dtype)
    total = c.emit("Sum", c.emit("Exp", c.emit("Sub", c[0], high)), axes, keep_dims=True, Tidx=INT64)
    y = c.emit("AddV2", c.emit("Log", total), high)
    return y if is_kept else c.emit("Sum", y, axes, keep_dims=False, Tidx=INT64)


def normalized(c: Call, x: Value, axes: Value, epsilon: float) -> Value:
    """x with mean 0 and variance 1 over axes."""
    centred = c.emit("Sub", x, c.emit("Mean", x, axes, keep_dims=True, Tidx=INT64))
    variance = c.emit("Mean", c.emit("Square", centred), axes, keep_dims=True, Tidx=INT64)
    return c.emit("Mul", centred, c.emit("Rsqrt", c.emit("AddV2", variance, like(c, epsilon, x))))


@lifts("onnx.LayerNormalization")
def _layer_norm(c: Call) -> Value:
    if len(c.node.outputs) > 1:
        raise UnsupportedOp("its mean or deviation is read")
    count = rank(c)
    axes = integers(c, tuple(range(c.get("axis", -1) % count, count)))
    y = c.emit("Mul", normalized(c, c[0], axes, c.get("epsilon", 1e-5)), c[1])
    return c.emit("AddV2", y, c[2]) if c.has(2) else y


@lifts("onnx.LpNormalization")
def _lp_norm(c: Call) -> Value:
    """x / its norm along an axis."""
    axes = integers(c, (c.get("axis", -1),))
    if c.get("p", 2) == 1:
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
lifts("onnx.ReduceL1")(_reduction("Sum", "Abs"))
lifts("onnx.ReduceL2")(_reduction("Sum", "Square", "Sqrt"))
lifts("onnx.ReduceSumSquare")(_reduction("Sum", "Square"))
lifts("onnx.ReduceLogSum")(_reduction("Sum", "", "Log"))
lifts_counterparts("onnx", same_in_tensorflow(Trait.UNARY), same)
lifts_counterparts("onnx", same_in_tensorflow(Trait.BINARY), _binary)
lifts_counterparts("onnx", same_in_tensorflow(Trait.REDUCTION), _reduction)
