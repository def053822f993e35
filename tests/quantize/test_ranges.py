"""Scale and zero point from a range."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinflow.quantize.kernels import Fixed
from thinflow.quantize.ranges import Range, fixed_parameters, parameters_for

finite = st.floats(-1e30, 1e30, allow_nan=False)


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero_point"),
    [
        (-1.0, 1.0, 1 / 127.5, -1),  # -0.5 rounds to even
        (0.0, 1.0, 1 / 255, -128),
        (0.0, 6.0, 6 / 255, -128),
        (2.0, 4.0, 4 / 255, -128),  # widened to contain 0
        (-3.0, -1.0, 3 / 255, 127),
        (0.0, 0.0, 1 / 255, 0),
    ],
)
def test_parameters(low: float, high: float, scale: float, zero_point: int) -> None:
    found = parameters_for(Range(low, high))
    assert found.scale == np.float32(scale)
    assert found.zero_point in {zero_point, 0 if low == -high and low else zero_point}


@given(finite, finite)
def test_zero_is_a_code_and_ends_are_reached(a: float, b: float) -> None:
    low, high = sorted((a, b))
    found = parameters_for(Range(low, high))
    assert math.isfinite(found.scale)
    assert found.scale >= np.finfo(np.float32).tiny
    assert found.scale == np.float32(found.scale)
    assert -128 <= found.zero_point <= 127
    ends = np.array([min(low, 0), max(high, 0), 0.0])
    back = (found.quantized(ends).astype(np.float64) - found.zero_point) * found.scale
    assert back[2] == 0
    assert np.all(np.abs(back - ends) <= found.scale * 1.01)


def test_tiny_range_is_widened() -> None:
    assert parameters_for(Range(0.0, 1e-20)).scale == np.float32(1e-6 / 255)
    assert parameters_for(Range(-1e-20, 0.0)).zero_point == 127


def test_fixed() -> None:
    found = fixed_parameters(Fixed(1 / 256, -128), "SOFTMAX")
    assert found.range[:2] == (0, 255 / 256)
    assert found.reason == "SOFTMAX always has these"
