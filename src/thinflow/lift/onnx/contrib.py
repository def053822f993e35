"""ONNX Runtime's own ops: those that its optimizer puts for several of the standard's, and the like.

They are what they stand for: a rule takes the standard's apart where it has one, and adds the rest.
"""

from __future__ import annotations

from typing import Any

from thinflow.decompose.terms import Term
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula
from thinflow.lift.onnx.values import channels_first, channels_last, integers, like, rank, text, transposed
from thinflow.lift.rules import Rule, lifts, rules
from thinflow.lift.tflite.math import gelu


def by_rule(
    c: Call, op: str, *operands: Value | None, version: int | None = None, **given: Any
) -> list[Value]:
    """The results of another op of the standard, with this one's options.

    Args:
        version: of the op set whose meaning the op has; that of the model if not given.
        given: options that this one calls by another name, or does not have.
    """
    entry = rules().get(f"onnx.{op}")
    if entry is None:
        raise UnsupportedOp(f"onnx.{op}, which is a part of it, has no counterpart here")
    inner = Call(c.lifter, c.node, list(operands))
    inner.given = given
    if version is not None:
        inner.facts = {**c.facts, "opset": str(version)}
    results = entry.rule(inner)
    c.read_options |= inner.read_options | entry.ignores
    return results if isinstance(results, list) else [results]


def _operands(c: Call) -> list[Value | None]:
    return [c[n] if c.has(n) else None for n in range(len(c.xs))]


def _same_as(op: str) -> Rule:
    return lambda c: by_rule(c, op, *_operands(c))


def by_rule_channels_last(c: Call, op: str, *rest: Value | None, **given: Any) -> Value:
    """The first result of an op of the standard for pictures whose channels come last there and back.

    Args:
        rest: operands behind the picture.
    """
    count = rank(c)
    return channels_last(c, by_rule(c, op, channels_first(c, c[0], count), *rest, **given)[0], count)


# --- activations --------------------------------------------------------------------------------------------


def activated(c: Call, x: Term, parameters: list[float]) -> Term:
    """x by the function that the option `activation` names.

    Args:
        parameters: of the function, in its order; usual ones for what is not there.
    """
    name = text(c, "activation", "")

    def parameter(place: int, usual: float) -> float:
        return float(parameters[place]) if place < len(parameters) else usual

    if not name:
        return x
    if name in ("Relu", "Tanh", "Sigmoid"):
        return x.apply(name)
    if name == "LeakyRelu":
        return x.apply("LeakyRelu", alpha=parameter(0, 0.01))
    if name == "HardSigmoid":
        return (x * parameter(0, 0.2) + parameter(1, 0.5)).clip(0.0, 1.0)
    if name == "Clip" and len(parameters) == 2:
        low, high = parameters
        return x.apply("Relu6") if (low, high) == (0, 6) else x.clip(low, high)
    raise UnsupportedOp(f"its activation {name!r} is not known here")


