"""Steps: ops that multiply or add one constant per channel, each read as  y = x * factor + addend.

Batch norms in inference mode are such steps, too:

    y = (x - mean) * gamma / sqrt(variance + epsilon) + beta  =  x * scale + offset

A training norm has no such form: it uses the statistics of each batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.analysis.training_mode import is_sample_norm
from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, DType
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, constant_node, constant_tensor
from thinflow.rewrite.pattern import node as any_node
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.fold.producers import Channels, finite, store
from thinflow.transforms.shared.constants import awaited_by_constant, numbers, side_outputs
from thinflow.typing import Array

DEFAULT_EPSILON = 1e-4  # of the attribute epsilon of TensorFlow's FusedBatchNorm ops

# Input numbers of (gamma, beta, mean, variance); the data is input 0.
_FUSED_INPUTS = (1, 2, 3, 4)
_GLOBAL_INPUTS = (4, 3, 1, 2)


@dataclass(frozen=True)
class Norm:
    """An inference batch norm with constant parameters.

    Attributes:
        node: the op.
        scale, offset: [C], double precision.
        channels_first: whether channels are axis 1 instead of the last.
        parameters: the values it reads them from.
    """

    node: Node
    scale: Array
    offset: Array
    channels_first: bool
    parameters: tuple[Value, ...]


def is_training(node: Node) -> bool:
    """True if a fused norm uses the statistics of its batch. That is what an absent attribute means."""
    return has(node.op, Trait.FUSED_BATCH_NORM) and node.attrs.get("is_training", True) is not False


def channels_first(node: Node) -> bool:
    """True if a norm's channels are axis 1."""
    return has(node.op, Trait.FUSED_BATCH_NORM) and str(node.get("data_format", "NHWC")).startswith("NC")


def read_norm(node: Node) -> Norm:
    """The parameters of a norm. Reads small constants only.

    Raises:
        Refuse: it is in training mode, or its parameters are not constant, of unequal length, or not finite.
    """
    if is_sample_norm(node):
        raise Refuse("it normalises each sample by itself, with no stored statistics", node)
    if is_training(node):
        how = (
            "is_training is true"
            if "is_training" in node.attrs
            else "is_training is absent, which means true"
        )
        raise Refuse(f"{how}: it uses the statistics of each batch", node)
    if len(node.inputs) < 5:
        raise Refuse(f"it has {len(node.inputs)} inputs, not 5", node)
    numbers = _FUSED_INPUTS if has(node.op, Trait.FUSED_BATCH_NORM) else _GLOBAL_INPUTS
    parameters = tuple(node.inputs[i] for i in numbers)
    gamma, beta, mean, variance = (_vector(node, v, what) for v, what in zip(parameters, _WHAT, strict=True))
    # Broadcasting would hide a wrong number of channels.
    for vector, what in ((gamma, "gamma"), (beta, "beta"), (variance, "variance")):
        if vector.shape != mean.shape:
            raise Refuse(f"{what} has {vector.size} values, mean has {mean.size}", node)
    # In double: float32 would round the sum under the root, and again each of the products below.
    with np.errstate(all="ignore"):
        scale = 1.0 / np.sqrt(variance + _epsilon(node))
        # Only the oldest norm may leave gamma out.
        if has(node.op, Trait.FUSED_BATCH_NORM) or node.get("scale_after_normalization", True):
            scale = scale * gamma
        offset = beta - mean * scale
    if not (np.isfinite(scale).all() and np.isfinite(offset).all()):
        raise Refuse("its parameters give values that are not finite", node)
    return Norm(node, scale, offset, channels_first(node), parameters)


_WHAT = ("gamma", "beta", "mean", "variance")


def _epsilon(node: Node) -> float:
    value = node.attrs.get("epsilon" if has(node.op, Trait.FUSED_BATCH_NORM) else "variance_epsilon")
    if isinstance(value, (int, float)):
        return float(value)
    if has(node.op, Trait.FUSED_BATCH_NORM):
        return DEFAULT_EPSILON
    raise Refuse("the attribute variance_epsilon is missing", node)


def _vector(node: Node, value: Value, what: str) -> Array:
    tensor = constant_tensor(value)
    if tensor is None:
        raise Refuse(f"{what} is not constant: it comes from '{value.node.name}' ({value.node.op})", node)
    if len(tensor.shape) != 1 or not tensor.size or not tensor.dtype.is_floating:
        raise Refuse(f"{what} is {tensor.dtype}{list(tensor.shape)}, not one number per channel", node)
    return numbers(tensor, node)


class LowerNorms(Rewrite):
    """Turn inference norms with constant parameters into a Mul and an AddV2 each."""

    name = "fold_old_batch_norms"
    in_file_order = True
    until_fixpoint = False
    pattern: ClassVar = any_node(Trait.BATCH_NORM, name="node")

    def check(self, m: Match) -> None:
        norm = read_norm(m.node)
        for value in side_outputs(m.node):
            raise Refuse(f"its output {value.port} is used", m.node)
        # A norm without T is of the first version, which is float.
        element = m.node.attrs.get("T")
        element = element if isinstance(element, DType) else FLOAT
        # `store` takes the type from a tensor, of which this is an empty shell.
        like = Tensor.from_array(np.zeros((), element.numpy()), element)
        m.bind("norm", norm)
        m.bind("scale", store(_shaped(norm, norm.scale), like, m.node))
        m.bind("offset", store(_shaped(norm, norm.offset), like, m.node))

    def describe(self, m: Match) -> str:
        return "turned into a Mul and an AddV2"

    def build(self, m: Match, site: Site) -> Value:
        name, device = m.node.name, m.node.device
        awaited = list(dict.fromkeys(n for v in m.norm.parameters for n in awaited_by_constant(v)))
        scale, offset = (site.constant(m.bound[what], f"{name}/{what}") for what in ("scale", "offset"))
        for parameter in (scale, offset):
            parameter.node.set_control_inputs(awaited)
        attrs = {"T": m.scale.dtype}
        product = site.add("Mul", m.node.inputs[0], scale, name=f"{name}/mul", attrs=attrs, device=device)
        return site.add("AddV2", product, offset, name=f"{name}/add", attrs=attrs, device=device)


def _shaped(norm: Norm, vector: Array) -> Array:
    """[C] for channels last, [C,1,1] or [C,1,1,1] for channels first."""
    if not norm.channels_first:
        return vector
    # One axis for each letter of the layout.
    rank = len(str(norm.node.get("data_format", "NHWC")))
    return vector.reshape(-1, *[1] * (rank - 2))


# ---- Factors and addends


def is_sum(op: str) -> bool:
    """True if an op adds or subtracts a constant."""
    return op == "Sub" or has(op, Trait.ADD)


def is_factor(op: str) -> bool:
    """True if an op multiplies or divides by a constant."""
    return op == "Mul" or has(op, Trait.DIVIDE)


def is_step(op: str) -> bool:
    """True if an op may be a factor or an addend per channel; batch norms apart."""
    return has(op, Trait.BIAS_ADD) or is_sum(op) or is_factor(op)


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
        """True if it multiplies, so that folding it saves work."""
        return self.factor is not None


def data_input(node: Node) -> int:
    """The input of a step that is not the constant; 0 if that cannot be told."""
    commutes = (node.op == "Mul" or is_sum(node.op)) and len(node.inputs) == 2
    fixed = [constant_node(value) is not None for value in node.inputs] if commutes else []
    return 1 if fixed == [True, False] else 0


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
    tensor = constant_tensor(other)
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
