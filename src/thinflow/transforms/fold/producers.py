"""Ops that are linear in constant weights: where those are, and which of their axes count output channels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.mapped import release
from thinflow.ir.tensor import Tensor
from thinflow.ops import registry
from thinflow.ops.registry import Weights
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.edits import Site, sweep
from thinflow.rewrite.pattern import constant_node, constant_tensor
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.shared.constants import awaited_by_constant, is_finite, is_sole_reader, numbers
from thinflow.typing import Array

FLOATING = frozenset({"float", "double", "half", "bfloat16"})


@dataclass(frozen=True)
class Channels:
    """Layout of a tensor's channels: `count` of them, on axis 1 or the last of `rank` axes, if known."""

    count: int
    first: bool
    rank: int | None

    def vector(self, tensor: Tensor, node: Node) -> Array:
        """A constant as one number per channel [C], or one for all [], in double precision.

        Raises:
            Refuse: broadcasting it would vary along another axis, or change the shape; or it is not finite.
        """
        shape = tensor.shape
        if tensor.dtype.name not in FLOATING:
            raise Refuse(f"its constant is {tensor.dtype}, not floating point", node)
        # Of unknown rank: a product of matrices has two axes at least.
        if len(shape) > (self.rank or 2):
            raise Refuse(f"its constant has shape {list(shape)}, more axes than the tensor it meets", node)
        if tensor.size != 1:
            # Broadcasting aligns shapes at their ends: axis 1 of the tensor, counted from the back.
            axis = len(shape) - (self.rank or 0) + 1 if self.first else len(shape) - 1
            if axis < 0 or tensor.size != self.count or shape[axis] != self.count:
                where = "axis 1" if self.first else "the last axis"
                expected = f"one value for each of {self.count} channels on {where}"
                raise Refuse(f"its constant has shape {list(shape)}, not {expected}", node)
        return finite(tensor, node).reshape(() if tensor.size == 1 else (self.count,))


@dataclass(frozen=True)
class Producer:
    """A convolution or matrix product with constant weights.

    Attributes:
        node: the op.
        kind: where it has them.
        weights: the value it reads them from.
        tensor: the weights.
        axes: axes of the weights that count output channels.
        channels: of its output.
    """

    node: Node
    kind: Weights
    weights: Value
    tensor: Tensor
    axes: tuple[int, ...]
    channels: Channels

    def spread(self, vector: Array) -> Array:
        """One number per output channel [C] in a shape that broadcasts against the weights."""
        shape = [1] * len(self.tensor.shape)
        for axis in self.axes:
            shape[axis] = self.tensor.shape[axis]
        return np.broadcast_to(vector, (self.channels.count,)).reshape(shape)


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
    tensor = constant_tensor(weights)
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
    count = math.prod(tensor.shape[a] for a in axes)
    channels = Channels(count, layout in {"NCHW", "NCDHW"}, kind.output_rank)
    _refuse_grouped_transposed(node, channels)
    return Producer(node, kind, weights, tensor, axes, channels)


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
        # Factors per channel broadcast along the last axis, which takes one before it to be told from a
        # vector.
        or len(result) < 2
    ):
        raise Refuse(f"'{node.name}' is {equation}: no dense layer with constant weights second", node)
    rank = None if "." in result else len(result)
    return Weights(1, 0, (weights.index(channel),), 0, len(weights), rank)


def _refuse_grouped_transposed(node: Node, channels: Channels) -> None:
    """A grouped transposed convolution has more output channels than its filter says."""
    if not has(node.op, Trait.CONV_TRANSPOSE):
        return
    sizes = constant_tensor(node.inputs[0])
    if sizes is None or len(sizes.shape) != 1 or sizes.size < 4:
        return
    # Of grouped ones the result has the channels of all groups, the filter those of one.
    declared = int(sizes.numpy()[1 if channels.first else -1])
    if declared != channels.count:
        raise Refuse(
            f"'{node.name}' makes {declared} channels from a filter for {channels.count}: it is grouped", node
        )


def store(array: Array, tensor: Tensor, node: Node) -> Tensor:
    """Numbers computed in double precision, in the type of a constant they replace.

    Raises:
        Refuse: a number does not fit, or is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        # Too large for half or float: told below, not by a warning of numpy.
        stored = np.asarray(array).astype(tensor.dtype.numpy())
    if not is_finite(stored):
        raise Refuse(f"the result would have values that {tensor.dtype} cannot hold", node)
    # Of a large file all weights would be in memory twice, as they were and as they are now.
    release(tensor.numpy())
    return Tensor.from_array(stored, tensor.dtype)


def finite(tensor: Tensor, node: Node) -> Array:
    """The numbers of a small constant, in double precision.

    Raises:
        Refuse: not all of them are finite.
    """
    values = numbers(tensor, node)
    if not np.isfinite(values).all():
        raise Refuse("its constant has values that are not finite", node)
    return values


def put_weights(graph: Graph, producer: Producer, weights: Tensor, origin: str) -> None:
    """Set the weights of a producer: in place if nobody else reads the old ones, else anew."""
    node = producer.node
    source = constant_node(producer.weights)
    assert source is not None
    if is_sole_reader(node, producer.weights):
        source.attrs["value"] = weights
        return
    fresh = Site(graph, node, origin).constant(weights, f"{node.name}_weights")
    # The new constant waits for what the old one waited for.
    fresh.node.set_control_inputs(awaited_by_constant(producer.weights))
    fresh.node.device = source.device
    node.set_input(producer.kind.input, fresh)
    sweep(graph, [producer.weights.node])


def add_bias(site: Site, producer: Producer, bias: Value, name: str) -> Value:
    """A BiasAdd over a producer's output, with its type, data format and device."""
    node = producer.node
    attrs: dict[str, Attr] = {"T": producer.tensor.dtype}
    if producer.channels.first:
        attrs["data_format"] = b"NCHW"
    elif "data_format" in node.attrs:
        attrs["data_format"] = b"NHWC"
    return site.add("BiasAdd", node.output(), bias, name=name, attrs=attrs, device=node.device)
