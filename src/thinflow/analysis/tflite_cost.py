"""Cost of LiteRT's ops; a multiply-add counts as 2 operations. Layouts of weights: LiteRT's schema."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from thinflow.analysis.foreign import CostRule, Operands
from thinflow.ir.types import TensorSpec
from thinflow.ops.registry import Cost

FREE = frozenset({"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "SHAPE", "RANK", "IF", "WHILE", "CALL", "CALL_ONCE"})
"""Ops that compute nothing themselves."""


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


def _beside(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any], bias: int) -> int:
    """Operations of a bias and of a fused activation."""
    has_bias = len(xs) > bias and xs[bias] is not None
    return count(y) * (has_bias + _is_activated(attrs))


def _is_activated(attrs: Mapping[str, Any]) -> bool:
    return attrs.get("fused_activation_function", b"NONE") != b"NONE"


def _conv(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """CONV_2D: filter [cout, kh, kw, cin/groups]."""
    return multiply_adds(count(y) * math.prod(sizes(xs[1])[1:]), _beside(y, xs, attrs, 2))


def _depthwise(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """DEPTHWISE_CONV_2D: filter [1, kh, kw, channels]."""
    return multiply_adds(count(y) * math.prod(sizes(xs[1])[1:3]), _beside(y, xs, attrs, 2))


def _conv_3d(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """CONV_3D: filter [kd, kh, kw, cin, cout]."""
    return multiply_adds(count(y) * math.prod(sizes(xs[1])[:4]), _beside(y, xs, attrs, 2))


def _transposed(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """TRANSPOSE_CONV: output shape, weights [cout, kh, kw, cin], x."""
    # By the input: every element of x meets each weight of its channel once.
    return multiply_adds(count(xs[2]) * math.prod(sizes(xs[1])[:3]), _beside(y, xs, attrs, 3))


def _transposed_3d(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """CONV_3D_TRANSPOSE: output shape, weights [kd, kh, kw, cout, cin], x."""
    return multiply_adds(count(xs[2]) * math.prod(sizes(xs[1])[:4]), _beside(y, xs, attrs, 3))


def _fully_connected(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """FULLY_CONNECTED: weights [units, in]."""
    return multiply_adds(count(y) * sizes(xs[1])[-1], _beside(y, xs, attrs, 2))


def _matmul(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    return multiply_adds(count(y) * sizes(xs[0])[-2 if attrs.get("adj_x") else -1])


def _recurrent(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    """Every weight once per step and batch: x [..., in], weights the operands of rank 2 behind it."""
    del y, attrs
    steps = count(xs[0]) // max(sizes(xs[0])[-1], 1)
    # Up to the projection at 16; behind its bias come the states, which have rank 2 as well.
    weights = sum(count(w) for w in xs[1:18] if w is not None and w.rank == 2)
    return multiply_adds(steps * weights)


def _pool(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    del xs
    window = attrs.get("filter_width", 1) * attrs.get("filter_height", 1)
    return Cost(flops=count(y) * window + count(y) * _is_activated(attrs))


def _reduction(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    del y, attrs
    return Cost(flops=count(xs[0]))


def _element(y: TensorSpec, xs: Operands, attrs: Mapping[str, Any]) -> Cost:
    del xs
    return Cost(flops=count(y) * (1 + _is_activated(attrs)))


RULES: dict[str, CostRule] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "CONV_3D": _conv_3d,
    "TRANSPOSE_CONV": _transposed,
    "CONV_3D_TRANSPOSE": _transposed_3d,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _matmul,
    "STABLEHLO_DOT_GENERAL": _matmul,
    **dict.fromkeys(("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM", "SVDF", "RNN"), _recurrent),
    "UNIDIRECTIONAL_SEQUENCE_RNN": _recurrent,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _pool),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"), _reduction),
    **dict.fromkeys(("REDUCE_ANY", "REDUCE_ALL", "ARG_MAX", "ARG_MIN"), _reduction),
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "CONCATENATION"), _element),
}
