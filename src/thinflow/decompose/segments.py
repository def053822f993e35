"""Rows combined by segment or taken apart by group, and lists searched and ranked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.decompose.index_ops import (
    IN_RANGE,
    SAFE_DIVISOR,
    arange,
    as_index,
    bincount,
    fill,
    index_constant,
    index_vector,
    nonzero,
    reduce_max,
    scatter,
    segment_sum,
    size_of,
)
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, concat, refuse_unless, where
from thinflow.ir.types import INT32, DType
from thinflow.typing import Array

# Each group takes a comparison and a gather of its own.
_MOST_GROUPS = 1 << 10


def _count(segments: Term, given: Sequence[Term]) -> Term:
    """The number of segments, []: as many as the highest number says, where nothing else does."""
    if given:
        return as_index(given[0]).reshape([])
    if segments.known is not None:
        return index_constant(segments.body, int(segments.known.max(initial=-1)) + 1)
    return reduce_max(segments) + 1


def _combined(x: Term, segments: Term, given: Sequence[Term], kind: str) -> Term:
    """y[s] = rows of x with segment number s, combined; 0 (for products 1) where there is none.

    Extremes start from the type's other end where the number of segments is given.
    """
    refuse_unless(len(segments.shape) == 1, "a vector of segment numbers is needed")
    segments = as_index(segments)
    count = _count(segments, given)
    op = "UnsortedSegment" + (kind if kind in ("Prod", "Max", "Min") else "Sum")
    operands = [t.value for t in (x, segments, count)]
    y = x.body.add(op, operands, T=x.dtype, Tindices=segments.dtype, Tnumsegments=count.dtype, **IN_RANGE)[0]
    column = [-1, *(1,) * (len(x.shape) - 1)]
    if kind in ("Max", "Min") and not given:
        # Unsorted ones and V2 give the lowest (largest) number for segments without rows, the older ops 0.
        return where((bincount(segments, count) > 0).reshape(column), y, 0)
    if kind not in ("Mean", "SqrtN"):
        return y
    is_whole = kind == "Mean" and x.dtype.itemsize >= 4  # the sums of smaller ones would have to wrap
    refuse_unless(x.dtype.is_floating or is_whole, f"a quotient of {x.dtype} has no form")
    # At least 1: the mean of no rows is 0 / 1.
    members = segment_sum(fill(size_of(segments), x.of(1)), segments, count).reshape(column).maximum(1)
    if kind == "SqrtN":
        members = members.sqrt()
    return y / members if x.dtype.is_floating else y.apply("TruncateDiv", members, **SAFE_DIVISOR)


@decompose(
    "SegmentMean", *(f"Segment{kind}{n}" for kind in ("Sum", "Prod", "Max", "Min") for n in ("", "V2"))
)
def segment(x: Term, segments: Term, *count: Term) -> Term:
    return _combined(x, segments, count, x.body.op.removeprefix("Segment").removesuffix("V2"))


@decompose(*(f"SparseSegment{kind}{n}" for kind in ("Sum", "Mean", "SqrtN") for n in ("", "WithNumSegments")))
def sparse_segment(x: Term, indices: Term, segments: Term, *count: Term) -> Term:
    """The segments are of rows that are gathered first."""
    kind = x.body.op.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    return _combined(x.gather(indices), segments, count, kind)


# --- indices of a list --------------------------------------------------------------------------------------


@decompose("UniqueV2")
def unique_along(x: Term, axis: Term, *, out_idx: DType = INT32) -> tuple[Term, ...]:
    """Of a vector, whose only axis is 0."""
    refuse_unless(len(x.shape) == 1, "what is unique is found in a vector only")
    refuse_unless(set(axis.ints("the axis")) <= {0, -1}, "a vector has one axis")
    return x.body.add("Unique", [x.value], ports=2, T=x.dtype, out_idx=out_idx)


@decompose("UniqueWithCounts")
def unique_with_counts(x: Term, *, out_idx: DType = INT32) -> tuple[Term, ...]:
    """The counts are sums of ones."""
    values, at = x.body.add("Unique", [x.value], ports=2, T=x.dtype, out_idx=out_idx)
    return values, at, bincount(as_index(at), size_of(values)).cast(out_idx)


@decompose("InvertPermutation")
def invert_permutation(x: Term) -> Term:
    """Each index written to where it goes."""
    count = size_of(x)
    return scatter(arange(count), as_index(x), count).cast(x.dtype)


@decompose("DataFormatDimMap")
def data_format_dim_map(x: Term, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Term:
    """Looked up; axes may count from the end, which the table therefore holds twice."""
    axes = _moved(dst_format, src_format)
    places = as_index(x) + index_constant(x.body, len(axes))
    return index_vector(x.body, axes * 2).gather(places).cast(x.dtype)


@decompose("DataFormatVecPermute")
def data_format_vec_permute(x: Term, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Term:
    """Rows gathered; two of them are those of height and width alone."""
    if x.static_size(0, "the axes") == len(src_format) - 2:
        src_format, dst_format = (f.replace("N", "").replace("C", "") for f in (src_format, dst_format))
    refuse_unless(x.shape[0] == len(src_format), f"there are {x.shape[0]} rows for the axes {src_format}")
    return x.gather(index_vector(x.body, _moved(src_format, dst_format)))


def _moved(src: str, dst: str) -> list[int]:
    """For each axis of dst, where it is in src."""
    refuse_unless(sorted(src) == sorted(dst), f"{src} and {dst} do not name the same axes")
    return [src.index(axis) for axis in dst]


@decompose("TensorScatterAdd", "TensorScatterSub")
def tensor_scatter_add(x: Term, indices: Term, updates: Term) -> Term:
    """x and what is added up in zeros."""
    sizes = x.sizes() if None in x.shape else x.body.constant([n or 0 for n in x.shape], INT32)
    operands = [indices.cast(INT32).value, updates.value, sizes.value]
    added = x.body.add("ScatterNd", operands, T=x.dtype, Tindices=INT32)[0]
    return x + added if x.body.op == "TensorScatterAdd" else x - added


# --- groups -------------------------------------------------------------------------------------------------


def _rows(x: Term, lead: int) -> Term:
    """x with its first `lead` axes as one."""
    if lead == 1:
        return x
    rest = x.shape[lead:]
    if None not in rest:
        return x.reshape([-1, *(n or 0 for n in rest)])
    return x.reshape(concat([x.body.constant([-1], INT32), x.sizes().cut(0, lead, None)], 0))


@decompose("DynamicPartition")
def dynamic_partition(x: Term, partitions: Term, *, num_partitions: int) -> tuple[Term, ...]:
    """The rows of x of each group, in their order."""
    lead = len(partitions.shape)
    refuse_unless(0 < num_partitions <= _MOST_GROUPS, f"{num_partitions} groups")
    rows, numbers = _rows(x, lead), partitions if lead == 1 else partitions.reshape([-1])
    return tuple(rows.gather(nonzero(numbers.equal(n))) for n in range(num_partitions))


@decompose("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(*operands: Term) -> Term:
    """Each row of the result is the last of all rows that are meant for it; zeros where none is."""
    half = len(operands) // 2
    refuse_unless(half > 0 and len(operands) == 2 * half, "it needs as many lists of places as of rows")
    lists = [as_index(t).reshape([-1]) for t in operands[:half]]
    leads = [len(t.shape) for t in operands[:half]]
    rows = concat([_rows(x, n) for x, n in zip(operands[half:], leads, strict=True)], 0)
    known = [t.known for t in operands[:half]]
    if all(k is not None for k in known):
        last = _last_rows(np.concatenate([np.ravel(k) for k in known if k is not None]))
        source = index_vector(rows.body, last.tolist())
        # The usual case: every row is named, so a gather is all.
        if (last >= 0).all():
            return rows.gather(source)
    else:
        # The greatest number of a row wins, which is that of the last one.
        source = _sources(concat(lists, 0))
    is_there = (source >= 0).reshape([-1, *(1,) * (len(rows.shape) - 1)])
    return where(is_there, rows.gather(source.maximum(0)), 0)


def _last_rows(at: Array) -> Array:
    """For each row of the result the number of the last row that is meant for it; -1 if there is none."""
    last = np.full(at.max(initial=-1) + 1, -1, np.int64)
    # Of indices that are named twice NumPy keeps the last.
    last[at] = np.arange(len(at))
    return last


def _sources(at: Term) -> Term:
    """The same when the model runs; some number below 0 if there is none."""
    count = reduce_max(concat([at, index_vector(at.body, [-1])], 0)) + 1
    operands = [t.value for t in (arange(size_of(at)), at, count)]
    return at.body.add(
        "UnsortedSegmentMax", operands, T=at.dtype, Tindices=at.dtype, Tnumsegments=count.dtype
    )[0]


@decompose("TensorScatterMax", "TensorScatterMin")
def tensor_scatter_extreme(x: Term, places: Term, updates: Term) -> Term:
    """x with the largest (smallest) of what is there and what goes there: a number for each place's row."""
    width = places.static_size(-1, "how many numbers a place has")
    sizes = [x.static_size(n, "a size of what it writes to") for n in range(width)]
    steps = [math.prod(sizes[n + 1 :]) for n in range(width)]
    at = (as_index(places) * index_vector(x.body, steps)).sum(-1).reshape([-1])
    rest = [x.static_size(n, "a size of what it writes to") for n in range(width, len(x.shape))]
    kind, count = x.body.op[-3:], math.prod(sizes)
    operands = [updates.reshape([-1, *rest]).value, at.value, index_constant(x.body, count).value]
    y = x.body.add(
        f"UnsortedSegment{kind}", operands, T=x.dtype, Tindices=at.dtype, Tnumsegments=at.dtype, **IN_RANGE
    )[0]
    y = y.reshape([*sizes, *rest])
    return x.maximum(y) if kind == "Max" else x.minimum(y)


