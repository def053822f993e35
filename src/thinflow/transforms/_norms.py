"""Batch-norm ops in inference mode as one factor and one addend per channel.

    y = (x - mean) * gamma / sqrt(variance + epsilon) + beta  =  x * scale + offset

A training norm has no such form: it uses the statistics of each batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.analysis.sample_norms import is_sample_norm
from thinflow.ir.graph import Node, Value
from thinflow.rewrite.rule import Refuse
from thinflow.transforms._sources import const_tensor, numbers
from thinflow.typing import Array

FUSED_NORMS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
NORMS = FUSED_NORMS | {"BatchNormWithGlobalNormalization"}
DEFAULT_EPSILON = 1e-4

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
    return node.op in FUSED_NORMS and node.attrs.get("is_training", True) is not False


def channels_first(node: Node) -> bool:
    """Whether a norm's channels are axis 1."""
    return node.op in FUSED_NORMS and str(node.get("data_format", "NHWC")).startswith("NC")


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
    numbers = _FUSED_INPUTS if node.op in FUSED_NORMS else _GLOBAL_INPUTS
    parameters = tuple(node.inputs[i] for i in numbers)
    gamma, beta, mean, variance = (_vector(node, v, what) for v, what in zip(parameters, _WHAT, strict=True))
    for vector, what in ((gamma, "gamma"), (beta, "beta"), (variance, "variance")):
        if vector.shape != mean.shape:
            raise Refuse(f"{what} has {vector.size} values, mean has {mean.size}", node)
    with np.errstate(all="ignore"):
        scale = 1.0 / np.sqrt(variance + _epsilon(node))
        if node.op in FUSED_NORMS or node.get("scale_after_normalization", True):
            scale = scale * gamma
        offset = beta - mean * scale
    if not (np.isfinite(scale).all() and np.isfinite(offset).all()):
        raise Refuse("its parameters give values that are not finite", node)
    return Norm(node, scale, offset, channels_first(node), parameters)


_WHAT = ("gamma", "beta", "mean", "variance")


def _epsilon(node: Node) -> float:
    value = node.attrs.get("epsilon" if node.op in FUSED_NORMS else "variance_epsilon")
    if isinstance(value, (int, float)):
        return float(value)
    if node.op in FUSED_NORMS:
        return DEFAULT_EPSILON
    raise Refuse("the attribute variance_epsilon is missing", node)


def _vector(node: Node, value: Value, what: str) -> Array:
    tensor = const_tensor(value)
    if tensor is None:
        raise Refuse(f"{what} is not constant: it comes from '{value.node.name}' ({value.node.op})", node)
    if len(tensor.shape) != 1 or not tensor.size or not tensor.dtype.is_floating:
        raise Refuse(f"{what} is {tensor.dtype}{list(tensor.shape)}, not one number per channel", node)
    return numbers(tensor, node)
