"""Parts of tensors, read and written: slices, and places named by index tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT32
from thinflow.lower.block_updates import is_block_update
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.tflite.counterparts import Kind, same_in_tflite
from thinflow.tflite.model import Tensor


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
            # Where the axis lies in the result: behind the axes so far, less those that vanish, plus the new
            # ones before it.
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


# ---- A slice of a tensor replaced, at a place that may be computed while the model runs.
#
# x[i, :, k] = y     ->     DYNAMIC_UPDATE_SLICE(x, y as [1, n, 1], (i, 0, k))


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
    """Of each axis either one index, or all of it; or a block of the value's size."""
    del end
    if is_block_update(node):
        return b.emit("DYNAMIC_UPDATE_SLICE", x, value, b.index(begin))
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


# ---- Reading and writing places named by index tensors.


@lower("Gather", to="tflite")
def gather(b: Builder, node: Node, x: Tensor, indices: Tensor) -> Tensor:
    return b.emit("GATHER", x, indices, axis=0)


@lower("GatherV2", to="tflite")
def gather_v2(
    b: Builder, node: Node, x: Tensor, indices: Tensor, axis: Tensor, *, batch_dims: int = 0
) -> Tensor:
    place = b.axes(axis, None if x.shape is None else len(x.shape))[0]
    # A negative number counts from the end of the indices' axes.
    batch = batch_dims + len(shape_of(indices, "the indices")) if batch_dims < 0 else batch_dims
    return b.emit("GATHER", x, indices, axis=place, batch_dims=batch)


@lower("GatherNd", to="tflite")
def gather_nd(b: Builder, node: Node, x: Tensor, indices: Tensor) -> Tensor:
    return b.emit("GATHER_ND", x, indices)


@lower("ScatterNd", to="tflite")
def scatter_nd(b: Builder, node: Node, indices: Tensor, updates: Tensor, shape: Tensor) -> Tensor:
    return b.emit("SCATTER_ND", b.index(indices), updates, b.index(shape))


@lower("SparseToDense", to="tflite")
def sparse_to_dense(
    b: Builder,
    node: Node,
    indices: Tensor,
    shape: Tensor,
    values: Tensor,
    default: Tensor,
    *,
    validate_indices: bool = True,
) -> Tensor:
    require(len(shape_of(indices, "the indices")) <= 2, "TFLite takes indices of rank 2 at most")
    return b.emit("SPARSE_TO_DENSE", indices, shape, values, default, validate_indices=False)


@lower("Unique", to="tflite")
def unique(b: Builder, node: Node, x: Tensor) -> tuple[Tensor, ...]:
    index = b.result_spec(1).dtype
    return b.emit_ports("UNIQUE", x, count=2, idx_out_type=index)


@lower("TopKV2", to="tflite")
def top_k_v2(b: Builder, node: Node, x: Tensor, k: Tensor) -> tuple[Tensor, ...]:
    """Sorted, which is always within the promise."""
    return b.emit_ports("TOPK_V2", x, b.index(k), count=2)


@lower("TopK", to="tflite")
def top_k(b: Builder, node: Node, x: Tensor, *, k: int) -> tuple[Tensor, ...]:
    return b.emit_ports("TOPK_V2", x, b.const(np.int32(k), "k"), count=2)


_UNSORTED = same_in_tflite(Kind.UNSORTED_SEGMENTS)


@lower(*_UNSORTED, to="tflite")
def unsorted_segment(b: Builder, node: Node, x: Tensor, segments: Tensor, count: Tensor) -> Tensor:
    """The kernels take one segment number per row."""
    require(len(shape_of(segments, "the segment numbers")) == 1, "TFLite takes a vector of segment numbers")
    return b.emit(_UNSORTED[node.op], x, b.index(segments), b.index(count))


def _computed_places(b: Builder, x: Tensor, indices: Tensor, updates: Tensor, is_unique: bool) -> Tensor:
    """The same for places that are computed while the model runs: one alone cannot be named twice."""
    count = math.prod(n or 0 for n in shape_of(indices)[:-1])
    require(
        is_unique or (count == 1 and None not in shape_of(indices)),
        "the places are computed while the model runs, and may name one twice",
    )
    require(None not in shape_of(updates), "the number of places is not known")
    sizes = [n or 0 for n in shape_of(x)]
    written = [n or 0 for n in shape_of(updates)]
    # SCATTER_ND adds up what meets in one place; here nothing does.
    where, shape = b.index(indices), b.ints(sizes, "shape")
    ones = b.const(np.ones(written, np.float32), "ones")
    marks = b.step("SCATTER_ND", where, ones, shape, shape=x.shape, element=FLOAT)
    # Ones scattered into zeros mark the place, whatever value is written there, 0 among them.
    chosen = b.step("CAST", marks, shape=x.shape, element=BOOL, in_data_type=FLOAT, out_data_type=BOOL)
    new = b.step("SCATTER_ND", where, updates, shape, shape=x.shape, element=x.dtype)
    return b.emit("SELECT_V2", chosen, new, x)


@lower("TensorScatterUpdate", to="tflite")
def tensor_scatter_update(
    b: Builder, node: Node, x: Tensor, indices: Tensor, updates: Tensor, *, _is_unique: bool = False
) -> Tensor:
    """SCATTER_ND into zeros, chosen where it sets something; a place set twice would be added up.

    Args:
        b, node, x, indices, updates: as for every rule.
        _is_unique: the word of the op that this stands for, that no place is set twice.
    """
    shape = shape_of(x)
    require(None not in shape, "the sizes are not known")
    if not indices.is_constant:
        return _computed_places(b, x, indices, updates, _is_unique)
    places = np.asarray(indices.array()).reshape(-1, shape_of(indices)[-1] or 0)
    require(len(np.unique(places, axis=0)) == len(places), "a place is set twice")
    sizes = [n or 0 for n in shape]
    # TensorFlow fails on a place outside; with constants that is told before the model runs.
    inside = bool(((places >= 0) & (places < sizes[: places.shape[1]])).all())
    require(inside, f"a place lies outside of {sizes}")
    chosen = np.zeros(sizes, bool)
    chosen[tuple(places.T)] = True
    where = b.index(indices)
    new = b.step("SCATTER_ND", where, updates, b.ints(sizes, "shape"), shape=shape, element=x.dtype)
    return b.emit("SELECT_V2", b.const(chosen, "chosen"), new, x)
