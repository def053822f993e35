"""What ATen's products and convolutions cost: a multiply-add for each weight that a result reads."""

from __future__ import annotations

import math

from thinflow.analysis.foreign_rules import Attributes, Operands, cost_rule, count, free, multiply_adds, sizes
from thinflow.ir.types import TensorSpec
from thinflow.ops.registry import Cost

free(
    *(
        "aten.view",
        "aten.reshape",
        "aten.flatten.using_ints",
        "aten.unsqueeze",
        "aten.squeeze.dims",
        "aten.detach",
    ),
    *(
        "aten.sym_size.int",
        "aten.dropout",
        "aten.alias",
        "aten.squeeze.dim",
        "aten._unsafe_view",
        "aten.unflatten.int",
    ),
)


def _convolved(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """Weights [cout, cin / groups, ...], or transposed [cin, cout / groups, ...], each pixel of x spread."""
    kernel = sizes(xs[1])
    spread = attrs.get("transposed") is True
    macs = count(xs[0] if spread else y) * math.prod(kernel[1:])
    return multiply_adds(macs, count(y) if len(xs) > 2 else 0)


cost_rule("aten.convolution")(_convolved)
cost_rule("aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.conv2d.padding")(_convolved)


@cost_rule("aten.conv_transpose1d", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def _spread(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    return _convolved(y, xs, {**attrs, "transposed": True})


@cost_rule("aten.linear", "aten.mm", "aten.bmm", "aten.matmul")
def _multiplied(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    """The last axis of the first operand is what is summed over."""
    return multiply_adds(count(y) * sizes(xs[0])[-1], count(y) if len(xs) > 2 else 0)


@cost_rule("aten.addmm", "aten.baddbmm")
def _multiplied_and_added(y: TensorSpec, xs: Operands, attrs: Attributes) -> Cost:
    return multiply_adds(count(y) * sizes(xs[1])[-1], count(y))
