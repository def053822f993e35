"""Shapes of inputs that a graph leaves open, told by the ops that read them.

A convolution takes [n, h, w, c] and nothing else, and its filters say how many channels: an input of unknown
rank that it reads has that shape, whether the graph says so or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import Shape
from thinflow.ops.traits import Trait, has

_MOST_NODES = 64
"""Limit of the nodes that are looked at between the input and what tells its shape."""


def asked_shape(value: Value, declared: Shape) -> Shape:
    """The shape of an input with what its readers ask for, those behind rank-keeping ops included; as it is
    declared where none asks for more, or where they do not agree.
    """
    if declared is not None and None not in declared[1:]:
        return declared
    found = set(_shapes(value))
    asked = found.pop() if len(found) == 1 else None
    if asked is None or declared is None:
        return asked if declared is None else declared
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
            elif use.index == 0 and (shape := _asked(use.node)) is not None:
                yield shape


def _keeps_shape(node: Node, index: int) -> bool:
    """True if the result has the shape of an input: the only one, or the other is a single number."""
    if not has(node.op, Trait.ELEMENTWISE | Trait.IDENTITY):
        return False
    tensor = node.inputs[1 - index].node.tensor if len(node.inputs) == 2 else None
    return len(node.inputs) == 1 or (tensor is not None and not tensor.shape)


def _asked(node: Node) -> Shape:
    """The shape that an op asks of its first input; None if it takes any."""
    if has(node.op, Trait.CONVOLUTION):
        return _placed(node, 5 if node.op == "Conv3D" else 4, _constant_size(node, 1, -2))
    if has(node.op, Trait.FUSED_BATCH_NORM):
        return _placed(node, 4, _constant_size(node, 1, 0))
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
    """A size of a constant input; None if it is not constant."""
    tensor = node.inputs[index].node.tensor if index < len(node.inputs) else None
    shape = None if tensor is None else tensor.shape
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else None
