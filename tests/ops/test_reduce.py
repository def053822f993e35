"""Reductions and scans: axes, what an empty axis gives, how each type adds up."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import ShapeError
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64, TensorSpec

Array = np.ndarray[Any, Any]

_random = np.random.default_rng(5)
_FLOATS: list[Any] = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


def _axes(*axes: int) -> Array:
    return np.array(axes, np.int32)


def _reductions(*kinds: Any) -> list[Case]:
    cases: list[Case] = []
    for kind in kinds:
        x = _random.uniform(0 if np.dtype(kind).kind == "u" else -4, 4, (2, 3, 4)).astype(kind)
        cases += [([x, _axes(1)], {}), ([x, _axes(0, -1)], {"keep_dims": True})]
    x = _random.uniform(-4, 4, (2, 3)).astype(np.float32)
    cases += [
        ([x, np.array(1, np.int32)], {}),
        ([x, _axes()], {}),
        ([x, np.array([0, 1], np.int64)], {}),
        ([np.zeros((0, 2), np.float32), _axes(0)], {}),
        ([np.zeros((2, 0), np.float32), _axes(0)], {}),
    ]
    return cases


_NAN: list[Case] = [([np.array([[np.nan, 1, 2], [1, 2, np.nan]], np.float32), _axes(1)], {})]
_WRAP: list[Case] = [
    ([np.array([100] * 5 + [27], kind), _axes(0)], {}) for kind in (np.uint8, np.int8, np.int32)
]
_COMPLEX: list[Case] = [([np.array([3 + 4j, 1j], np.complex64), _axes(0)], {})]
_BOOLS: list[Case] = [
    ([np.array([[True, False], [True, True]]), _axes(1)], {}),
    ([np.zeros((0, 2), bool), _axes(0)], {"keep_dims": True}),
]
_ARGS: list[Case] = [
    ([_random.normal(0, 1, (3, 4)).astype(kind), np.array(axis, np.int32)], {})
    for kind in _FLOATS for axis in (0, -1)
] + [
    ([np.array([2, 7, 7, 2], np.int8), np.array(0, np.int32)], {"output_type": INT32}),
    ([np.array([False, True, True]), np.array(0, np.int64)], {}),
    ([np.array([[np.nan, 1, 2], [1, np.nan, 2], [1, 2, np.nan]], np.float32), np.array(1, np.int32)], {}),
]  # fmt: skip
_SCANS: list[Case] = [
    ([_random.uniform(-2, 2, (3, 4)).astype(kind), np.array(axis, np.int32)],
     {"exclusive": exclusive, "reverse": reverse})
    for kind in (np.float32, np.float16, np.float64)
    for axis, exclusive, reverse in ((0, False, False), (-1, True, False), (1, False, True), (0, True, True))
] + [([np.zeros((0, 2), np.float32), np.array(0, np.int32)], {"exclusive": True})]  # fmt: skip
_INT_SCANS: list[Case] = [
    ([np.array([[100, 100, 3]], kind), np.array(1, np.int64)], {"exclusive": True})
    for kind in (np.int8, np.int32)
]

CASES: dict[str, list[Case]] = {
    "Sum": _reductions(*_FLOATS, np.int32, np.int64) + _WRAP + _COMPLEX
    + [([np.ones(5000, np.float16), _axes(0)], {})],
    "Prod": _reductions(np.float32, np.float64, np.int32) + _WRAP + _COMPLEX,
    "Mean": _reductions(*_FLOATS, np.int32, np.int64, np.uint8) + _WRAP + _COMPLEX
    + [([np.array([[-7, 2, 2], [2**31 - 1] * 3], np.int32), _axes(1)], {})],
    "Max": _reductions(*_FLOATS, np.int32, np.uint8) + _NAN + [([np.zeros((0, 2), np.int32), _axes(0)], {})],
    "Min": _reductions(*_FLOATS, np.int32, np.uint8) + _NAN + [([np.zeros((0, 2), np.int32), _axes(0)], {})],
    "EuclideanNorm": _reductions(*_FLOATS, np.int32) + _WRAP + _COMPLEX,
    "Any": _BOOLS,
    "All": _BOOLS,
    "ArgMax": _ARGS,
    "ArgMin": _ARGS,
    "Cumsum": _SCANS + _INT_SCANS,
    "Cumprod": _SCANS + _INT_SCANS,
    "CumulativeLogsumexp": _SCANS,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_shape_rule_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_integers_wrap_in_a_sum_but_not_in_a_mean() -> None:
    x = np.array([100] * 5 + [27], np.uint8)
    assert run("Sum", x, _axes(0)) == 527 % 256
    assert run("Mean", x, _axes(0)) == 87
    assert run("EuclideanNorm", x, _axes(0)) == 6  # root of 50729 modulo 256
    assert run("Mean", np.int32([-7, 2, 2]), _axes(0)) == -1  # towards zero
    assert run("Mean", np.full(4, 2**31 - 1, np.int32), _axes(0)) == 2**31 - 1


def test_nothing_reduces_to_the_neutral_element() -> None:
    empty, ints = np.zeros((0, 2), np.float32), np.zeros((0, 1), np.int32)
    assert run("Sum", empty, _axes(0)).tolist() == [0, 0]
    assert run("Prod", empty, _axes(0)).tolist() == [1, 1]
    assert run("Max", empty, _axes(0)).tolist() == [-np.inf, -np.inf]
    assert run("Min", ints, _axes(0)).tolist() == [2**31 - 1]
    assert np.isnan(run("Mean", empty, _axes(0))).all()
    assert run("All", np.zeros(0, bool), _axes(0)).item() is True


def test_halves_add_up_in_float32() -> None:
    assert run("Sum", np.ones(5000, np.float16), _axes(0)) == 5000


def test_axes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert run("Sum", x, _axes()).tolist() == x.tolist()
    assert run("Sum", x, _axes(-1), keep_dims=True).tolist() == [[3], [12]]
    with pytest.raises(ShapeError, match="named twice"):
        run("Sum", x, _axes(0, -2))
    with pytest.raises(ShapeError, match="out of range"):
        run("Sum", x, _axes(2))


def test_shapes_with_unknown_parts() -> None:
    x = TensorSpec(FLOAT, (None, 3, 4))
    known = TensorSpec(INT32, (2,), (0, -1))
    assert infer("Sum", x, known).shape == (3,)
    assert infer("Sum", x, known, keep_dims=True).shape == (1, 3, 1)
    assert infer("Sum", x, TensorSpec(INT32, (2,))).shape == (None,)
    assert infer("Sum", x, TensorSpec(INT32, (None,))).shape is None
    assert infer("Sum", x, TensorSpec(INT32, (None,)), keep_dims=True).shape == (None,) * 3
    assert infer("Sum", TensorSpec(FLOAT), known).shape is None


def test_product_of_a_known_shape() -> None:
    shape, axis = TensorSpec(INT32, (3,), (2, 3, 4)), TensorSpec(INT32, (1,), (0,))
    assert infer("Prod", shape, axis).elements == (24,)
    assert infer("Prod", TensorSpec(INT32, (2,), (2, None)), axis).elements is None
    assert infer("Cumprod", shape, TensorSpec(INT32, (), (0,)), exclusive=True).elements == (1, 2, 6)


def test_first_extreme_wins_and_nan_never() -> None:
    assert run("ArgMax", np.float32([2, 7, 7]), 0) == 1
    assert run("ArgMin", np.float32([7, 2, 2]), -1) == 1
    assert run("ArgMax", np.float32([1, np.nan, 2]), 0) == 2
    assert run("ArgMax", np.float32([np.nan, np.nan]), 0) == 0
    with pytest.raises(ShapeError, match="axis 0 is empty"):
        run("ArgMax", np.zeros((0, 2), np.float32), 0)


def test_arg_shapes() -> None:
    x = TensorSpec(FLOAT, (None, 3))
    assert infer("ArgMax", x, TensorSpec(INT32, (), (0,))) == TensorSpec(INT64, (3,))
    assert infer("ArgMax", x, TensorSpec(INT32, ()), output_type=INT32) == TensorSpec(INT32, (None,))


def test_scans() -> None:
    x = np.int32([1, 2, 3])
    assert run("Cumsum", x, 0).tolist() == [1, 3, 6]
    assert run("Cumsum", x, 0, exclusive=True, reverse=True).tolist() == [5, 3, 0]
    assert run("Cumprod", x, -1, exclusive=True).tolist() == [1, 1, 2]
    y = run("CumulativeLogsumexp", np.float32([1000, 1000]), 0)
    np.testing.assert_allclose(y, [1000, 1000.6931], rtol=1e-6)
    assert run("Cumsum", np.ones(3000, np.float16), 0)[-1] == 2048  # each step is rounded


def test_any_is_bool() -> None:
    assert infer("Any", TensorSpec(BOOL, (2,), (0, 1)), TensorSpec(INT32, (1,), (0,))) == TensorSpec(
        BOOL, (), (1,)
    )
