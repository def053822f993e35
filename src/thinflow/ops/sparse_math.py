"""Arithmetic on sparse tensors. What is not stored counts as zero, or as absent where the op says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thinflow.ir.types import TensorSpec
from thinflow.ops._numeric import is_narrow, quiet, widen
from thinflow.ops._shapes import constant, normalize_axis, shape_from
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.sparse import Triple, _places, _rank, triple_spec
from thinflow.typing import Array


def _grouped(indices: Array, shape: Array, axes: Array) -> tuple[Array, list[int]]:
    """For each value the row-major place among the axes that stay; and those axes."""
    _places(indices, shape)
    gone = {normalize_axis(int(a), shape.size) for a in axes.ravel()}
    kept = [a for a in range(shape.size) if a not in gone]
    return _places(indices[:, kept], shape[kept]), kept


class _Reduce(OpDef):
    @staticmethod
    def infer(
        indices: TensorSpec,
        values: TensorSpec,
        shape: TensorSpec,
        axes: TensorSpec,
        *,
        keep_dims: bool = False,
    ) -> TensorSpec:
        dims, listed = shape_from(shape), constant(axes)
        if dims is None or listed is None:
            return TensorSpec(values.dtype)
        gone = {normalize_axis(int(a), len(dims)) for a in listed.ravel()}
        kept = [1 if a in gone else d for a, d in enumerate(dims) if keep_dims or a not in gone]
        return TensorSpec(values.dtype, tuple(kept))


@quiet
def _reduced(
    indices: Array, values: Array, shape: Array, axes: Array, keep_dims: bool, combine: Any
) -> Array:
    groups, kept = _grouped(indices, shape, axes)
    sizes = shape[kept]
    flat, present = _by_group(groups, values, int(np.prod(sizes)), combine)
    dims = [int(s) if a in kept else 1 for a, s in enumerate(shape) if keep_dims or a in kept]
    return np.where(present, flat, values.dtype.type(0)).astype(values.dtype).reshape(dims)


def _by_group(groups: Array, values: Array, count: int, combine: Any) -> tuple[Array, Array]:
    """Each group's values combined, in order, and whether it has any."""
    y, present = np.zeros(count, values.dtype), np.zeros(count, bool)
    # In the order of storage, in which TensorFlow adds: floats depend on it.
    for group, value in zip(groups.tolist(), values, strict=True):
        y[group] = combine(y[group], value) if present[group] else value
        present[group] = True
    return y, present


@op("SparseReduceSum")
class SparseReduceSum(_Reduce):
    """y = sums along the axes [k], dense."""

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, axes: Array, *, keep_dims: bool = False) -> Array:
        return _reduced(indices, values, shape, axes, keep_dims, np.add)


@op("SparseReduceMax")
class SparseReduceMax(_Reduce):
    """y = the largest stored values along the axes [k], dense; 0 where nothing is stored."""

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, axes: Array, *, keep_dims: bool = False) -> Array:
        return _reduced(indices, values, shape, axes, keep_dims, np.maximum)


class _ReduceSparse(OpDef):
    num_outputs = 3

    @staticmethod
    def infer(
        indices: TensorSpec,
        values: TensorSpec,
        shape: TensorSpec,
        axes: TensorSpec,
        *,
        keep_dims: bool = False,
    ) -> tuple[TensorSpec, ...]:
        return triple_spec(values, _rank(indices, shape) if keep_dims else None)


@quiet
def _reduced_sparse(
    indices: Array, values: Array, shape: Array, axes: Array, keep_dims: bool, combine: Any
) -> Triple:
    groups, kept = _grouped(indices, shape, axes)
    # Only groups that store something, so the cost does not grow with the shape.
    named, place = np.unique(groups, return_inverse=True)
    flat, _ = _by_group(place, values, len(named), combine)
    sizes = shape[kept]
    found = np.stack(np.unravel_index(named, sizes.tolist()), -1) if kept else np.zeros((len(named), 0))
    if not keep_dims:
        return found.astype(np.int64), flat, sizes
    whole = np.zeros((len(named), shape.size), np.int64)
    whole[:, kept] = found
    return whole, flat, np.array([s if a in kept else 1 for a, s in enumerate(shape)], np.int64)


