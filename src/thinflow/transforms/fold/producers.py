"""Ops that are linear in constant weights: where those are, and which of their axes count output channels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ops import registry
from thinflow.ops.registry import Weights
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.shared.constants import const_tensor
from thinflow.typing import Array

FLOATING = frozenset({"float", "double", "half", "bfloat16"})


@dataclass(frozen=True)
class Producer:
    """A convolution or matrix product with constant weights.

    Attributes:
        node: the op.
        kind: where it has them.
        weights: the value it reads them from.
        tensor: the weights.
        axes: axes of the weights that count output channels.
        channels: how many there are.
        channels_first: whether channels are axis 1 of the output instead of the last.
    """

    node: Node
    kind: Weights
    weights: Value
    tensor: Tensor
    axes: tuple[int, ...]
    channels: int
    channels_first: bool

    def spread(self, vector: Array) -> Array:
        """One number per output channel [C] in a shape that broadcasts against the weights."""
        shape = [1] * len(self.tensor.shape)
        for axis in self.axes:
            shape[axis] = self.tensor.shape[axis]
        return np.broadcast_to(vector, (self.channels,)).reshape(shape)


def weights_of(op: str) -> Weights | None:
    """The place and layout of an op's weights; None if it has none."""
    definition = registry.find(op)
    return None if definition is None else definition.weights


def output_axes(node: Node, kind: Weights) -> tuple[int, ...]:
    """The axes of a node's weights that count output channels."""
    # Given transposed, the weights of a matrix product are [outputs, inputs].
    return (0,) if node.get("transpose_b" if node.op == "MatMul" else "adj_y", False) else kind.axes


def find_producer(node: Node) -> Producer:
    """The producer that a node of an op with weights is.

    Raises:
        Refuse: its weights are not constant, or of a kind that cannot be scaled.
    """
    kind = _einsum(node) if node.op == "Einsum" else weights_of(node.op)
    assert kind is not None
    if len(node.inputs) <= max(kind.input, kind.data):
        raise Refuse(f"'{node.name}' has only {len(node.inputs)} inputs", node)
    weights = node.inputs[kind.input]
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
    axes = output_axes(node, kind)
    channels = math.prod(tensor.shape[a] for a in axes)
    channels_first = layout in {"NCHW", "NCDHW"}
    _refuse_grouped_transposed(node, channels, channels_first)
    return Producer(node, kind, weights, tensor, axes, channels, channels_first)


def _einsum(node: Node) -> Weights:
    """The weights of an Einsum that is a dense layer: `...x,xy->...y`, `abc,cde->abde`.

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
    return Weights(1, 0, (weights.index(channel),), 0, len(weights), rank)


def _refuse_grouped_transposed(node: Node, channels: int, channels_first: bool) -> None:
    """A grouped transposed convolution has more output channels than its filter says."""
    if not has(node.op, Trait.CONV_TRANSPOSE):
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
