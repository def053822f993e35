"""Padding of convolutions: how many zeros stand before and after each axis, and how an op spells that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT, INT32, DType
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, constant_node
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
    # As many windows as strides fit in; the border is what the last lacks, the odd zero behind.
    total = max((-(-size // stride) - 1) * stride + window - size, 0)
    return total // 2, total - total // 2


def explicit(margins: Mapping[int, Pair]) -> dict[str, Attr]:
    """The attributes for such margins: VALID if there are none, else EXPLICIT."""
    if not any(any(pair) for pair in margins.values()):
        return {"padding": b"VALID"}
    # The attribute has a pair for all four axes, those of batch and channels being zero.
    flat = [n for axis in range(4) for n in margins.get(axis, (0, 0))]
    return {"padding": b"EXPLICIT", "explicit_paddings": tuple(flat)}


# The types T of the fused ops' definitions.
_TYPES = frozenset({"half", "float", "double"})


def check_conv(conv: Node) -> None:
    """Raise Refuse if the fused kernels cannot stand for this Conv2D."""
    if conv.op != "Conv2D":
        raise Refuse(f"there is no fused kernel for {conv.op}", conv)
    if conv.get("data_format", "NHWC") != "NHWC":
        raise Refuse(f"its data_format is {conv.get('data_format')}; the fused kernel knows NHWC only", conv)
    if not is_one(steps(conv, "dilations")):
        raise Refuse(f"it has dilations {list(steps(conv, 'dilations'))}; the fused kernel knows none", conv)
    if conv.get("padding") not in {"SAME", "VALID"}:
        raise Refuse(f"its padding is {conv.get('padding')}; the fused kernel knows SAME and VALID", conv)
    element = conv.get("T", FLOAT)
    if not isinstance(element, DType) or element.name not in _TYPES:
        raise Refuse(f"it computes in {element}; the fused kernel knows half, float and double", conv)


def check_groups(conv: Node, x: Value, w: Value) -> None:
    """Raise Refuse if this is a grouped convolution as far as shapes are known. Needs specs."""
    if x.shape is None or w.shape is None or len(x.shape) != 4 or len(w.shape) != 4:
        return
    if None not in (x.shape[3], w.shape[2]) and x.shape[3] != w.shape[2]:
        sizes = f"{x.shape[3]} channels meet a filter for {w.shape[2]}"
        raise Refuse(f"it is grouped: {sizes}; the fused kernel knows no groups", conv)


def check_mirror(m: Match) -> None:
    """Raise Refuse if the matched `pad`, a MirrorPad with `paddings`, is not one of height and width."""
    if m.pad.get("mode") not in {"REFLECT", "SYMMETRIC"}:
        raise Refuse(f"'{m.pad.name}' has the mode {m.pad.get('mode')}", m.conv)
    source = constant_node(m.paddings)
    if source is None:
        raise Refuse(f"the paddings of '{m.pad.name}' are not constant", m.conv)
    margins = pairs(m.array("paddings"), m.conv)
    if len(margins) != 4 or any(margins[0]) or any(margins[3]):
        raise Refuse(f"'{m.pad.name}' pads more than height and width", m.conv)


def check_resize(m: Match) -> None:
    """Raise Refuse if the matched `resize` is not what the fused kernel does."""
    if m.resize.get("half_pixel_centers", False):
        raise Refuse(
            f"'{m.resize.name}' has half_pixel_centers=true, which the fused kernel does not know", m.conv
        )
    given, wanted = m.resize.get("T", FLOAT), m.conv.get("T", FLOAT)
    if given != wanted:
        raise Refuse(f"'{m.resize.name}' resizes {given}, the convolution computes in {wanted}", m.conv)


def paddings_int32(m: Match, site: Site) -> Value:
    """The matched `paddings` as the fused kernels take them, which is int32."""
    source = constant_node(m.paddings)
    assert source is not None
    assert source.tensor is not None
    if source.tensor.dtype is INT32:
        return m.paddings
    return site.constant(m.array("paddings").astype(np.int32), f"{m.pad.name}/paddings_int32")


def fused_attrs(conv: Node, **more: Attr) -> dict[str, Attr]:
    """The attributes a fused node takes over from its convolution, and others."""
    # The fused ops have no data_format and no dilations, which `check_conv` has refused.
    kept = {k: v for k, v in conv.attrs.items() if k in {"T", "strides", "padding"}}
    return {"T": FLOAT, **kept, **more}
