"""Rows combined by group, and what counts them."""

from __future__ import annotations

import math

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, Dims, ints, require, shape_of
from thinflow.lower.tflite.program import Tensor


def segment_count(b: Builder, segments: Tensor) -> Tensor:
    """How many groups there are, int32 []: one more than the highest number."""
    if segments.is_constant:
        return b.const(np.int32(max(ints(segments, "the segment numbers"), default=-1) + 1), "count")
    last = b.step("REDUCE_MAX", segments, b.ints([0], "axis"), shape=(), keep_dims=False)
    return b.step("ADD", last, b.const(np.int32(1), "one"), shape=())


def _rows_in(b: Builder, segments: Tensor, count: Tensor, x: Tensor) -> Tensor:
    """How many rows each group has, in x's type, shaped to go with groups of rows of x."""
    sizes = shape_of(segments, "the segment numbers", 1)
    one = b.scalar(1, x, "one")
    if None in sizes:
        now = b.step("SHAPE", segments, shape=(1,), element=INT32, out_type=INT32)
        ones = b.step("FILL", now, one, shape=sizes, element=x.dtype)
    else:
        ones = b.const(np.ones([n or 0 for n in sizes], x.dtype.numpy()), "ones", x.dtype)
    found: Dims = b.result_spec().shape
    groups = found[0] if found else None
    counted = b.step("UNSORTED_SEGMENT_SUM", ones, segments, count, shape=(groups,))
    return b.reshaped(counted, (groups, *(1,) * (len(shape_of(x)) - 1)))


@lower("SegmentProd", to="tflite")
def segment_prod(b: Builder, node: Node, x: Tensor, segments: Tensor) -> Tensor:
    """1 where there are no rows."""
    segments = b.index(segments)
    return b.emit("UNSORTED_SEGMENT_PROD", x, segments, segment_count(b, segments))


@lower("SegmentMean", to="tflite")
def segment_mean(b: Builder, node: Node, x: Tensor, segments: Tensor) -> Tensor:
    """The sum by the number of rows, or by 1 where there are none."""
    segments = b.index(segments)
    count = segment_count(b, segments)
    total = b.step("UNSORTED_SEGMENT_SUM", x, segments, count, shape=b.result_spec().shape)
    rows = _rows_in(b, segments, count, x)
    return b.emit("DIV", total, b.step("MAXIMUM", rows, b.scalar(1, x, "one"), shape=rows.shape))


_SPARSE = [
    f"SparseSegment{kind}{more}" for kind in ("Sum", "Mean", "SqrtN") for more in ("", "WithNumSegments")
]


@lower(*_SPARSE, to="tflite")
def sparse_segment(
    b: Builder, node: Node, x: Tensor, indices: Tensor, segments: Tensor, *count: Tensor
) -> Tensor:
    """The segments are of rows that are gathered first; their sums by how many there are, or by its root."""
    segments, sizes = b.index(segments), shape_of(x)
    (length,) = shape_of(segments, "the segment numbers", 1)
    rows = b.step("GATHER", x, indices, shape=(length, *sizes[1:]), axis=0)
    total = b.index(count[0]) if count else segment_count(b, segments)
    if "Sum" in node.op:
        return b.emit("UNSORTED_SEGMENT_SUM", rows, segments, total)
    require(x.dtype is FLOAT, f"LiteRT divides float, not {x.dtype}")
    added = b.step("UNSORTED_SEGMENT_SUM", rows, segments, total, shape=b.result_spec().shape)
    members = _rows_in(b, segments, total, x)
    members = b.step("MAXIMUM", members, b.scalar(1, x, "one"), shape=members.shape)
    if "SqrtN" in node.op:
        members = b.step("SQRT", members, shape=members.shape)
    return b.emit("DIV", added, members)


@lower("SegmentMax", "SegmentMin", to="tflite")
def segment_max(b: Builder, node: Node, x: Tensor, segments: Tensor) -> Tensor:
    """0 where there are no rows."""
    segments = b.index(segments)
    count = segment_count(b, segments)
    code = "UNSORTED_SEGMENT_MAX" if node.op == "SegmentMax" else "UNSORTED_SEGMENT_MIN"
    found = b.step(code, x, segments, count, shape=b.result_spec().shape)
    rows = _rows_in(b, segments, count, x)
    zero = b.scalar(0, x, "zero")
    is_there = b.step("GREATER", rows, zero, shape=rows.shape, element=BOOL)
    return b.emit("SELECT_V2", is_there, found, zero)


