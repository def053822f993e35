"""What models are fed to be timed: real samples where there are some, else numbers that make sense."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.bench.inputs import as_input, input_specs, sensible_inputs
from thinflow.bench.memory import parcel, unpacked
from thinflow.cli import main
from thinflow.errors import FeedError, ParameterError
from thinflow.synthetic import synthetic_feeds

FRONT = """
    spectrum = AudioSpectrogram(sound) {window_size=160, stride=80, magnitude_squared=true}
    words = Mfcc(spectrum, rate) {dct_coefficient_count=10, upper_frequency_limit=4000.0, \
lower_frequency_limit=20.0, filterbank_channel_count=40}
    flat = Const() {value=int32[2]{1,-1}}
    row = Reshape(words, flat) {T=float, Tshape=int32}
    y = Softmax(row) {T=float}
    outputs: y
"""
SPEECH = (
    "sound = Placeholder() {dtype=float, shape=shape[800,1]}\n"
    "rate = Placeholder() {dtype=int32, shape=shape[]}\n" + FRONT.lstrip("\n") + "inputs: sound, rate\n"
)
CLIPS = (
    "wav = Placeholder() {dtype=string, shape=shape[]}\n"
    "sound = DecodeWav(wav) {desired_channels=1, desired_samples=800}\n"
)
LOOKUP = """
    x = Placeholder() {dtype=int32, shape=shape[6]}
    table = Const() {value=float[2,3]{1,2,3,4,5,6}}
    zero = Const() {value=int32[]{0}}
    y = GatherV2(table, x, zero) {Tparams=float, Tindices=int32, Taxis=int32}
    inputs: x
    outputs: y
"""
UPPER = "x = Placeholder() {dtype=string, shape=shape[]}\ny = StringUpper(x) {}\ninputs: x\noutputs: y"
SIZES = """
    size = Placeholder() {dtype=int32, shape=shape[2]}
    picture = Const() {value=float[1,2,2,1]{1,2,3,4}}
    y = ResizeBilinear(picture, size) {T=float}
    inputs: size
    outputs: y
