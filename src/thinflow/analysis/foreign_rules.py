"""Rules for ops of other vocabularies than TensorFlow's: which op has which; and those for costs.

    @shape_rule("onnx.ArgMax", "onnx.ArgMin", gives=INT64)
    def _arg(xs: Operands, attrs: Attributes) -> Shape: ...

    @cost_rule("tfl.CONV_2D")
    def _conv(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost: ...

A multiply-add counts as 2 operations. Layouts of weights: LiteRT's schema, ONNX's op definitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from thinflow.ir.types import DType, Shape, TensorSpec
from thinflow.ops.registry import Cost

Operands = Sequence[TensorSpec | None]
"""Specs of the inputs by position, None for one that is absent."""
Attributes = Mapping[str, Any]
CostRule = Callable[[TensorSpec, Operands, Attributes], Cost]
ShapeRule = Callable[[Operands, Attributes], Shape]
TypeRule = Callable[[Operands, Attributes], "DType | None"]
S = TypeVar("S", bound=ShapeRule)
C = TypeVar("C", bound=CostRule)

SHAPES: dict[str, ShapeRule] = {}
TYPES: dict[str, TypeRule] = {}
COSTS: dict[str, CostRule] = {}
UNTOLD = {
    f"onnx.ai.onnx.ml.TreeEnsemble{kind}": "which way it goes through its trees depends on what is fed"
    for kind in ("", "Classifier", "Regressor")
}
"""Ops of which sizes do not tell the work, and why."""
FREE: set[str] = set()
"""Ops that compute nothing themselves."""


def shape_rule(*ops: str, gives: DType | TypeRule | None = None) -> Callable[[S], S]:
    """Register a function as the rule for the shape of these ops' first output.

    Args:
        ops: names, with their vocabulary in front.
        gives: its element type, or what tells it; default: that of the first operand.
    """

    def register(rule: S) -> S:
        SHAPES.update(dict.fromkeys(ops, rule))
        if isinstance(gives, DType):
            TYPES.update(dict.fromkeys(ops, lambda xs, attrs: gives))
        elif gives is not None:
            TYPES.update(dict.fromkeys(ops, gives))
        return rule

    return register


def cost_rule(*ops: str) -> Callable[[C], C]:
    """Register a function as the rule for what a run of these ops costs."""

    def register(rule: C) -> C:
        COSTS.update(dict.fromkeys(ops, rule))
        return rule

    return register


def free(*ops: str) -> None:
    """Note that these ops cost nothing, whatever their sizes."""
    FREE.update(ops)


def type_of(place: int) -> TypeRule:
    """The rule of an op whose result has the type of an operand."""

    def rule(xs: Operands, attrs: Attributes) -> DType | None:
        del attrs
        operand = xs[place]
        return None if operand is None else operand.dtype

    return rule


def sizes(spec: TensorSpec | None) -> tuple[int, ...]:
    """The sizes of a static spec.

    Raises:
        ValueError: it is absent, or not static.
    """
    if spec is None or spec.shape is None or None in spec.shape:
        raise ValueError("an operand has no known size")
    return tuple(n for n in spec.shape if n is not None)


def count(spec: TensorSpec | None) -> int:
    """Number of elements; 0 of an absent operand."""
    return 0 if spec is None else math.prod(sizes(spec))


def multiply_adds(macs: int, others: int = 0) -> Cost:
    """So many multiply-adds, and other operations beside."""
    return Cost(flops=2 * macs + others, macs=macs)


# --- costs --------------------------------------------------------------------------------------------------


free("tfl.RESHAPE", "tfl.SQUEEZE", "tfl.EXPAND_DIMS", "tfl.SHAPE", "tfl.RANK")
free("onnx.Reshape", "onnx.Squeeze", "onnx.Unsqueeze", "onnx.Flatten")
free("onnx.Identity", "onnx.Shape", "onnx.Size", "onnx.Dropout")
# Their bodies are graphs of their own; how often they run is not known.
free("tfl.IF", "tfl.WHILE", "tfl.CALL", "tfl.CALL_ONCE", "onnx.If", "onnx.Loop", "onnx.Scan")


# --- LiteRT -------------------------------------------------------------------------------------------------


def _beside(y: TensorSpec, xs: Operands, attrs: Attributes, bias: int) -> int:
    """Operations of a bias and of a fused activation."""
    has_bias = len(xs) > bias and xs[bias] is not None
    return count(y) * (has_bias + _is_activated(attrs))


def _is_activated(attrs: Attributes) -> bool:
    return bool(attrs.get("fused_activation_function", b"NONE") != b"NONE")


@cost_rule("tfl.CONV_2D")
def _tfl_conv(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """CONV_2D: filter [cout, kh, kw, cin/groups]."""
    return multiply_adds(count(y) * math.prod(sizes(xs[1])[1:]), _beside(y, xs, attrs, 2))


@cost_rule("tfl.DEPTHWISE_CONV_2D")
def _depthwise(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """DEPTHWISE_CONV_2D: filter [1, kh, kw, channels]."""
    return multiply_adds(count(y) * math.prod(sizes(xs[1])[1:3]), _beside(y, xs, attrs, 2))


@cost_rule("tfl.CONV_3D")
def _conv_3d(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """CONV_3D: filter [kd, kh, kw, cin, cout]."""
    return multiply_adds(count(y) * math.prod(sizes(xs[1])[:4]), _beside(y, xs, attrs, 2))


@cost_rule("tfl.TRANSPOSE_CONV")
def _tfl_transposed(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """TRANSPOSE_CONV: output shape, weights [cout, kh, kw, cin], x."""
    # By the input: every element of x meets each weight of its channel once.
    return multiply_adds(count(xs[2]) * math.prod(sizes(xs[1])[:3]), _beside(y, xs, attrs, 3))


@cost_rule("tfl.CONV_3D_TRANSPOSE")
def _transposed_3d(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """CONV_3D_TRANSPOSE: output shape, weights [kd, kh, kw, cout, cin], x."""
    return multiply_adds(count(xs[2]) * math.prod(sizes(xs[1])[:4]), _beside(y, xs, attrs, 3))


@cost_rule("tfl.FULLY_CONNECTED")
def _fully_connected(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """FULLY_CONNECTED: weights [units, in]."""
    return multiply_adds(count(y) * sizes(xs[1])[-1], _beside(y, xs, attrs, 2))


@cost_rule("tfl.BATCH_MATMUL")
def _tfl_matmul(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    return multiply_adds(count(y) * sizes(xs[0])[-2 if attrs.get("adj_x") else -1])


@cost_rule("tfl.STABLEHLO_DOT_GENERAL")
def _dot_general(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """Every output element is a sum over all axes that are contracted."""
    return multiply_adds(count(y) * math.prod(sizes(xs[0])[a] for a in attrs["lhs_contracting_dimensions"]))


@cost_rule(
    "tfl.LSTM", "tfl.UNIDIRECTIONAL_SEQUENCE_LSTM", "tfl.SVDF", "tfl.RNN", "tfl.UNIDIRECTIONAL_SEQUENCE_RNN"
)
def _tfl_recurrent(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """Every weight once per step and batch: x [..., in], weights the operands of rank 2 behind it."""
    del y, attrs
    steps = count(xs[0]) // max(sizes(xs[0])[-1], 1)
    # Up to the projection at 16; behind its bias come the states, which have rank 2 as well.
    weights = sum(count(w) for w in xs[1:18] if w is not None and w.rank == 2)
    return multiply_adds(steps * weights)


@cost_rule("tfl.AVERAGE_POOL_2D", "tfl.MAX_POOL_2D", "tfl.L2_POOL_2D")
def _tfl_pool(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    del xs
    window = attrs.get("filter_width", 1) * attrs.get("filter_height", 1)
    return Cost(flops=count(y) * window + count(y) * _is_activated(attrs))


@cost_rule(
    "tfl.MEAN",
    "tfl.SUM",
    "tfl.REDUCE_PROD",
    "tfl.REDUCE_MAX",
    "tfl.REDUCE_MIN",
    "tfl.REDUCE_ANY",
    "tfl.REDUCE_ALL",
    "tfl.ARG_MAX",
    "tfl.ARG_MIN",
)
def _tfl_reduction(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    del y, attrs
    return Cost(flops=count(xs[0]))


@cost_rule("tfl.ADD", "tfl.SUB", "tfl.MUL", "tfl.DIV", "tfl.CONCATENATION")
def _element(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    del xs
    return Cost(flops=count(y) * (1 + _is_activated(attrs)))


# --- ONNX ---------------------------------------------------------------------------------------------------


@cost_rule("onnx.Conv", "onnx.ConvInteger", "onnx.com.microsoft.FusedConv")
def _onnx_conv(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """Conv: W [cout, cin/groups, kernel...]."""
    del attrs
    return multiply_adds(count(y) * math.prod(sizes(xs[1])[1:]), _onnx_bias(y, xs, 2))


def _onnx_bias(y: TensorSpec, xs: Operands, place: int) -> int:
    return count(y) if len(xs) > place and xs[place] is not None else 0


@cost_rule("onnx.QLinearConv")
def _onnx_quantized_conv(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """QLinearConv: W is the fourth operand, the bias the ninth."""
    del attrs
    return multiply_adds(count(y) * math.prod(sizes(xs[3])[1:]), _onnx_bias(y, xs, 8))


@cost_rule("onnx.ConvTranspose")
def _onnx_transposed(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """ConvTranspose: W [cin, cout/groups, kernel...]."""
    del attrs
    # Every input element is multiplied with the weights of its channel, which gives several outputs.
    return multiply_adds(count(xs[0]) * math.prod(sizes(xs[1])[1:]), _onnx_bias(y, xs, 2))


@cost_rule("onnx.Gemm", "onnx.com.microsoft.FusedGemm")
def _onnx_gemm(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    inner = sizes(xs[0])[0 if attrs.get("transA") else 1]
    return multiply_adds(count(y) * inner, _onnx_bias(y, xs, 2))


@cost_rule("onnx.MatMul", "onnx.MatMulInteger", "onnx.QLinearMatMul")
def _onnx_matmul(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    del attrs
    return multiply_adds(count(y) * sizes(xs[0])[-1])


@cost_rule("onnx.com.microsoft.FusedMatMul", "onnx.com.microsoft.TransposeMatMul")
def _fused_matmul(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    return multiply_adds(count(y) * sizes(xs[0])[-2 if attrs.get("transA") else -1])


@cost_rule("onnx.com.microsoft.Attention")
def _attention(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """Attention: x [batch, steps, n], weights [n, 3 * m]; of the past nothing counts."""
    del attrs
    batch, steps, _ = sizes(xs[0])
    # Weights once a step; every query with every key, and every weight of those with the values.
    return multiply_adds(batch * steps * count(xs[1]) + 2 * steps * count(y))


@cost_rule("onnx.ai.onnx.ml.LinearClassifier", "onnx.ai.onnx.ml.LinearRegressor")
def _linear(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    del y
    return multiply_adds((sizes(xs[0])[0] or 1) * len(attrs.get("coefficients") or ()))


@cost_rule("onnx.ai.onnx.ml.SVMClassifier", "onnx.ai.onnx.ml.SVMRegressor")
def _support_vectors(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    del y
    return multiply_adds((sizes(xs[0])[0] or 1) * len(attrs.get("support_vectors") or ()))


@cost_rule("onnx.LSTM", "onnx.GRU", "onnx.RNN")
def _onnx_recurrent(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """LSTM, GRU, RNN: X [steps, batch, in], W and R [directions, gates * hidden, ...] in every step."""
    del y, attrs
    steps, batch, _ = sizes(xs[0])
    return multiply_adds(steps * batch * (count(xs[1]) + count(xs[2])))


@cost_rule("onnx.MaxPool", "onnx.AveragePool", "onnx.LpPool")
def _onnx_pool(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    del xs
    return Cost(flops=count(y) * math.prod(attrs.get("kernel_shape", (1,))))


@cost_rule(
    "onnx.GlobalAveragePool",
    "onnx.GlobalMaxPool",
    "onnx.ArgMax",
    "onnx.ArgMin",
    "onnx.ReduceMean",
    "onnx.ReduceSum",
    "onnx.ReduceMax",
    "onnx.ReduceMin",
    "onnx.ReduceProd",
    "onnx.ReduceL1",
    "onnx.ReduceL2",
    "onnx.ReduceLogSumExp",
    "onnx.ReduceSumSquare",
)
def _onnx_reduction(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    del y, attrs
    return Cost(flops=count(xs[0]))