@decompose("LowerBound", "UpperBound")
def bound(rows: Term, values: Term, *, out_type: DType = INT32) -> Term:
    """Counts of numbers in a sorted row [r,n] that are below (or not above) each value [r,m]."""
    refuse_unless(len(rows.shape) == 2, "a matrix of sorted rows is needed")
    # All with all, [r,m,n]: a sorted row needs no search where comparisons are counted.
    edges, x = rows.expand_dims(1), values.expand_dims(2)
    hits = edges < x if rows.body.op == "LowerBound" else ~(x < edges)  # NaN comes last
    return hits.cast(rows.body.index).sum(2).cast(out_type)


@decompose("Bucketize")
def bucketize(x: Term, *, boundaries: tuple[float, ...]) -> Term:
    """How many of the sorted boundaries are not above x; of whole numbers those that a boundary lets in."""
    edges = np.asarray(boundaries, np.float32)
    if not x.dtype.is_floating:
        limits = np.iinfo(x.dtype.numpy())
        whole = [math.ceil(edge) for edge in edges.tolist() if edge <= limits.max]
        edges = np.array([max(limits.min, edge) for edge in whole], x.dtype.numpy())
    below = x.expand_dims(len(x.shape)) < x.body.constant(edges, x.dtype)
    return (~below).cast(x.body.index).sum(len(x.shape)).cast(INT32)


