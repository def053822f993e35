"""Ops that multiply or add one constant per channel, each read as  y = x * factor + addend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.fold.norms import read_norm
from thinflow.transforms.fold.producers import FLOATING
from thinflow.transforms.shared.constants import const_node, const_tensor, numbers
from thinflow.typing import Array


def is_sum(op: str) -> bool:
    """Whether an op adds or subtracts a constant."""
    return op == "Sub" or has(op, Trait.ADD)


def is_factor(op: str) -> bool:
    """Whether an op multiplies or divides by a constant."""
    return op == "Mul" or has(op, Trait.DIVIDE)


def is_step(op: str) -> bool:
    """Whether an op may be a factor or an addend per channel; batch norms apart."""
    return has(op, Trait.BIAS_ADD) or is_sum(op) or is_factor(op)


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
                wanted = f"one value for each of {self.count} channels on {where}"
                raise Refuse(f"its constant has shape {list(shape)}, not {wanted}", node)
        return finite(tensor, node).reshape(() if tensor.size == 1 else (self.count,))


@dataclass(frozen=True)
class Step:
    """y = x * factor + addend, per channel; None stands for 1 and 0.

    Attributes:
        node: the op.
        factor, addend: [C] or [], double precision.
        constants: the values they come from.
        is_norm: whether it is a batch norm.
    """

    node: Node
    factor: Array | None
    addend: Array | None
    constants: tuple[Value, ...]
    is_norm: bool = False

    @property
    def scales(self) -> bool:
        """Whether it multiplies, so that folding it saves work."""
        return self.factor is not None


def data_input(node: Node) -> int:
    """The input of a step that is not the constant; 0 if that cannot be told."""
    commutes = (node.op == "Mul" or is_sum(node.op)) and len(node.inputs) == 2
    return (
        1 if commutes and const_node(node.inputs[0]) is not None and const_node(node.inputs[1]) is None else 0
    )


def read_step(node: Node, x: int, channels: Channels) -> Step:
    """A step or a batch norm over a tensor with such channels, at its input `x`.

    Raises:
        Refuse: why it is not one factor and one addend per channel.
    """
    if has(node.op, Trait.BATCH_NORM):
        return _norm_step(node, channels)
    if len(node.inputs) != 2:
        raise Refuse(f"it has {len(node.inputs)} inputs, not 2", node)
    other = node.inputs[1 - x]
    tensor = const_tensor(other)
    if tensor is None:
        raise Refuse(
            f"its other input is not constant: it comes from '{other.node.name}' ({other.node.op})", node
        )
    if has(node.op, Trait.BIAS_ADD):
        return Step(node, None, _bias(node, tensor, channels), (other,))
    vector = channels.vector(tensor, node)
    if node.op in {"Add", "AddV2"}:
        return Step(node, None, vector, (other,))
    if node.op == "Sub":
        return (
            # c - x = x * -1 + c.
            Step(node, None, -vector, (other,)) if x == 0 else Step(node, np.asarray(-1.0), vector, (other,))
        )
    if node.op == "Mul":
        return Step(node, vector, None, (other,))
    if not vector.all():
        raise Refuse("it divides by zero", node)
    # In double, so that dividing by c and multiplying by 1 / c differ by no digit that float32 has.
    return Step(node, 1.0 / vector, None, (other,))


def _bias(node: Node, tensor: Tensor, channels: Channels) -> Array:
    on_first = node.op == "BiasAdd" and str(node.get("data_format", "NHWC")) == "NCHW"
    # With two axes, axis 1 is the last one, too.
    if on_first != channels.first and channels.rank != 2:
        raise Refuse("its data_format does not fit that of the convolution", node)
    if tensor.shape != (channels.count,):
        raise Refuse(f"its bias has shape {list(tensor.shape)}, not [{channels.count}]", node)
    return finite(tensor, node)


def _norm_step(node: Node, channels: Channels) -> Step:
    norm = read_norm(node)
    if norm.channels_first != channels.first:
        raise Refuse("its data_format does not fit that of the convolution", node)
    if norm.scale.size != channels.count:
        raise Refuse(
            f"it normalises {norm.scale.size} channels, the convolution makes {channels.count}", node
        )
    return Step(node, norm.scale, norm.offset, norm.parameters, is_norm=True)


def finite(tensor: Tensor, node: Node) -> Array:
    """The numbers of a small constant, in double precision.

    Raises:
        Refuse: not all of them are finite.
    """
    values = numbers(tensor, node)
    if not np.isfinite(values).all():
        raise Refuse("its constant has values that are not finite", node)
    return values
