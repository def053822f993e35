"""Writing to places, and taking apart and putting together by places."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.lower.onnx.builder import END, Builder, require, shape_of
from thinflow.lower.onnx.terms import Term
from thinflow.lower.rules import lower
from thinflow.onnx.operators import combining
from thinflow.onnx.program import Tensor


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
