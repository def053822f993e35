"""Resize, mirror and convolve in one kernel, without keeping the picture in between.

conv(mirror_pad(resize_bilinear(x, size), p), w)  ->  fused_resize_and_pad_conv(x, size, p, w)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.graph import Graph, Value
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, node
from thinflow.rewrite.rule import transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.shared.convolutions import (
    check_conv,
    check_groups,
    check_mirror,
    check_resize,
    fused_attrs,
    paddings_int32,
)


@transform("fuse_resize_pad_and_conv")
@dataclass(frozen=True)
class FuseResizePadAndConv(Rewrite):
    """Fuse ResizeBilinear, MirrorPad and Conv2D into FusedResizeAndPadConv2D, which only TensorFlow runs."""

    tolerance = 1e-5
    pattern: ClassVar = node(
        "Conv2D",
        node(
            "MirrorPad",
            node("ResizeBilinear", any_value("x"), any_value("size"), name="resize"),
            any_value("paddings"),
            name="pad",
        ),
        any_value("w"),
        name="conv",
    )

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        infer_shapes(graph)
        return {}

    def check(self, m: Match) -> None:
        check_conv(m.conv)
        check_mirror(m)
        check_resize(m)
        check_groups(m.conv, m.x, m.w)

    def build(self, m: Match, site: Site) -> Value:
        attrs = fused_attrs(
            m.conv, mode=m.pad.attrs["mode"], resize_align_corners=bool(m.resize.get("align_corners", False))
        )
        paddings = paddings_int32(m, site)
        return site.add("FusedResizeAndPadConv2D", m.x, m.size, paddings, m.w, attrs=attrs)

    def describe(self, m: Match) -> str:
        return f"fused with '{m.pad.name}' and '{m.resize.name}'"
