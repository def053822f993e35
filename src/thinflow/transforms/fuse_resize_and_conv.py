"""Resize and convolve in one kernel, without keeping the picture in between.

conv(resize_bilinear(x, size), w)  ->  fused_resize_and_pad_conv(x, size, no paddings, w)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.graph import Graph, Value
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, node
from thinflow.rewrite.rule import transform
from thinflow.rewrite.trace import Trace
from thinflow.transforms.shared.convolutions import check_conv, check_groups, check_resize, fused_attrs


@transform("fuse_resize_and_conv")
@dataclass(frozen=True)
class FuseResizeAndConv(Rewrite):
    """Fuse ResizeBilinear and Conv2D into FusedResizeAndPadConv2D, which only TensorFlow runs."""

    tolerance = 1e-5
    pattern: ClassVar = node(
        "Conv2D",
        node("ResizeBilinear", any_value("x"), any_value("size"), name="resize"),
        any_value("w"),
        name="conv",
    )

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        infer_shapes(graph)
        return {}

    def check(self, m: Match) -> None:
        check_conv(m.conv)
        check_resize(m)
        check_groups(m.conv, m.x, m.w)

    def build(self, m: Match, site: Site) -> Value:
        attrs = fused_attrs(
            m.conv, mode=b"REFLECT", resize_align_corners=bool(m.resize.get("align_corners", False))
        )
        # The kernel always pads: by nothing, in whatever mode.
        none = site.constant(np.zeros((4, 2), np.int32), f"{m.conv.name}_dummy_paddings")
        return site.add("FusedResizeAndPadConv2D", m.x, m.size, none, m.w, attrs=attrs)

    def describe(self, m: Match) -> str:
        return f"fused with '{m.resize.name}'"
