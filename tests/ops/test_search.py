"""Unique, top-k, sorted searches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, text
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, INT64, TensorSpec


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


SCORES = np.array([[1, 5, 5, 2], [4, 0, -1, 4]], np.float32)
SORTED = np.array([[1, 2, 2, 3], [0, 0, 1, 9]], np.float32)
WANTED = np.array([[2, 0, 4], [0, np.nan, 9]], np.float32)
ROWS = np.array([[1, 2], [3, 4], [1, 2]], np.int32)

CASES: dict[str, list[Case]] = {
    "ListDiff": [([ints(1, 2, 2, 3), ints(1)], {}), ([text(b"a", b"b"), text(b"b")], {"out_idx": INT64})],
    "Unique": [
        ([ints(3, 1, 3, 2)], {}),
        ([text(b"a", b"b", b"a")], {"out_idx": INT64}),
        ([np.zeros(0, np.float32)], {}),
    ],
    "UniqueV2": [
        ([ROWS, np.array([0])], {}),
        ([ROWS, ints(1)], {}),
        ([ints(3, 1, 3), np.zeros(0, np.int64)], {}),
    ],
    "UniqueWithCounts": [([ints(3, 1, 3, 2)], {}), ([ints(3, 1, 3)], {"out_idx": INT64})],
    "UniqueWithCountsV2": [([ROWS, np.array([0])], {})],
    "TopK": [([SCORES], {"k": 3}), ([SCORES.astype(np.uint8)], {"k": 0})],
    "TopKV2": [
        ([SCORES, np.int32(3)], {}),
        ([SCORES[0].astype(np.float16), np.int32(4)], {}),
        ([np.array([-128, 127, 0, -128], np.int8), np.int32(4)], {"index_type": INT64}),
        ([np.zeros((0, 3), np.float32), np.int32(2)], {}),
    ],
    "InTopK": [([SCORES, ints(1, 3)], {"k": 1}), ([SCORES, np.array([3, -1])], {"k": 4})],
    "InTopKV2": [([SCORES, ints(2, 1), np.int32(2)], {}), ([SCORES, ints(0, 0), np.int32(0)], {})],
    "NthElement": [
        ([SCORES, np.int32(1)], {}),
        ([SCORES, np.int32(1)], {"reverse": True}),
        ([ints(3, 1), np.int32(0)], {}),
    ],
    "LowerBound": [([SORTED, WANTED], {}), ([ROWS[:1], ROWS[:1]], {"out_type": INT64})],
    "UpperBound": [([SORTED, WANTED], {}), ([ROWS[:1], ROWS[:1]], {})],
}


_OPEN = ("ListDiff", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=name not in _OPEN)


def test_distinct_values_in_order_of_appearance() -> None:
    y, idx, counts = run("UniqueWithCounts", ints(3, 1, 3, 2))
    assert (y.tolist(), idx.tolist(), counts.tolist()) == ([3, 1, 2], [0, 1, 0, 2], [2, 1, 1])


def test_nan_differs_from_itself() -> None:
    nan = np.nan
    assert run("Unique", np.array([nan, 1, nan, 0.0, -0.0], np.float32))[1].tolist() == [0, 1, 2, 3, 3]
    _, idx = run("UniqueV2", np.array([[nan, 1], [nan, 1], [0.0, 1], [-0.0, 1]], np.float32), np.array([0]))
    assert idx.tolist() == [0, 1, 2, 2]


def test_ties_keep_the_lower_index() -> None:
    values, indices = run("TopKV2", SCORES, np.int32(3))
    assert values.tolist() == [[5, 5, 2], [4, 4, 0]]
    assert indices.tolist() == [[1, 2, 3], [0, 3, 1]]
    assert run("TopKV2", np.array([-128, 127, -128], np.int8), np.int32(3))[1].tolist() == [1, 0, 2]


def test_top_k_refuses_more_than_there_is() -> None:
    with pytest.raises(ShapeError, match="k is 5"):
        run("TopKV2", SCORES, np.int32(5))
    assert infer("TopKV2", TensorSpec(FLOAT, (None, 9)), TensorSpec(INT32, ()))[0].shape == (None, None)


def test_in_top_k_counts_only_better_ones() -> None:
    predictions = np.array([[1, 2, 2, 0], [1, 2, 2, np.inf], [0, 0, 0, np.nan]], np.float32)
    assert run("InTopK", predictions, ints(2, 2, 0), k=1).tolist() == [True, False, False]
    assert run("InTopK", predictions[:1], ints(7), k=4).tolist() == [False]


def test_bounds_around_equal_values_and_nan() -> None:
    sorted_row = np.array([[1, 2, 2, 3]], np.float32)
    wanted = np.array([[2, 0, 4, np.nan]], np.float32)
    assert run("LowerBound", sorted_row, wanted).tolist() == [[1, 0, 4, 0]]
    assert run("UpperBound", sorted_row, wanted).tolist() == [[3, 0, 4, 4]]
