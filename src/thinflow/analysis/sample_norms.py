"""Fused batch norms that normalise each sample by itself: layer, group and instance norms written so.

    LayerNorm:  x [n,t,c] -> reshape [1,n*t,c,1] -> FusedBatchNorm(NCHW, scale 1, offset 0) -> reshape
    GroupNorm:  x [1,h,w,c] -> reshape [1,h*w,c/g,g] -> FusedBatchNorm(NHWC, scale 1, offset 0) -> reshape

What the op takes for channels holds the batch, so it has no statistics of a batch: each place of each sample
has its own. Such a norm needs no stored ones, and would be another function with them.
"""

from __future__ import annotations

from thinflow.ir.graph import Node, Value
from thinflow.ir.order import ancestors
from thinflow.ops.traits import Trait, has

_MOST_STEPS = 8


def uses_batch_statistics(node: Node) -> bool:
    """True if a fused norm is in training mode, which is also what an absent attribute means."""
    return has(node.op, Trait.FUSED_BATCH_NORM) and node.get("is_training", True) is not False


def is_sample_norm(node: Node) -> bool:
    """True if a fused norm in training mode keeps samples apart, so that it is no batch norm."""
    if not uses_batch_statistics(node) or len(node.inputs) < 3:
        return False
    if _follows_the_batch(node.inputs[1]):
        return True
    reshape = _source(node.inputs[0])
    if reshape.op != "Reshape" or len(reshape.inputs) < 2 or not _begins_with_one(reshape.inputs[1]):
        return False
    if _is_filled(node.inputs[1], 1.0) and _is_filled(node.inputs[2], 0.0):
        return True  # what the channels are scaled by comes later: these are groups, not channels
    before = reshape.inputs[0].spec.shape
    # NCHW with a first size of 1: the batch went into the axis that the op takes for channels.
    first = str(node.get("data_format", "NHWC")).startswith("NC")
    return first and (not before or before[0] != 1)


def _source(value: Value) -> Node:
    """The node that makes a value, past what hands it on."""
    node = value.node
    for _ in range(_MOST_STEPS):
        if not node.inputs or not (node.op == "Cast" or has(node.op, Trait.PASSES_THROUGH)):
            break
        node = node.inputs[0].node
    return node


def _follows_the_batch(scale: Value) -> bool:
    """True if a scale is as long as an input of the graph makes it: no norm has so many stored channels."""
    source = _source(scale)
    if source.op != "Fill":
        return source.op == "OnesLike"
    # A rank is the same for every batch; sizes and what is fed are not.
    sizes = (n for n in ancestors([source.inputs[0].node]) if n.op != "Rank")
    return any(has(n.op, Trait.PLACEHOLDER | Trait.SHAPE_OF) for n in sizes)


def _begins_with_one(sizes: Value) -> bool:
    """True if the first size of a reshape is written as 1."""
    source = _source(sizes)
    for _ in range(_MOST_STEPS):
        if source.op not in {"Pack", "ConcatV2"} or not source.inputs:
            break
        source = _source(source.inputs[0])
    tensor = source.tensor
    if tensor is None or not tensor.size:
        return False
    return int(tensor.numpy().reshape(-1)[0]) == 1


def _is_filled(value: Value, number: float) -> bool:
    """True if all elements of a constant are a number."""
    source = _source(value)
    if source.op == "Fill":
        source = _source(source.inputs[1])
    tensor = source.tensor
    return tensor is not None and tensor.size > 0 and bool((tensor.numpy() == number).all())
