"""Batch-norm ops in inference mode as one factor and one addend per channel.

    y = (x - mean) * gamma / sqrt(variance + epsilon) + beta  =  x * scale + offset

A training norm has no such form: it uses the statistics of each batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.analysis.sample_norms import is_sample_norm
from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, DType
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match
from thinflow.rewrite.pattern import node as any_node
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.fold.producers import store
from thinflow.transforms.shared.constants import awaited_by_constant, const_tensor, numbers, side_outputs
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
    """Whether a fused norm uses the statistics of its batch. That is what an absent attribute means."""
    return has(node.op, Trait.FUSED_BATCH_NORM) and node.attrs.get("is_training", True) is not False


def channels_first(node: Node) -> bool:
    """Whether a norm's channels are axis 1."""
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
    tensor = const_tensor(value)
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
        for made in (scale, offset):
            made.node.set_control_inputs(awaited)
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
