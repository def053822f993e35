"""Ops that are linear in constant weights: where those are, and which of their axes count output channels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.shared.constants import const_tensor
from thinflow.typing import Array


@dataclass(frozen=True)
class Kind:
    """The places and layout of an op's weights.

    Attributes:
        weights: input number.
        data: input number of the activations.
        axes: weight axes that count output channels, for weights not transposed.
        input_axis: weight axis that counts input channels.
        rank: number of weight axes.
        output_rank: number of output axes, None if it varies.
        layout: default `data_format`; "" for ops whose channels always come last.
    """

    weights: int
    data: int
    axes: tuple[int, ...]
    input_axis: int
    rank: int
    output_rank: int | None
    layout: str = ""


KINDS = {
    # HWIO: [height, width, inputs per group, outputs].
    "Conv2D": Kind(1, 0, (3,), 2, 4, 4, "NHWC"),
    "Conv3D": Kind(1, 0, (4,), 3, 5, 5, "NDHWC"),
    # [height, width, inputs, multiplier]: output channel i * multiplier + j, hence two axes.
    "DepthwiseConv2dNative": Kind(1, 0, (2, 3), 2, 4, 4, "NHWC"),
    # Transposed convolutions have outputs before inputs, and the size of the result as input 0.
    "Conv2DBackpropInput": Kind(1, 2, (2,), 3, 4, 4, "NHWC"),
    "Conv3DBackpropInputV2": Kind(1, 2, (3,), 4, 5, 5, "NDHWC"),
    "MatMul": Kind(1, 0, (1,), 0, 2, 2),
    "BatchMatMul": Kind(1, 0, (1,), 0, 2, None),
    "BatchMatMulV2": Kind(1, 0, (1,), 0, 2, None),
    "BatchMatMulV3": Kind(1, 0, (1,), 0, 2, None),
    "Einsum": Kind(1, 0, (), 0, 0, None),  # what its equation says; see `_einsum`
}

FLOATING = frozenset({"float", "double", "half", "bfloat16"})


@dataclass(frozen=True)
class Producer:
    """A convolution or matrix product with constant weights.

    Attributes:
        node: the op.
        weights: the value it reads them from.
        tensor: the weights.
        axes: axes of the weights that count output channels.
        channels: how many there are.
        channels_first: whether channels are axis 1 of the output instead of the last.
        rank: number of output axes, None if unknown.
    """

    node: Node
    weights: Value
    tensor: Tensor
    axes: tuple[int, ...]
    channels: int
    channels_first: bool
    rank: int | None

    def spread(self, vector: Array) -> Array:
        """One number per output channel [C] in a shape that broadcasts against the weights."""
        shape = [1] * len(self.tensor.shape)
        for axis in self.axes:
            shape[axis] = self.tensor.shape[axis]
        return np.broadcast_to(vector, (self.channels,)).reshape(shape)


def find_producer(node: Node) -> Producer:
    """The producer that a node of one of the KINDS is.

    Raises:
        Refuse: its weights are not constant, or of a kind that cannot be scaled.
    """
    kind = _einsum(node) if node.op == "Einsum" else KINDS[node.op]
    if len(node.inputs) <= max(kind.weights, kind.data):
        raise Refuse(f"'{node.name}' has only {len(node.inputs)} inputs", node)
    weights = node.inputs[kind.weights]
    tensor = const_tensor(weights)
    if tensor is None:
        source = f"'{weights.node.name}' ({weights.node.op})"
        raise Refuse(f"the weights of '{node.name}' are not constant: they come from {source}", node)
    if tensor.dtype.name not in FLOATING:
        raise Refuse(f"the weights of '{node.name}' are {tensor.dtype}, not floating point", node)
    if len(tensor.shape) != kind.rank or not tensor.size:
        raise Refuse(
            f"the weights of '{node.name}' have shape {list(tensor.shape)}, not {kind.rank} axes", node
        )
    layout = str(node.get("data_format", kind.layout)) if kind.layout else ""
    if layout not in {"", "NHWC", "NCHW", "NDHWC", "NCDHW"}:
        raise Refuse(f"'{node.name}' has the data_format {layout}", node)
    axes = kind.axes
    # [outputs, inputs].
    if node.get("transpose_b" if node.op == "MatMul" else "adj_y", False):
        axes = (0,)
    channels = math.prod(tensor.shape[a] for a in axes)
    channels_first = layout in {"NCHW", "NCDHW"}
    _refuse_grouped_transposed(node, channels, channels_first)
    return Producer(node, weights, tensor, axes, channels, channels_first, kind.output_rank)


def _einsum(node: Node) -> Kind:
    """The kind of an Einsum that is a dense layer: `...x,xy->...y`, `abc,cde->abde`.

    Raises:
        Refuse: its last axis is not one of the weights alone.
    """
    equation = str(node.get("equation", "")).replace(" ", "")
    operands, arrow, result = equation.partition("->")
    data, comma, weights = operands.partition(",")
    channel = result[-1:]
    # Every letter once: no diagonals, no ellipsis in the weights.
    plain = bool(arrow and comma) and weights.isalpha() and len(set(weights)) == len(weights)
    if (
        not plain
        or channel not in weights
        or channel in data
        or result.count(channel) != 1
        or len(result) < 2
    ):
        raise Refuse(f"'{node.name}' is {equation}: no dense layer with constant weights second", node)
    rank = None if "." in result else len(result)
    return Kind(1, 0, (weights.index(channel),), 0, len(weights), rank)


def _refuse_grouped_transposed(node: Node, channels: int, channels_first: bool) -> None:
    """A grouped transposed convolution has more output channels than its filter says."""
    if "Backprop" not in node.op:
        return
    sizes = const_tensor(node.inputs[0])
    if sizes is None or len(sizes.shape) != 1 or sizes.size < 4:
        return
    # Of grouped ones the result has the channels of all groups, the filter those of one.
    declared = int(sizes.numpy()[1 if channels_first else -1])
    if declared != channels:
        raise Refuse(
            f"'{node.name}' makes {declared} channels from a filter for {channels}: it is grouped", node
        )


def store(array: Array, tensor: Tensor, node: Node) -> Tensor:
    """Numbers computed in double precision, in the type of a constant they replace.

    Raises:
        Refuse: a number does not fit, or is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        # Too large for half or float: told below, not by a warning of numpy.
        stored = np.asarray(array).astype(tensor.dtype.numpy())
        finite = bool(np.isfinite(stored.astype(np.float64)).all())
    if not finite:
        raise Refuse(f"the result would have values that {tensor.dtype} cannot hold", node)
    return Tensor.from_array(stored, tensor.dtype)
