"""Pools: windows at borders, ties, NaN, what padding counts for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec, dtype
from thinflow.ops import registry

Array = np.ndarray[Any, Any]
TWO = {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "padding": "SAME"}
THREE = {"ksize": (1, 3, 2, 1), "strides": (1, 2, 1, 1), "padding": "VALID"}
BOX = {"ksize": (1, 2, 2, 3, 1), "strides": (1, 1, 2, 2, 1), "padding": "SAME"}


def random(*shape: int, dtype: Any = np.float32) -> Array:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 50).astype(dtype)


def grid(*rows: list[float]) -> Array:
    return np.array(rows, np.float32)[None, :, :, None]


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


CASES: dict[str, list[Case]] = {
    "MaxPool": [
        ([random(2, 5, 4, 3)], TWO),
        ([random(2, 5, 4, 3, dtype=np.int8)], THREE),
        ([random(1, 4, 4, 6)], {"ksize": (1, 1, 1, 3), "strides": (1, 1, 1, 3), "padding": "SAME"}),
        (
            [random(1, 3, 5, 4)],
            {"ksize": (1, 1, 2, 2), "strides": (1, 1, 2, 2), "padding": "VALID", "data_format": "NCHW"},
        ),
        (
            [random(1, 5, 4, 3)],
            {**THREE, "padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 2, 0, 1, 0, 0)},
        ),
    ],
    "MaxPoolV2": [([random(1, 5, 4, 3), ints(1, 2, 2, 1), ints(1, 2, 1, 1)], {"padding": "SAME"})],
    "MaxPoolWithArgmax": [
        ([random(2, 5, 4, 3)], TWO),
        ([random(2, 5, 4, 3)], {**THREE, "Targmax": dtype("int32")}),
    ],
    "AvgPool": [([random(2, 5, 4, 3)], TWO), ([random(2, 5, 4, 3, dtype=np.float16)], THREE)],
    "MaxPool3D": [([random(1, 3, 5, 4, 2)], BOX)],
    "AvgPool3D": [([random(1, 3, 5, 4, 2)], BOX)],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_padding_never_counts() -> None:
    x = grid([-1, -2, -3], [-4, -5, -6], [-7, -8, -9])
    np.testing.assert_array_equal(run("MaxPool", x, **TWO), grid([-1, -3], [-7, -9]))
    np.testing.assert_array_equal(run("AvgPool", x, **TWO), grid([-3, -4.5], [-7.5, -9]))


def test_windows_wider_than_the_image() -> None:
    x = grid([1, 2], [3, 4])
    attrs = {"ksize": (1, 5, 5, 1), "strides": (1, 1, 1, 1), "padding": "SAME"}
    np.testing.assert_array_equal(run("MaxPool", x, **attrs), grid([4, 4], [4, 4]))
    np.testing.assert_array_equal(run("AvgPool", x, **attrs), grid([2.5, 2.5], [2.5, 2.5]))
    assert run("MaxPool", x, **{**attrs, "padding": "VALID"}).shape == (1, 0, 0, 1)


def test_the_first_of_equals_is_named() -> None:
    x = np.concatenate([grid([1, 7, 7], [7, 0, 0], [5, 0, 9])] * 2)
    attrs = {"ksize": (1, 2, 2, 1), "strides": (1, 1, 1, 1), "padding": "VALID"}
    y, index = run("MaxPoolWithArgmax", x, **attrs)
    assert y[0, ..., 0].tolist() == [[7, 7], [7, 9]]
    assert index[1, ..., 0].tolist() == [[1, 1], [3, 8]]
    assert index.dtype == np.int64
    _, index = run("MaxPoolWithArgmax", x, include_batch_in_index=True, **attrs)
    assert index[1, ..., 0].tolist() == [[10, 10], [12, 17]]


def test_nan_never_wins_a_maximum() -> None:
    x = grid([np.nan, 1, 2, 3])
    attrs = {"ksize": (1, 1, 2, 1), "strides": (1, 1, 2, 1), "padding": "VALID"}
    assert run("MaxPool", x, **attrs).ravel().tolist() == [1, 3]
    assert np.isnan(run("AvgPool", x, **attrs)).ravel().tolist() == [True, False]


def test_half_means_are_summed_in_float() -> None:
    x = np.full((1, 64, 64, 1), 1.0, np.float16)
    attrs = {"ksize": (1, 64, 64, 1), "strides": (1, 1, 1, 1), "padding": "VALID"}
    assert run("AvgPool", x, **attrs).item() == 1


def test_unknown_sizes() -> None:
    x = TensorSpec(FLOAT, (None, None, 5, 3))
    assert infer("AvgPool", x, **TWO).shape == (None, None, 3, 3)
    assert (
        infer("MaxPoolV2", x, TensorSpec(INT32, (4,)), spec_of(ints(1, 1, 1, 1)), padding="SAME").shape
        == (None,) * 4
    )


def test_bad_windows() -> None:
    with pytest.raises(ShapeError, match="over the batch"):
        run("MaxPool", grid([1]), ksize=(2, 1, 1, 1), strides=(1,) * 4, padding="VALID")
    with pytest.raises(ShapeError, match="ksize has 3"):
        infer("AvgPool", spec_of(grid([1])), ksize=(1, 1, 1), strides=(1,) * 4, padding="VALID")


def test_cost() -> None:
    x = spec_of(random(1, 4, 4, 2))
    assert (
        registry.call_cost(registry.get("AvgPool"), [infer("AvgPool", x, **TWO)], [x], TWO).flops
        == 2 * 2 * 2 * 4
    )
