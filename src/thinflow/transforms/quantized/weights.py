"""Readers of a constant, and what they say about its layout."""

from __future__ import annotations

from thinflow.ir.graph import Node, Use
from thinflow.ops.traits import Trait, has
from thinflow.transforms.fold.producers import output_axes, weights_of


def uses_behind(node: Node) -> list[Use]:
    """Everything that reads a constant, also through Identity. O(edges in between)."""
    found: list[Use] = []
    stack = [node]
    while stack:
        for use in stack.pop().output().uses:
            if has(use.node.op, Trait.IDENTITY):
                stack.append(use.node)
            else:
                found.append(use)
    return found


def is_parameter(use: Use) -> bool:
    """Whether a float input is a norm's parameter, a bias or a margin: few numbers that count much."""
    if use.node.op == "InstanceNorm" or has(use.node.op, Trait.BATCH_NORM):
        # Input 0 of a norm is its data.
        return use.index > 0
    return use.index == (2 if has(use.node.op, Trait.PAD) else 1) and has(
        use.node.op, Trait.PAD | Trait.BIAS_ADD
    )


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
    kind = weights_of(use.node.op)
    if kind is None or not kind.axes or use.index != kind.input or rank != kind.rank:
        return None
    return output_axes(use.node, kind)
