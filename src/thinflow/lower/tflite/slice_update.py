"""A slice of a tensor replaced, at a place that may be computed while the model runs.

x[i, :, k] = y     ->     DYNAMIC_UPDATE_SLICE(x, y as [1, n, 1], (i, 0, k))
"""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.lower.tflite.program import Tensor


@lower("TensorStridedSliceUpdate", to="tflite")
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
    """Of each axis either one index, or all of it."""
    del end
    sizes = shape_of(x)
    require(None not in sizes, "the sizes are not known")
    require(not ellipsis_mask and not new_axis_mask, "its slice has an ellipsis or a new axis")
    require(all(s == 1 for s in ints(strides, "its strides")), "its slice goes by other steps than 1")
    (named,) = shape_of(begin, "the begin of its slice", 1)
    require(named is not None and named <= len(sizes), "how many axes its slice names is not known")
    one = [bool(shrink_axis_mask >> axis & 1) for axis in range(named or 0)]
    whole = [bool(begin_mask >> axis & end_mask >> axis & 1) for axis in range(named or 0)]
    require(all(a or w for a, w in zip(one, whole, strict=True)), "its slice takes a part of an axis")
    one += [False] * (len(sizes) - len(one))
    written = [1 if single else n or 0 for single, n in zip(one, sizes, strict=True)]
    # What the value's axes are: those that are not indexed. DYNAMIC_UPDATE_SLICE does not broadcast.
    left = [n for single, n in zip(one, written, strict=True) if not single]
    require(list(shape_of(value)) == left, "its value has to be broadcast")
    return b.emit("DYNAMIC_UPDATE_SLICE", x, b.reshaped(value, written), _place(b, begin, sizes, one))


def _place(b: Builder, begin: Tensor, sizes: tuple[int | None, ...], one: list[bool]) -> Tensor:
    """The begin of the slice, int32 [rank]: negative indices count from the end, whole axes begin at 0."""
    rank = len(sizes)
    count = (begin.shape or (0,))[0] or 0
    place = b.index(begin)
    if count < rank:
        place = b.step("CONCATENATION", place, b.ints([0] * (rank - count), "rest"), shape=(rank,), axis=0)
    # FLOOR_MOD by the size makes -1 the last index; modulo 1 every number is 0.
    whole = b.ints([n or 1 if single else 1 for single, n in zip(one, sizes, strict=True)], "sizes")
    return b.step("FLOOR_MOD", place, whole, shape=(rank,), element=INT32)
