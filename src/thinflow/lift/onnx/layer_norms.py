"""ONNX's normalizations of whole layers, with and without a mean, and those that add a residual before.

y = (x - mean) / sqrt(variance + epsilon) * scale + bias        over all axes from one on
"""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.decompose.terms import Term, concat
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import BFLOAT16, FLOAT, HALF, INT32
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula
from thinflow.lift.onnx.values import NUMBERS
from thinflow.lift.rules import lifts


def _wide(c: Call, x: Term) -> Term:
    """x in the type that `stash_type` states for the statistics."""
    kind = NUMBERS.get(int(c.get("stash_type", 1)))
    if kind is None or not kind.is_floating:
        raise UnsupportedOp(f"its stash_type {c.get('stash_type')} is no floating type")
    return x.cast(kind) if x.dtype in (HALF, BFLOAT16) else x


def _over(x: Term, axis: int) -> list[int]:
    rank = len(x.shape)
    if not -rank <= axis < max(rank, 1):
        raise UnsupportedOp(f"its axis {axis} is not among {rank}")
    return list(range(axis % rank, rank))


def layer_norm(
    c: Call, x: Term, scale: Term, bias: Term | None, axes: Sequence[int]
) -> tuple[Term, Term, Term]:
    """The result, the mean and 1 / deviation."""
    wide = _wide(c, x)
    mean = wide.mean(*axes, keep=True)
    variance = wide.apply("SquaredDifference", mean).mean(*axes, keep=True)
    inverse = (variance + float(c.get("epsilon", 1e-5))).apply("Rsqrt")
    y = ((wide - mean) * inverse).cast(x.dtype) * scale
    return y if bias is None else y + bias, mean, inverse


def rms_norm(c: Call, x: Term, scale: Term, axes: Sequence[int]) -> tuple[Term, Term]:
    """x / sqrt(mean of squares + epsilon) * scale, and the factor of x."""
    wide = _wide(c, x)
    inverse = (wide.apply("Square").mean(*axes, keep=True) + float(c.get("epsilon", 1e-5))).apply("Rsqrt")
    return (wide * inverse).cast(scale.dtype) * scale, inverse


@lifts("onnx.LayerNormalization")
def _layer_norm(c: Call) -> list[Value]:
    body = Formula(c)
    x, scale = body.operand(0), body.operand(1)
    bias = body.operand(2) if c.has(2) else None
    results = layer_norm(c, x, scale, bias, _over(x, int(c.get("axis", -1))))
    return [t.value for t in results]


@lifts("onnx.RMSNormalization")
def _rms_norm(c: Call) -> Value:
    body = Formula(c)
    x = body.operand(0)
    return rms_norm(c, x, body.operand(1), _over(x, int(c.get("axis", -1))))[0].value


@lifts("onnx.SimplifiedLayerNormalization", "onnx.com.microsoft.SimplifiedLayerNormalization")
def _simplified(c: Call) -> list[Value]:
    """ONNX Runtime's name of it before the standard had one; its second result is 1 / deviation."""
    body = Formula(c)
    x = body.operand(0)
    return [t.value for t in rms_norm(c, x, body.operand(1), _over(x, int(c.get("axis", -1))))]


def _residual(body: Formula, c: Call, bias: int) -> Term:
    """The sum of both inputs and of the bias at a place."""
    total = body.operand(0) + body.operand(1)
    return total + body.operand(bias) if c.has(bias) else total


@lifts("onnx.com.microsoft.SkipLayerNormalization")
def _skip(c: Call) -> list[Value]:
    """SkipLayerNormalization: input, skip, scale, offset, bias; the last result is the sum of inputs."""
    body = Formula(c)
    total = _residual(body, c, 4)
    offset = body.operand(3) if c.has(3) else None
    epsilon = _epsilon(c)
    y, mean, inverse = _normed(total, body.operand(2), offset, epsilon)
    return [t.value for t in (y, mean, inverse, total)]


@lifts("onnx.com.microsoft.SkipSimplifiedLayerNormalization")
def _skip_simplified(c: Call) -> list[Value]:
    """SkipSimplifiedLayerNormalization: input, skip, scale, bias; there is no mean."""
    body = Formula(c)
    total = _residual(body, c, 3)
    mean = c.node.output(1)
    if mean.uses or mean.is_graph_output:
        raise UnsupportedOp("its mean is read, which it does not have")
    wide = total.cast(FLOAT) if total.dtype in (HALF, BFLOAT16) else total
    inverse = (wide.apply("Square").mean(-1, keep=True) + _epsilon(c)).apply("Rsqrt")
    y = (wide * inverse).cast(total.dtype) * body.operand(2)
    return [t.value for t in (y, inverse, inverse, total)]


def _epsilon(c: Call) -> float:
    # What ONNX Runtime takes for these where a model does not say (`contrib_defs`).
    return float(c.get("epsilon", 1e-12))


def _normed(x: Term, scale: Term, offset: Term | None, epsilon: float) -> tuple[Term, Term, Term]:
    """The result, mean and 1 / deviation over the last axis."""
    wide = x.cast(FLOAT) if x.dtype in (HALF, BFLOAT16) else x
    mean = wide.mean(-1, keep=True)
    inverse = (wide.apply("SquaredDifference", mean).mean(-1, keep=True) + epsilon).apply("Rsqrt")
    y = ((wide - mean) * inverse).cast(x.dtype) * scale
    return y if offset is None else y + offset, mean, inverse


@lifts("onnx.com.microsoft.EmbedLayerNormalization")
def _embed(c: Call) -> list[Value]:
    """EmbedLayerNormalization: rows of words, positions and segments, added and normalized.

    Results: the layer [batch,steps,units], how many places of each mask count [batch], and the sum.
    """
    body = Formula(c)
    words, table, places = body.operand(0), body.operand(2), body.operand(3)
    total = table.gather(words)
    if c.has(8):
        total = total + places.gather(body.operand(8))
    else:
        # Positions count from 0 on.
        steps = words.static_size(1, "the number of its words")
        total = total + places.cut(0, 0, steps)
    if c.has(1) and c.has(4):
        total = total + body.operand(4).gather(body.operand(1))
    elif c.has(1) != c.has(4):
        raise UnsupportedOp("it has segments without their embedding, or the embedding alone")
    y, _, _ = _normed(total, body.operand(5), body.operand(6), _epsilon(c))
    if c.get("mask_index_type", 0):
        raise UnsupportedOp(f"its mask_index_type is {c.get('mask_index_type')}")
    if c.has(7):
        # Ones count, and no other numbers.
        mask = body.operand(7)
        count = mask.apply("Equal", body.constant(1, mask.dtype)).cast(INT32).sum(1)
    else:
        zeros = words.cut(1, 0, 1).cast(INT32) * 0
        count = concat([zeros], 1).reshape([-1])
    return [t.value for t in (y, count, total)]
