"""Pictures are made smaller across before down, whatever Pillow's version would do."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.quantize.sample_files import Scaling

Image = pytest.importorskip("PIL.Image")


@pytest.mark.parametrize(
    ("old", "new"), [((41, 90), (35, 30)), ((111, 200), (35, 30)), ((20, 100), (50, 60))]
)
def test_across_before_down(old: tuple[int, int], new: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (old[1], old[0], 3)).astype(np.uint8)
    picture = Image.fromarray(pixels)
    bilinear = Image.Resampling.BILINEAR
    wanted = picture.resize((new[0], old[1]), bilinear).resize(new, bilinear)
    np.testing.assert_array_equal(np.asarray(Scaling().resized(picture, new, "")), np.asarray(wanted))
