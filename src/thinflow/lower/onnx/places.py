"""Sparse and ragged tensors: steps on places in int64, and the rules made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import INT64, DType
from thinflow.lower import ragged, sparse
from thinflow.lower.building import Dims
from thinflow.lower.onnx import kernels
from thinflow.lower.onnx.builder import END, Builder, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.places import Places
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_CODES = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "mod": "Mod",
    "most": "Max",
    "least": "Min",
    "less": "Less",
    "same": "Equal",
    "both": "And",
}


class Steps(Places[Tensor]):
    """Places as ONNX counts them."""

    b: Builder
    index = INT64

    def vector(self, numbers: Iterable[int]) -> Tensor:
        return self.b.ints(numbers, "places")

    def number(self, number: int) -> Tensor:
        return self.b.int64(number, "place")

    def cast(self, x: Tensor, element: DType) -> Tensor:
        return self.b.cast(x, element)

    def binary(self, code: str, x: Tensor, y: Tensor) -> Tensor:
        return Term(self.b, x).apply(_CODES[code], y).tensor

    def choose(self, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return choose(Term(self.b, condition), Term(self.b, x), y).tensor

    def size(self, x: Tensor, axis: int = 0) -> Tensor:
        known = shape_of(x)[axis]
        if known is not None:
            return self.number(known)
        return self.b.reshaped(self.part(self.b.sizes_of(x), axis, axis + 1), ())

    def counting(self, count: Tensor) -> Tensor:
        known = _known(count)
        if known is not None:
            return self.b.const(np.arange(known, dtype=np.int64), "counting")
        return self.b.step("Range", self.number(0), count, self.number(1), shape=(None,))

    def filled(self, count: Tensor, value: Tensor) -> Tensor:
        return self.b.step(
            "Expand", self.b.reshaped(value, (1,)), self.b.reshaped(count, (1,)), shape=(_known(count),)
        )

    def gathered(self, rows: Tensor, places: Tensor) -> Tensor:
        return Term(self.b, rows).gathered(places).tensor

    def added_up(self, rows: Tensor, places: Tensor, count: Tensor) -> Tensor:
        run = kernels.combining(rows.dtype)
        y = self._scattered(self.b.cast(rows, run), places, count, reduction="add")
        return self.b.cast(y, rows.dtype)

    def put(self, rows: Tensor, places: Tensor, count: Tensor) -> Tensor:
        return self._scattered(rows, places, count)

    def _scattered(self, rows: Tensor, places: Tensor, count: Tensor, **options: Any) -> Tensor:
        inner = [self.size(rows, a) for a in range(1, len(shape_of(rows)))]
        known = _known(count)
        zeros = self.b.filled(
            self.vector_of([count, *inner]), 0, rows.dtype, shape=(known, *shape_of(rows)[1:])
        )
        return self.b.step(
            "ScatterND", zeros, self.b.unsqueezed(places, [1]), rows, shape=zeros.shape, **options
        )

    def sums(self, x: Tensor, *, exclusive: bool = False) -> Tensor:
        return self.b.step("CumSum", x, self.number(0), shape=x.shape, exclusive=int(exclusive))

    def largest(self, x: Tensor) -> Tensor:
        return self.b.reduce("ReduceMax", x, [0])

    def order(self, x: Tensor) -> Tensor:
        count = self.b.reshaped(self.size(x), (1,))
        shapes, elements = [x.shape] * 2, [None, INT64]
        return self.b.step_ports("TopK", x, count, shapes=shapes, elements=elements, axis=0, largest=0)[1]

    def where(self, mask: Tensor) -> Tensor:
        return self.b.squeezed(self.b.step("NonZero", mask, shape=(1, None), element=INT64), [0])

    def joined(self, parts: Sequence[Tensor], axis: int = 0) -> Tensor:
        if all(t.is_constant for t in parts):
            return self.b.const(np.concatenate([t.array() for t in parts], axis), "joined", parts[0].dtype)
        if len(parts) == 1:
            return parts[0]
        lengths = [shape_of(t)[axis] for t in parts]
        shape = list(shape_of(parts[0]))
        shape[axis] = None if None in lengths else sum(n or 0 for n in lengths)
        return self.b.step("Concat", *parts, shape=tuple(shape), axis=axis)

    def part(self, x: Tensor, start: int, end: int | None, axis: int = 0) -> Tensor:
        sizes = list(shape_of(x))
        known = sizes[axis]
        if known is not None:
            sizes[axis] = len(range(known)[start:end])
        elif end is not None and 0 <= start <= end:
            sizes[axis] = end - start
        return self.b.sliced(x, [start], [END if end is None else end], [axis], shape=tuple(sizes))

    def head(self, rows: Tensor, count: Tensor) -> Tensor:
        shape = (None, *shape_of(rows)[1:])
        zero = self.b.ints([0])
        return self.b.step("Slice", rows, zero, self.b.reshaped(count, (1,)), zero, shape=shape)

    def reshaped(self, x: Tensor, shape: Sequence[int | None]) -> Tensor:
        return self.b.reshaped(x, shape)

    def shaped(self, x: Tensor, sizes: Sequence[Tensor], shape: Dims) -> Tensor:
        # A size of 0 means empty, as in TensorFlow.
        return self.b.step("Reshape", x, self.vector_of(sizes), shape=shape, allowzero=1)

    def result(self, x: Tensor, port: int = 0) -> Tensor:
        return self.b.result(self.b.typed(x, port), port)


def _known(count: Tensor) -> int | None:
    return int(np.asarray(count.array()).reshape(())) if count.is_constant else None


@lower("SparseReshape", to="onnx")
def sparse_reshape(b: Builder, node: Node, indices: Tensor, shape: Tensor, new: Tensor) -> tuple[Tensor, ...]:
    return sparse.reshaped(Steps(b), node, indices, shape, new)


@lower("SparseFillEmptyRows", to="onnx")
def sparse_fill_empty_rows(
    b: Builder, node: Node, indices: Tensor, values: Tensor, shape: Tensor, default: Tensor
) -> tuple[Tensor, ...]:
    return sparse.filled(Steps(b), indices, values, shape, default)


@lower("RaggedFillEmptyRows", to="onnx")
def ragged_fill_empty_rows(
    b: Builder, node: Node, rows: Tensor, values: Tensor, count: Tensor, default: Tensor
) -> tuple[Tensor, ...]:
    return ragged.filled(Steps(b), rows, values, count, default)


@lower("RaggedTensorToTensor", to="onnx")
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


@lower("RaggedTensorToSparse", to="onnx")
def ragged_tensor_to_sparse(b: Builder, node: Node, *inputs: Tensor) -> tuple[Tensor, ...]:
    return ragged.to_sparse(Steps(b), inputs[:-1], inputs[-1])


@lower("RaggedGather", to="onnx")
def ragged_gather(b: Builder, node: Node, *inputs: Tensor) -> tuple[Tensor, ...]:
    return ragged.gathered(Steps(b), inputs[:-2], inputs[-2], inputs[-1])


@lower("RaggedBincount", to="onnx")
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


@lower("SparseBincount", to="onnx")
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


@lower("SparseReorder", to="onnx")
def sparse_reorder(
    b: Builder, node: Node, indices: Tensor, values: Tensor, shape: Tensor
) -> tuple[Tensor, ...]:
    return sparse.reordered(Steps(b), indices, values)


@lower("SparseReduceSum", to="onnx")
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