@decompose("InTopK")
def in_top_k(predictions: Term, targets: Term, *, k: int) -> Term:
    return in_top_k_v2(predictions, targets, targets.of(k))


@decompose("InTopKV2")
def in_top_k_v2(predictions: Term, targets: Term, k: Term) -> Term:
    """True if fewer than k classes beat the target's, which has to exist, and all are finite."""
    index = targets.body.index
    classes = predictions.static_size(1, "the number of classes")
    is_class = (targets >= 0) & (targets < classes)
    # Some class for targets that are none; the result is false for them in any case.
    place = where(is_class, targets, 0).expand_dims(1)
    axis = predictions.body.constant(1, INT32)
    own = predictions.body.add(
        "GatherV2", [t.value for t in (predictions, place, axis)], batch_dims=1,
        Tparams=predictions.dtype, Tindices=place.dtype, Taxis=INT32,
    )[0]  # fmt: skip
    better = (predictions > own).cast(index).sum(1)
    # NaN fails every comparison, so it counts as not finite here.
    odd = (~(predictions.abs() < np.inf)).cast(index).sum(1)
    return is_class & odd.equal(0) & (better < k.cast(index))


@decompose("ListDiff")
def list_diff(x: Term, other: Term, *, out_idx: DType = INT32) -> tuple[Term, Term]:
    """The values that are equal to none of the others, and where they stood."""
    refuse_unless(len(x.shape) == 1 == len(other.shape), "two lists are needed")
    same = x.expand_dims(1).equal(other.expand_dims(0))
    kept = nonzero(same.cast(x.body.index).sum(1).equal(0))
    return x.gather(kept), kept.cast(out_idx)
