"""Sparse tensors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run, text
from thinflow.errors import ShapeError

AT = np.array([[0, 1], [1, 0], [3, 2]], np.int64)
VALUES = np.float32([5, 6, 7])
SHAPE = np.array([4, 3], np.int64)
NEW = np.array([2, -1], np.int64)
DENSE = np.arange(6, dtype=np.float32).reshape(3, 2)
NONE: list[np.ndarray] = [np.zeros((0, 2), np.int64), np.zeros(0, np.float32)]

CASES: dict[str, list[Case]] = {
    "SparseTensorDenseMatMul": [
        ([AT, VALUES, SHAPE, DENSE], {}),
        ([AT, VALUES, SHAPE, DENSE.T.copy()], {"adjoint_b": True}),
        ([AT, VALUES, SHAPE, np.ones((4, 2), np.float32)], {"adjoint_a": True}),
        ([*NONE, SHAPE, DENSE], {}),
    ],
    "SparseReshape": [([AT, SHAPE, NEW], {}), ([NONE[0], SHAPE, np.array([12], np.int64)], {})],
    "SparseReorder": [([AT[::-1].copy(), VALUES, SHAPE], {}), ([*NONE, SHAPE], {})],
    "SparseFillEmptyRows": [
        ([AT, VALUES, SHAPE, np.float32(-1)], {}),
        ([AT, text(b"a", b"b", b"c"), SHAPE, text(b"?").reshape(())], {}),
        ([*NONE, SHAPE, np.float32(-1)], {}),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=name != "SparseFillEmptyRows")


def test_product() -> None:
    dense = np.zeros((4, 3), np.float32)
    dense[tuple(AT.T)] = VALUES
    assert run("SparseTensorDenseMatMul", AT, VALUES, SHAPE, DENSE).tolist() == (dense @ DENSE).tolist()


def test_reshape_and_order() -> None:
    indices, shape = run("SparseReshape", AT, SHAPE, NEW)
    assert (indices.tolist(), shape.tolist()) == ([[0, 1], [0, 3], [1, 5]], [2, 6])
    indices, values = run("SparseReorder", AT[[2, 0, 1]], VALUES, SHAPE)
    assert (indices.tolist(), values.tolist()) == (AT.tolist(), [6, 7, 5])
    with pytest.raises(ShapeError, match="do not divide"):
        run("SparseReshape", AT, SHAPE, np.array([5, -1], np.int64))


def test_empty_rows() -> None:
    indices, values, empty, went = run("SparseFillEmptyRows", AT, VALUES, SHAPE, np.float32(-1))
    assert indices.tolist() == [[0, 1], [1, 0], [2, 0], [3, 2]]
    assert (values.tolist(), empty.tolist()) == ([5, 6, -1, 7], [False, False, True, False])
    assert went.tolist() == [0, 1, 3]


def test_indices_stay_inside() -> None:
    with pytest.raises(ShapeError, match="outside the shape"):
        run("SparseReorder", AT, VALUES, np.array([2, 3], np.int64))
