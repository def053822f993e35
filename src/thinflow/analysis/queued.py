"""Shapes of what comes out of queues: the queue declares them, not the op that takes something out."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Node
from thinflow.ir.types import Shape, TensorSpec
from thinflow.ops.traits import Trait, has


def queued_specs(
    node: Node, inputs: Sequence[TensorSpec], declared: Sequence[TensorSpec]
) -> tuple[TensorSpec, ...]:
    """The specs of a dequeue's outputs, with the shapes that its queue declares.

    Args:
        node: takes something out, reading the queue and, but for a single element, how many to take.
        inputs: specs of what it reads.
        declared: what the op itself says: types only.
    """
    shapes = node.inputs[0].node.attrs_view.get("shapes") if node.inputs else None
    if not isinstance(shapes, tuple) or len(shapes) != len(declared):
        return tuple(declared)
    each = [s.dims if isinstance(s, ShapeAttr) else None for s in shapes]
    # One element has no axis in front; QueueDequeueUpTo may give fewer than asked for.
    leading = () if has(node.op, Trait.DEQUEUE) else (_count(node, inputs),)
    return tuple(
        TensorSpec(spec.dtype, _below(leading, shape)) for spec, shape in zip(declared, each, strict=True)
    )


def _below(leading: tuple[int | None, ...], shape: Shape) -> Shape:
    return None if shape is None else (*leading, *shape)


def _count(node: Node, inputs: Sequence[TensorSpec]) -> int | None:
    """Number of elements that a dequeue takes; None if it is not known."""
    known = inputs[1].elements if has(node.op, Trait.DEQUEUE_MANY) and len(inputs) > 1 else None
    return known[0] if known else None
