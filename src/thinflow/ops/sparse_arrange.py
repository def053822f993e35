"""Sparse tensors cut and joined: the values stay, their places change.

indices int64 [m,r] in row order, values [m], shape int64 [r].
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import INT64, TensorSpec
from thinflow.ops._shapes import normalize_axis, rank_of
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.sparse import _places
from thinflow.typing import Array

Triple = tuple[Array, Array, Array]


def _rank(indices: TensorSpec, shape: TensorSpec) -> int | None:
    columns, size = rank_of(indices, 2, "indices")[1], rank_of(shape, 1, "shape")[0]
    return size if columns is None else columns


def triple_spec(values: TensorSpec, rank: int | None) -> tuple[TensorSpec, ...]:
    """Specs of a sparse tensor with any number of values."""
    return TensorSpec(INT64, (None, rank)), TensorSpec(values.dtype, (None,)), TensorSpec(INT64, (rank,))


@op("SparseSlice")
class SparseSlice(OpDef):
    """The part of a sparse tensor from start [r], of size [r] or as much as there is."""

    num_outputs = 3

    @staticmethod
    def infer(
        indices: TensorSpec, values: TensorSpec, shape: TensorSpec, start: TensorSpec, size: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        return triple_spec(values, _rank(indices, shape))

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, start: Array, size: Array) -> Triple:
        _places(indices, shape)
        require(start.shape == size.shape == shape.shape, "start, size and shape differ in rank")
        require(bool((start >= 0).all() and (size >= 0).all()), "start and size cannot be negative")
        inside = ((indices >= start) & (indices - start < size)).all(1)
        # A slice that starts beyond the end is empty, not an error.
        left = np.maximum(np.minimum(size, shape - start), 0)
        return indices[inside] - start, values[inside], left


@op("SparseConcat")
class SparseConcat(OpDef):
    """N sparse tensors joined along concat_dim.   N indices, N values, N shapes -> a sparse tensor."""

    num_outputs = 3

    @staticmethod
    def infer(*inputs: TensorSpec, N: int, concat_dim: int) -> tuple[TensorSpec, ...]:
        require(len(inputs) == 3 * N, f"{len(inputs)} inputs for {N} sparse tensors")
        return triple_spec(inputs[N], _rank(inputs[0], inputs[2 * N]))

    @staticmethod
    def kernel(*inputs: Array, N: int, concat_dim: int) -> Triple:
        indices, values, shapes = inputs[:N], inputs[N : 2 * N], inputs[2 * N :]
        axis = normalize_axis(concat_dim, shapes[0].size)
        total, moved = shapes[0].copy(), list[Array]()
        total[axis] = 0
        for places, shape in zip(indices, shapes, strict=True):
            _places(places, shape)
            same = shape.shape == total.shape and bool(
                (np.delete(shape, axis) == np.delete(total, axis)).all()
            )
            require(same, f"shapes {[s.tolist() for s in shapes]} differ off axis {axis}")
            place = places.copy()
            place[:, axis] += total[axis]
            total[axis] += shape[axis]
            moved.append(place)
        joined = np.concatenate(moved)
        # Joined along another axis than the first, the parts interleave in row order.
        order = np.argsort(_places(joined, total), kind="stable")
        return joined[order], np.concatenate(values)[order], total


@op("SparseSplit")
class SparseSplit(OpDef):
    """num_split parts along split_dim [] -> all indices, all values, all shapes.

    What does not divide evenly makes the first parts one longer.
    """

    num_outputs = ""

    @staticmethod
    def infer(
        split_dim: TensorSpec, indices: TensorSpec, values: TensorSpec, shape: TensorSpec, *, num_split: int
    ) -> tuple[TensorSpec, ...]:
        one = triple_spec(values, _rank(indices, shape))
        return tuple(spec for spec in one for _ in range(num_split))

    @staticmethod
    def kernel(
        split_dim: Array, indices: Array, values: Array, shape: Array, *, num_split: int
    ) -> tuple[Array, ...]:
        _places(indices, shape)
        axis = normalize_axis(int(split_dim), shape.size)
        total = int(shape[axis])
        require(1 <= num_split <= total, f"{num_split} parts of an axis of {total}")
        sizes = [total // num_split + (i < total % num_split) for i in range(num_split)]
        ends = np.cumsum([0, *sizes])
        parts = []
        for first, size in zip(ends[:-1], sizes, strict=True):
            inside = (indices[:, axis] >= first) & (indices[:, axis] < first + size)
            place, part_shape = indices[inside].copy(), shape.copy()
            place[:, axis] -= first
            part_shape[axis] = size
            parts.append((place, values[inside], part_shape))
        return tuple(part for column in zip(*parts, strict=True) for part in column)
