"""Shapes of inputs that a graph leaves open, told by the ops that read them.

A convolution takes [n, h, w, c] and nothing else, and its filters say how many channels: an input of unknown
rank that it reads has that shape, whether the graph says so or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.analysis.sample_norms import FUSED
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import Shape

_MOST_NODES = 64
"""How many nodes between the input and what tells its shape are looked at."""
_SAME = frozenset(
    {"Identity", "StopGradient", "Cast", "Relu", "Relu6", "Tanh", "Sigmoid", "Neg", "Abs", "Square", "Sqrt"}
    | {"Exp", "Log"}
)
"""Ops whose result has the shape of their one input."""
_SCALED = frozenset({"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum"})
"""The same, where the other input is one number."""
_PICTURES = frozenset(
    {"MaxPool", "AvgPool", "LRN", "ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"}
    | {"DepthToSpace", "SpaceToDepth"}
)
"""Ops that take four axes, of which they do not tell the channels."""
_FILTERS = {"Conv2D": 4, "DepthwiseConv2dNative": 4, "Conv3D": 5}
"""Op -> how many axes its first input has; the last but one of its filters are the channels."""


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
            if use.node.op in _SAME or (use.node.op in _SCALED and _other_is_one(use.node, use.index)):
                pending.append(use.node.output())
            elif use.index == 0 and (shape := _asked(use.node)) is not None:
                yield shape


def _other_is_one(node: Node, index: int) -> bool:
    tensor = node.inputs[1 - index].node.tensor if len(node.inputs) == 2 else None
    return tensor is not None and not tensor.shape


def _asked(node: Node) -> Shape:
    """What an op asks of its first input; None if it takes any."""
    if node.op in _FILTERS:
        return _placed(node, _FILTERS[node.op], _constant_size(node, 1, -2))
    if node.op in FUSED:
        return _placed(node, 4, _constant_size(node, 1, 0))
    if node.op in _PICTURES:
        return (None,) * 4
    if node.op == "MatMul":
        rows = _constant_size(node, 1, 1 if node.get("transpose_b", False) else 0)
        return (rows, None) if node.get("transpose_a", False) else (None, rows)
    return None


def _placed(node: Node, rank: int, channels: int | None) -> tuple[int | None, ...]:
    """Axes of which only the channels are known, where the layout has them."""
    layout = node.get("data_format", "")
    first = isinstance(layout, str | bytes) and str(layout).startswith(("NC", "b'NC"))
    opened = (None,) * (rank - 2)
    return (None, channels, *opened) if first else (None, *opened, channels)


def _constant_size(node: Node, index: int, axis: int) -> int | None:
    """A size of a constant input; None if it is not constant."""
    tensor = node.inputs[index].node.tensor if index < len(node.inputs) else None
    shape = None if tensor is None else tensor.shape
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else None
