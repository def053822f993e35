"""Colour spaces and adjustments."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run
from thinflow.errors import ShapeError

Array = np.ndarray[Any, Any]


def random(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).random(shape).astype(dtype)


def f32(value: Any) -> Array:
    return np.array(value, np.float32)


X = random(2, 4, 5, 3)
CASES: dict[str, list[Case]] = {
    "RGBToHSV": [
        ([random(4, 3, dtype=t)], {}) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
    ],
    "HSVToRGB": [
        ([random(4, 3, dtype=t)], {}) for t in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
    ],
    "AdjustContrastv2": [([X, f32(1.5)], {}), ([X[:0], f32(1.5)], {})],
    "AdjustContrast": [([(X * 255).astype(np.uint8), f32(2), f32(0), f32(255)], {})],
    "AdjustHue": [([X, f32(0.3)], {})],
    "AdjustSaturation": [([X, f32(0.3)], {})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_pure_colours() -> None:
    rgb = f32([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 1]])
    hsv = f32([[0, 1, 1], [1 / 3, 1, 1], [2 / 3, 1, 1], [0, 0, 1], [0, 0, 0], [5 / 6, 1, 1]])
    np.testing.assert_allclose(run("RGBToHSV", rgb), hsv, atol=1e-6)
    np.testing.assert_allclose(run("HSVToRGB", hsv), rgb, atol=1e-6)


def test_round_trip() -> None:
    np.testing.assert_allclose(run("HSVToRGB", run("RGBToHSV", X)), X, atol=1e-6)


def test_hue_turns() -> None:
    red = f32([1, 0, 0]).reshape(1, 1, 3)
    for turn, expected in ((1 / 3, [0, 1, 0]), (-1 / 3, [0, 0, 1]), (1, [1, 0, 0]), (0.5, [0, 1, 1])):
        np.testing.assert_allclose(run("AdjustHue", red, f32(turn)).ravel(), expected, atol=1e-5)
    np.testing.assert_allclose(run("AdjustHue", X, f32(0)), X, atol=1e-6)


def test_saturation_is_capped() -> None:
    x = f32([0.2, 0.6, 0.4]).reshape(1, 1, 3)
    np.testing.assert_allclose(run("AdjustSaturation", x, f32(0)).ravel(), [0.6] * 3, atol=1e-6)
    np.testing.assert_allclose(run("AdjustSaturation", x, f32(100)).ravel(), [0, 0.6, 0.3], atol=1e-6)


def test_contrast_is_about_each_channels_mean() -> None:
    x = f32([[0, 1], [2, 5]]).reshape(1, 2, 1, 2)
    np.testing.assert_allclose(run("AdjustContrastv2", x, f32(2)).ravel(), [-1, -1, 3, 7])


def test_three_channels_are_needed() -> None:
    with pytest.raises(ShapeError, match="must be 3"):
        run("RGBToHSV", X[..., :2])
