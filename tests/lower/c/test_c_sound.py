"""Spectrograms and coefficients in C, beside TensorFlow's definition of them and LiteRT's kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lower.c.c_answers import STRICT
from thinflow.engines._c_library import Library
from thinflow.errors import ParameterError, UnsupportedOp
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, INT32, STRING
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.target import program_of
from thinflow.lower.c.write import Writer
from thinflow.typing import Array

FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-ffp-contract=off", *STRICT)


def sound(
    samples: int, *, window: int, stride: int, channels: int = 1, squared: bool = True, **mfcc: int
) -> thinflow.Graph:
    """A graph of samples; with options of Mfcc also its coefficients."""
    graph = thinflow.Graph()
    shape = ShapeAttr((samples, channels))
    x = graph.add("Placeholder", name="samples", attrs={"dtype": FLOAT, "shape": shape}).output()
    options = {"window_size": window, "stride": stride, "magnitude_squared": squared}
    y = graph.add("AudioSpectrogram", [x], "spectrogram", attrs=options).output()
    graph.inputs = [x]
    if mfcc:
        rate = graph.add("Placeholder", name="rate", attrs={"dtype": INT32, "shape": ShapeAttr(())}).output()
        graph.inputs = [x, rate]
        y = graph.add("Mfcc", [y, rate], "mfcc", attrs=dict(mfcc)).output()
    graph.outputs = [y]
    return graph


def answer(graph: thinflow.Graph, x: Array, options: Options) -> Array:
    made = network(program_of(graph), options)
    library = Library(made, Writer(made, "net").files(), "net", FLAGS)
    (y,) = library.run([x])
    return y


def wanted(graph: thinflow.Graph, x: Array) -> Array:
    feed = {"samples": x} | ({"rate": np.int32(16000)} if len(graph.inputs) > 1 else {})
    (y,) = thinflow.Session(graph, engine="reference").run([graph.outputs[0].name], feed)
    return y


def heard(samples: int, channels: int = 1, seed: int = 0) -> Array:
    """Tones in noise, 16 bits."""
    rng = np.random.default_rng(seed)
    time = np.arange(samples)[:, None]
    tones = sum(np.sin(time * f) for f in rng.uniform(0.05, 2.5, 3)) / 4
    noise = rng.standard_normal((samples, channels)) / 20
    return np.clip((tones + noise) * 12000, -32768, 32767).astype(np.int16)


@pytest.mark.parametrize(
    ("window", "stride", "channels", "squared"),
    [(480, 320, 1, True), (256, 256, 2, False), (5, 3, 1, True), (2, 1, 1, True), (640, 100, 1, False)],
)
def test_spectrograms(window: int, stride: int, channels: int, squared: bool) -> None:
    graph = sound(2000, window=window, stride=stride, channels=channels, squared=squared)
    x = heard(2000, channels)
    real = x.astype(np.float32) / 32768
    y, right = answer(graph, real, Options()), wanted(graph, real)
    assert np.abs(y - right).max() <= 2e-6 * np.abs(right).max()
    # A power of two scales no digit away.
    assert (answer(graph, x, Options(sound="int16")) == y).all()


MFCC = {"dct_coefficient_count": 10, "filterbank_channel_count": 40}


@pytest.mark.parametrize("more", [{}, {"upper_frequency_limit": 7000, "lower_frequency_limit": 300}])
def test_coefficients_frame_by_frame(more: dict[str, int]) -> None:
    limits = {name: float(value) for name, value in more.items()}
    graph = sound(4000, window=480, stride=320, **{**MFCC, **limits})
    x = heard(4000)
    real = x.astype(np.float32) / 32768
    made = network(program_of(graph), Options())
    # One layer, and no memory for a spectrogram of all frames.
    assert len(made.layers) == 1
    assert made.plan.arena_bytes < 4 * 257 * 3
    y, right = answer(graph, real, Options()), wanted(graph, real)
    assert np.abs(y - right).max() <= 1e-5 * np.abs(right).max()
    assert (answer(graph, x, Options(sound="int16")) == y).all()


FIXED = 5e-6
"""What fixed point may be off, of the largest coefficient: the weights of filters have 15 bits."""


@pytest.mark.parametrize("window", [480, 640, 256, 30])
@pytest.mark.parametrize("loudness", [1.0, 0.01, 3e-4])
def test_coefficients_in_fixed_point(window: int, loudness: float) -> None:
    graph = sound(4000, window=window, stride=320, **MFCC, lower_frequency_limit=300.0)
    x = np.round(heard(4000) * loudness).astype(np.int16)
    # The loudest there is, and as soft as it gets.
    x[:3, 0] = (-32768, 32767, -32768) if loudness == 1 else 0
    made = network(program_of(graph), Options(sound="fixed"))
    assert not any("float" in c.data.dtype.name for layer in made.layers for c in layer.constants())
    right = wanted(graph, x.astype(np.float32) / 32768)
    error = np.abs(answer(graph, x, Options(sound="fixed")) - right).max() / np.abs(right).max()
    assert error <= FIXED


def test_silence_in_fixed_point_is_the_floor_of_the_filters() -> None:
    graph = sound(1000, window=480, stride=320, **MFCC)
    x = np.zeros((1000, 1), np.int16)
    right = wanted(graph, x.astype(np.float32))
    assert np.abs(answer(graph, x, Options(sound="fixed")) - right).max() <= 1e-5 * np.abs(right).max()


def test_a_spectrogram_by_itself_has_no_form_in_fixed_point() -> None:
    with pytest.raises(UnsupportedOp, match="no form in fixed point"):
        network(program_of(sound(1000, window=480, stride=320)), Options(sound="fixed"))


def test_a_spectrogram_that_is_read_twice_stays() -> None:
    graph = sound(2000, window=480, stride=320, **MFCC)
    graph.outputs = [graph.node("mfcc").output(), graph.node("spectrogram").output()]
    made = network(program_of(graph), Options())
    assert [layer.operator.custom_code for layer in made.layers] == ["AudioSpectrogram", "Mfcc"]
    library = Library(made, Writer(made, "net").files(), "net", FLAGS)
    real = heard(2000).astype(np.float32) / 32768
    y, _ = library.run([real])
    assert np.abs(y - wanted(replace_outputs(graph), real)).max() <= 1e-5 * np.abs(y).max()


def replace_outputs(graph: thinflow.Graph) -> thinflow.Graph:
    found = graph.clone()
    found.outputs = [found.node("mfcc").output()]
    return found


def test_silence_is_the_floor_of_the_filters() -> None:
    graph = sound(1000, window=480, stride=320, **MFCC)
    x = np.zeros((1000, 1), np.float32)
    right = wanted(graph, x)
    assert np.abs(answer(graph, x, Options()) - right).max() <= 1e-5 * np.abs(right).max()


def test_what_is_no_sound_takes_no_samples() -> None:
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    graph.inputs, graph.outputs = [x], [graph.add("Relu", [x], "y", attrs={"T": FLOAT}).output()]
    with pytest.raises(UnsupportedOp, match="no input goes into a spectrogram"):
        network(program_of(graph), replace(Options(), sound="int16"))


def test_a_model_that_decodes_a_file_begins_with_samples(tmp_path: Path) -> None:
    graph = thinflow.Graph()
    data = graph.add("Placeholder", name="wav", attrs={"dtype": STRING, "shape": ShapeAttr(())}).output()
    decoder = graph.add(
        "DecodeWav", [data], "decoder", attrs={"desired_samples": 4000, "desired_channels": 1}
    )
    options = {"window_size": 480, "stride": 320, "magnitude_squared": True}
    power = graph.add("AudioSpectrogram", [decoder.output(0)], "spectrogram", attrs=options).output()
    y = graph.add("Mfcc", [power, decoder.output(1)], "mfcc", attrs=dict(MFCC)).output()
    graph.inputs, graph.outputs = [data], [y]
    made = thinflow.convert_verified(graph, tmp_path / "ears.c", sound="int16")
    assert "beside LiteRT on 3 made-up inputs" in made.proof
    assert any(note.startswith("samples come in, 16,000 a second") for note in made.notes)
    header = (tmp_path / "ears.h").read_text()
    assert "#define EARS_INPUT_SIZE 4000" in header
    assert "void ears_run(const int16_t *input, float *output);" in header
    assert "AudioFeatures" in (tmp_path / "ears.c").read_text()
    found = thinflow.fit(graph, compile=False, remedies=False)
    assert any("samples come in" in note for note in found.notes)


def test_sound_goes_with_c_only(tmp_path: Path) -> None:
    graph = sound(1000, window=480, stride=320)
    with pytest.raises(ParameterError, match=r"a kind of sound goes with \.c files only"):
        thinflow.convert_verified(graph, tmp_path / "ears.tflite", sound="int16")
    with pytest.raises(ParameterError, match="there is no kind of sound 'int8'"):
        thinflow.convert_verified(graph, tmp_path / "ears.c", sound="int8")


def ears(folder: Path) -> Path:
    """A .tflite file that takes the rate beside the samples."""
    graph = sound(4000, window=480, stride=320, **MFCC)
    thinflow.save(graph, folder / "ears.tflite")
    return folder / "ears.tflite"


def test_a_file_that_takes_a_rate_is_made_for_one(tmp_path: Path) -> None:
    path = ears(tmp_path)
    made = thinflow.convert_verified(path, tmp_path / "ears.c", sample_rate=22050)
    assert "every number within" in made.proof
    assert "its filters are made for 22,050 samples a second, which it took as an input" in made.notes
    assert "ears_run(const float *input, float *output);" in (tmp_path / "ears.h").read_text()
    with pytest.raises(ParameterError, match="a sample rate of 0"):
        thinflow.convert_verified(path, tmp_path / "ears.c", sample_rate=0)
    with pytest.raises(ParameterError, match=r"a sample rate goes with \.c files only"):
        thinflow.convert_verified(path, tmp_path / "other.tflite", sample_rate=22050)


def test_the_engine_makes_filters_for_the_rate_that_comes_in(tmp_path: Path) -> None:
    path = ears(tmp_path)
    feeds = [{"samples": heard(4000) / np.float32(32768), "rate": np.int32(r)} for r in (16000, 22050, 16000)]
    ours, theirs = (thinflow.Session(path, engine=engine) for engine in ("c", "litert"))
    answers = [(ours.run(None, feed)[0], theirs.run(None, feed)[0]) for feed in feeds]
    for y, right in answers:
        assert np.abs(y - right).max() <= 1e-5 * np.abs(right).max()
    assert (answers[0][0] != answers[1][0]).any()


def test_a_rate_that_is_computed_is_refused_with_the_flag() -> None:
    graph = sound(1000, window=480, stride=320, **MFCC)
    rate = graph.inputs[1]
    twice = graph.add("AddV2", [rate, rate], "twice", attrs={"T": INT32}).output()
    power = graph.node("spectrogram").output()
    graph.outputs = [graph.add("Mfcc", [power, twice], "y", attrs=dict(MFCC)).output()]
    with pytest.raises(UnsupportedOp, match=r"its sample rate 'twice' is computed.*--sample-rate"):
        network(program_of(graph), Options())


def test_fit_hears_as_the_c_will(tmp_path: Path) -> None:
    path = ears(tmp_path)
    quiet, loud = (
        thinflow.fit(path, compile=False, remedies=False, sound=kind, sample_rate=22050)
        for kind in ("float", "int16")
    )
    assert quiet.ram_bytes - loud.ram_bytes == 2 * 4000
    offered = thinflow.fit(path, compile=False, ram="8KB", sample_rate=22050).remedies
    (remedy,) = [one for one in offered if one.command.endswith("--sound int16")]
    assert remedy.ram_bytes == loud.ram_bytes
    assert any("22,050 samples a second" in note for note in loud.notes)
    with pytest.raises(ParameterError, match="there is no kind of sound 'mp3'"):
        thinflow.fit(path, sound="mp3")
