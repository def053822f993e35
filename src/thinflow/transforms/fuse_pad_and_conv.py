"""Let the convolution do the padding in front of it.

conv(mirror_pad(x, p), w)  ->  fused_pad_conv(x, p, w)
conv(pad(x, p), w)         ->  conv(x, w, padding=EXPLICIT or SAME)      explicit=true
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, constant_node, node, optional
from thinflow.rewrite.rule import Refuse, transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.shared.convolutions import (
    CONVOLUTIONS,
    Pair,
    check_conv,
    check_groups,
    check_mirror,
    explicit,
    fused_attrs,
    paddings_int32,
    pairs,
    same_margin,
    spatial_axes,
    steps,
)


@transform("fuse_pad_and_conv")
@dataclass(frozen=True)
class FusePadAndConv(Rewrite):
    """Fuse MirrorPad and Conv2D into FusedPadConv2D, which only TensorFlow runs.

    Attributes:
        explicit: also fold padding with zeros into Conv2D and DepthwiseConv2dNative themselves: SAME where
            that is the same for the size of the input, else EXPLICIT.
    """

    tolerance = 1e-5
    pattern: ClassVar = node(
        CONVOLUTIONS,
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
    added = _added(m, axes)
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


def _added(m: Match, axes: Pair) -> dict[int, Pair]:
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