@op("SparseReduceSumSparse")
class SparseReduceSumSparse(_ReduceSparse):
    """SparseReduceSum as a sparse tensor of those sums that have summands."""

    @staticmethod
    def kernel(
        indices: Array, values: Array, shape: Array, axes: Array, *, keep_dims: bool = False
    ) -> Triple:
        return _reduced_sparse(indices, values, shape, axes, keep_dims, np.add)


@op("SparseReduceMaxSparse")
class SparseReduceMaxSparse(_ReduceSparse):
    """SparseReduceMax as a sparse tensor."""

    @staticmethod
    def kernel(
        indices: Array, values: Array, shape: Array, axes: Array, *, keep_dims: bool = False
    ) -> Triple:
        return _reduced_sparse(indices, values, shape, axes, keep_dims, np.maximum)


@op("SparseSoftmax")
class SparseSoftmax(OpDef):
    """y = softmax of the stored values of each row along the last axis -> values [m]."""

    @staticmethod
    def infer(indices: TensorSpec, values: TensorSpec, shape: TensorSpec) -> TensorSpec:
        return values.with_shape(values.shape)

    @staticmethod
    @quiet
    def kernel(indices: Array, values: Array, shape: Array) -> Array:
        require(shape.size >= 2, "a softmax is taken of rows; rank 2 or more is needed")
        groups, _ = _grouped(indices, shape, np.array([-1]))
        _, place = np.unique(groups, return_inverse=True)
        wide = widen(values)
        count = int(place.max(initial=-1)) + 1
        # Absent elements are no zeros here: they take no part in the sum.
        largest = np.full(count, -np.inf, wide.dtype)
        np.maximum.at(largest, place, wide)
        powers = np.exp(wide - largest[place])
        sums = np.zeros(count, wide.dtype)
        np.add.at(sums, place, powers)
        return np.asarray(powers / sums[place]).astype(values.dtype)


def _united(a: tuple[Array, Array], b: tuple[Array, Array], shape: Array) -> tuple[Array, Array, Array]:
    """The places of both in row order, and the values there; zeros where one has none."""
    pa, pb = _places(a[0], shape), _places(b[0], shape)
    named = np.union1d(pa, pb)
    va, vb = (np.zeros(len(named), v.dtype) for v in (a[1], b[1]))
    va[np.searchsorted(named, pa)] = a[1]
    vb[np.searchsorted(named, pb)] = b[1]
    found = np.stack(np.unravel_index(named, shape.tolist()), -1) if len(named) else np.zeros((0, shape.size))
    return found.astype(np.int64), va, vb


