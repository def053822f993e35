"""Real weights in eight bits: what is promised of the sums holds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinflow.lower.quantized.int8_weights import is_close, quantize_per_channel, split

FEW = settings(max_examples=40, deadline=None)


def sums(x, rounded):
    """What integer kernels add up, in reals per step of the input; x [n,taps] less its zero."""
    return (x @ rounded.values.astype(np.int64)) * rounded.scales.astype(np.float64) + rounded.shift


@FEW
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 255), st.sampled_from([1e-6, 1.0, 50.0]),
       st.integers(0, 9999))  # fmt: skip
def test_sums_are_no_further_off_than_promised(taps, count, zero, size, seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, size, (taps, count))
    weights[:, 0] *= rng.choice([0.0, 1.0])
    rounded = quantize_per_channel(weights, zero, result_step=size)
    assert rounded.values.dtype == np.int8
    assert np.abs(rounded.values.astype(int)).max() <= 127
    x = rng.choice([-zero, 255 - zero], (300, taps))
    off = np.abs(sums(x, rounded) - x @ weights).max(axis=0)
    assert (off <= rounded.worst() * (1 + 1e-6)).all()
    colours = np.repeat(np.array([[-zero], [255 - zero]]), taps, axis=1)
    off = np.abs(sums(colours, rounded) - colours @ weights).max(axis=0)
    assert (off <= rounded.worst_of_equal_inputs() * (1 + 1e-6)).all()
    assert (rounded.worst_of_equal_inputs() <= rounded.worst()).all()


@FEW
@given(st.integers(60, 127), st.floats(1e-3, 3.0), st.integers(0, 9999))
def test_stored_weights_that_fit_lose_nothing(most, step, seed):
    stored = np.random.default_rng(seed).integers(-most, most, (9, 40), endpoint=True)
    weights = (stored * np.float32(step)).astype(np.float32).astype(np.float64)
    rounded = quantize_per_channel(weights, 100, result_step=step * 100)
    assert rounded.worst().max() <= 1e-3 * step * 100 + 0.5 * rounded.scales.max()
    assert is_close(rounded, step * 100)


def test_the_share_beyond_a_code_is_that_of_random_rounded():
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 1, (9, 6))
    rounded = quantize_per_channel(weights, 0, result_step=1.0)
    step = float(np.median(rounded.worst()) / 3)
    x = rng.integers(0, 256, (40_000, 9))
    phase = rng.uniform(0, 1, (40_000, 6))
    ours, theirs = (np.floor(y / step + phase) for y in (sums(x, rounded), x @ weights))
    found = (np.abs(ours - theirs) > 1).mean()
    assert 0.5 * found < rounded.share_beyond(step) < 2 * found
    assert not is_close(rounded, step)


def test_one_channel_too_coarse_spoils_it():
    weights = np.random.default_rng(1).normal(0, 1, (9, 4))
    assert is_close(quantize_per_channel(weights, 128, 10.0), 10.0)
    weights[:, 2] *= 1000
    assert not is_close(quantize_per_channel(weights, 128, 10.0), 10.0)


# --- further channels ------------------------------------------------------------------------------------


def parted_sums(x, parts):
    """What a product with the parts adds up, x [n,c] less its zero."""
    columns = [x, *(x[:, first : first + count] for first, count in parts.copies)]
    return np.concatenate(columns, axis=1) @ parts.values[0].astype(int) + parts.shift


@given(st.integers(0, 255), st.integers(0, 255), st.integers(1, 12), st.integers(1, 4), st.integers(0, 9999))
def test_nothing_is_lost_without_tolerance(zero_w, zero_x, depth, count, seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 256, (1, depth, count)).astype(np.int16) - np.int16(zero_w)
    x = rng.integers(0, 256, (5, depth)) - zero_x
    parts, error = split(weights, zero_x, 0.0)
    assert parts.values.dtype == np.int8
    assert np.abs(parts.values.astype(int)).max() <= 127
    np.testing.assert_array_equal(parted_sums(x, parts), x @ weights[0].astype(int))
    assert not error.any()
    assert not parts.shift.any()


@given(
    st.integers(100, 155), st.integers(0, 255), st.sampled_from([200.0, 1000.0, 1e6]), st.integers(0, 9999)
)
def test_what_is_dropped_is_within_the_tolerance(zero_w, zero_x, tolerance, seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 256, (1, 6, 8)).astype(np.int16) - np.int16(zero_w)
    x = rng.integers(0, 256, (50, 6)) - zero_x
    parts, error = split(weights, zero_x, tolerance)
    off = np.abs(parted_sums(x, parts) - x @ weights[0].astype(int)).max(axis=0)
    assert (off <= error).all()
    assert error.max() <= tolerance + 0.5
    if tolerance == 1e6:
        assert parts.copies == ()


def test_copies_are_stretches_of_channels_or_all():
    weights = np.zeros((1, 20, 2), np.int16)
    weights[0, [3, 4, 9], 0] = 130
    assert split(weights, 0, 0.0)[0].copies == ((3, 2), (9, 1))
    weights[0, ::2, 1] = -200
    parts, _ = split(weights, 0, 0.0)
    assert parts.copies == ((0, 20),)
    assert parts.values.shape == (1, 40, 2)


@pytest.mark.parametrize("zero", [0, 255])
def test_one_sided_weights_take_three_parts_at_most(zero):
    codes = np.arange(256, dtype=np.int16).reshape(1, 256, 1) - np.int16(zero)
    parts, _ = split(codes, 0, 0.0)
    assert len(parts.copies) == 2
    assert parts.copies[1][1] == 1
