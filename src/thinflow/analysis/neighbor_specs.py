"""Types and shapes of values that only the nodes around them tell.

An input that a graph leaves open has the shape that the ops which read it take: a convolution takes [n,
h, w, c] and nothing else, and its filters say how many channels. A value of an op that nobody knows has
the type that its readers ask for. What comes out of a queue has the shape that the queue declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import UNKNOWN, DType, Shape, TensorSpec
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor

_MOST_NODES = 64
"""Limit of the nodes that are looked at between the input and what tells its shape."""


def asked_shape(value: Value, declared: Shape) -> Shape:
    """The shape of an input with what its readers ask for, those behind rank-keeping ops included; as it is
    declared where none asks for more, or where they do not agree.
    """
    if declared and None not in declared[1:]:
        return declared
    shapes = set(_shapes(value))
    asked = shapes.pop() if len(shapes) == 1 else None
    # Until TensorFlow 1.0 files had the same for a single number as for a shape that nobody knows.
    if asked is None or not declared:
        return declared if asked is None else asked
    return tuple(map(_either, declared, asked)) if len(declared) == len(asked) else declared


def _either(declared: int | None, asked: int | None) -> int | None:
    return asked if declared is None else declared


def _shapes(value: Value) -> Iterator[tuple[int | None, ...]]:
    pending, seen = [value], 0
    while pending and seen < _MOST_NODES:
        for use in pending.pop().uses:
            seen += 1
            if _keeps_shape(use.node, use.index):
                pending.append(use.node.output())
            elif use.index == 0 and (shape := _asked_by(use.node)) is not None:
                yield shape


def _keeps_shape(node: Node, index: int) -> bool:
    """True if the result has the shape of an input: the only one, or the other is a single number."""
    if not has(node.op, Trait.ELEMENTWISE | Trait.IDENTITY):
        return False
    tensor = node.inputs[1 - index].node.tensor if len(node.inputs) == 2 else None
    return len(node.inputs) == 1 or (tensor is not None and not tensor.shape)


def _asked_by(node: Node) -> Shape:
    """The shape that an op asks of its first input; None if it takes any."""
    if has(node.op, Trait.CONVOLUTION):
        return _placed(node, 5 if node.op == "Conv3D" else 4, _constant_size(node, 1, -2))
    if has(node.op, Trait.FUSED_BATCH_NORM):
        return _placed(node, 5 if "D" in str(node.get("data_format", "")) else 4, _constant_size(node, 1, 0))
    if has(node.op, Trait.TAKES_IMAGES):
        return (None,) * 4
    if node.op == "MatMul":
        rows = _constant_size(node, 1, 1 if node.get("transpose_b", False) else 0)
        return (rows, None) if node.get("transpose_a", False) else (None, rows)
    return None


def _placed(node: Node, rank: int, channels: int | None) -> tuple[int | None, ...]:
    """Axes of which only the channels are known, where the layout has them."""
    layout = node.get("data_format", "")
    # An attribute may come as bytes, whose text begins with b'.
    first = isinstance(layout, str | bytes) and str(layout).startswith(("NC", "b'NC"))
    opened = (None,) * (rank - 2)
    return (None, channels, *opened) if first else (None, *opened, channels)


def _constant_size(node: Node, index: int, axis: int) -> int | None:
    """A size of a constant input, as read through what freezing left of a variable; None if it is not
    constant."""
    tensor = constant_tensor(node.inputs[index]) if index < len(node.inputs) else None
    shape = None if tensor is None else tensor.shape
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else None


# --- types of values of unknown ops -------------------------------------------------------------------------


def unknown_specs(node: Node) -> tuple[TensorSpec, ...]:
    """Specs of the outputs that a node of an unknown op is seen to have: the types their readers ask for."""
    return tuple(TensorSpec(_asked_for(value)) for value in node.outputs)


def typed_inputs(node: Node, inputs: Sequence[TensorSpec]) -> Sequence[TensorSpec]:
    """Specs of a node's inputs, with the type it says they have where they come without one."""
    if all(spec.dtype is not None for spec in inputs):
        return inputs
    return [
        TensorSpec(_stated(node, i), spec.shape) if spec is UNKNOWN or spec.dtype is None else spec
        for i, spec in enumerate(inputs)
    ]


def _asked_for(value: Value) -> DType | None:
    types = {_stated(use.node, use.index) for use in value.uses} - {None}
    return types.pop() if len(types) == 1 else None


def _stated(node: Node, index: int) -> DType | None:
    """The type an op says its input has; None if it says none."""
    # Of some ops T is the type of the first input only.
    if not has(node.op, Trait.T_OF_ALL_INPUTS if index else Trait.T_OF_ALL_INPUTS | Trait.T_OF_FIRST_INPUT):
        return None
    element = node.attrs_view.get("T")
    return element if isinstance(element, DType) else None


# --- queues -------------------------------------------------------------------------------------------------


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
