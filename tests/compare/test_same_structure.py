"""Graphs compared with tolerances: which tensors they hold for, and where the border is."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from thinflow.compare.same_structure import Rules, graph_differences
from thinflow.ir.graph import Graph


def holding(array: np.ndarray) -> Graph:
    graph = Graph()
    graph.constant(array, "c")
    return graph


def differ(a: np.ndarray, b: np.ndarray, **tolerances: float) -> list[str]:
    return graph_differences(holding(a), holding(b), Rules(**tolerances))


ONE = np.array([1, 100], np.float32)


@pytest.mark.parametrize(
    ("other", "tolerances", "equal"),
    [
        ([1, 100], {}, True),
        ([1, 100.5], {}, False),
        ([1, 100.5], {"rtol": 0.01}, True),
        ([1.5, 100], {"rtol": 0.01}, False),
        ([1.5, 100], {"atol": 0.6}, True),
        ([1.5, 100], {"atol": 0.4}, False),
        ([1.5, 100.5], {"rtol": 0.01, "atol": 0.5}, True),
    ],
)
def test_floats_are_equal_within_tolerances(
    other: list[float], tolerances: dict[str, float], equal: bool
) -> None:
    found = differ(ONE, np.array(other, np.float32), **tolerances)
    assert (found == []) is equal


def test_how_far_they_are_apart_is_said_only_with_tolerances() -> None:
    other = np.array([1.5, 100], np.float32)
    (plain,) = differ(ONE, other)
    assert "largest difference" not in plain
    (told,) = differ(ONE, other, rtol=1e-3)
    assert told.endswith(" (largest difference 0.5, 0.005 of the largest value, at [0])")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_every_float_type_has_tolerances(dtype: type) -> None:
    assert differ(np.array([1], dtype), np.array([1.0078125], dtype), atol=0.01) == []


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_])
def test_integers_have_none(dtype: type) -> None:
    (found,) = differ(np.array([0, 1], dtype), np.array([1, 1], dtype), atol=5, rtol=5)
    assert "largest difference" not in found


def test_other_types_and_shapes_differ_whatever_the_tolerance() -> None:
    for other in (ONE.astype(np.float64), ONE[:1], ONE[None]):
        found = differ(ONE, other, atol=1e9)
        assert found
        assert "largest difference" not in "".join(found)


def test_nan_equals_nan() -> None:
    nan = np.array([np.nan, 1], np.float32)
    assert differ(nan, nan + np.float32(0), atol=1e-3) == []
    assert differ(nan, np.array([0, 1], np.float32), atol=1e9) != []
