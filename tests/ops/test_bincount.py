"""Counts: what falls outside, weights, rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, INT64, TensorSpec


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


_NONE = np.zeros(0, np.float32)
_SQUARE = np.array([[0, 1], [1, 7]], np.int32)
_WEIGHTS = np.array([[1, 2], [3, 4]], np.float32)

CASES: dict[str, list[Case]] = {
    "Bincount": [
        ([ints(0, 1, 1, 7), np.int32(4), _NONE], {}),
        ([_SQUARE, np.int32(4), _WEIGHTS], {}),
        ([ints(0, 1), np.int32(3), np.zeros(0, np.int64)], {}),
    ],
    "DenseBincount": [
        ([_SQUARE, np.int32(3), _NONE], {"binary_output": True}),
        ([_SQUARE, np.int32(3), _WEIGHTS], {}),
        ([np.array([2, 2], np.int64), np.int64(3), np.zeros(0, np.int32)], {}),
    ],
    "HistogramFixedWidth": [
        ([np.float32([-1, 0, 0.5, 5, 4.99, 9]), np.float32([0, 5]), np.int32(5)], {}),
        ([ints(1, 2, 3, 9), ints(0, 10), np.int32(4)], {"dtype": INT64}),
    ],
    "Bucketize": [
        ([np.float32([-1, 0, 10, 100, 1000]), ], {"boundaries": (0.0, 10.0, 100.0)}),
        ([ints(-1, 5)], {"boundaries": (0.0, 5.0)}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_large_values_are_left_out_and_negative_ones_refused() -> None:
    assert run("Bincount", ints(0, 1, 1, 7), np.int32(4), _NONE).tolist() == [1, 2, 0, 0]
    with pytest.raises(ShapeError, match="negative"):
        run("Bincount", ints(0, -1), np.int32(4), _NONE)


def test_rows_count_apart() -> None:
    assert run("DenseBincount", _SQUARE, np.int32(2), _WEIGHTS).tolist() == [[1, 2], [0, 3]]
    ones = run("DenseBincount", ints(1, 1), np.int32(2), _NONE, binary_output=True)
    assert ones.tolist() == [0, 1]


def test_end_bins_take_the_rest() -> None:
    y = run("HistogramFixedWidth", np.float32([-1, 0, 0.5, 5, 9]), np.float32([0, 5]), np.int32(5))
    assert y.tolist() == [3, 0, 0, 0, 2]


def test_specs() -> None:
    weights = TensorSpec(FLOAT, (0,))
    assert infer("Bincount", TensorSpec(INT32), TensorSpec(INT32, (), (7,)), weights) == TensorSpec(
        FLOAT, (7,)
    )
    y = infer("DenseBincount", TensorSpec(INT32, (None, 3)), TensorSpec(INT32, ()), weights)
    assert y == TensorSpec(FLOAT, (None, None))


@pytest.mark.parametrize("name", ["Bincount", "DenseBincount"])
def test_sizes_that_no_memory_holds(name: str) -> None:
    with pytest.raises(ShapeError, match="1 x 1000000000000 bins are asked for"):
        run(name, np.int64([1]), np.int64(10**12), np.float32([]))
    with pytest.raises(ShapeError, match="size is -1"):
        run(name, np.int64([1]), np.int64(-1), np.float32([]))


def test_many_rows_of_many_bins() -> None:
    with pytest.raises(ShapeError, match="4 x 100000000 bins are asked for"):
        run("DenseBincount", np.zeros((4, 0), np.int64), np.int64(10**8), np.float32([]))
    with pytest.raises(ShapeError, match="1 x 2000000000 bins are asked for"):
        run("HistogramFixedWidth", np.float32([1]), np.float32([0, 1]), np.int32(2 * 10**9))
