"""Groups of rows: gaps, order, ids out of range."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec

_random = np.random.default_rng(6)
_FLOATS: list[Any] = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


_IDS = ints(0, 0, 2, 2, 4)
_MIXED = ints(3, -1, 0, 3, 1)


def _rows(kind: Any) -> np.ndarray:
    return _random.uniform(-4, 4, (5, 2)).astype(kind)


_SORTED: list[Case] = [([_rows(kind), _IDS], {}) for kind in (*_FLOATS, np.int32)] + [
    ([np.zeros((0, 2), np.float32), ints()], {}),
    ([ints(-7, 2, 3, 4, 5), ints(1, 1, 2, 2, 5)], {}),
]
_SORTED_TO: list[Case] = [
    ([_rows(np.float32), _IDS, np.int32(7)], {}),
    ([_rows(np.int32), _IDS, np.int64(5)], {}),
]
_UNSORTED: list[Case] = [([_rows(kind), _MIXED, np.int32(6)], {}) for kind in (*_FLOATS, np.int32)] + [
    ([_rows(np.float32), ints(0, 1, 1, 0, 0, 2, 2, 2, 0, 0).reshape(5, 2), np.int32(4)], {}),
    ([np.zeros((0, 2), np.float32), ints(), np.int32(3)], {}),
]
_SPARSE: list[Case] = [([_rows(kind), ints(0, 1, 4, 4), ints(1, 1, 2, 4)], {}) for kind in _FLOATS[:2]]
_SPARSE_TO: list[Case] = [([*inputs, np.int32(6)], attrs) for inputs, attrs in _SPARSE]

CASES: dict[str, list[Case]] = {
    **{f"Segment{kind}": _SORTED for kind in ("Sum", "Mean", "Prod", "Max", "Min")},
    **{f"Segment{kind}V2": _SORTED_TO for kind in ("Sum", "Prod", "Max", "Min")},
    **{f"UnsortedSegment{kind}": _UNSORTED for kind in ("Sum", "Prod", "Max", "Min")},
    **{f"SparseSegment{kind}": _SPARSE for kind in ("Sum", "Mean", "SqrtN")},
    **{f"SparseSegment{kind}WithNumSegments": _SPARSE_TO for kind in ("Sum", "Mean", "SqrtN")},
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_gaps() -> None:
    x, ids = np.float32([-1, -2, 3]), ints(1, 1, 3)
    assert run("SegmentSum", x, ids).tolist() == [0, -3, 0, 3]
    assert run("SegmentMean", x, ids).tolist() == [0, -1.5, 0, 3]
    assert run("SegmentMax", x, ids).tolist() == [0, -1, 0, 3]
    assert run("SegmentProd", x, ids).tolist() == [1, 2, 1, 3]
    low = float(np.finfo(np.float32).min)
    assert run("UnsortedSegmentMax", x, ids, np.int32(4)).tolist() == [low, -1, low, 3]
    assert run("SegmentMaxV2", x, ids, np.int32(4)).tolist() == [low, -1, low, 3]
    assert run("SegmentMinV2", x, ids, np.int32(4)).tolist() == [-low, -2, -low, 3]
    assert run("UnsortedSegmentMin", ints(5), ints(0), np.int32(2)).tolist() == [5, 2**31 - 1]


def test_integer_means_round_towards_zero() -> None:
    assert run("SegmentMean", ints(-7, 2), ints(0, 0)).tolist() == [-2]


def test_negative_ids_are_left_out_of_unsorted_segments_only() -> None:
    assert run("UnsortedSegmentSum", np.float32([1, 2, 4]), ints(1, -1, 1), np.int32(2)).tolist() == [0, 5]
    with pytest.raises(ShapeError, match="must not be negative"):
        run("SegmentSum", np.float32([1, 2]), ints(-1, 0))


@pytest.mark.parametrize(
    ("name", "inputs", "problem"),
    [
        ("SegmentSum", [np.ones(2, np.float32), ints(1, 0)], "not sorted"),
        ("SegmentSum", [np.ones(3, np.float32), ints(1)], "segment ids for"),
        ("UnsortedSegmentSum", [np.ones(1, np.float32), ints(3), np.int32(3)], "not below num_segments"),
        ("SparseSegmentSum", [np.ones(1, np.float32), ints(1), ints(0)], "outside the 1 rows"),
        ("SegmentSumV2", [np.ones(1, np.float32), ints(3), np.int32(3)], "not below 3"),
    ],
)
def test_bad_ids(name: str, inputs: list[Any], problem: str) -> None:
    with pytest.raises(ShapeError, match=problem):
        run(name, *inputs)


def test_sparse_scales() -> None:
    x = np.float32([1, 2, 3])
    assert run("SparseSegmentMean", x, ints(0, 2), ints(1, 1)).tolist() == [0, 2]
    assert run("SparseSegmentSqrtN", x, ints(0, 2), ints(0, 0)).tolist() == pytest.approx([4 / 2**0.5])


def test_rows_are_known_from_known_ids() -> None:
    x = TensorSpec(FLOAT, (None, 4))
    assert infer("SegmentSum", x, TensorSpec(INT32, (2,), (0, 6))).shape == (7, 4)
    assert infer("SegmentSum", x, TensorSpec(INT32, (2,))).shape == (None, 4)
    count = TensorSpec(INT32, (), (9,))
    assert infer("UnsortedSegmentSum", x, TensorSpec(INT32, (None, None)), count).shape == (9,)
