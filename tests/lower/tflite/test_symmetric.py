"""Nine-bit weights as int8."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinflow.lower.tflite.symmetric import split


def sums(x, parts):
    """What a product with the parts adds up, x [n,c] less its zero."""
    columns = [x, *(x[:, first : first + count] for first, count in parts.copies)]
    return np.concatenate(columns, axis=1) @ parts.weights[0].astype(int) + parts.shift


@given(st.integers(0, 255), st.integers(0, 255), st.integers(1, 12), st.integers(1, 4), st.integers(0, 9999))
def test_nothing_is_lost_without_tolerance(zero_w, zero_x, depth, count, seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 256, (1, depth, count)).astype(np.int16) - np.int16(zero_w)
    x = rng.integers(0, 256, (5, depth)) - zero_x
    parts = split(weights, zero_x, 0.0)
    assert parts.weights.dtype == np.int8
    assert np.abs(parts.weights.astype(int)).max() <= 127
    np.testing.assert_array_equal(sums(x, parts), x @ weights[0].astype(int))
    assert not parts.error.any()
    assert not parts.shift.any()


@given(
    st.integers(100, 155), st.integers(0, 255), st.sampled_from([200.0, 1000.0, 1e6]), st.integers(0, 9999)
)
def test_what_is_dropped_is_within_the_tolerance(zero_w, zero_x, tolerance, seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 256, (1, 6, 8)).astype(np.int16) - np.int16(zero_w)
    x = rng.integers(0, 256, (50, 6)) - zero_x
    parts = split(weights, zero_x, tolerance)
    off = np.abs(sums(x, parts) - x @ weights[0].astype(int)).max(axis=0)
    assert (off <= parts.error).all()
    assert parts.error.max() <= tolerance + 0.5
    if tolerance == 1e6:
        assert parts.copies == ()


def test_copies_are_stretches_of_channels_or_all():
    weights = np.zeros((1, 20, 2), np.int16)
    weights[0, [3, 4, 9], 0] = 130
    assert split(weights, 0, 0.0).copies == ((3, 2), (9, 1))
    weights[0, ::2, 1] = -200
    parts = split(weights, 0, 0.0)
    assert parts.copies == ((0, 20),)
    assert parts.weights.shape == (1, 40, 2)


@pytest.mark.parametrize("zero", [0, 255])
def test_one_sided_weights_take_three_parts_at_most(zero):
    codes = np.arange(256, dtype=np.int16).reshape(1, 256, 1) - np.int16(zero)
    parts = split(codes, 0, 0.0)
    assert len(parts.copies) == 2
    assert parts.copies[1][1] == 1
