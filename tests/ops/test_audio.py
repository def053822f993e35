"""WAV files, spectrograms, cepstra; and a trained keyword model end to end."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import FormatError
from thinflow.formats import graphdef
from thinflow.interpreter import Plan
from thinflow.ir.types import STRING, TensorSpec

Array = np.ndarray[Any, Any]
RATE = np.array(16000, np.int32)


def string(data: bytes) -> Array:
    result = np.empty((), object)
    result[()] = data
    return result


def wav(samples: Array, bits: int = 16, extra: bytes = b"") -> bytes:
    channels = samples.shape[1]
    form = struct.pack("<HHIIHH", 1, channels, 16000, 32000 * channels, 2 * channels, bits)
    data = samples.astype("<i2").tobytes()
    chunks = b"fmt " + struct.pack("<I", 16) + form + extra + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


SAMPLES = np.array([[0, 1], [16384, -16384], [32767, -32768]])
NOISE = np.random.default_rng(0).standard_normal((800, 2)).astype(np.float32)
CASES: dict[str, list[Case]] = {
    "DecodeWav": [
        ([string(wav(SAMPLES))], {}),
        ([string(wav(SAMPLES))], {"desired_channels": 1, "desired_samples": 5}),
    ],
    "EncodeWav": [([NOISE, RATE], {})],
    "AudioSpectrogram": [
        ([NOISE], {"window_size": 320, "stride": 160}),
        ([NOISE[:100]], {"window_size": 320, "stride": 160, "magnitude_squared": True}),
    ],
    "Mfcc": [([np.abs(NOISE[:257].T[:, None]), RATE], {"dct_coefficient_count": 10})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=False)


def test_samples() -> None:
    audio, rate = run("DecodeWav", string(wav(SAMPLES)))
    np.testing.assert_array_equal(audio, np.float32(SAMPLES / 32768))
    assert rate == 16000
    odd_chunk = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    np.testing.assert_array_equal(run("DecodeWav", string(wav(SAMPLES, extra=odd_chunk)))[0], audio)


def test_cut_and_padded() -> None:
    audio, _ = run("DecodeWav", string(wav(SAMPLES[:, :1])), desired_channels=2, desired_samples=4)
    np.testing.assert_array_equal(audio[:, 0], audio[:, 1])
    assert audio[:, 0].tolist() == [0, 0.5, 32767 / 32768, 0]
    audio, _ = run("DecodeWav", string(wav(SAMPLES)), desired_channels=1, desired_samples=1)
    assert audio.tolist() == [[0]]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no WAV"),
        (wav(SAMPLES)[:30], "cut short"),
        (wav(SAMPLES)[:36], "no data chunk"),
        (wav(SAMPLES, bits=24), "24 bits"),
        (wav(SAMPLES).replace(b"fmt ", b"fmx "), "no format chunk"),
    ],
)
def test_damaged_files(data: bytes, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        run("DecodeWav", string(data))


def test_encoding_rounds_and_saturates() -> None:
    audio = np.array([[0.5], [-1], [1.5], [-2], [0.00002]], np.float32)
    back, _ = run("DecodeWav", run("EncodeWav", audio, RATE))
    assert (back.ravel() * 32768).tolist() == [16384, -32768, 32767, -32768, 1]


def test_a_tone_lands_in_its_bin() -> None:
    tone = np.sin(2 * np.pi * 1000 / 16000 * np.arange(512))[:, None].astype(np.float32)
    y = run("AudioSpectrogram", tone, window_size=512, stride=512)
    assert y.shape == (1, 1, 257)
    assert y[0, 0].argmax() == 32
    np.testing.assert_allclose(y[0, 0, 32], 128, rtol=1e-5)  # half of half the window
    squared = run("AudioSpectrogram", tone, window_size=512, stride=512, magnitude_squared=True)
    np.testing.assert_allclose(squared, y**2, rtol=1e-5, atol=1e-6)


def test_silence_has_the_floor_of_the_logarithm() -> None:
    y = run("Mfcc", np.zeros((1, 1, 257), np.float32), RATE)
    np.testing.assert_allclose(y[0, 0, 0], np.log(1e-12) * 40 * np.sqrt(2 / 40), rtol=1e-6)
    np.testing.assert_allclose(y[0, 0, 1:], 0, atol=1e-4)


def test_limits_beyond_the_spectrum_give_zeros() -> None:
    y = run("Mfcc", np.ones((1, 1, 257), np.float32), RATE, upper_frequency_limit=9000.0)
    assert not y.any()


def test_channels_without_bins_have_the_least_energy() -> None:
    y = run("Mfcc", np.ones((1, 1, 3), np.float32), np.int32(16000), dct_coefficient_count=3)
    assert y[0, 0, 0] == pytest.approx(-247.13936, rel=1e-6)
    np.testing.assert_allclose(y[0, 0, 1:], 0, atol=1e-9)


def test_known_parts_of_shapes() -> None:
    audio, rate = infer("DecodeWav", TensorSpec(STRING, ()), desired_samples=100)
    assert (audio.shape, rate.shape) == ((100, None), ())
    assert infer("AudioSpectrogram", audio, window_size=20, stride=10).shape == (None, 9, 17)


def test_keyword_model(shared: Path) -> None:
    model = "kws_DS_CNN_S"
    graph = graphdef.load(shared / "models" / f"{model}.pb")
    source, result = graph.value("wav_data:0"), graph.value("labels_softmax:0")
    plan = Plan(graph, [result], [source])
    with np.load(shared / "models" / "reference.npz") as reference:
        expected = reference[f"{model}/softmax"]
    clips = sorted((shared / "data" / "kws").glob("*.wav"))
    for index in range(0, len(clips), 24):
        (y,) = plan.run({source: string(clips[index].read_bytes())})
        np.testing.assert_allclose(y.ravel(), expected[index].ravel(), atol=1e-5)


def test_halves_are_rounded_away_from_zero() -> None:
    """As roundf does; 0.49999997 plus a half would be 1 in float32."""
    audio = np.float32([[0.5], [1.5], [2.5], [-0.5], [-2.5], [0.49999997], [40000]]) / np.float32(32768)
    data = run("EncodeWav", audio, RATE).item()
    assert np.frombuffer(data[-14:], "<i2").tolist() == [1, 2, 3, -1, -3, 0, 32767]
