"""Parts of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, shape_of
from thinflow.lower.tflite.program import Tensor


@lower("Slice", to="tflite")
def slice_(b: Builder, node: Node, x: Tensor, begin: Tensor, size: Tensor) -> Tensor:
    return b.emit("SLICE", x, b.index(begin), b.index(size))


@lower("StridedSlice", to="tflite")
def strided_slice(
    b: Builder,
    node: Node,
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    strides: Tensor,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """One STRIDED_SLICE. Fast kernels know no ellipsis and no new axis: they become ranges and a RESHAPE."""
    bounds = [b.index(begin), b.index(end), b.index(strides)]
    begin_mask &= ~shrink_axis_mask  # a single place is where it says; LiteRT would start at the edge
    masks: dict[str, Any] = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    if not ellipsis_mask and not new_axis_mask:
        return b.emit("STRIDED_SLICE", x, *bounds, **masks)
    result = b.result_spec().shape
    if x.shape is None or result is None or not all(t.is_constant for t in bounds):
        # The kernel confuses the axes when it has to do both.
        require(
            not (ellipsis_mask and new_axis_mask), "an ellipsis and a new axis need known bounds and rank"
        )
        more: dict[str, Any] = {"ellipsis_mask": ellipsis_mask, "new_axis_mask": new_axis_mask}
        return b.emit("STRIDED_SLICE", x, *bounds, **masks, **more)
    lists = [b.elements(t) or () for t in bounds]
    count, rank = len(lists[0]), len(shape_of(x))
    plain: list[list[int]] = [[], [], []]
    masks = dict.fromkeys(masks, 0)
    new_axes: list[int] = []
    # An ellipsis stands for all axes that no other term takes.
    taken = sum(1 for i in range(count) if not (ellipsis_mask | new_axis_mask) >> i & 1)
    for i in range(count):
        axis = len(plain[0])
        if ellipsis_mask >> i & 1:
            for extra in range(axis, axis + rank - taken):
                _append(plain, (0, 0, 1))
                masks["begin_mask"] |= 1 << extra
                masks["end_mask"] |= 1 << extra
        elif new_axis_mask >> i & 1:
            # Where the axis lies in the result: behind the axes so far, less those that
            # vanish, plus the new ones before it.
            new_axes.append(axis - masks["shrink_axis_mask"].bit_count() + len(new_axes))
        else:
            _append(plain, [values[i] or 0 for values in lists])
            masks["begin_mask"] |= (begin_mask >> i & 1) << axis
            masks["end_mask"] |= (end_mask >> i & 1) << axis
            masks["shrink_axis_mask"] |= (shrink_axis_mask >> i & 1) << axis
    require(len(plain[0]) <= rank, f"the slice has {len(plain[0])} terms for rank {rank}")
    constants = [
        b.ints(values, name) for values, name in zip(plain, ("begin", "end", "strides"), strict=True)
    ]
    if not new_axis_mask:
        return b.emit("STRIDED_SLICE", x, *constants, **masks)
    # New axes only: nothing is cut.
    y = b.step("STRIDED_SLICE", x, *constants, shape=None, **masks) if plain[0] else x
    if result.count(None) <= 1:
        return b.emit("RESHAPE", y, b.ints([-1 if n is None else n for n in result], "shape"))
    # From the first one on, so that each finds the earlier ones in place.
    for axis in new_axes[:-1]:
        y = b.step("EXPAND_DIMS", y, b.const(np.int32(axis), "axis"), shape=None)
    return b.emit("EXPAND_DIMS", y, b.const(np.int32(new_axes[-1]), "axis"))


def _append(lists: list[list[int]], row: tuple[int, ...] | list[int]) -> None:
    for values, item in zip(lists, row, strict=True):
        values.append(item)
