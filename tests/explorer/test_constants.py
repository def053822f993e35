"""Statistics of weights, and pictures of filters."""

from __future__ import annotations

import base64
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from thinflow.explorer import constants
from thinflow.explorer.constants import BINS, Allowance, few_values, first_values, numbers, statistics
from thinflow.explorer.filters import MOST_SIDE, filter_picture
from thinflow.ir.tensor import Tensor


def of(array: Any) -> Tensor:
    return Tensor.from_array(np.asarray(array))


@given(arrays.arrays(np.float32, st.integers(1, 60), elements=st.floats(-1e6, 1e6, width=32)))
def test_they_are_numpys(array: Any) -> None:
    found = statistics(of(array))
    assert found is not None
    assert (found.minimum, found.maximum) == (array.min(), array.max())
    assert found.mean == pytest.approx(array.astype(np.float64).mean(), abs=1e-6)
    assert found.zeros == np.count_nonzero(array == 0) / array.size
    if found.histogram:
        assert (len(found.histogram), sum(found.histogram)) == (BINS, array.size)


def test_nan_and_infinity_are_counted_and_left_out() -> None:
    found = statistics(of(np.array([1, np.nan, np.inf, -np.inf, 3], np.float32)))
    assert found is not None
    assert (found.non_finite, found.minimum, found.maximum, found.mean) == (3, 1.0, 3.0, 2.0)
    nothing = statistics(of(np.array([np.nan], np.float32)))
    assert nothing is not None
    assert (nothing.minimum, nothing.mean, nothing.non_finite) == (None, None, 1)


def test_one_number_stored_for_all() -> None:
    found = statistics(of(np.broadcast_to(np.float32(0), (1000, 1000))))
    assert found is not None
    assert (found.zeros, found.sampled) == (1.0, None)


def test_a_large_one_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "MOST_ELEMENTS", 1 << 14)
    array = np.linspace(-1, 1, 1 << 17, dtype=np.float32)
    found = statistics(of(array))
    assert found is not None
    assert found.sampled == 1 << 14
    assert (found.minimum, found.maximum) == (-1.0, 1.0)
    assert sum(found.histogram) == 1 << 14


@pytest.mark.parametrize("array", [np.array([b"a"], object), np.zeros((0, 3), np.float32), np.array([1j])])
def test_what_has_no_statistics(array: Any) -> None:
    assert statistics(of(array)) is None


def test_first_values() -> None:
    assert first_values(of(np.arange(10, dtype=np.int32))) == "0,1,2,3,4,5,6,7,..."
    assert first_values(of(np.array([b"x" * 500], object))).endswith("…")


def pixels(picture: Any) -> Any:
    raw = np.frombuffer(base64.b64decode(picture.pixels), np.uint8)
    return raw.reshape(picture.height, picture.width, picture.channels)


def test_filters_on_colours() -> None:
    weights = np.zeros((3, 3, 3, 4), np.float32)
    weights[1, 2, 0, 3] = 5  # red, in the middle of the last column of the last filter
    picture = filter_picture(of(weights), "hwio")
    assert picture is not None
    assert (picture.width, picture.height, picture.channels) == (7, 7, 3)
    assert pixels(picture)[4 + 1, 4 + 2].tolist() == [255, 0, 0]


def test_filters_in_every_layout_are_the_same() -> None:
    weights = np.random.default_rng(0).normal(size=(16, 5, 5, 7)).astype(np.float32)  # ohwi
    found = [
        filter_picture(of(np.ascontiguousarray(weights.transpose(order))), layout)
        for order, layout in (((0, 1, 2, 3), "ohwi"), ((0, 3, 1, 2), "oihw"), ((1, 2, 3, 0), "hwio"))
    ]
    assert found[0] == found[1] == found[2]
    assert found[0] is not None
    assert max(found[0].width, found[0].height) <= MOST_SIDE


@pytest.mark.parametrize("shape", [(1, 1, 3, 8), (64, 64, 3, 1)])
def test_what_cannot_be_seen_has_no_picture(shape: tuple[int, ...]) -> None:
    assert filter_picture(of(np.ones(shape, np.float32)), "hwio") is None


def test_equal_numbers_are_gray() -> None:
    picture = filter_picture(of(np.full((3, 3, 1, 1), 7, np.float32)), "hwio")
    assert picture is not None
    assert set(pixels(picture).ravel().tolist()) == {128}


def test_numbers_come_back_as_they_were() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    allowance = Allowance(100, 60)
    found = numbers(of(array), allowance)
    assert found is not None
    assert found.type == "<f4"
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(found.data), "<f4"), array.reshape(-1))
    # The page is full.
    assert allowance.left == 36
    assert numbers(of(np.zeros(10, np.float32)), allowance) is None
    assert allowance.left == 36


def test_numbers_of_one_constant_have_a_limit_of_their_own() -> None:
    assert numbers(of(np.zeros(10, np.float64)), Allowance(79, 1000)) is None
    assert numbers(of(np.zeros(10, np.float64)), Allowance(80, 1000)) is not None


def test_formats_that_javascript_lacks_become_floats() -> None:
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    found = numbers(of(array), few_values())
    assert found is not None
    assert found.type == "<f4"
    assert np.frombuffer(base64.b64decode(found.data), "<f4").tolist() == [1.5, -2]


def test_words_have_no_numbers() -> None:
    assert numbers(of(np.array([b"a", b"b"], object)), few_values()) is None
