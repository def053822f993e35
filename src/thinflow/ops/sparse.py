"""Sparse tensors: three tensors that say where, what and how large.

indices int64 [m,r] in row order, values [m], shape int64 [r].
"""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import BOOL, INT64, TensorSpec
from thinflow.ops._shapes import Dim, rank_of
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
