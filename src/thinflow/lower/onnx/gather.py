"""Reading and writing places named by index tensors, taking apart by places, and sorting."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DOUBLE, FLOAT, INT32, INT64
from thinflow.lower.onnx.builder import END, Builder, ints, number, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.operators import combining, fitting
from thinflow.onnx.program import Tensor


@lower("Gather", to="onnx")
def gather(b: Builder, node: Node, x: Tensor, indices: Tensor) -> Tensor:
    return b.emit("Gather", x, indices, axis=0)


@lower("GatherV2", to="onnx")
def gather_v2(
    b: Builder, node: Node, x: Tensor, indices: Tensor, axis: Tensor, *, batch_dims: int = 0
) -> Tensor:
    """Batches that are gathered each by itself are a GatherND."""
    (place,) = (
        ints(axis, "axis")
        if x.shape is None and not batch_dims
        else b.axes(axis, None if x.shape is None else len(x.shape))
    )
    batch = batch_dims + len(shape_of(indices, "the indices")) if batch_dims < 0 else batch_dims
    if not batch:
        return b.emit("Gather", x, indices, axis=place)
    places = b.unsqueezed(b.index(indices), [len(shape_of(indices, "the indices"))])
    if place == batch:
        return b.emit("GatherND", x, places, batch_dims=batch)
    return _later_axis(b, x, places, place, batch)


def _later_axis(b: Builder, x: Tensor, places: Tensor, axis: int, batch: int) -> Tensor:
    """GatherND along the axis moved right behind the batches, and what came before it moved back."""
    rank, more = len(shape_of(x, "x")), len(shape_of(places)) - 1 - batch
    others = [a for a in range(rank) if a != axis]
    moved = b.transposed(x, [*others[:batch], axis, *others[batch:]])
    shape = (*shape_of(places)[:-1], *shape_of(moved)[batch + 1 :])
    y = b.step("GatherND", moved, places, shape=shape, batch_dims=batch)
    between = axis - batch
    # y is [batches, places, before, behind] of the axis; TensorFlow wants `before` in front of the places.
    start = batch + more
    order = [
        *range(batch),
        *range(start, start + between),
        *range(batch, start),
        *range(start + between, len(shape)),
    ]
    return b.emit("Transpose", y, perm=tuple(order))


@lower("GatherNd", to="onnx")
def gather_nd(b: Builder, node: Node, x: Tensor, indices: Tensor) -> Tensor:
    require(shape_of(indices, "the indices")[-1] != 0, "the indices are empty")
    return b.emit("GatherND", x, b.index(indices))


@lower("ScatterNd", to="onnx")
def scatter_nd(
    b: Builder, node: Node, indices: Tensor, updates: Tensor, shape: Tensor, *, _is_unique: bool = False
) -> Tensor:
    """Elements that meet in one place are added.

    Args:
        _is_unique: a decomposition's word that nothing meets, so that elements of any type can be written.
    """
    if _is_unique:
        return b.emit("ScatterND", b.filled(b.index(shape), 0, updates.dtype), b.index(indices), updates)
    _require_sums(updates)
    return b.result(_added(b, b.index(indices), updates, b.index(shape)))


def _require_sums(x: Tensor) -> None:
    require(
        x.dtype in (FLOAT, DOUBLE, INT32, INT64), f"ONNX Runtime has no ScatterND that combines {x.dtype}"
    )


def _added(b: Builder, indices: Tensor, updates: Tensor, sizes: Tensor) -> Tensor:
    zeros = b.filled(sizes, 0, updates.dtype)
    return b.step("ScatterND", zeros, indices, updates, shape=zeros.shape, reduction="add")


@lower("SparseToDense", to="onnx")
def sparse_to_dense(
    b: Builder, node: Node, indices: Tensor, shape: Tensor, values: Tensor, default: Tensor
) -> Tensor:
    """Places of a tensor that is the default value elsewhere."""
    indices = b.index(indices)
    (rank,) = shape_of(shape, "the shape", 1)
    require(rank is not None, "the rank of the result is not known")
    kind = len(shape_of(indices, "the indices"))
    require(kind == 2 or rank == 1, "the indices do not fit the shape")
    # One place, or a vector of them: indices of a vector without the axis that holds coordinates.
    if kind < 2:
        indices = b.reshaped(indices, (None if kind else 1, 1))
    rows = shape_of(indices)[0]
    if values.shape == () or values.shape is None:
        count = (
            b.ints([rows], "count")
            if rows is not None
            else b.sliced(b.sizes_of(indices), [0], [1], [0], shape=(1,))
        )
        values = b.step("Expand", values, count, shape=(rows,))
    background = b.step("Expand", default, b.index(shape), shape=b.result_spec().shape)
    return b.emit("ScatterND", background, indices, values)


@lower("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2", to="onnx")
def unique(b: Builder, node: Node, x: Tensor, *axis: Tensor) -> tuple[Tensor, ...]:
    """In the order of first appearance: of a vector, or of the slices along an axis."""
    shape = shape_of(x, "x")
    given = ints(axis[0], "the axis") if axis else ()
    place = given[0] % max(len(shape), 1) if given else 0
    require(len(shape) == 1 or bool(given), "x has to be a vector where no axis is given")
    count = 3 if "WithCounts" in node.op else 2
    run = fitting("Unique", x.dtype)
    rows = tuple(None if a == place else n for a, n in enumerate(shape))
    # sorted=0 is the order of first appearance, which TensorFlow promises.
    y, _, places, counts = b.step_ports(
        "Unique", b.cast(x, run), shapes=[rows, (None,), (shape[place],), (None,)],
        elements=[None, INT64, INT64, INT64], sorted=0,
        axis=place if len(shape) > 1 else None,
    )  # fmt: skip
    results = (b.cast(y, x.dtype), b.typed(places, 1), b.typed(counts, 2) if count == 3 else counts)
    return results[:count]


@lower("TopKV2", to="onnx")
def top_k_v2(b: Builder, node: Node, x: Tensor, k: Tensor) -> tuple[Tensor, ...]:
    """Sorted, which is always within the promise."""
    return _top(b, x, b.reshaped(b.index(k), (1,)))


@lower("TopK", to="onnx")
def top_k(b: Builder, node: Node, x: Tensor, *, k: int) -> tuple[Tensor, ...]:
    return _top(b, x, b.ints([k], "k"))


def _top(b: Builder, x: Tensor, k: Tensor) -> tuple[Tensor, ...]:
    shape = b.result_spec().shape
    values, places = b.step_ports("TopK", x, k, shapes=[shape, shape], elements=[None, INT64], axis=-1)
    return values, b.typed(places, 1)


# --- segments -----------------------------------------------------------------------------------------------


def _inner_sizes(b: Builder, x: Tensor) -> Tensor:
    """The sizes of x but for the first, int64 [rank - 1]."""
    shape = shape_of(x, "x")
    if None not in shape[1:]:
        return b.ints([n or 0 for n in shape[1:]], "inner")
    return b.sliced(b.sizes_of(x), [1], [END], [0], shape=(len(shape) - 1,))


@lower("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin", to="onnx")
def unsorted_segment(
    b: Builder, node: Node, x: Tensor, segments: Tensor, count: Tensor, *, _is_in_range: bool = False
) -> Tensor:
    """Rows with a negative number count nowhere: they are collected in one row more, which is cut off.

    Args:
        _is_in_range: a decomposition's word that no number is negative.
    """
    kind = node.op.removeprefix("UnsortedSegment")
    how = {"Sum": "add", "Prod": "mul"}.get(kind, kind.lower())
    require(how in ("add", "mul") or b.opset >= 18, "ScatterND takes max and min since opset 18 only")
    require(len(shape_of(segments, "the segment numbers")) == 1, "a vector of segment numbers is needed")
    element, x = x.dtype, b.cast(x, combining(x.dtype))
    limits = np.finfo(element.numpy()) if element.is_floating else np.iinfo(element.numpy())
    # The neutral element is also what TensorFlow gives a segment without rows.
    start = {"add": 0, "mul": 1, "max": limits.min, "min": limits.max}[how]
    total = Term(b, b.reshaped(b.index(count), (1,)))
    segments = b.index(segments)
    shape = shape_of(x, "x")
    known = int(number(count, "the number of segments")) if count.is_constant else None
    if not _is_in_range:
        # ScatterND would count a negative number from the end.
        segments = _behind_the_last(b, segments, total)
    height = total if _is_in_range else total + 1
    rows = b.filled(b.joined(height.tensor, _inner_sizes(b, x)), start, x.dtype)
    y = b.step("ScatterND", rows, b.unsqueezed(segments, [1]), x, shape=(None, *shape[1:]), reduction=how)
    if not _is_in_range:
        zero = b.ints([0], "zero")
        y = b.step("Slice", y, zero, total.tensor, zero, shape=(known, *shape[1:]))
    return b.result(b.cast(y, element))


def _behind_the_last(b: Builder, segments: Tensor, total: Term) -> Tensor:
    """Segment numbers, `total` in place of those below 0."""
    if segments.is_constant and total.tensor.is_constant:
        numbers = np.asarray(segments.array())
        return b.const(np.where(numbers < 0, total.tensor.array(), numbers), "places")
    return choose(Term(b, segments) < 0, total, segments).tensor


# ---- Writing to places, and taking apart and putting together by places.


def _scattered(b: Builder, x: Tensor, places: Tensor, updates: Tensor, kind: str) -> Tensor:
    # What is taken away is added with the other sign.
    how = {"Update": "none", "Sub": "add"}.get(kind, kind.lower())
    require(how in ("none", "add") or b.opset >= 18, "ScatterND takes max and min since opset 18 only")
    if how == "none":
        return b.emit("ScatterND", x, places, updates)
    # ScatterND that combines has fewer types than one that writes.
    run = combining(x.dtype)
    rows = Term(b, b.cast(updates, run))
    rows = -rows if kind == "Sub" else rows
    y = b.step("ScatterND", b.cast(x, run), places, rows.tensor, shape=x.shape, reduction=how)
    return b.result(b.cast(y, x.dtype))


@lower("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", to="onnx")
@lower("TensorScatterMax", "TensorScatterMin", "ScatterNdNonAliasingAdd", to="onnx")
def tensor_scatter(b: Builder, node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    require(shape_of(indices, "the indices")[-1:] != (0,), "the indices are empty")
    kind = node.op.removeprefix("TensorScatter") if node.op.startswith("Tensor") else "Add"
    return _scattered(b, x, b.index(indices), updates, kind)


@lower("InplaceUpdate", "InplaceAdd", "InplaceSub", to="onnx")
def inplace(b: Builder, node: Node, x: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """Row numbers wrap around."""
    first = Term(b, b.sliced(b.sizes_of(x), [0], [1], [0], shape=(1,)))
    places = Term(b, b.index(rows)).apply("Mod", first)
    return _scattered(b, x, places.unsqueezed(1).tensor, values, node.op.removeprefix("Inplace"))


@lower("DynamicPartition", to="onnx")
def dynamic_partition(
    b: Builder, node: Node, x: Tensor, partitions: Tensor, *, num_partitions: int
) -> tuple[Tensor, ...]:
    lead = len(shape_of(partitions, "the partitions"))
    rest = shape_of(x, "x")[lead:]
    require(0 < num_partitions < 1 << 16, f"{num_partitions} partitions")
    if lead != 1:
        partitions = b.reshaped(partitions, (None,))
        sizes = b.sliced(b.sizes_of(x), [lead], [END], [0], shape=(len(rest),))
        x = b.step("Reshape", x, b.joined(b.ints([-1]), sizes), shape=(None, *rest))
    numbers = Term(b, b.index(partitions))
    return tuple(
        b.result(b.step("Compress", x, numbers.equals(n).tensor, shape=(None, *rest), axis=0), n)
        for n in range(num_partitions)
    )


@lower("DynamicStitch", "ParallelDynamicStitch", to="onnx")
def dynamic_stitch(b: Builder, node: Node, *operands: Tensor) -> Tensor:
    """Later rows over earlier ones: each list of places is written in turn, one behind the other."""
    half = len(operands) // 2
    require(half > 0 and len(operands) == 2 * half, "it needs as many lists of indices as of rows")
    places = [b.reshaped(b.index(i), (None,)) for i in operands[:half]]
    rank = len(shape_of(operands[0], "the indices"))
    rest = shape_of(operands[half], "the rows")[rank:]
    inner = b.sliced(b.sizes_of(operands[half]), [rank], [END], [0], shape=(len(rest),))
    known = [i.array() for i in operands[:half] if i.is_constant]
    if len(known) == half:
        highest = max((int(i.max(initial=-1)) for i in known), default=-1)
        size = b.ints([highest + 1], "size")
    else:
        # With -1 the greatest of no places is there, too.
        every = b.step("Concat", *places, b.ints([-1]), shape=(None,), axis=0)
        size = (Term(b, every).reduced("ReduceMax", 0, keep=True) + 1).tensor
    y = b.filled(b.joined(size, inner), 0, operands[half].dtype)
    for where, rows in zip(places, operands[half:], strict=True):
        flat = b.step("Reshape", rows, b.joined(b.ints([-1]), inner), shape=(None, *rest))
        y = b.step("ScatterND", y, b.unsqueezed(where, [1]), flat, shape=y.shape)
    return b.result(y)


@lower("UnravelIndex", to="onnx")
def unravel_index(b: Builder, node: Node, x: Tensor, sizes: Tensor) -> Tensor:
    """Coordinates of row-major positions, a row of the result for each axis."""
    dims = b.elements(sizes)
    require(dims is not None and None not in dims, "the sizes are computed while the model runs")
    lengths = [int(n or 0) for n in dims or ()]
    require(0 not in lengths, "a size is 0")
    steps = [int(np.prod(lengths[a + 1 :], dtype=np.int64)) for a in range(len(lengths))]
    rank = len(shape_of(x, "the positions"))
    column = (len(lengths), *(1,) * rank)
    at = Term(b, b.index(x)).unsqueezed(0) / np.reshape(steps, column)
    y = at.apply("Mod", np.reshape(lengths, column))
    return b.result(b.cast(y.tensor, x.dtype))
