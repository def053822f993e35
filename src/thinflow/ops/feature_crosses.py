"""Crosses of features: every combination of one feature of each column, row by row.

A column is a sparse matrix, a ragged or a dense one, of strings or int64. A cross is its parts joined, or
their hashes put together, of which the last column varies fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np

from thinflow.ir.types import INT64, STRING, DType, TensorSpec
from thinflow.ops.hashing import fingerprint64, fingerprint_pair, siphash
from thinflow.ops.ragged import checked
from thinflow.ops.registry import OpDef, op, require
from thinflow.typing import Array

Column = list[list[Any]]
"""For each row its features: bytes or int."""
Part = Callable[[Any], Any]
# Crosses multiply: a few long rows would fill the memory before anything is returned.
MAX_CROSSES = 1 << 26
_MASK = (1 << 64) - 1
_POSITIVE = (1 << 63) - 1


def _sparse_column(indices: Array, values: Array, count: int) -> Column:
    require(indices.ndim == 2 and indices.shape[1] == 2, "a column is a sparse matrix")
    rows: Column = [[] for _ in range(count)]
    for row, value in zip(indices[:, 0].tolist(), values.tolist(), strict=True):
        require(0 <= row < count, f"row {row} is outside {count} rows")
        rows[row].append(value)
    return rows


def _ragged_column(values: Array, splits: Array) -> Column:
    ends = checked(splits, len(values)).tolist()
    return [values[a:b].tolist() for a, b in pairwise(ends)]


def _crosses(
    columns: Sequence[Column], parts: Sequence[Part], join: Callable[[Sequence[Any]], Any]
) -> Iterator[list[Any]]:
    """The crosses of each row."""
    require(len({len(c) for c in columns}) == 1, "the columns differ in their number of rows")
    total = sum(prod(map(len, rows)) for rows in zip(*columns, strict=True))
    require(total <= MAX_CROSSES, f"there are {total} crosses")
    for rows in zip(*columns, strict=True):
        ready = [[part(x) for x in features] for part, features in zip(parts, rows, strict=True)]
        yield [join(choice) for choice in product(*ready)]


def _joined(separator: bytes) -> Callable[[Sequence[bytes]], bytes]:
    return separator.join


def _as_bytes(x: Any) -> bytes:
    return x if isinstance(x, bytes) else str(x).encode()


def _as_number(x: Any) -> int:
    return fingerprint64(x) if isinstance(x, bytes) else int(x) & _MASK


def _hashed(key: int | None, buckets: int) -> Callable[[Sequence[int]], int]:
    """Hashes put together from the left, from the key on if there is one."""

    def join(hashes: Sequence[int]) -> int:
        rest = list(hashes)
        total = key & _MASK if key is not None else rest.pop(0)
        for part in rest:
            total = fingerprint_pair(total, part)
        # Without buckets TensorFlow takes the rest by the largest int64, so that the result is never
        # negative.
        return total % (buckets if buckets > 0 else _POSITIVE)

    return join


def _sparse_result(rows: Sequence[list[Any]], element: DType) -> tuple[Array, Array, Array]:
    indices = [(r, c) for r, row in enumerate(rows) for c in range(len(row))]
    values: Array = np.empty(len(indices), element.numpy())
    values[:] = [x for row in rows for x in row]
    shape = np.array([len(rows), max(map(len, rows), default=0)], np.int64)
    return np.array(indices, np.int64).reshape(-1, 2), values, shape


def _columns(inputs: Sequence[Array], count: int) -> list[Column]:
    """The columns of `count` sparse matrices and of the dense ones behind them."""
    indices, values, shapes = inputs[:count], inputs[count : 2 * count], inputs[2 * count : 3 * count]
    dense = inputs[3 * count :]
    rows = int(shapes[0][0]) if count else len(dense[0]) if dense else 0
    require(0 <= rows <= MAX_CROSSES, f"there are {rows} rows")
    found = [_sparse_column(i, v, rows) for i, v in zip(indices, values, strict=True)]
    require(all(d.ndim == 2 for d in dense), "a dense column is a matrix")
    return [*found, *(d.tolist() for d in dense)]


class _SparseCross(OpDef):
    num_outputs = 3


def _spec(element: DType) -> tuple[TensorSpec, ...]:
    return TensorSpec(INT64, (None, 2)), TensorSpec(element, (None,)), TensorSpec(INT64, (2,))


@op("SparseCross")
class SparseCross(_SparseCross):
    """Crosses as strings joined by `_X_`, or as hashes.   N indices, N values, N shapes, dense [n,k] each."""

    @staticmethod
    def infer(*inputs: TensorSpec, out_type: DType) -> tuple[TensorSpec, ...]:
        return _spec(out_type)

    @staticmethod
    def kernel(
        *inputs: Array, N: int, hashed_output: bool, num_buckets: int, hash_key: int, out_type: DType
    ) -> tuple[Array, ...]:
        columns = _columns(inputs, N)
        part: Part = _as_number if hashed_output else _as_bytes
        join = _hashed(hash_key, num_buckets) if hashed_output else _joined(b"_X_")
        return _sparse_result(list(_crosses(columns, [part] * len(columns), join)), out_type)


@op("SparseCrossV2")
class SparseCrossV2(_SparseCross):
    """Crosses as strings.   N indices, N values, N shapes, dense [n,k] each, separator []."""

    @staticmethod
    def infer(*inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return _spec(STRING)

    @staticmethod
    def kernel(*inputs: Array, N: int) -> tuple[Array, ...]:
        columns = _columns(inputs[:-1], N)
        rows = _crosses(columns, [_as_bytes] * len(columns), _joined(inputs[-1].item()))
        return _sparse_result(list(rows), STRING)


@op("SparseCrossHashed")
class SparseCrossHashed(_SparseCross):
    """Crosses as hashes.   As SparseCross, then num_buckets [], strong_hash [], salt [2]."""

    @staticmethod
    def infer(*inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        return _spec(INT64)

    @staticmethod
    def kernel(*inputs: Array, N: int) -> tuple[Array, ...]:
        buckets, strong, salt = inputs[-3:]
        columns = _columns(inputs[:-3], N)
        require(salt.shape == (2,), f"the salt has {salt.size} numbers, not 2")
        key = (int(salt[0]), int(salt[1]))

        def hashed(x: Any) -> int:
            # Of a number in a sparse column, TensorFlow hashes the lower half of its bytes only.
            data = x if isinstance(x, bytes) else (int(x) & 0xFFFFFFFF).to_bytes(4, "little")
            return siphash(key, data) if strong else fingerprint64(data)

        # Weakly hashed, numbers of dense columns are taken as they are.
        dense: Part = hashed if strong else _as_number
        parts = [hashed] * N + [dense] * (len(columns) - N)
        return _sparse_result(list(_crosses(columns, parts, _hashed(None, int(buckets)))), INT64)


@op("RaggedCross")
class RaggedCross(OpDef):
    """Crosses as a ragged matrix: values and row splits.

    ragged values, their splits, sparse indices, values, shapes, dense matrices; input_order says with R, S
    and D in which order they are crossed.
    """

    num_outputs = 2

    @staticmethod
    def infer(
        *inputs: TensorSpec, out_values_type: DType, out_row_splits_type: DType
    ) -> tuple[TensorSpec, ...]:
        return TensorSpec(out_values_type, (None,)), TensorSpec(out_row_splits_type, (None,))

    @staticmethod
    def kernel(
        *inputs: Array,
        Nsparse: int,
        input_order: str,
        hashed_output: bool,
        num_buckets: int,
        hash_key: int,
        out_values_type: DType,
        out_row_splits_type: DType,
    ) -> tuple[Array, Array]:
        count = input_order.count("R")
        values, splits, others = inputs[:count], inputs[count : 2 * count], inputs[2 * count :]
        ragged = iter([_ragged_column(v, s) for v, s in zip(values, splits, strict=True)])
        found = _columns(others, Nsparse)
        require(input_order.count("S") == Nsparse, f"'{input_order}' does not name {Nsparse} sparse columns")
        sources = {"R": ragged, "S": iter(found[:Nsparse]), "D": iter(found[Nsparse:])}
        columns = [next(sources[kind]) for kind in input_order]
        columns = _stretched(columns, input_order)
        part: Part = _as_number if hashed_output else _as_bytes
        join = _hashed(hash_key, num_buckets) if hashed_output else _joined(b"_X_")
        rows = list(_crosses(columns, [part] * len(columns), join))
        crosses: Array = np.empty(sum(map(len, rows)), out_values_type.numpy())
        crosses[:] = [x for row in rows for x in row]
        ends = np.cumsum([0, *map(len, rows)])
        return crosses, ends.astype(out_row_splits_type.numpy())


def _stretched(columns: list[Column], order: str) -> list[Column]:
    """A dense column with a single row counts for every row."""
    count = max(map(len, columns), default=0)
    return [c * count if kind == "D" and len(c) == 1 else c for c, kind in zip(columns, order, strict=True)]
