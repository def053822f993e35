"""Sparse tensors, three tensors that say where, what and how large: made, cut, joined, as messages.

indices int64 [m,r] in row order, values [m], shape int64 [r].
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import BOOL, INT64, STRING, DType, TensorSpec
from thinflow.ops._shapes import Dim, normalize_axis, rank_of
from thinflow.ops._tensor_proto import parsed_tensor, tensor_content
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array


def _places(indices: Array, shape: Array) -> Array:
    """Row-major positions of the indices, which must lie inside the shape."""
    require(indices.ndim == 2 and indices.shape[1] == shape.size, "indices and shape differ in rank")
    inside = (indices >= 0) & (indices < shape)
    require(bool(inside.all()), f"an index lies outside the shape {shape.tolist()}")
    # Row-major: the last axis has stride 1, each other the product of the sizes behind it.
    strides = np.cumprod(np.concatenate([[1], shape[:0:-1]]))[::-1][: shape.size]
    return np.asarray((indices * strides).sum(1, dtype=np.int64))


@op("SparseTensorDenseMatMul")
class SparseTensorDenseMatMul(OpDef):
    """y = a @ b for a sparse a.

    indices [m,2], values [m], shape [2], b [k,n] -> y [rows,n]; adjoint_* conjugate-transpose.
    """

    @staticmethod
    def infer(
        indices: TensorSpec,
        values: TensorSpec,
        shape: TensorSpec,
        b: TensorSpec,
        *,
        adjoint_a: bool = False,
        adjoint_b: bool = False,
    ) -> TensorSpec:
        known: tuple[Dim, ...] = shape.elements if shape.elements is not None else (None, None)
        columns = rank_of(b, 2, "b")[0 if adjoint_b else 1]
        rows = known[1 if adjoint_a else 0] if len(known) == 2 else None
        return TensorSpec(values.dtype if b.dtype is None else b.dtype, (rows, columns))

    @staticmethod
    def kernel(
        indices: Array,
        values: Array,
        shape: Array,
        b: Array,
        *,
        adjoint_a: bool = False,
        adjoint_b: bool = False,
    ) -> Array:
        require(shape.size == 2, "a is no matrix")
        _places(indices, shape)
        # The transpose of a sparse matrix is its indices the other way round.
        rows, columns = indices[:, ::-1].T if adjoint_a else indices.T
        height, width = shape[::-1] if adjoint_a else shape
        dense = np.conj(b.T) if adjoint_b else b
        require(dense.shape[0] == width, f"inner sizes differ: {width} and {dense.shape[0]}")
        y = np.zeros((height, dense.shape[1]), b.dtype)
        factors = np.conj(values) if adjoint_a else values
        np.add.at(y, rows, factors[:, None] * dense[columns])
        return y

    @staticmethod
    def cost(y: TensorSpec, indices: TensorSpec, values: TensorSpec, *rest: TensorSpec) -> Cost:
        assert y.shape is not None
        macs = (values.size or 0) * (y.shape[1] or 0)
        return Cost(flops=2 * macs, macs=macs)


@op("SparseReshape")
class SparseReshape(OpDef):
    """(indices, shape) of the same values in another shape, of which one size may be -1.

    indices [m,r], shape [r], new shape [s] -> [m,s], [s].
    """

    num_outputs = 2

    @staticmethod
    def infer(indices: TensorSpec, shape: TensorSpec, new: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        (rank,) = rank_of(new, 1, "the new shape")
        return TensorSpec(INT64, (rank_of(indices, 2, "indices")[0], rank)), TensorSpec(INT64, (rank,))

    @staticmethod
    def kernel(indices: Array, shape: Array, new: Array) -> tuple[Array, Array]:
        sizes = new.astype(np.int64)
        total, open_axes = int(np.prod(shape)), np.flatnonzero(sizes == -1)
        require(len(open_axes) <= 1, "only one size may be -1")
        rest = int(np.prod(sizes[sizes != -1]))
        if len(open_axes):
            require(rest > 0 and total % rest == 0, f"{total} elements do not divide by {rest}")
            sizes[open_axes] = total // rest
        require(int(np.prod(sizes)) == total, f"{total} elements do not fit {new.tolist()}")
        places = np.unravel_index(_places(indices, shape), sizes.tolist()) if len(indices) else ()
        found = np.stack(places, -1) if len(places) else np.zeros((len(indices), sizes.size))
        return found.astype(np.int64), sizes


@op("SparseReorder")
class SparseReorder(OpDef):
    """(indices, values) in row order.   indices [m,r], values [m], shape [r] -> like both."""

    num_outputs = 2

    @staticmethod
    def infer(indices: TensorSpec, values: TensorSpec, shape: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return indices.with_shape(indices.shape), values.with_shape(values.shape)

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array) -> tuple[Array, Array]:
        order = np.argsort(_places(indices, shape), kind="stable")
        return indices[order], values[order]


@op("SparseFillEmptyRows")
class SparseFillEmptyRows(OpDef):
    """(indices, values, is empty, where values went) with the default at column 0 of each row without values.

    indices [m,r], values [m], shape [r], default [] -> [p,r], [p], bool [rows], int64 [m].
    """

    num_outputs = 4

    @staticmethod
    def infer(
        indices: TensorSpec, values: TensorSpec, shape: TensorSpec, default: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        count, rank = rank_of(indices, 2, "indices")
        rows = (shape.elements or (None,))[0]
        return (
            TensorSpec(INT64, (None, rank)),
            TensorSpec(values.dtype if default.dtype is None else default.dtype, (None,)),
            TensorSpec(BOOL, (rows,)),
            TensorSpec(INT64, (count,)),
        )

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, default: Array) -> tuple[Array, ...]:
        _places(indices, shape)
        empty = np.ones(int(shape[0]), bool)
        empty[indices[:, 0]] = False
        added = np.zeros((int(empty.sum()), indices.shape[1]), np.int64)
        added[:, 0] = np.flatnonzero(empty)
        every = np.concatenate([indices, added])
        # Stable: within a row the given order stays.
        order = np.argsort(every[:, 0], kind="stable")
        filled = np.concatenate([values, np.full(len(added), default, values.dtype)])
        went = np.empty(len(every), np.int64)
        went[order] = np.arange(len(every))
        return every[order], filled[order], empty, went[: len(indices)]


# ---- Sparse tensors cut and joined: the values stay, their places change.
#
# indices int64 [m,r] in row order, values [m], shape int64 [r].


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


# ---- Sparse tensors as messages: three strings for indices, values and shape.


def _words(*messages: bytes) -> Array:
    y: Array = np.empty(len(messages), object)
    y[:] = messages
    return y


def _only_strings(out_type: DType) -> None:
    require(out_type is STRING, f"sparse tensors are stored as strings, not as {out_type}")


@op("SerializeSparse")
class SerializeSparse(OpDef):
    """A sparse tensor as three messages [3]."""

    @staticmethod
    def infer(indices: TensorSpec, values: TensorSpec, shape: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, (3,))

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, *, out_type: DType = STRING) -> Array:
        _only_strings(out_type)
        return _words(tensor_content(indices), tensor_content(values), tensor_content(shape))


@op("SerializeManySparse")
class SerializeManySparse(OpDef):
    """The rows of a sparse tensor as three messages each, [rows,3]."""

    @staticmethod
    def infer(indices: TensorSpec, values: TensorSpec, shape: TensorSpec) -> TensorSpec:
        count = (shape.elements or (None,))[0]
        return TensorSpec(STRING, (count, 3))

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, *, out_type: DType = STRING) -> Array:
        _only_strings(out_type)
        _places(indices, shape)
        require(shape.size >= 2, "rank 2 or more is needed")
        # A shape may claim any number of rows, whatever is stored: each would cost memory.
        require(int(shape[0]) <= 1 << 24, f"there are {int(shape[0])} rows")
        y: Array = np.empty((int(shape[0]), 3), object)
        for row in range(len(y)):
            own = indices[:, 0] == row
            parts = indices[own, 1:], values[own], shape[1:]
            y[row] = _words(*(tensor_content(np.ascontiguousarray(p)) for p in parts))
        return y


def _deserialized(messages: Array, element: DType) -> Triple:
    """Sparse tensors [..., 3] as one, with the leading axes in front."""
    require(messages.ndim >= 1 and messages.shape[-1] == 3, "three messages make a sparse tensor")
    lead = messages.shape[:-1]
    parts: list[Triple] = []
    for row in messages.reshape(-1, 3).tolist():
        kinds, arrays = zip(*(parsed_tensor(m) for m in row), strict=True)
        require(kinds == (INT64, element, INT64), f"the messages hold {', '.join(map(str, kinds))}")
        _places(arrays[0], arrays[2])
        parts.append(arrays)
    if not lead:
        return parts[0]
    require(bool(parts), "there is nothing to put together")
    require(len({len(p[2]) for p in parts}) == 1, "the sparse tensors differ in rank")
    places = np.indices(lead).reshape(len(lead), -1).T
    joined = [
        np.concatenate([np.broadcast_to(at, (len(i), len(lead))), i], 1)
        for at, (i, _, _) in zip(places, parts, strict=True)
    ]
    # Rows of different shapes fit into the largest.
    inner = np.max([shape for _, _, shape in parts], axis=0)
    shape = np.concatenate([np.array(lead, np.int64), inner])
    return np.concatenate(joined).astype(np.int64), np.concatenate([v for _, v, _ in parts]), shape


@op("DeserializeSparse", "DeserializeManySparse")
class DeserializeSparse(OpDef):
    """The sparse tensors in messages [...,3] as one, which has the leading axes in front."""

    num_outputs = 3

    @staticmethod
    def infer(messages: TensorSpec, *, dtype: DType) -> tuple[TensorSpec, ...]:
        return TensorSpec(INT64, (None, None)), TensorSpec(dtype, (None,)), TensorSpec(INT64, (None,))

    @staticmethod
    def kernel(messages: Array, *, dtype: DType) -> Triple:
        return _deserialized(messages, dtype)
