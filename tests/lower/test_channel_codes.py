"""Real weights in eight bits: what is promised of the sums holds."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from thinflow.lower.channel_codes import channel_codes, is_close

FEW = settings(max_examples=40, deadline=None)


def sums(x, codes):
    """What integer kernels add up, in reals per step of the input; x [n,taps] less its zero."""
    return (x @ codes.weights.astype(np.int64)) * codes.scales.astype(np.float64) + codes.shift


@FEW
@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 255), st.sampled_from([1e-6, 1.0, 50.0]),
       st.integers(0, 9999))  # fmt: skip
def test_sums_are_no_further_off_than_promised(taps, count, zero, size, seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, size, (taps, count))
    weights[:, 0] *= rng.choice([0.0, 1.0])
    codes = channel_codes(weights, zero, result_step=size)
    assert codes.weights.dtype == np.int8
    assert np.abs(codes.weights.astype(int)).max() <= 127
    x = rng.choice([-zero, 255 - zero], (300, taps))
    off = np.abs(sums(x, codes) - x @ weights).max(axis=0)
    assert (off <= codes.most() * (1 + 1e-6)).all()
    colours = np.repeat(np.array([[-zero], [255 - zero]]), taps, axis=1)
    off = np.abs(sums(colours, codes) - colours @ weights).max(axis=0)
    assert (off <= codes.most_of_one_colour() * (1 + 1e-6)).all()
    assert (codes.most_of_one_colour() <= codes.most()).all()


@FEW
@given(st.integers(60, 127), st.floats(1e-3, 3.0), st.integers(0, 9999))
def test_stored_weights_that_fit_lose_nothing(most, step, seed):
    stored = np.random.default_rng(seed).integers(-most, most, (9, 40), endpoint=True)
    weights = (stored * np.float32(step)).astype(np.float32).astype(np.float64)
    codes = channel_codes(weights, 100, result_step=step * 100)
    assert codes.most().max() <= 1e-3 * step * 100 + 0.5 * codes.scales.max()
    assert is_close(codes, step * 100)


def test_the_share_beyond_a_code_is_that_of_random_codes():
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 1, (9, 6))
    codes = channel_codes(weights, 0, result_step=1.0)
    step = float(np.median(codes.most()) / 3)
    x = rng.integers(0, 256, (40_000, 9))
    phase = rng.uniform(0, 1, (40_000, 6))
    ours, theirs = (np.floor(y / step + phase) for y in (sums(x, codes), x @ weights))
    found = (np.abs(ours - theirs) > 1).mean()
    assert 0.5 * found < codes.share_beyond(step) < 2 * found
    assert not is_close(codes, step)


def test_one_channel_too_coarse_spoils_it():
    weights = np.random.default_rng(1).normal(0, 1, (9, 4))
    assert is_close(channel_codes(weights, 128, 10.0), 10.0)
    weights[:, 2] *= 1000
    assert not is_close(channel_codes(weights, 128, 10.0), 10.0)