@lower("UniqueV2", to="tflite")
def unique_v2(b: Builder, node: Node, x: Tensor, axis: Tensor) -> tuple[Tensor, ...]:
    """Of a vector, whose only axis is 0."""
    require(len(shape_of(x)) == 1, "LiteRT finds what is unique in a vector only")
    require(set(ints(axis, "the axis")) <= {0, -1}, "a vector has one axis")
    return b.emit_ports("UNIQUE", x, count=2, idx_out_type=b.result_spec(1).dtype)


@lower("UniqueWithCounts", to="tflite")
def unique_with_counts(b: Builder, node: Node, x: Tensor) -> tuple[Tensor, ...]:
    """The counts are sums of ones."""
    index = b.result_spec(1).dtype
    require(index in (None, INT32), f"LiteRT counts in int32, not {index}")
    values, places = b.emit_ports("UNIQUE", x, count=2, idx_out_type=INT32)
    size = b.step("SHAPE", values, shape=(1,), element=INT32, out_type=INT32)
    limit = b.reshaped(size, ())
    (length,) = shape_of(x, "the input", 1)
    one = b.const(np.int32(1), "one")
    if length is None:
        now = b.step("SHAPE", places, shape=(1,), element=INT32, out_type=INT32)
        ones = b.step("FILL", now, one, shape=(None,), element=INT32)
    else:
        ones = b.const(np.ones(length, np.int32), "ones")
    return values, places, b.emit("UNSORTED_SEGMENT_SUM", ones, places, limit, port=2)


@lower("InvertPermutation", to="tflite")
def invert_permutation(b: Builder, node: Node, x: Tensor) -> Tensor:
    """Each place written to where it goes."""
    require(x.dtype is INT32, f"LiteRT's places are int32, not {x.dtype}")
    (size,) = shape_of(x, "the permutation", 1)
    require(size is not None, "the size of the permutation is not known")
    order = b.const(np.arange(size or 0, dtype=np.int32), "order")
    return b.emit("SCATTER_ND", b.reshaped(x, (size, 1)), order, b.ints([size or 0], "shape"))


@lower("TensorScatterAdd", "TensorScatterSub", to="tflite")
def tensor_scatter_add(b: Builder, node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """x and what SCATTER_ND adds up in zeros."""
    if x.shape is None or None in x.shape:
        shape = b.step("SHAPE", x, shape=None, element=INT32, out_type=INT32)
    else:
        shape = b.ints((n or 0 for n in x.shape), "shape")
    added = b.step("SCATTER_ND", b.index(indices), updates, shape, shape=x.shape, element=x.dtype)
    return b.emit("ADD" if node.op == "TensorScatterAdd" else "SUB", x, added)


def _one_place(b: Builder, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """The same for a place that is computed while the model runs: alone it cannot be named twice."""
    count = math.prod(n or 0 for n in shape_of(indices)[:-1])
    require(
        count == 1 and None not in shape_of(indices),
        "the places are computed while the model runs, and may name one twice",
    )
    sizes = [n or 0 for n in shape_of(x)]
    written = [n or 0 for n in shape_of(updates)]
    where, shape = b.index(indices), b.ints(sizes, "shape")
    ones = b.const(np.ones(written, np.float32), "ones")
    marks = b.step("SCATTER_ND", where, ones, shape, shape=x.shape, element=FLOAT)
    chosen = b.step("CAST", marks, shape=x.shape, element=BOOL, in_data_type=FLOAT, out_data_type=BOOL)
    new = b.step("SCATTER_ND", where, updates, shape, shape=x.shape, element=x.dtype)
    return b.emit("SELECT_V2", chosen, new, x)


@lower("TensorScatterUpdate", to="tflite")
def tensor_scatter_update(b: Builder, node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """What SCATTER_ND sets in zeros, chosen where it sets something; a place set twice would be added up."""
    shape = shape_of(x)
    require(None not in shape, "the sizes are not known")
    if not indices.is_constant:
        return _one_place(b, x, indices, updates)
    places = np.asarray(indices.array()).reshape(-1, shape_of(indices)[-1] or 0)
    require(len(np.unique(places, axis=0)) == len(places), "a place is set twice")
    sizes = [n or 0 for n in shape]
    inside = bool(((places >= 0) & (places < sizes[: places.shape[1]])).all())
    require(inside, f"a place lies outside of {sizes}")
    chosen = np.zeros(sizes, bool)
    chosen[tuple(places.T)] = True
    where = b.index(indices)
    new = b.step("SCATTER_ND", where, updates, b.ints(sizes, "shape"), shape=shape, element=x.dtype)
    return b.emit("SELECT_V2", b.const(chosen, "chosen"), new, x)
