"""Sets, stored as the last axis of a tensor or of a sparse one. Results are sorted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from thinflow.ir.types import INT32, INT64, TensorSpec
from thinflow.ops._shapes import shape_from
from thinflow.ops.registry import OpDef, op, require
from thinflow.ops.sparse import _places
from thinflow.typing import Array

Groups = dict[tuple[int, ...], set[Any]]
_OPERATIONS: dict[str, Callable[[set[Any], set[Any]], set[Any]]] = {
    "a-b": lambda a, b: a - b,
    "b-a": lambda a, b: b - a,
    "intersection": lambda a, b: a & b,
    "union": lambda a, b: a | b,
}


def _sparse_groups(indices: Array, values: Array, shape: Array) -> Groups:
    _places(indices, shape)
    groups: Groups = {}
    # The last index only numbers a group's items; the set does not depend on it.
    for place, value in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        groups.setdefault(tuple(place), set()).add(value)
    return groups


def _dense_groups(x: Array) -> Groups:
    require(x.ndim >= 2, f"sets need rank 2 or more, not {x.ndim}")
    return {place: set(x[place].tolist()) for place in product(*map(range, x.shape[:-1]))}


def _combined(
    operation: str, a: Groups, b: Groups, lead: tuple[int, ...], values: Array
) -> tuple[Array, ...]:
    """(indices, values, shape) of the sets that an operation gives, group by group."""
    name = operation.lower()
    require(name in _OPERATIONS, f"'{operation}' is no operation on sets", f"one of {', '.join(_OPERATIONS)}")
    combine = _OPERATIONS[name]
    rows = [(g, sorted(combine(a.get(g, set()), b.get(g, set())))) for g in _ordered(a, b)]
    longest = max((len(items) for _, items in rows), default=0)
    places = [(*group, i) for group, items in rows for i in range(len(items))]
    found: Array = np.empty(len(places), values.dtype)
    found[:] = [item for _, items in rows for item in items]
    indices = np.array(places, np.int64).reshape(len(places), len(lead) + 1)
    return indices, found, np.array([*lead, longest], np.int64)


def _ordered(a: Groups, b: Groups) -> Iterator[tuple[int, ...]]:
    return iter(sorted(a.keys() | b.keys()))


def _spec(values: TensorSpec, rank: int | None) -> tuple[TensorSpec, ...]:
    return TensorSpec(INT64, (None, rank)), TensorSpec(values.dtype, (None,)), TensorSpec(INT64, (rank,))


def _same(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    require(a == b, f"there are sets in groups {list(a)} and {list(b)}")
    return a


@op("DenseToDenseSetOperation")
class DenseToDenseSetOperation(OpDef):
    """a-b, b-a, intersection or union of the rows of a [...,n] and b [...,m], as a sparse tensor."""

    num_outputs = 3

    @staticmethod
    def infer(a: TensorSpec, b: TensorSpec) -> tuple[TensorSpec, ...]:
        return _spec(a, a.rank if a.rank is not None else b.rank)

    @staticmethod
    def kernel(a: Array, b: Array, *, set_operation: str) -> tuple[Array, ...]:
        lead = _same(a.shape[:-1], b.shape[:-1])
        return _combined(set_operation, _dense_groups(a), _dense_groups(b), lead, a)


@op("DenseToSparseSetOperation")
class DenseToSparseSetOperation(OpDef):
    """As DenseToDenseSetOperation, with a sparse b."""

    num_outputs = 3

    @staticmethod
    def infer(
        a: TensorSpec, indices: TensorSpec, values: TensorSpec, shape: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        return _spec(a, a.rank)

    @staticmethod
    def kernel(
        a: Array, indices: Array, values: Array, shape: Array, *, set_operation: str
    ) -> tuple[Array, ...]:
        lead = _same(a.shape[:-1], tuple(shape[:-1].tolist()))
        return _combined(set_operation, _dense_groups(a), _sparse_groups(indices, values, shape), lead, a)


@op("SparseToSparseSetOperation")
class SparseToSparseSetOperation(OpDef):
    """As DenseToDenseSetOperation, with a sparse a and a sparse b."""

    num_outputs = 3

    @staticmethod
    def infer(
        a_indices: TensorSpec, a_values: TensorSpec, a_shape: TensorSpec, *b: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        return _spec(a_values, a_shape.shape[0] if a_shape.shape else None)

    @staticmethod
    def kernel(
        a_indices: Array,
        a_values: Array,
        a_shape: Array,
        b_indices: Array,
        b_values: Array,
        b_shape: Array,
        *,
        set_operation: str,
    ) -> tuple[Array, ...]:
        lead = _same(tuple(a_shape[:-1].tolist()), tuple(b_shape[:-1].tolist()))
        a, b = _sparse_groups(a_indices, a_values, a_shape), _sparse_groups(b_indices, b_values, b_shape)
        return _combined(set_operation, a, b, lead, a_values)


@op("SetSize")
class SetSize(OpDef):
    """Number of different values in each row of a sparse tensor, int32 [shape without its last axis]."""

    @staticmethod
    def infer(indices: TensorSpec, values: TensorSpec, shape: TensorSpec) -> TensorSpec:
        dims = shape_from(shape)
        return TensorSpec(INT32, None if dims is None else dims[:-1])

    @staticmethod
    def kernel(indices: Array, values: Array, shape: Array) -> Array:
        y = np.zeros(shape[:-1].tolist(), np.int32)
        for group, items in _sparse_groups(indices, values, shape).items():
            y[group] = len(items)
        return y
