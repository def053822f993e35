"""Samples as small pictures and waveforms."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from thinflow.ops.audio import EncodeWav
from thinflow.ops.decode import DecodePng
from thinflow.ops.encode import EncodePng
from thinflow.optimize.quality_page import preview, previews


def pixels(picture: str) -> Any:
    head, _, data = picture.partition(",")
    assert head == "data:image/png;base64"
    return DecodePng.kernel(np.array(base64.b64decode(data), object))


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.0, 255.0), (0.0, 16.0), (-123.0, 151.0)]
)
def test_pixels_in_any_range(low: float, high: float) -> None:
    ramp = np.linspace(low, high, 64, dtype=np.float32).reshape(1, 8, 8, 1)
    found = pixels(preview([ramp]).picture)
    assert found.shape == (8, 8, 1)
    assert (found[0, 0, 0], found[-1, -1, 0]) == (0, 255)
    assert (np.diff(found.reshape(-1).astype(int)) >= 3).all()


def test_large_pictures_become_small() -> None:
    found = pixels(preview([np.zeros((1, 300, 200, 3), np.uint8)]).picture)
    assert max(found.shape[:2]) <= 96
    assert found.shape[2] == 3


def test_a_spectrogram_is_a_picture() -> None:
    assert pixels(preview([np.random.default_rng(0).random((1, 98, 40), np.float32)]).picture).shape[1] == 20


def test_sound() -> None:
    wave = np.sin(np.linspace(0, 100, 16000)).astype(np.float32)
    found = preview([wave[None]]).wave
    assert len(found) == 160
    assert min(low for low, _ in found) == pytest.approx(-1, abs=0.01)
    assert found == preview([wave[:, None]]).wave
    # Codes of 16 bits look the same.
    codes = preview([(wave * 32767).astype(np.int16)]).wave
    assert codes[5] == pytest.approx(found[5], abs=0.01)


def test_what_is_no_number_is_drawn_as_silence() -> None:
    assert preview([np.full((1000,), np.nan, np.float32)]).wave[0] == (0.0, 0.0)


def test_files_that_a_model_takes_as_they_are() -> None:
    sound = EncodeWav.kernel(np.full((800, 1), 0.5, np.float32), np.array(16000))
    assert preview([sound]).wave[3] == (0.5, 0.5)
    picture = EncodePng.kernel(np.full((9, 9, 3), 7, np.uint8))
    assert pixels(preview([picture]).picture).shape == (9, 9, 3)


@pytest.mark.parametrize(
    "array",
    [
        np.array(b"RIFFnothing", object),
        np.array(b"no picture", object),
        np.array([b"two", b"texts"], object),
        np.zeros((1, 10), np.float32),
        np.zeros((0,), np.float32),
        np.zeros((3, 5, 7, 9), np.float32),
        np.array([True]),
    ],
    ids=repr,
)
def test_what_looks_like_nothing(array: Any) -> None:
    found = preview([array])
    assert (found.picture, found.wave) == ("", ())


def test_the_first_input_that_looks_like_something() -> None:
    assert preview([np.zeros(3, np.float32), np.zeros((8, 8), np.uint8)]).picture


def test_only_those_asked_for_and_no_further() -> None:
    walked = []

    def samples() -> Any:
        for number in range(100):
            walked.append(number)
            yield {"x": np.zeros((8, 8), np.uint8)}

    assert set(previews(samples(), [2, 5])) == {2, 5}
    assert walked[-1] == 5
