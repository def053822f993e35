"""Scales of weights and biases."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from thinflow.quantize.weights import (
    ALL_OF_INT8,
    BIAS_MAX,
    grid_scales,
    has_symmetric_grid,
    quantize_bias,
    quantize_weights,
    shifted_grid,
    usable_scales,
    weight_scales,
)


def test_scales_per_channel_and_per_tensor() -> None:
    w = np.float32([[1, -2], [0.5, 0.25], [0, 0]])
    np.testing.assert_allclose(weight_scales(w, 0), [2 / 127, 0.5 / 127, 0])
    np.testing.assert_allclose(weight_scales(w, 1), [1 / 127, 2 / 127])
    np.testing.assert_allclose(weight_scales(w, None), [2 / 127])
    assert weight_scales(w[:0], 1).tolist() == [0, 0]


def test_channel_of_zeros_takes_the_finest_scale() -> None:
    assert usable_scales(np.array([0.5, 0, 0.25]), None, 1.0, 1.0).tolist() == [0.5, 0.25, 0.25]
    assert usable_scales(np.array([0.0]), None, 1.0, 1.0)[0] == np.nextafter(np.float32(1 / 127), 1)


def test_scale_is_raised_for_a_large_bias() -> None:
    bias = np.float32([1000.0, 1.0])
    scales = usable_scales(np.array([1e-9, 1e-3]), bias, 0.01, 1.0)
    assert scales[0] > 1e-9
    np.testing.assert_allclose(scales[1], 1e-3)
    codes = quantize_bias(bias, np.float32(0.01) * scales)
    np.testing.assert_allclose(codes * (np.float32(0.01) * scales).astype(np.float64), bias, rtol=1e-3)
    assert abs(int(codes[0])) <= BIAS_MAX


@given(arrays(np.float32, (3, 4), elements=st.floats(-1e6, 1e6, width=32)))
def test_codes_are_narrow_and_near(w: np.ndarray) -> None:
    scales = usable_scales(weight_scales(w, 0), None, 1.0, 1e-9)
    codes = quantize_weights(w, scales, 0)
    assert codes.dtype == np.int8
    assert codes.min(initial=0) >= -127
    error = np.abs(codes * scales[:, None].astype(np.float64) - w)
    assert np.all(error <= scales[:, None] * 0.5001)


def test_weights_on_a_grid_stay_on_it() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        channels, scale = int(rng.integers(1, 9)), (10 ** rng.uniform(-4, 1, 8)).astype(np.float32)
        most = rng.integers(1, 128, channels)
        steps = np.stack([rng.integers(-m, m + 1, (3, 5)) for m in most])
        w = (steps * scale[:channels, None, None].astype(np.float64)).astype(np.float32)
        found = grid_scales(w, 0)
        assert found.shape == (channels,)
        back = np.rint(w / found[:, None, None])
        assert np.abs(back).max() <= 127
        # Channels of zeros have no scale.
        live = np.abs(steps).max(axis=(1, 2)) > 0
        np.testing.assert_allclose((back * found[:, None, None])[live], w[live], rtol=1e-6)


def test_weights_on_no_grid_have_the_usual_scales() -> None:
    w = np.random.default_rng(5).standard_normal((4, 3, 3, 8)).astype(np.float32)
    np.testing.assert_allclose(grid_scales(w, 0), weight_scales(w, 0), rtol=1e-12)
    np.testing.assert_allclose(grid_scales(w, None), weight_scales(w, None), rtol=1e-12)
    assert grid_scales(w[:0], None).tolist() == [0]


def test_weights_with_a_zero_point() -> None:
    rng = np.random.default_rng(6)
    for _ in range(30):
        zero, scale = int(rng.integers(-128, 128)), float(10 ** rng.uniform(-4, 1))
        steps = rng.integers(-128, 128, (4, 3, 3, 2)) - zero
        w = (steps * scale).astype(np.float32)
        found = shifted_grid(w)
        assert found is not None
        codes = quantize_weights(w, np.float32([found[0]]), None, zero_point=found[1])
        assert codes.dtype == np.int8
        np.testing.assert_allclose((codes.astype(float) - found[1]) * found[0], w, rtol=1e-5, atol=1e-7)
        is_wide = np.abs(steps).max() > 127
        assert has_symmetric_grid(w, None) != is_wide
    assert shifted_grid(rng.standard_normal((4, 9)).astype(np.float32)) is None
    assert shifted_grid(np.zeros((2, 2), np.float32)) is None


def test_weights_that_take_all_of_int8_stay_on_their_grid() -> None:
    """One step more below zero than above, and each channel on the steps that it has."""
    codes = np.array([[-128, 126, 3], [5, 127, -127], [127, 0, 0]])
    w = np.float32(codes * 0.041)
    assert not has_symmetric_grid(w, 0)
    assert has_symmetric_grid(w, 0, ALL_OF_INT8)
    scales = grid_scales(w, 0, ALL_OF_INT8)
    np.testing.assert_array_equal(quantize_weights(w, scales, 0, ALL_OF_INT8), codes)
    # 128 above zero is no code.
    assert not has_symmetric_grid(-w[:1], None, ALL_OF_INT8)