def _three(c: Call) -> list[float]:
    """Parameters that have an option each."""
    given = [c.get(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return [float(n) for n in given if n is not None]


@lifts("onnx.com.microsoft.FusedConv", "onnx.com.microsoft.NhwcFusedConv", "onnx.com.microsoft.NhwcConv")
def _fused_conv(c: Call) -> Value:
    """FusedConv: a convolution, a sum with another tensor, and an activation."""
    bias, is_last = c[2] if c.has(2) else None, "Nhwc" in c.node.op
    y = by_rule_channels_last(c, "Conv", c[1], bias) if is_last else by_rule(c, "Conv", c[0], c[1], bias)[0]
    body = Formula(c)
    total = body.term(y) + body.operand(3) if c.has(3) else body.term(y)
    return activated(c, total, list(c.get("activation_params", ()))).value


@lifts("onnx.com.microsoft.FusedGemm")
def _fused_gemm(c: Call) -> Value:
    (y,) = by_rule(c, "Gemm", *_operands(c))
    return activated(c, Formula(c).term(y), _three(c)).value


def _product(c: Call) -> Term:
    """alpha * a @ b with either turned; with `transBatch` its rows stand in front of its batch."""
    body, sides = Formula(c), []
    for place, side in enumerate("AB"):
        x, count = c[place], rank(c, place)
        if c.get(f"transBatch{side}", 0):
            if count < 3:
                raise UnsupportedOp(f"its operand {place} has no batch to turn")
            x = transposed(c, x, (*range(1, count - 1), 0, count - 1))
        is_turned = bool(c.get(f"trans{side}", 0))
        # A vector has nothing to turn.
        sides.append((body.term(x), is_turned and count > 1))
    (a, turns_a), (b, turns_b) = sides
    if min(len(a.shape), len(b.shape)) < 2:
        if turns_a or turns_b:
            raise UnsupportedOp("it turns one side, and the other one is a vector")
        y = body.term(by_rule(c, "MatMul", a.value, b.value)[0])
    elif max(len(a.shape), len(b.shape)) == 2:
        y = a.apply("MatMul", b, transpose_a=turns_a, transpose_b=turns_b)
    else:
        y = a.apply("BatchMatMulV2", b, adj_x=turns_a, adj_y=turns_b)
    alpha = float(c.get("alpha", 1.0))
    return y if alpha == 1 else y * alpha


@lifts("onnx.com.microsoft.FusedMatMul", "onnx.com.microsoft.TransposeMatMul")
def _fused_matmul(c: Call) -> Value:
    return _product(c).value


@lifts("onnx.com.microsoft.FusedMatMulActivation")
def _fused_matmul_activation(c: Call) -> Value:
    if text(c, "activation", "") == "Softmax":
        axis = int(c.get("activation_axis", -1))
        y = _product(c)
        if axis % len(y.shape) != len(y.shape) - 1:
            raise UnsupportedOp("its Softmax is not along the last axis")
        return y.apply("Softmax").value
    return activated(c, _product(c), _three(c)).value


@lifts("onnx.com.microsoft.BiasGelu")
def _bias_gelu(c: Call) -> Value:
    return gelu(c, c.emit("AddV2", c[0], c[1]), by_tanh=False)


@lifts("onnx.com.microsoft.FastGelu")
def _fast_gelu(c: Call) -> Value:
    return gelu(c, c.emit("AddV2", c[0], c[1]) if c.has(1) else c[0], by_tanh=True)


@lifts("onnx.com.microsoft.QuickGelu")
def _quick_gelu(c: Call) -> Value:
    """QuickGelu: x * sigmoid(alpha x)."""
    x = Formula(c).operand(0)
    return (x * (x * float(c.get("alpha", 1.702))).apply("Sigmoid")).value


@lifts("onnx.com.microsoft.BiasAdd")
def _bias_add(c: Call) -> Value:
    """BiasAdd: [batch,places,channels] with a number added to each channel, and with another tensor."""
    body = Formula(c)
    return (body.operand(0) + body.operand(1) + body.operand(2)).value


@lifts("onnx.com.microsoft.BiasSoftmax", ignores=("is_inner_broadcast",))
def _bias_softmax(c: Call) -> Value:
    """BiasSoftmax: softmax(x + bias)."""
    body = Formula(c)
    x, bias = body.operand(0), body.operand(1)
    # The option tells which axes of a bias of another rank are repeated; of the same rank the sizes do.
    if len(x.shape) != len(bias.shape):
        raise UnsupportedOp("its bias does not have the rank of what it is added to")
    (y,) = by_rule(c, "Softmax", (x + bias).value, version=_FLATTENS)
    return y


_FLATTENS = 12
"""A version of ONNX's op set whose Softmax goes over all axes from one on."""


@lifts("onnx.com.microsoft.ExpandDims")
def _expand_dims(c: Call) -> Value:
    return c.emit("ExpandDims", c[0], c[1])


@lifts("onnx.com.microsoft.CDist")
def _distances(c: Call) -> Value:
    """CDist: distances between the rows of two matrices."""
    body, metric = Formula(c), text(c, "metric", "sqeuclidean")
    if metric not in ("sqeuclidean", "euclidean"):
        raise UnsupportedOp(f"its metric {metric!r} is not known here")
    a, b = body.operand(0).expand_dims(1), body.operand(1).expand_dims(0)
    y = a.apply("SquaredDifference", b).sum(2)
    return (y.sqrt() if metric == "euclidean" else y).value


@lifts("onnx.com.microsoft.NhwcMaxPool")
def _nhwc_max_pool(c: Call) -> Value:
    return by_rule_channels_last(c, "MaxPool")


@lifts("onnx.com.microsoft.GroupNorm", "onnx.com.microsoft.SkipGroupNorm")
def _group_norm(c: Call) -> list[Value]:
    """GroupNorm: x, scale, offset, and for Skip... what is added to x before; the last result is that sum."""
    body, count, is_last = Formula(c), rank(c), c.flag("channels_last", default=True)
    x, activation = body.operand(0), int(c.get("activation", 0))
    if activation not in (0, 1):
        raise UnsupportedOp(f"its activation {activation} is not known here")
    if c.has(3):
        skip = body.operand(3)
        if not is_last:
            raise UnsupportedOp("its channels come first, and what it adds has them last")
        x = x + (skip.expand_dims(1).expand_dims(1) if len(skip.shape) < count else skip)
    if c.has(4):
        x = x + body.operand(4)
    first = channels_first(c, x.value, count) if is_last else x.value
    (y,) = by_rule(c, "GroupNormalization", first, c[1], c[2], version=_SCALED_BY_CHANNEL,
                   num_groups=c.get("groups", 0))  # fmt: skip
    whole = body.term(channels_last(c, y, count) if is_last else y)
    return [(whole * whole.apply("Sigmoid") if activation else whole).value, x.value]


_SCALED_BY_CHANNEL = 21
"""The version of ONNX's op set whose GroupNormalization has a scale and an offset for each channel."""


@lifts("onnx.com.microsoft.Pad")
def _pad(c: Call) -> Value:
    """Pad: as the standard's of version 11, its pads in a row or a matrix of one row."""
    pads = c[1] if rank(c, 1) == 1 else c.emit("Reshape", c[1], integers(c, (-1,)))
    (y,) = by_rule(c, "Pad", c[0], pads, c[2] if c.has(2) else None, version=11)
    return y


@lifts("onnx.com.microsoft.Range")
def _range(c: Call) -> Value:
    """Range: from, to, and by how much, 1 where that is left out."""
    step = c[2] if c.has(2) else like(c, 1, c[0])
    (y,) = by_rule(c, "Range", c[0], c[1], step)
    return y


lifts("onnx.com.microsoft.Inverse")(lambda c: c.emit("MatrixInverse", c[0]))
for _op in ("GridSample", "Trilu", "GatherND"):
    lifts(f"onnx.com.microsoft.{_op}")(_same_as(_op))
