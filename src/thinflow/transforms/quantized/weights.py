"""Readers of a constant, and what they say about its layout."""

from __future__ import annotations

from thinflow.ir.graph import Node, Use
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import TRANSPARENT

# [height, width, inputs, outputs], and with a depth in front for Conv3D.
_LAST_AXIS = frozenset({"Conv2D", "Conv3D"})
# Transposed convolutions have outputs before inputs.
_TRANSPOSED = {"Conv2DBackpropInput": 2, "Conv3DBackpropInputV2": 3}
# op -> inputs that hold a bias or a shape
_PARAMETERS = {
    "BiasAdd": {1},
    "BiasAddV1": {1},
    "Reshape": {1},
    "Fill": {0},
    "Pad": {1},
    "PadV2": {1, 2},
    "Tile": {1},
    "Slice": {1, 2},
    "StridedSlice": {1, 2, 3},
    "BroadcastTo": {1},
    "ResizeBilinear": {1},
    "ResizeNearestNeighbor": {1},
}


def uses_behind(node: Node) -> list[Use]:
    """Everything that reads a constant, also through Identity. O(edges in between)."""
    found: list[Use] = []
    stack = [node]
    while stack:
        for use in stack.pop().output().uses:
            if use.node.op in TRANSPARENT:
                stack.append(use.node)
            else:
                found.append(use)
    return found


def is_parameter(use: Use) -> bool:
    """Whether the input is a norm's parameter, a bias or a shape: few numbers that count much."""
    if use.node.op == "InstanceNorm" or has(use.node.op, Trait.BATCH_NORM):
        # Input 0 of a norm is its data.
        return use.index > 0
    return use.index in _PARAMETERS.get(use.node.op, ())


def is_scale(node: Node) -> bool:
    """Whether the constant is the factor that turns cast integers back into weights."""
    uses = node.output().uses
    return bool(uses) and all(
        use.node.op == "Mul" and any(v.node.op == "Cast" and is_integer(v.node) for v in use.node.inputs)
        for use in uses
    )


def is_integer(cast: Node) -> bool:
    """Whether a Cast reads whole numbers."""
    source = cast.attrs.get("SrcT")
    return getattr(source, "kind", "") in ("i", "u", "q")


def channel_axes(node: Node) -> tuple[int, ...] | None:
    """The axes of a constant that count output channels, if all who read it agree; else None."""
    tensor = node.tensor
    assert tensor is not None
    rank = len(tensor.shape)
    # One constant cannot have scales along two axes: readers have to agree.
    answers = {_axes_for(use, rank) for use in uses_behind(node)}
    return answers.pop() if len(answers) == 1 else None


def _axes_for(use: Use, rank: int) -> tuple[int, ...] | None:
    reader = use.node
    if use.index != 1 or rank < 2:
        return None
    if reader.op in _LAST_AXIS:
        return (rank - 1,)
    if reader.op == "DepthwiseConv2dNative":
        # Output channel i * multiplier + j lies on both axes.
        return (rank - 2, rank - 1)
    if reader.op in _TRANSPOSED and rank > _TRANSPOSED[reader.op]:
        return (_TRANSPOSED[reader.op],)
    if reader.op == "MatMul":
        return (0,) if reader.get("transpose_b", False) else (1,)
    if reader.op.startswith("BatchMatMul") and rank == 2:
        return (0,) if reader.get("adj_y", False) else (1,)
    return None
