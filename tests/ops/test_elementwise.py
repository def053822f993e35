"""Arithmetic of two inputs: rounding, zeros, wrap-around and what is known before a run."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import NodeError, ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec

Array = np.ndarray[Any, Any]

_random = np.random.default_rng(1)
_FLOATS: list[Any] = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


def _values(*shape: int) -> Array:
    return _random.uniform(-4, 4, shape)


def _float_cases(*kinds: Any) -> list[Case]:
    special = np.array([np.nan, 1, 1, -1, 0, 0.5, np.inf, -5, 5, 0, np.inf, -np.inf])
    other = np.array([1, np.nan, 0.1, 0, 0, -2, 3, 3, -3, np.nan, 0, -np.inf])
    cases: list[Case] = [([special.astype(np.float32), other.astype(np.float32)], {})]
    cases += [([_values(2, 1, 3).astype(k), _values(4, 1).astype(k)], {}) for k in kinds or _FLOATS]
    return cases


def _int_cases(*kinds: Any) -> list[Case]:
    cases: list[Case] = []
    for kind in kinds or (np.int32, np.int64, np.int8, np.uint8):
        info = np.iinfo(kind)
        x = np.array([info.max, info.min, 7, 100, 3], kind)
        cases.append(([x, np.array([2, 3, 5, 2, 1], kind)], {}))
    return cases


_COMPLEX: list[Case] = [
    ([np.array([1 + 2j, 0, -1j], np.complex64), np.array([2 - 1j, 1 + 1j, 3], np.complex64)], {})
]
_SIGNED_INTS: list[Case] = [([np.array([-7, 7, -7, 7], np.int32), np.array([2, -2, -2, 2], np.int32)], {})]

CASES: dict[str, list[Case]] = {
    "Add": _float_cases() + _int_cases() + _COMPLEX
    + [([np.array([b"a", b"b"], object), np.array(b"c", object)], {})],
    "AddV2": _float_cases() + _int_cases() + _COMPLEX,
    "Sub": _float_cases() + _int_cases() + _COMPLEX,
    "Mul": _float_cases() + _int_cases() + _COMPLEX,
    "Div": _float_cases() + _int_cases() + _SIGNED_INTS + _COMPLEX,
    "RealDiv": _float_cases() + _COMPLEX,
    "FloorDiv": _float_cases() + _int_cases() + _SIGNED_INTS,
    "TruncateDiv": _float_cases() + _int_cases() + _SIGNED_INTS,
    "FloorMod": _float_cases() + _int_cases() + _SIGNED_INTS,
    "Mod": _float_cases() + _int_cases(np.int32, np.int64) + _SIGNED_INTS,
    "TruncateMod": _float_cases() + _int_cases(np.int32, np.int64) + _SIGNED_INTS,
    "DivNoNan": _float_cases() + _COMPLEX,
    "MulNoNan": _float_cases() + _COMPLEX,
    "Maximum": _float_cases() + _int_cases(),
    "Minimum": _float_cases() + _int_cases(),
    "Pow": _float_cases() + _int_cases(np.int32, np.int64) + _COMPLEX,
    "SquaredDifference": _float_cases() + _int_cases(np.int32, np.int64) + _COMPLEX,
    "Atan2": _float_cases(),
    "Xdivy": _float_cases() + _COMPLEX,
    "Xlogy": _float_cases() + _COMPLEX,
    "Xlog1py": _float_cases() + _COMPLEX,
    "NextAfter": [([np.array([1, 0, -1], np.float32), np.array([2, 1, -1], np.float32)], {})],
    "ApproximateEqual": [
        ([np.array([1, 2, 3], np.float32), np.array([1.05, 2.2, 3], np.float32)], {"tolerance": 0.1}),
        ([np.array([1, 2], np.float64), np.array([1, 2.00002], np.float64)], {}),
    ],
    "AddN": [
        ([_values(2, 3).astype(np.float32) for _ in range(3)], {}),
        ([np.array([200, 3], np.uint8)] * 3, {}),
        ([_values(2).astype(np.float16)], {}),
    ],
    "AccumulateNV2": [([_values(2, 3).astype(np.float32) for _ in range(2)], {"shape": (2, 3)})],
    "ClipByValue": [
        ([np.array([np.nan, 1, 5], np.float32), np.array(2, np.float32), np.array(1, np.float32)], {}),
        ([_values(3, 2).astype(np.float32), np.array(-1, np.float32), np.array(1, np.float32)], {}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_division_rounds_as_its_name_says() -> None:
    x, y = np.array([-7, 7, -7, 7], np.int32), np.array([2, -2, -2, 2], np.int32)
    assert run("Div", x, y).tolist() == run("TruncateDiv", x, y).tolist() == [-3, -3, 3, 3]
    assert run("FloorDiv", x, y).tolist() == [-4, -4, 3, 3]
    assert run("FloorMod", x, y).tolist() == [1, -1, -1, 1]
    assert run("Mod", x, y).tolist() == [-1, 1, -1, 1]
    assert run("FloorDiv", np.float32(1), np.float32(0.1)) == 10  # Python says 9


def test_smallest_integer_by_minus_one_wraps() -> None:
    x, y = np.array([-(2**31)], np.int32), np.array([-1], np.int32)
    for name, expected in (("Div", -(2**31)), ("FloorDiv", -(2**31)), ("Mod", 0), ("FloorMod", 0)):
        assert run(name, x, y).tolist() == [expected]


@pytest.mark.parametrize("name", ["Div", "FloorDiv", "TruncateDiv", "Mod", "FloorMod", "TruncateMod"])
def test_integer_division_by_zero_is_an_error(name: str) -> None:
    with pytest.raises(NodeError, match="integer division by zero"):
        run(name, np.array([1, 2], np.int32), np.array([1, 0], np.int32))


def test_float_division_by_zero_is_not() -> None:
    assert run("RealDiv", np.float32([1, -1]), np.float32([0, 0])).tolist() == [np.inf, -np.inf]
    assert run("DivNoNan", np.float32([1, np.nan]), np.float32([0, 0])).tolist() == [0, 0]
    assert run("MulNoNan", np.float32([np.inf, np.nan]), np.float32([0, 0])).tolist() == [0, 0]


def test_zero_times_anything_is_zero_in_the_x_family() -> None:
    for name in ("Xlogy", "Xlog1py", "Xdivy"):
        assert run(name, np.float32([0, 0]), np.float32([0, np.nan])).tolist() == [0, 0]


def test_extremes_keep_nan() -> None:
    for name in ("Maximum", "Minimum"):
        assert np.isnan(run(name, np.float32([np.nan, 1]), np.float32([1, np.nan]))).all()


def test_a_low_bound_above_the_high_one_wins() -> None:
    assert run("ClipByValue", np.float32([0, 5]), np.float32(2), np.float32(1)).tolist() == [2, 2]


def test_integer_powers() -> None:
    assert run("Pow", np.int32([2, 3, -2]), np.int32([10, 21, 3])).tolist() == [1024, 1870418611, -8]
    with pytest.raises(NodeError, match="no negative integer power"):
        run("Pow", np.int32([1]), np.int32([-1]))


def test_strings_add_up() -> None:
    y = run("Add", np.array(b"a", object), np.array(b"bc", object))
    assert y.dtype == object
    assert y.item() == b"abc"


def test_elements_stay_known() -> None:
    shape = TensorSpec(INT32, (3,), (None, 4, 6))
    two = TensorSpec(INT32, (), (2,))
    assert infer("Mul", shape, two).elements == (None, 8, 12)
    assert infer("FloorDiv", shape, two).elements == (None, 2, 3)
    assert infer("Maximum", shape, TensorSpec(INT32, (), (5,))).elements == (None, 5, 6)
    assert infer("FloorDiv", two, TensorSpec(INT32, (), (0,))).ints is None
    big = TensorSpec(INT32, (), (2**31 - 1,))
    assert infer("AddV2", big, big).elements == (-2,)


def test_shapes_broadcast_or_fail() -> None:
    y = infer("Sub", TensorSpec(FLOAT, (None, 1, 3)), TensorSpec(FLOAT, (4, 1)))
    assert (y.dtype, y.shape) == (FLOAT, (None, 4, 3))
    assert infer("Sub", TensorSpec(FLOAT, None), TensorSpec(FLOAT, (4,))).shape is None
    with pytest.raises(ShapeError, match="do not broadcast"):
        infer("Sub", TensorSpec(FLOAT, (2,)), TensorSpec(FLOAT, (3,)))
    with pytest.raises(ShapeError, match="differ"):
        infer("AddN", TensorSpec(FLOAT, (2,)), TensorSpec(FLOAT, (1,)))
    assert infer("AddN", TensorSpec(FLOAT, (None, 2)), TensorSpec(FLOAT, (3, None))).shape == (3, 2)


def test_addn_refuses_to_broadcast() -> None:
    with pytest.raises(ShapeError, match="differ in shape"):
        run("AddN", np.zeros((2, 3), np.float32), np.zeros(3, np.float32))


def test_addn_of_nothing_and_of_one() -> None:
    with pytest.raises(ShapeError, match="a sum of no tensors has no type"):
        infer("AddN")
    assert infer("AddN", TensorSpec(FLOAT, (2, None))) == TensorSpec(FLOAT, (2, None))
    assert run("AddN", np.float32([1, 2])).tolist() == [1, 2]
