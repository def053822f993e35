"""Replace the detour of a dilated convolution over the batch by one convolution.

batch_to_space(conv(space_to_batch(x, b, p), w), b, c)  ->  conv(x, w, dilations=b)      mode=dilate
                                                        ->  conv(x, w with zeros between its taps)
                                                                                         mode=upsample

An axis gets p - c zeros at each end, which is exact because the stride is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ir.tensor import Tensor
from thinflow.ops.traits import Trait
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, const, constant_node, node
from thinflow.rewrite.rule import Refuse, transform
from thinflow.transforms.fused_convolutions import (
    Pair,
    explicit,
    is_one,
    pairs,
    spatial_axes,
    steps,
)
from thinflow.transforms.shared.constants import awaited_by_constant, is_sole_reader


@transform("flatten_atrous_conv")
@dataclass(frozen=True)
class FlattenAtrousConv(Rewrite):
    """Turn SpaceToBatchND, convolution, BatchToSpaceND into one convolution.

    Attributes:
        mode: "dilate" keeps the filter and sets `dilations`; "upsample" puts zeros between its taps instead,
            for runtimes without dilated kernels. That filter is larger, and slower.
    """

    tolerance = 1e-6
    pattern: ClassVar = node(
        "BatchToSpaceND",
        node(
            Trait.CONV_2D,
            node("SpaceToBatchND", any_value("x"), const("block"), const("paddings")),
            const("w"),
            name="conv",
        ),
        const("block_back"),
        const("crops"),
        name="back",
    )

    mode: str = "dilate"

    def __post_init__(self) -> None:
        if self.mode not in {"dilate", "upsample"}:
            raise ParameterError(f"mode is {self.mode}", hint="give dilate or upsample")

    def check(self, m: Match) -> None:
        # With a stride, windows of the moved picture lie elsewhere than those of one convolution.
        for attr in ("strides", "dilations"):
            if not is_one(steps(m.conv, attr)):
                raise Refuse(f"'{m.conv.name}' has {attr} {list(steps(m.conv, attr))}, not 1", m.back)
        # Borders are the moves' own: the convolution inside sees each part of the picture by itself.
        if m.conv.get("padding") != "VALID":
            raise Refuse(f"'{m.conv.name}' has padding {m.conv.get('padding')}, not VALID", m.back)
        if m.array("w").ndim != 4:
            raise Refuse(f"the filter of '{m.conv.name}' has {m.array('w').ndim} axes, not 4", m.back)
        padding_attrs(m)

    def build(self, m: Match, site: Site) -> Value:
        attrs = {k: v for k, v in m.conv.attrs.items() if k not in {"padding", "explicit_paddings", "_class"}}
        attrs |= padding_attrs(m)
        attrs.pop("dilations", None)
        blocks = block_sizes(m)
        filters = m.w
        if self.mode == "upsample":
            filters = self._stuffed(m, site, [blocks[axis] for axis in spatial_axes(m.conv)])
        else:
            attrs["dilations"] = tuple(blocks)
        return site.add(m.conv.op, m.x, filters, attrs=attrs, device=m.conv.device)

    def _stuffed(self, m: Match, site: Site, blocks: list[int]) -> Value:
        """The filter with zeros between its taps; the old constant takes them in if nobody else reads it."""
        old = m.array("w")
        sizes = [(taps - 1) * block + 1 for taps, block in zip(old.shape, blocks, strict=False)]
        stuffed = np.zeros((*sizes, *old.shape[2:]), old.dtype)
        stuffed[:: blocks[0], :: blocks[1]] = old
        source = constant_node(m.w)
        assert source is not None
        assert source.tensor is not None
        tensor = Tensor.from_array(stuffed, source.tensor.dtype)
        # In its place if possible, so that the file does not hold both filters.
        if is_sole_reader(m.conv, m.w):
            source.attrs["value"] = tensor
            result: Value = m.w
            return result
        fresh = site.constant(tensor, f"{m.conv.name}_weights")
        fresh.node.set_control_inputs(awaited_by_constant(m.w))
        return fresh

    def describe(self, m: Match) -> str:
        axes = spatial_axes(m.conv)
        rates = " and ".join(str(block_sizes(m)[axis]) for axis in axes)
        return f"one convolution with dilations {rates} in place of '{m.conv.name}' and the moves around it"


def block_sizes(m: Match) -> list[int]:
    """The block of each of the four axes, 1 where nothing is moved.

    Raises:
        Refuse: both moves differ, or concern more than height and width.
    """
    block, back = m.array("block"), m.array("block_back")
    if not np.array_equal(block, back):
        raise Refuse(f"it puts back blocks of {back.tolist()}, but {block.tolist()} were taken", m.back)
    if block.ndim != 1 or not 1 <= block.size <= 3:
        raise Refuse(f"its block shape has shape {list(block.shape)}, not up to 3 sizes", m.back)
    blocks = [1] * 4
    blocks[1 : 1 + block.size] = [int(b) for b in block]
    axes = spatial_axes(m.conv)
    if min(blocks) < 1 or not is_one([b for axis, b in enumerate(blocks) if axis not in axes]):
        raise Refuse(f"its blocks {block.tolist()} are not those of height and width", m.back)
    return blocks


def padding_attrs(m: Match) -> dict[str, Attr]:
    """The padding attributes of the one convolution.

    Raises:
        Refuse: it cannot say so.
    """
    blocks = block_sizes(m)
    margins = _margins(m.array("paddings"), m.array("crops"), m.back)
    axes = spatial_axes(m.conv)
    if any(any(pair) for axis, pair in margins.items() if axis not in axes):
        raise Refuse("it pads or crops more than height and width", m.back)
    margins = {axis: margins.get(axis, (0, 0)) for axis in axes}
    if min(n for pair in margins.values() for n in pair) < 0:
        raise Refuse("it crops more than was padded", m.back)
    windows = [(taps - 1) * blocks[axis] + 1 for taps, axis in zip(m.array("w").shape, axes, strict=False)]
    same = {axis: ((k - 1) // 2, k // 2) for axis, k in zip(axes, windows, strict=True)}
    # At stride 1 SAME pads (k - 1) // 2 before and the rest after. A window of 1 pads nothing and is VALID.
    if any(k > 1 for k in windows) and margins == same:
        return {"padding": b"SAME"}
    attrs = explicit(margins)
    if m.conv.op != "Conv2D" and attrs["padding"] == b"EXPLICIT":
        uneven = ", ".join(f"{before} and {after}" for before, after in margins.values())
        raise Refuse(f"its margins ({uneven}) are neither VALID nor SAME, all that {m.conv.op} knows", m.back)
    return attrs


def _margins(paddings: np.ndarray, crops: np.ndarray, back: Node) -> dict[int, Pair]:
    """Axis -> zeros before and after it, less what is cropped there."""
    padded, cropped = pairs(paddings, back), pairs(crops, back)
    if len(padded) != len(cropped):
        raise Refuse(f"it crops {len(cropped)} axes, but {len(padded)} were padded", back)
    return {
        axis: (p[0] - c[0], p[1] - c[1]) for axis, (p, c) in enumerate(zip(padded, cropped, strict=True), 1)
    }