@op("SparseAdd")
class SparseAdd(OpDef):
    """a + b, without sums of two stored values that are smaller than thresh [] in magnitude."""

    num_outputs = 3

    @staticmethod
    def infer(
        a_indices: TensorSpec, a_values: TensorSpec, a_shape: TensorSpec, *rest: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        return triple_spec(a_values, _rank(a_indices, a_shape))

    @staticmethod
    @quiet
    def kernel(
        a_indices: Array,
        a_values: Array,
        a_shape: Array,
        b_indices: Array,
        b_values: Array,
        b_shape: Array,
        thresh: Array,
    ) -> Triple:
        require(
            a_shape.tolist() == b_shape.tolist(), f"shapes {a_shape.tolist()} and {b_shape.tolist()} differ"
        )
        places, va, vb = _united((a_indices, a_values), (b_indices, b_values), a_shape)
        sums = va + vb
        # The threshold drops sums alone: what only one side stores is kept, however small.
        both = np.intersect1d(_places(a_indices, a_shape), _places(b_indices, b_shape))
        kept = (np.abs(sums) >= thresh) | ~np.isin(_places(places, a_shape), both)
        return places[kept], sums[kept], a_shape


class _Extreme(OpDef):
    num_outputs = 2

    @staticmethod
    def infer(
        a_indices: TensorSpec, a_values: TensorSpec, a_shape: TensorSpec, *rest: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        return triple_spec(a_values, _rank(a_indices, a_shape))[:2]


def _extreme(choose: Callable[..., Any], inputs: tuple[Array, ...]) -> tuple[Array, Array]:
    a_indices, a_values, a_shape, b_indices, b_values, b_shape = inputs
    require(a_shape.tolist() == b_shape.tolist(), f"shapes {a_shape.tolist()} and {b_shape.tolist()} differ")
    places, va, vb = _united((a_indices, a_values), (b_indices, b_values), a_shape)
    return places, choose(va, vb)


@op("SparseSparseMaximum")
class SparseSparseMaximum(_Extreme):
    """max(a, b) at each place that a or b stores -> indices, values."""

    @staticmethod
    def kernel(*inputs: Array) -> tuple[Array, Array]:
        return _extreme(lambda a, b: np.where(a > b, a, b), inputs)


@op("SparseSparseMinimum")
class SparseSparseMinimum(_Extreme):
    """min(a, b) at each place that a or b stores -> indices, values."""

    @staticmethod
    def kernel(*inputs: Array) -> tuple[Array, Array]:
        return _extreme(lambda a, b: np.where(a < b, a, b), inputs)


@op("SparseTensorDenseAdd")
class SparseTensorDenseAdd(OpDef):
    """y = a + b for a sparse a and a dense b of the same shape."""

    @staticmethod
    def infer(indices: TensorSpec, values: TensorSpec, shape: TensorSpec, b: TensorSpec) -> TensorSpec:
        return b.with_shape(b.shape)

    @staticmethod
    @quiet
    def kernel(indices: Array, values: Array, shape: Array, b: Array) -> Array:
        require(tuple(shape.tolist()) == b.shape, f"shapes {shape.tolist()} and {list(b.shape)} differ")
        y: Array = b.copy()
        np.add.at(y.reshape(-1), _places(indices.astype(np.int64), shape), values)
        return y


class _WithDense(OpDef):
    @staticmethod
    def infer(indices: TensorSpec, values: TensorSpec, shape: TensorSpec, dense: TensorSpec) -> TensorSpec:
        return values.with_shape(values.shape)


@quiet
def _with_dense(combine: Any, indices: Array, values: Array, shape: Array, dense: Array) -> Array:
    _places(indices, shape)
    fits = dense.ndim <= shape.size
    tail = shape.tolist()[shape.size - dense.ndim :] if fits else []
    fits = fits and all(d in (1, s) for d, s in zip(dense.shape, tail, strict=True))
    require(fits, f"{list(dense.shape)} does not spread over {shape.tolist()}")
    # A view: the dense side is never spread out in memory.
    other = np.broadcast_to(dense, shape.tolist())[tuple(indices.T)]
    narrow = is_narrow(values.dtype)
    a, b = (widen(values), widen(other)) if narrow else (values, other)
    return np.asarray(combine(a, b)).astype(values.dtype)


@op("SparseDenseCwiseAdd")
class SparseDenseCwiseAdd(_WithDense):
    """y = the stored values plus those of dense, which is spread over the shape -> values [m]."""

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, dense: Array) -> Array:
        return _with_dense(np.add, indices, values, shape, dense)


@op("SparseDenseCwiseMul")
class SparseDenseCwiseMul(_WithDense):
    """y = the stored values times those of dense, which is spread over the shape -> values [m]."""

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, dense: Array) -> Array:
        return _with_dense(np.multiply, indices, values, shape, dense)


@op("SparseDenseCwiseDiv")
class SparseDenseCwiseDiv(_WithDense):
    """y = the stored values by those of dense, which is spread over the shape; integers towards zero."""

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array, dense: Array) -> Array:
        return _with_dense(_quotient, indices, values, shape, dense)


def _quotient(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    require(bool((b != 0).all()), "a whole number cannot be divided by zero")
    # Towards zero: one more where the floor went below a negative quotient.
    down = np.floor_divide(a, b)
    return np.asarray(down + ((down < 0) & (down * b != a)).astype(a.dtype))
