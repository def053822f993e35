"""Comparisons, bits and choices: NaN, shifts beyond the width, which shapes fit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import ShapeError
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64, TensorSpec

_A = np.array([[1, 2, np.nan], [3, np.inf, -0.0]], np.float32)
_B = np.array([1, 3, 0], np.float32)
_PAIRS: list[Case] = [
    ([_A, _B], {}),
    ([_A.astype(np.float16), _B.astype(np.float16)], {}),
    ([_A[:, :2].astype(ml_dtypes.bfloat16), _B[:2].astype(ml_dtypes.bfloat16)], {}),
    ([np.array([[1], [200]], np.uint8), np.array([1, 255], np.uint8)], {}),
    ([np.zeros((0, 3), np.int64), np.zeros(3, np.int64)], {}),
]
_ANY: list[Case] = [
    ([np.array([b"a", b"b"], object), np.array([b"a", b"c"], object)], {}),
    ([np.array([True, False]), np.array([True, True])], {}),
    ([np.array([1j, 2], np.complex64), np.array([1j, 1], np.complex64)], {}),
    ([np.array([1, 2], np.int32), np.array([1, 2, 3], np.int32)], {"incompatible_shape_error": False}),
]
_BOOLS: list[Case] = [([np.array([[True], [False]]), np.array([True, False])], {})]
_BITS: list[Case] = [
    ([np.array([[12, -3]], np.int32), np.array([[10], [7]], np.int32)], {}),
    ([np.array([12, 255], np.uint8), np.array([10, 7], np.uint8)], {}),
]
_SHIFTS: list[Case] = [
    ([np.full(6, -3, np.int32), np.array([-1, 0, 5, 31, 32, 40], np.int32)], {}),
    ([np.full(4, 200, np.uint8), np.array([0, 1, 7, 9], np.uint8)], {}),
]

CASES: dict[str, list[Case]] = {
    **{name: _PAIRS for name in ("Less", "LessEqual", "Greater", "GreaterEqual")},
    "Equal": _PAIRS + _ANY,
    "NotEqual": _PAIRS + _ANY,
    "LogicalAnd": _BOOLS,
    "LogicalOr": _BOOLS,
    "BitwiseAnd": _BITS,
    "BitwiseOr": _BITS,
    "BitwiseXor": _BITS,
    "LeftShift": _SHIFTS,
    "RightShift": _SHIFTS,
    "Select": [
        (
            [
                np.array([True, False]),
                np.array([[1, 2], [3, 4]], np.int32),
                np.array([[5, 6], [7, 8]], np.int32),
            ],
            {},
        ),
        ([np.array(True), np.array([b"x"], object), np.array([b"y"], object)], {}),
        ([np.array([[True, False]]), np.ones((1, 2), np.float16), np.zeros((1, 2), np.float16)], {}),
    ],
    "SelectV2": [
        ([np.array([True, False]), np.array([[1, 2], [3, 4]], np.int32), np.array(9, np.int32)], {}),
        ([np.array([[True], [False]]), np.array([1, 2], np.float32), np.zeros((1, 1), np.float32)], {}),
    ],
    "Where": [
        ([np.array([[True, False], [True, True]])], {}),
        ([_A], {}),
        ([np.zeros((0, 2), bool)], {}),
        ([np.array([0, 1j], np.complex64)], {}),
    ],
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case, exact=name not in {"Where", "Equal", "NotEqual"})


def test_nan_equals_nothing() -> None:
    nan = np.float32([np.nan])
    assert not run("Equal", nan, nan).any()
    assert not run("LessEqual", nan, nan).any()
    assert run("NotEqual", nan, nan).all()


def test_shapes_that_do_not_fit_may_be_unequal() -> None:
    x, y = np.int32([1, 2]), np.int32([1, 2, 3])
    assert run("Equal", x, y, incompatible_shape_error=False).item() is False
    assert run("NotEqual", x, y, incompatible_shape_error=False).item() is True
    two, three = TensorSpec(INT32, (2,)), TensorSpec(INT32, (3,))
    assert infer("Equal", two, three, incompatible_shape_error=False).shape == ()
    rows, number = TensorSpec(INT32, (None, 4)), TensorSpec(INT32, ())
    assert infer("NotEqual", rows, number, incompatible_shape_error=False).shape == (None, 4)
    assert infer("NotEqual", rows, rows, incompatible_shape_error=False).shape is None
    with pytest.raises(ShapeError, match="do not broadcast"):
        infer("Equal", two, three)


def test_shift_distances_are_clamped() -> None:
    x = np.full(5, -3, np.int32)
    distance = np.int32([-1, 0, 5, 31, 40])
    assert run("LeftShift", x, distance).tolist() == [-3, -3, -96, -(2**31), -(2**31)]
    assert run("RightShift", x, distance).tolist() == [-3, -3, -1, -1, -1]


def test_select_picks_rows_but_v2_broadcasts() -> None:
    condition = [True, False]
    x, y = np.int32([[1, 2], [3, 4]]), np.int32([[5, 6], [7, 8]])
    assert run("Select", condition, x, y).tolist() == [[1, 2], [7, 8]]
    assert run("SelectV2", condition, x, y).tolist() == [[1, 6], [3, 8]]


def test_select_shapes() -> None:
    x = TensorSpec(FLOAT, (None, 3))
    assert infer("Select", TensorSpec(BOOL, (2,)), x, x).shape == (2, 3)
    assert infer("Select", TensorSpec(BOOL, (2, None)), x, TensorSpec(FLOAT)).shape == (2, 3)
    assert infer("SelectV2", TensorSpec(BOOL, (2, 1)), x, TensorSpec(FLOAT, ())).shape == (2, 3)
    with pytest.raises(ShapeError):
        infer("Select", TensorSpec(BOOL, (2,)), TensorSpec(FLOAT, (3, 3)), x)


def test_choices_between_known_elements() -> None:
    x, y = TensorSpec(INT32, (2,), (1, 5)), TensorSpec(INT32, (2,), (1, None))
    assert infer("SelectV2", TensorSpec(BOOL, (), (1,)), x, y).elements == (1, 5)
    assert infer("SelectV2", TensorSpec(BOOL, ()), x, y).elements == (1, None)
    assert infer("Less", TensorSpec(INT32, (2,), (1, None)), TensorSpec(INT32, (), (3,))).elements == (
        1,
        None,
    )


def test_where_lists_indices_row_by_row() -> None:
    assert run("Where", np.float32([[0, np.nan], [-0.0, 2]])).tolist() == [[0, 1], [1, 1]]
    assert infer("Where", TensorSpec(BOOL, (None, 3))) == TensorSpec(INT64, (None, 2))
    assert infer("Where", TensorSpec(BOOL, (3,), (1, 0, 1))) == TensorSpec(INT64, (2, 1), (0, 2))
