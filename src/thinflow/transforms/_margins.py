"""Padding of convolutions: how many zeros stand before and after each axis, and how an op spells that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node
from thinflow.rewrite.rule import Refuse
from thinflow.typing import Array

Pair = tuple[int, int]

CONVOLUTIONS = "Conv2D|DepthwiseConv2dNative"
_ONES = (1, 1, 1, 1)


def spatial_axes(conv: Node) -> Pair:
    """The axes of height and width.

    Raises:
        Refuse: the layout is neither NHWC nor NCHW.
    """
    layout = conv.get("data_format", "NHWC")
    if layout not in {"NHWC", "NCHW"}:
        raise Refuse(f"'{conv.name}' has the data_format {layout}", conv)
    return (1, 2) if layout == "NHWC" else (2, 3)


def steps(conv: Node, attr: str) -> tuple[int, ...]:
    """`strides` or `dilations` of a convolution, per axis.

    Raises:
        Refuse: they are not four numbers.
    """
    found = conv.get(attr, _ONES)
    if not isinstance(found, tuple) or len(found) != 4 or not all(isinstance(n, int) for n in found):
        raise Refuse(f"'{conv.name}' has no usable {attr}", conv)
    return tuple(int(n) for n in found if isinstance(n, int))


def is_one(numbers: Sequence[int]) -> bool:
    """Whether every stride or dilation is 1."""
    return all(n == 1 for n in numbers)


def pairs(array: Array, node: Node) -> list[Pair]:
    """Constant paddings or crops [n,2].

    Raises:
        Refuse: they have another shape.
    """
    if array.ndim != 2 or array.shape[1] != 2:
        raise Refuse(f"its paddings have shape {list(array.shape)}, not [n,2]", node)
    return [(int(before), int(after)) for before, after in array]


def same_margin(size: int, window: int, stride: int) -> Pair:
    """The zeros that SAME adds to an axis."""
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def explicit(margins: Mapping[int, Pair]) -> dict[str, Attr]:
    """The attributes for such margins: VALID if there are none, else EXPLICIT."""
    if not any(any(pair) for pair in margins.values()):
        return {"padding": b"VALID"}
    flat = [n for axis in range(4) for n in margins.get(axis, (0, 0))]
    return {"padding": b"EXPLICIT", "explicit_paddings": tuple(flat)}
