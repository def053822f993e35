"""Convolutions that resize and pad what they read: their margins, and what becomes part of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import FLOAT, INT32, DType
from thinflow.ops.traits import Trait
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, constant_node, constant_tensor, node, optional
from thinflow.rewrite.rule import Refuse, Trace, transform
from thinflow.typing import Array

Pair = tuple[int, int]

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
    numbers = conv.get(attr, _ONES)
    if not isinstance(numbers, tuple) or len(numbers) != 4 or not all(isinstance(n, int) for n in numbers):
        raise Refuse(f"'{conv.name}' has no usable {attr}", conv)
    return tuple(int(n) for n in numbers if isinstance(n, int))


def is_one(numbers: Sequence[int]) -> bool:
    """True if every stride or dilation is 1."""
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


@transform("fuse_pad_and_conv")
@dataclass(frozen=True)
class FusePadAndConv(Rewrite):
    """Let the convolution do the padding in front of it.

    conv(mirror_pad(x, p), w)  ->  fused_pad_conv(x, p, w)
    conv(pad(x, p), w)         ->  conv(x, w, padding=EXPLICIT or SAME)      explicit=true

    Attributes:
        explicit: also fold padding with zeros into Conv2D and DepthwiseConv2dNative themselves: SAME where
            that is the same for the size of the input, else EXPLICIT.
    """

    tolerance = 1e-5
    pattern: ClassVar = node(
        Trait.CONV_2D,
        node(
            "MirrorPad|Pad|PadV2",
            any_value("x"),
            any_value("paddings"),
            optional(any_value("value")),
            name="pad",
        ),
        any_value("w"),
        name="conv",
    )

    explicit: bool = False

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        infer_shapes(graph)
        return {}

    def check(self, m: Match) -> None:
        if m.pad.op == "MirrorPad":
            check_conv(m.conv)
            check_mirror(m)
            check_groups(m.conv, m.x, m.w)
        elif not self.explicit:
            raise Refuse(f"'{m.pad.name}' pads with zeros, which explicit=true would fold", m.conv)
        else:
            zero_attrs(m)

    def build(self, m: Match, site: Site) -> Value:
        if m.pad.op == "MirrorPad":
            attrs = fused_attrs(m.conv, mode=m.pad.attrs["mode"])
            return site.add("FusedPadConv2D", m.x, paddings_int32(m, site), m.w, attrs=attrs)
        own = {k: v for k, v in m.conv.attrs.items() if k not in {"padding", "explicit_paddings"}}
        return site.add(m.conv.op, m.x, m.w, attrs=own | zero_attrs(m))

    def describe(self, m: Match) -> str:
        return f"fused with '{m.pad.name}'"


def zero_attrs(m: Match) -> dict[str, Attr]:
    """The attributes by which the convolution pads with what `pad` and it itself pad now.

    Raises:
        Refuse: it cannot.
    """
    axes = spatial_axes(m.conv)
    added = _added_zeros(m, axes)
    windows = _windows(m, axes)
    own = _own_margins(m.conv, m.pad.output(), axes, windows)
    total = {axis: (own[axis][0] + added[axis][0], own[axis][1] + added[axis][1]) for axis in axes}
    strides = steps(m.conv, "strides")
    # SAME needs no sizes in the attribute and older runtimes know it; zeros nowhere are VALID.
    if any(any(pair) for pair in total.values()) and all(
        _is_same(m.x.shape, axis, windows.get(axis), strides[axis], total[axis]) for axis in axes
    ):
        return {"padding": b"SAME"}
    return explicit(total)


def _added_zeros(m: Match, axes: Pair) -> dict[int, Pair]:
    """The zeros the Pad adds to height and width."""
    if constant_node(m.paddings) is None:
        raise Refuse(f"the paddings of '{m.pad.name}' are not constant", m.conv)
    value = m.get("value")
    if value is not None and (constant_node(value) is None or m.array("value").any()):
        raise Refuse(f"'{m.pad.name}' pads with something else than the constant 0", m.conv)
    margins = pairs(m.array("paddings"), m.conv)
    if len(margins) != 4 or any(any(pair) for axis, pair in enumerate(margins) if axis not in axes):
        raise Refuse(f"'{m.pad.name}' pads more than height and width", m.conv)
    # Negative paddings cut off, and no convolution does that.
    if min(n for pair in margins for n in pair) < 0:
        raise Refuse(f"'{m.pad.name}' has negative paddings", m.conv)
    return {axis: margins[axis] for axis in axes}


def _windows(m: Match, axes: Pair) -> dict[int, int]:
    """Axis -> pixels that the filter spans, where the size of the filter is known."""
    rates = steps(m.conv, "dilations")
    # Height and width come first in all filters.
    sizes = m.w.shape or (None, None)
    return {
        axis: (taps - 1) * rates[axis] + 1
        for axis, taps in zip(axes, sizes, strict=False)
        if taps is not None
    }


def _own_margins(conv: Node, padded: Value, axes: Pair, windows: dict[int, int]) -> dict[int, Pair]:
    """The zeros that the convolution adds by itself to what it reads."""
    padding = conv.get("padding")
    if padding == "VALID":
        return dict.fromkeys(axes, (0, 0))
    flat = conv.get("explicit_paddings", ())
    if padding == "EXPLICIT" and isinstance(flat, tuple) and len(flat) == 8:
        # Two numbers for each of the four axes.
        return {axis: (int(flat[2 * axis]), int(flat[2 * axis + 1])) for axis in axes}
    strides = steps(conv, "strides")
    margins = {}
    for axis in axes if padding == "SAME" else ():
        size = None if padded.shape is None else padded.shape[axis]
        if size is None or axis not in windows:
            break
        margins[axis] = same_margin(size, windows[axis], strides[axis])
    if len(margins) < len(axes):
        # SAME pads by the size of what it reads, here the padded picture.
        raise Refuse(f"it pads {padding} on top of that, for an input of unknown size", conv)
    return margins


def _is_same(
    shape: tuple[int | None, ...] | None, axis: int, window: int | None, stride: int, margin: Pair
) -> bool:
    size = None if shape is None else shape[axis]
    return size is not None and window is not None and same_margin(size, window, stride) == margin


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
    if constant_node(m.paddings) is None:
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
    resized, convolved = m.resize.get("T", FLOAT), m.conv.get("T", FLOAT)
    if resized != convolved:
        raise Refuse(f"'{m.resize.name}' resizes {resized}, the convolution computes in {convolved}", m.conv)


def paddings_int32(m: Match, site: Site) -> Value:
    """The matched `paddings` as the fused kernels take them, which is int32."""
    tensor = constant_tensor(m.paddings)
    if tensor is not None and tensor.dtype is INT32:
        result: Value = m.paddings
        return result
    return site.constant(m.array("paddings").astype(np.int32), f"{m.pad.name}/paddings_int32")


def fused_attrs(conv: Node, **more: Attr) -> dict[str, Attr]:
    """The attributes a fused node takes over from its convolution, and others."""
    # The fused ops have no data_format and no dilations, which `check_conv` has refused.
    own = {k: v for k, v in conv.attrs.items() if k in {"T", "strides", "padding"}}
    return {"T": FLOAT, **own, **more}


class _FuseResize(Rewrite):
    """A resize, maybe with a mirrored margin around it, becomes part of the convolution that reads it."""

    tolerance = 1e-5

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        infer_shapes(graph)
        return {}

    def check(self, m: Match) -> None:
        check_conv(m.conv)
        if m.get("pad") is not None:
            check_mirror(m)
        check_resize(m)
        check_groups(m.conv, m.x, m.w)

    def build(self, m: Match, site: Site) -> Value:
        if (pad := m.get("pad")) is not None:
            mode, paddings = pad.attrs["mode"], paddings_int32(m, site)
        else:
            # The kernel always pads: by nothing, in whatever mode.
            mode = b"REFLECT"
            paddings = site.constant(np.zeros((4, 2), np.int32), f"{m.conv.name}_dummy_paddings")
        align_corners = bool(m.resize.get("align_corners", False))
        attrs = fused_attrs(m.conv, mode=mode, resize_align_corners=align_corners)
        return site.add("FusedResizeAndPadConv2D", m.x, m.size, paddings, m.w, attrs=attrs)

    def describe(self, m: Match) -> str:
        pad = m.get("pad")
        return (
            f"fused with '{m.resize.name}'"
            if pad is None
            else f"fused with '{pad.name}' and '{m.resize.name}'"
        )


_RESIZE = node("ResizeBilinear", any_value("x"), any_value("size"), name="resize")


@transform("fuse_resize_and_conv")
class FuseResizeAndConv(_FuseResize):
    """Resize and convolve in one kernel, without keeping the picture in between.

    conv(resize_bilinear(x, size), w)  ->  fused_resize_and_pad_conv(x, size, no paddings, w)
    """

    pattern: ClassVar = node("Conv2D", _RESIZE, any_value("w"), name="conv")


@transform("fuse_resize_pad_and_conv")
class FuseResizePadAndConv(_FuseResize):
    """Resize, mirror and convolve in one kernel, without keeping the picture in between.

    conv(mirror_pad(resize_bilinear(x, size), p), w)  ->  fused_resize_and_pad_conv(x, size, p, w)
    """

    pattern: ClassVar = node(
        "Conv2D", node("MirrorPad", _RESIZE, any_value("paddings"), name="pad"), any_value("w"), name="conv"
    )
