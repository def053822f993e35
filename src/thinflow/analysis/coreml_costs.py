"""What MIL's products and convolutions cost: a multiply-add for each weight that a result reads."""

from __future__ import annotations

import math

from thinflow.analysis.foreign_rules import Attributes, Operands, cost_rule, count, free, multiply_adds, sizes
from thinflow.ir.types import TensorSpec
from thinflow.ops.registry import Cost

free(
    *("coreml.expand_dims", "coreml.flatten2d", "coreml.identity", "coreml.reshape", "coreml.shape"),
    *("coreml.squeeze", "coreml.constexpr_affine_dequantize", "coreml.constexpr_lut_to_dense"),
)


@cost_rule("coreml.conv")
def _convolved(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """Weights [cout, cin / groups, ...]."""
    return multiply_adds(count(y) * math.prod(sizes(xs[1])[1:]), count(y) if len(xs) > 2 else 0)


@cost_rule("coreml.conv_transpose")
def _spread(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """Weights [cin, cout / groups, ...], each pixel of x spread."""
    return multiply_adds(count(xs[0]) * math.prod(sizes(xs[1])[1:]), count(y) if len(xs) > 2 else 0)


@cost_rule("coreml.linear", "coreml.matmul")
def _multiplied(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """The last axis of the first operand is what is summed over, unless that is transposed."""
    axis = -2 if attrs.get("transpose_x") is True else -1
    return multiply_adds(count(y) * sizes(xs[0])[axis], count(y) if len(xs) > 2 else 0)
