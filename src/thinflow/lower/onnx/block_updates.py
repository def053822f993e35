"""A block of a tensor replaced, at a place maybe computed: what is before it, the block, what is behind.

x[b : b + n] = value  ->  Concat(x[: b], value, x[b + n :])      axis after axis, the last one first
"""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.lower.block_updates import is_block_update
from thinflow.lower.onnx.builder import END, Builder, require, shape_of
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


@lower("TensorStridedSliceUpdate", to="onnx")
def tensor_strided_slice_update(
    b: Builder,
    node: Node,
    x: Tensor,
    begin: Tensor,
    end: Tensor,
    strides: Tensor,
    value: Tensor,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """A block of the value's own size; ONNX has no op that writes one."""
    require(is_block_update(node), "its slice is computed, and not of the size of what is written")
    whole, part = shape_of(x), shape_of(value)
    # Along the other axes there is no room to move.
    moved = [a for a, (n, m) in enumerate(zip(whole, part, strict=True)) if n is None or n != m]
    begin, end = b.index(begin), b.index(end)
    starts, ends = ([b.sliced(v, [a], [a + 1], [0], shape=(1,)) for a in moved] for v in (begin, end))
    y = value
    for place in reversed(range(len(moved))):
        axis = b.ints([moved[place]], "axes")
        around = x
        if place:
            axes = b.ints(moved[:place], "axes")
            around = b.step("Slice", x, b.joined(*starts[:place]), b.joined(*ends[:place]), axes)
        before = b.step("Slice", around, b.ints([0], "starts"), starts[place], axis)
        behind = b.step("Slice", around, ends[place], b.ints([END], "ends"), axis)
        y = b.step("Concat", before, y, behind, axis=moved[place])
    return b.result(y)