"""


def saved(text: str, path: Path) -> Path:
    thinflow.save(parse_graph(text), path)
    return path


def clips(folder: Path, count: int = 3) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        with wave.open(str(folder / f"word_{number}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(rng.integers(-9000, 9000, 800).astype("<i2").tobytes())
    return folder


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    return saved(SPEECH, tmp_path / "speech.tflite")


def test_a_speech_model_is_fed_a_rate_that_it_takes(speech: Path) -> None:
    sound, rate = sensible_inputs(speech, {}).values()
    assert sound is None
    assert rate is not None
    assert rate == 16000
    report = thinflow.benchmark(speech, runs=2, peaks=False)
    assert report.rows[0].latency.count == 2
    assert report.memory[0].error == ""
    assert report.memory[0].peak_bytes


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_indices_stay_inside_their_table(tmp_path: Path, suffix: str) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    model = saved(LOOKUP, tmp_path / f"lookup{suffix}")
    (made,) = sensible_inputs(model, {}).values()
    assert made is not None
    assert set(made.tolist()) <= {0, 1}
    assert thinflow.benchmark(model, runs=1, memory=False, peaks=False).rows
    (longer,) = sensible_inputs(model, {next(iter(input_specs(model))): (9,)}).values()
    assert longer is not None
    assert longer.shape == (9,)


def test_sizes_rates_and_counts_of_graphs_are_sensible() -> None:
    (feed,) = synthetic_feeds(parse_graph(SIZES).inputs, 1)
    assert next(iter(feed.values())).tolist() == [96, 96]
    graph = parse_graph(SPEECH.replace("[800,1]", "[?,1]"))
    (feed,) = synthetic_feeds(graph.inputs, 1)
    sound, rate = feed.values()
    assert sound.shape == (16000, 1)
    assert rate == 16000
    shape = parse_graph(
        "n = Placeholder() {dtype=int32, shape=shape[3]}\nx = Const() {value=float[4]{1,2,3,4}}\n"
        "y = Reshape(x, n) {T=float, Tshape=int32}\ninputs: n\noutputs: y"
    )
    (feed,) = synthetic_feeds(shape.inputs, 1)
    assert next(iter(feed.values())).tolist() == [-1, 1, 1]


def test_models_are_run_with_samples_in_turns(speech: Path, tmp_path: Path) -> None:
    folder = clips(tmp_path / "clips")
    graph = saved(CLIPS + FRONT.replace("rate)", "sound:1)") + "    inputs: wav\n", tmp_path / "speech.pb")
    report = thinflow.benchmark([speech, graph], calibration=folder, runs=1, peaks=False)
    assert len(report.rows) == 2
    assert not any(m.error for m in report.memory)
    assert report.fed == f"3 samples of {folder}"
    assert {fed.samples for fed in report.inputs.values()} == {3}
    assert report.inputs["speech.tflite"].place(1) == "word_1.wav"
    assert report.data()["inputs"]["speech.pb"]["made_up"] is False
    some = thinflow.benchmark(speech, calibration=folder, samples=2, runs=1, peaks=False, memory=False)
    assert some.fed == f"2 of 3 samples of {folder}"
    assert f"- input: 2 of 3 samples of {folder}" in some.markdown().replace("\\", "")
    with pytest.raises(ParameterError, match="0 samples are too few"):
        thinflow.benchmark(speech, calibration=folder, samples=0)
    with pytest.raises(ParameterError, match="there are no samples to take some of"):
        thinflow.benchmark(speech, samples=4)
    with pytest.raises(ParameterError, match="both feeds and calibration samples are given"):
        thinflow.benchmark(speech, calibration=folder, feeds={}, runs=1)


def test_flags_say_what_is_fed(speech: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ["--runs", "1", "--no-memory", "--no-peak"]
    folder = clips(tmp_path / "clips")
    assert main(["benchmark", str(speech), "--calibration", str(folder), *quick]) == 0
    printed = capsys.readouterr().out
    assert f"input: 3 samples of {folder}" in printed.splitlines()
    assert f"--calibration {folder}" in printed.splitlines()[-1]
    np.save(tmp_path / "sound.npy", np.zeros((800, 1), np.float32))
    np.save(tmp_path / "rate.npy", np.int32(8000))
    feeds = [f"--feed={name}={tmp_path / name}.npy" for name in ("sound", "rate")]
    assert main(["benchmark", str(speech), *feeds, "--profile", *quick]) == 0
    printed = capsys.readouterr().out
    assert f"--feed rate={tmp_path}/rate.npy" in printed.splitlines()[-1]
    assert f"input: sound={tmp_path}/sound.npy, rate={tmp_path}/rate.npy" in printed.replace("\n", " ")
    assert main(["benchmark", str(speech), feeds[0], *quick]) == 1
    assert "nothing is fed to 'rate'" in capsys.readouterr().err
    assert main(["benchmark", str(speech), "--feed", "rte=x.npy", *quick]) == 1
    assert "the model has no input 'rte'\nhint: did you mean 'rate'?" in capsys.readouterr().err
    assert main(["benchmark", str(speech), "--feed", "x.npy", *quick]) == 1
    assert "write --feed NAME=FILE" in capsys.readouterr().err
    assert main(["benchmark", str(speech), *feeds, "--calibration", "x", *quick]) == 1
    assert "--feed and --calibration go not together" in capsys.readouterr().err


def test_what_fails_is_explained_in_flags(
    speech: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "bad.npz", sound=np.zeros((2, 800, 1), np.float32), rate=np.zeros(2, np.int32))
    bad = ["benchmark", str(speech), "--calibration", str(tmp_path / "bad.npz"), "--runs", "1"]
    assert main([*bad, "--engine", "litert"]) == 1
    assert "hint: --engine reference may say more" in capsys.readouterr().err
    # Which it does where nobody insists on an engine.
    assert main(bad) == 1
    assert "Mfcc needs at least 2 bins, a sample rate" in capsys.readouterr().err


def test_arrays_in_order_are_as_many_as_inputs(speech: Path) -> None:
    with pytest.raises(FeedError, match="1 arrays are fed to 2 inputs"):
        thinflow.benchmark(speech, feeds=[np.zeros((800, 1), np.float32)], runs=1)


def test_optimize_times_what_the_app_would_feed(tmp_path: Path) -> None:
    graph = saved(CLIPS + FRONT.replace("rate)", "sound:1)") + "    inputs: wav\n", tmp_path / "speech.pb")
    for calibration in (clips(tmp_path / "clips"), None):
        report = thinflow.optimize(
            graph, tmp_path / "out", calibration=calibration, seconds=0.05, scheme="float16"
        )
        assert report.latency is not None
        assert report.latency.thread_counts == [1, 2]
        assert not any("nothing was timed" in warning for warning in report.warnings)


def test_parcels_hold_what_models_take() -> None:
    strings = np.array([b"a\0", b"\xff"], object)
    given = {"x": np.arange(6, dtype=np.int8).reshape(2, 3), "s": strings, "none": None, "b": [np.True_]}
    found = unpacked(parcel(given))
    np.testing.assert_array_equal(found["x"], given["x"])
    assert found["x"].dtype == np.int8
    assert found["s"].tolist() == strings.tolist()
    assert found["none"] is None
    assert found["b"][0].dtype == bool


@pytest.mark.parametrize("suffix", [".pb", ".tflite"])
def test_the_old_tool_feeds_a_rate_too(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = saved(SPEECH, tmp_path / f"speech{suffix}")
    flags = ["--max_num_runs=2", "--warmup_runs=1", "--show_run_order=false"]
    assert main(["benchmark_model", f"--graph={model}", *flags]) == 0
    assert "Average inference timings" in capsys.readouterr().out


def test_one_number_stays_one_number() -> None:
    """A graph that stacks it into a shape takes no list of one."""
    graph = parse_graph(
        "n = Placeholder() {dtype=int32}\nx = Const() {value=float[4]{1,2,3,4}}\n"
        "s = Pack(n, n) {T=int32, N=2, axis=0}\ny = Reshape(x, s) {T=float, Tshape=int32}\n"
        "inputs: n\noutputs: y"
    )
    report = thinflow.benchmark(
        graph, feeds={"n": 2}, engines=["reference"], runs=1, memory=False, peaks=False
    )
    assert report.rows[0].latency.count == 1
    detail = {"name": "n", "dtype": np.int32, "shape": np.zeros(0), "quantization": (0.0, 0)}
    assert as_input(2, detail).shape == ()


def test_what_else_the_machine_did_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thinflow.bench.report.BenchmarkReport.disturbance", "while a tree fell")
    for name, text in (("lookup.pb", LOOKUP), ("upper.pb", UPPER)):
        report = thinflow.optimize(saved(text, tmp_path / name), tmp_path / "out", seconds=0.05)
        assert "while a tree fell" in report.warnings
