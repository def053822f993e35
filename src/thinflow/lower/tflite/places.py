"""Sparse and ragged tensors: steps on places in int32, and the rules made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, INT32, INT64, DType
from thinflow.lower import ragged, sparse
from thinflow.lower.building import Dims
from thinflow.lower.places import Places
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require, shape_of
from thinflow.lower.tflite.program import Tensor

_CODES: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("ADD", np.add),
    "sub": ("SUB", np.subtract),
    "mul": ("MUL", np.multiply),
    "div": ("DIV", np.floor_divide),
    "mod": ("FLOOR_MOD", np.mod),
    "most": ("MAXIMUM", np.maximum),
    "least": ("MINIMUM", np.minimum),
    "less": ("LESS", np.less),
    "same": ("EQUAL", np.equal),
    "both": ("LOGICAL_AND", np.logical_and),
}
_TRUTHS = ("less", "same", "both")


class Steps(Places[Tensor]):
    """Places as LiteRT counts them. What is counted fits into memory, and so into 32 bits."""

    b: Builder
    index = INT32

    def vector(self, numbers: Iterable[int]) -> Tensor:
        return self.b.ints(numbers, "places")

    def number(self, number: int) -> Tensor:
        return self.b.const(np.int32(number), "place")

    def cast(self, x: Tensor, element: DType) -> Tensor:
        return self.b.index(x) if element is INT32 else self.b.cast(x, element)

    def binary(self, code: str, x: Tensor, y: Tensor) -> Tensor:
        name, function = _CODES[code]
        if x.is_constant and y.is_constant and x.dtype is y.dtype:
            return self.b.const(function(x.array(), y.array()), name.lower())
        element = BOOL if code in _TRUTHS else x.dtype
        return self.b.step(name, x, y, shape=_broadcast(x, y), element=element)

    def choose(self, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        if condition.is_constant and condition.shape == ():
            return x if condition.array() else y
        shape = _broadcast(condition, x, y)
        return self.b.step("SELECT_V2", condition, x, y, shape=shape, element=x.dtype)

    def size(self, x: Tensor, axis: int = 0) -> Tensor:
        shape = shape_of(x)
        known = shape[axis]
        if known is not None:
            return self.number(known)
        sizes = self.b.step("SHAPE", x, shape=(len(shape),), element=INT32, out_type=INT32)
        return self.b.reshaped(self.part(sizes, axis, axis + 1), ())

    def counting(self, count: Tensor) -> Tensor:
        known = _known(count)
        if known is not None:
            return self.b.const(np.arange(known, dtype=np.int32), "counting")
        return self.b.step("RANGE", self.number(0), count, self.number(1), shape=(None,))

    def filled(self, count: Tensor, value: Tensor) -> Tensor:
        sizes = self.b.reshaped(count, (1,))
        return self.b.step(
            "FILL", sizes, self.b.reshaped(value, ()), shape=(_known(count),), element=value.dtype
        )

    def gathered(self, rows: Tensor, places: Tensor) -> Tensor:
        shape = (shape_of(places)[0], *shape_of(rows)[1:])
        return self.b.step("GATHER", rows, places, shape=shape, axis=0)

    def added_up(self, rows: Tensor, places: Tensor, count: Tensor) -> Tensor:
        shape = (_known(count), *shape_of(rows)[1:])
        return self.b.step("UNSORTED_SEGMENT_SUM", rows, places, count, shape=shape)

    def put(self, rows: Tensor, places: Tensor, count: Tensor) -> Tensor:
        inner = [self.size(rows, a) for a in range(1, len(shape_of(rows)))]
        sizes = self.vector_of([count, *inner])
        shape = (_known(count), *shape_of(rows)[1:])
        places = self.b.reshaped(places, (None, 1))
        return self.b.step("SCATTER_ND", places, rows, sizes, shape=shape, element=rows.dtype)

    def sums(self, x: Tensor, *, exclusive: bool = False) -> Tensor:
        return self.b.step("CUMSUM", x, self.number(0), shape=x.shape, exclusive=exclusive, reverse=False)

    def largest(self, x: Tensor) -> Tensor:
        return self.b.step("REDUCE_MAX", x, self.b.ints([0], "axis"), shape=(), keep_dims=False)

    def order(self, x: Tensor) -> Tensor:
        turned = self.binary("sub", self.b.scalar(0, x), x)
        shapes, elements = [x.shape] * 2, [x.dtype, INT32]
        return self.b.step_ports("TOPK_V2", turned, self.size(x), shapes=shapes, elements=elements)[1]

    def where(self, mask: Tensor) -> Tensor:
        found = self.b.step("WHERE", mask, shape=(None, 1), element=INT64)
        return self.b.index(self.b.reshaped(found, (None,)))

    def joined(self, parts: Sequence[Tensor], axis: int = 0) -> Tensor:
        if all(t.is_constant for t in parts):
            return self.b.const(np.concatenate([t.array() for t in parts], axis), "joined", parts[0].dtype)
        shapes = [shape_of(t) for t in parts]
        lengths = [s[axis] for s in shapes]
        shape = list(shapes[0])
        shape[axis] = None if None in lengths else sum(n or 0 for n in lengths)
        return self.b.step("CONCATENATION", *parts, shape=tuple(shape), axis=axis)

    def part(self, x: Tensor, start: int, end: int | None, axis: int = 0) -> Tensor:
        shape = shape_of(x)
        if x.is_constant:
            index = (*(slice(None),) * axis, slice(start, end))
            return self.b.const(np.asarray(x.array())[index], "part", x.dtype)
        kept = (1 << len(shape)) - 1 - (1 << axis)
        bounds = [[0] * len(shape), [0] * len(shape), [1] * len(shape)]
        bounds[0][axis], bounds[1][axis] = start, 0 if end is None else end
        sizes = list(shape)
        length = shape[axis]
        sizes[axis] = _length(length, start, end)
        return self.b.step(
            "STRIDED_SLICE",
            x,
            *(self.b.ints(n, "bound") for n in bounds),
            shape=tuple(sizes),
            begin_mask=kept,
            end_mask=kept | (1 << axis if end is None else 0),
        )

    def head(self, rows: Tensor, count: Tensor) -> Tensor:
        shape_of(rows, "the rows", 1)
        start, step = self.b.ints([0], "start"), self.b.ints([1], "step")
        return self.b.step(
            "STRIDED_SLICE", rows, start, self.b.reshaped(count, (1,)), step, shape=(_known(count),)
        )

    def reshaped(self, x: Tensor, shape: Sequence[int | None]) -> Tensor:
        return self.b.reshaped(x, shape)

    def shaped(self, x: Tensor, sizes: Sequence[Tensor], shape: Dims) -> Tensor:
        return self.b.step("RESHAPE", x, self.vector_of(sizes), shape=shape)

    def result(self, x: Tensor, port: int = 0) -> Tensor:
        spec = self.b.result_spec(port)
        x = x if spec.dtype is None else self.b.cast(x, spec.dtype)
        open_sizes = x.shape is None or None in x.shape
        if open_sizes and spec.shape is not None and not x.is_constant:
            x.shape = _refined(x.shape, spec.shape)
        return x


def _known(count: Tensor) -> int | None:
    return int(np.asarray(count.array()).reshape(())) if count.is_constant else None


def _length(length: int | None, start: int, end: int | None) -> int | None:
    if length is None:
        return end - start if end is not None and 0 <= start <= end else None
    return len(range(length)[start:end])


def _broadcast(*operands: Tensor) -> Dims:
    """What shapes broadcast to; of sizes that are not known one is taken that may turn out to be 1."""
    shapes = [shape_of(t) for t in operands]
    rank = max(map(len, shapes))
    sizes = zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes), strict=True)
    return tuple(next((n for n in own if n not in (1, None)), None if None in own else 1) for own in sizes)


def _refined(shape: Dims, known: Dims) -> Dims:
    if shape is None or known is None or len(shape) != len(known):
        return shape if known is None else known
    return tuple(b if a is None else a for a, b in zip(shape, known, strict=True))


@lower("SparseReshape", to="tflite")
def sparse_reshape(b: Builder, node: Node, indices: Tensor, shape: Tensor, new: Tensor) -> tuple[Tensor, ...]:
    return sparse.reshaped(Steps(b), node, indices, shape, new)


@lower("SparseFillEmptyRows", to="tflite")
def sparse_fill_empty_rows(
    b: Builder, node: Node, indices: Tensor, values: Tensor, shape: Tensor, default: Tensor
) -> tuple[Tensor, ...]:
    return sparse.filled(Steps(b), indices, values, shape, default)


@lower("RaggedFillEmptyRows", to="tflite")
def ragged_fill_empty_rows(
    b: Builder, node: Node, rows: Tensor, values: Tensor, count: Tensor, default: Tensor
) -> tuple[Tensor, ...]:
    return ragged.filled(Steps(b), rows, values, count, default)


@lower("RaggedTensorToTensor", to="tflite")
def ragged_tensor_to_tensor(
    b: Builder,
    node: Node,
    shape: Tensor,
    values: Tensor,
    default: Tensor,
    *partitions: Tensor,
    row_partition_types: Sequence[str],
) -> Tensor:
    return ragged.to_tensor(Steps(b), shape, values, default, partitions, row_partition_types)


@lower("RaggedTensorToSparse", to="tflite")
def ragged_tensor_to_sparse(b: Builder, node: Node, *inputs: Tensor) -> tuple[Tensor, ...]:
    return ragged.to_sparse(Steps(b), inputs[:-1], inputs[-1])


@lower("RaggedGather", to="tflite")
def ragged_gather(b: Builder, node: Node, *inputs: Tensor) -> tuple[Tensor, ...]:
    return ragged.gathered(Steps(b), inputs[:-2], inputs[-2], inputs[-1])


@lower("DenseBincount", "Bincount", to="tflite")
def dense_bincount(
    b: Builder, node: Node, x: Tensor, size: Tensor, weights: Tensor, *, binary_output: bool = False
) -> Tensor:
    require(node.op == "DenseBincount" or shape_of(x) != (), "a scalar is not counted")
    x = b.reshaped(x, (None,)) if node.op == "Bincount" else x
    return ragged.counted(Steps(b), x, size, weights, binary=binary_output)


@lower("RaggedBincount", to="tflite")
def ragged_bincount(
    b: Builder,
    node: Node,
    splits: Tensor,
    values: Tensor,
    size: Tensor,
    weights: Tensor,
    *,
    binary_output: bool = False,
) -> Tensor:
    return ragged.counted_by_row(Steps(b), splits, values, size, weights, binary=binary_output)


@lower("SparseBincount", to="tflite")
def sparse_bincount(
    b: Builder,
    node: Node,
    indices: Tensor,
    values: Tensor,
    shape: Tensor,
    size: Tensor,
    weights: Tensor,
    *,
    binary_output: bool = False,
) -> Tensor:
    return ragged.counted_of_sparse(Steps(b), indices, values, shape, size, weights, binary=binary_output)


@lower("SparseReorder", to="tflite")
def sparse_reorder(
    b: Builder, node: Node, indices: Tensor, values: Tensor, shape: Tensor
) -> tuple[Tensor, ...]:
    return sparse.reordered(Steps(b), indices, values)


@lower("SparseReduceSum", to="tflite")
def sparse_reduce_sum(
    b: Builder,
    node: Node,
    indices: Tensor,
    values: Tensor,
    shape: Tensor,
    axes: Tensor,
    *,
    keep_dims: bool = False,
) -> Tensor:
    gone = b.axes(axes, shape_of(indices, "the indices", 2)[1], "the axes")
    return sparse.summed(Steps(b), indices, values, shape, gone, keep_dims=keep_dims)


@lower("SparseTensorDenseMatMul", to="tflite")
def sparse_tensor_dense_mat_mul(
    b: Builder,
    node: Node,
    indices: Tensor,
    values: Tensor,
    shape: Tensor,
    y: Tensor,
    *,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
) -> Tensor:
    shape_of(y, "the dense matrix", 2)
    dense = b.transposed(y, (1, 0)) if adjoint_b else y
    return sparse.product_with_dense(Steps(b), indices, values, shape, dense, is_turned=adjoint_a)
