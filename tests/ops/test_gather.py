"""Gathering, scattering, partitioning and stitching."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of, text
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
GRID = np.array([[0, 1], [1, 0]], np.int32)
POINTS = np.array([[0, 2], [1, 1], [0, 2]], np.int32)
UPDATES = np.arange(1, 13, dtype=np.float32).reshape(3, 4)

CASES: dict[str, list[Case]] = {
    "Gather": [([X, GRID], {}), ([ints(4, 5), np.int64(1)], {}), ([text(b"a", b"b"), ints(1, 1)], {})],
    "GatherV2": [
        ([X, GRID, np.int32(1)], {}),
        ([X, np.int32(2), np.int64(-1)], {}),
        ([X, GRID, np.int32(-1)], {"batch_dims": 1}),
        ([X, GRID, np.int32(2)], {"batch_dims": -1}),
        ([X[:, :2], GRID, np.int32(2)], {"batch_dims": 2}),
        ([ints(4, 5, 6), ints(2, 0), np.int32(0)], {}),
        ([text(b"ab", b"c"), np.int32(0), np.int32(0)], {}),
        ([np.zeros((0, 3), np.float32), np.zeros(0, np.int32), np.int32(0)], {}),
    ],
    "GatherNd": [
        ([X, POINTS], {}),
        ([X, np.zeros((2, 0), np.int32)], {}),
        ([X, np.array([[[1, 2, 3]]])], {}),
        ([text(b"a", b"b"), np.array([[1], [0]])], {}),
    ],
    "ScatterNd": [
        ([POINTS, UPDATES, ints(2, 3, 4)], {}),
        ([ints(1, 1, 0).reshape(3, 1), ints(4, 5, 6), ints(3)], {}),
        ([np.zeros((0, 1), np.int64), np.zeros(0, np.float32), np.array([3])], {}),
        ([np.array([[0], [0]], np.int32), text(b"a", b"b"), ints(2)], {}),
        ([np.array([[0], [0]], np.int32), np.array([True, True]), ints(2)], {}),
    ],
    "TensorScatterUpdate": [([X, POINTS, UPDATES], {}), ([text(b"a"), np.array([[0]]), text(b"b")], {})],
    "TensorScatterAdd": [([X, POINTS, UPDATES], {}), ([ints(1, 2), np.array([[1], [1]]), ints(5, 6)], {})],
    "TensorScatterSub": [([X.astype(bfloat16), POINTS, UPDATES.astype(bfloat16)], {})],
    "TensorScatterMax": [([X, POINTS, UPDATES], {})],
    "TensorScatterMin": [([X, POINTS, UPDATES], {})],
    "ScatterNdNonAliasingAdd": [([X, POINTS, UPDATES], {})],
    "SparseToDense": [
        ([np.array([[0, 1], [1, 0]]), np.array([2, 2]), np.array([5, 6], np.int32), np.int32(9)], {}),
        ([np.int32(3), ints(5), np.float32(7), np.float32(0)], {}),
        ([ints(3, 1, 3), ints(5), ints(1, 2, 3), np.int32(0)], {"validate_indices": False}),
        ([ints(1, 3), ints(5), np.array(True), np.array(False)], {}),
    ],
    "DynamicPartition": [
        ([X, ints(1, 0)], {"num_partitions": 3}),
        ([X, np.array([[0, 1, 0], [1, 1, 0]], np.int32)], {"num_partitions": 2}),
        ([ints(5, 6), np.int32(0)[None].repeat(2)], {"num_partitions": 1}),
    ],
    "DynamicStitch": [
        ([ints(0, 2), ints(2, 3, 1), X[0, :2], X[1]], {"N": 2}),
        ([np.int32(1), GRID * 2, np.float32(5), X[0, :2, :2]], {"N": 2}),
    ],
    "ParallelDynamicStitch": [([ints(0, 2), ints(1), X[0, :2], X[1, :1]], {"N": 2})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=name not in ("DynamicPartition",))


def test_gathering_from_a_partly_known_shape() -> None:
    shape = TensorSpec(INT32, (3,), (None, 7, 8))
    assert infer("GatherV2", shape, spec_of(ints(2, 0)), spec_of(np.array(0))).elements == (8, None)
    assert infer("GatherV2", shape, spec_of(np.array(1)), spec_of(np.array(0))).elements == (7,)
    assert infer("Gather", TensorSpec(FLOAT, (None, 5)), TensorSpec(INT32, (None, 2))).shape == (None, 2, 5)
    assert (
        infer("GatherV2", TensorSpec(FLOAT, (4, 5)), TensorSpec(INT32, (2,)), TensorSpec(INT32, ())).rank == 2
    )


@pytest.mark.parametrize("index", [-1, 2])
def test_indices_do_not_wrap(index: int) -> None:
    with pytest.raises(ShapeError, match="outside"):
        run("Gather", X, ints(index))
    with pytest.raises(ShapeError, match="outside"):
        run("GatherNd", X, ints(index))
    with pytest.raises(ShapeError, match="outside"):
        run("ScatterNd", ints(index).reshape(1, 1), ints(1), ints(2))


def test_what_meets_in_one_place() -> None:
    places, updates = np.array([[1], [1]]), ints(5, 6)
    assert run("ScatterNd", places, updates, ints(2)).tolist() == [0, 11]
    assert run("TensorScatterUpdate", ints(1, 2), places, updates).tolist() == [1, 6]
    assert run("TensorScatterSub", ints(1, 2), places, updates).tolist() == [1, -9]
    assert run("DynamicStitch", ints(0, 2), ints(2, 4), ints(1, 2), ints(3, 4)).tolist() == [1, 0, 3, 0, 4]


def test_sums_may_overflow_silently() -> None:
    assert run("ScatterNd", np.array([[0], [0]]), np.array([3e38, 3e38], np.float32), ints(1)) == np.inf
    assert run("TensorScatterAdd", np.array([100], np.int8), ints(0)[None], np.array([100], np.int8)) == -56


def test_sparse_to_dense_checks_the_order() -> None:
    inputs = [np.array([[1, 0], [0, 1]]), np.array([2, 2]), ints(5, 6), np.int32(9)]
    with pytest.raises(ShapeError, match="not sorted"):
        run("SparseToDense", *inputs)
    assert run("SparseToDense", *inputs, validate_indices=False).tolist() == [[9, 6], [5, 9]]


def test_stitched_rows_from_known_indices() -> None:
    indices, data = spec_of(ints(0, 4)), TensorSpec(FLOAT, (2, None))
    assert infer("DynamicStitch", indices, data).shape == (5, None)
    assert infer("DynamicStitch", TensorSpec(INT32, (2,)), data).shape == (None, None)
