"""Eight-bit ONNX files, end to end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.api import quantize_to_file
from thinflow.cli import main
from thinflow.engines.onnxruntime import products_may_overflow, session_options
from thinflow.errors import FeedError, ParameterError, WriteError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT
from thinflow.zoo import build

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A trained model, samples to calibrate with, labelled samples to test with."""
    folder = tmp_path_factory.mktemp("digits")
    names = [folder / name for name in ("digits.pb", "calibration.npz", "test.npz")]
    model, calibration, test = map(str, names)
    assert main(["sample", "digits", model, "--calibration", calibration, "--test", test]) == 0
    return names[0], names[1], names[2]


def valid(path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    onnx.checker.check_model(str(path), full_check=True)


def test_a_quantized_graph_is_saved_and_runs(digits: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, calibration, _ = digits
    target = tmp_path / "digits.onnx"
    made = thinflow.quantize(model, str(calibration), format="onnx")
    size = thinflow.save(made, target)
    assert size == target.stat().st_size < 0.4 * made.float_bytes
    valid(target)
    session = thinflow.Session(target, engine="onnxruntime")
    (name,) = session.inputs
    image = np.load(calibration)[name][:1]
    (found,) = session.run(None, {name: image})
    (expected,) = thinflow.Session(model, engine="reference").run(None, {name: image})
    assert np.abs(found - expected).max() < 0.05


def test_the_suffix_may_choose_the_format_in_the_end(digits: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """The model made for LiteRT knows where it comes from, and is made again for ONNX Runtime."""
    made = thinflow.quantize(digits[0], str(digits[1]))
    other = thinflow.quantize(digits[0], str(digits[1]), format="onnx")
    thinflow.save(made, tmp_path / "late.onnx")
    thinflow.save(other, tmp_path / "early.onnx")
    assert (tmp_path / "late.onnx").read_bytes() == (tmp_path / "early.onnx").read_bytes()


def test_it_answers_as_the_litert_model_does(digits: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, calibration, test = digits
    files = [tmp_path / "int8.onnx", tmp_path / "int8.tflite"]
    for file in files:
        assert (
            main(["quantize", str(model), str(file), "--calibration", str(calibration), "--effort", "none"])
            == 0
        )
    images = np.load(test)
    answers = []
    for file in files:
        session = thinflow.Session(file)
        (name,) = session.inputs
        rows = [session.run(None, {name: image[None]})[0] for image in images[name][:100]]
        answers.append(np.concatenate(rows))
    assert np.abs(answers[0] - answers[1]).max() < 0.05
    assert (answers[0].argmax(1) == answers[1].argmax(1)).mean() >= 0.99


def test_the_command_says_how_good_it_is(
    digits: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, calibration, test = digits
    target = tmp_path / "digits.onnx"
    command = ["quantize", str(model), str(target), "--calibration", str(calibration), "--test", str(test)]
    assert main([*command, "--json", "--opset", "21", "--activations", "int8", "--reduce-range"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["size_bytes"] == target.stat().st_size
    assert report["sqnr_db"] > 25
    assert report["scheme"] == "int8"
    assert not report["synthetic"]
    assert report["quality"] == "accuracy 98.75% against 98.75% on 400 samples"
    valid(target)
    assert pytest.importorskip("onnx").load(target).opset_import[0].version == 21
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"wrote {target}: ")
    assert "x smaller than float" in lines[0]
    assert lines[-1] == f"next: thinflow benchmark {target}"


def test_weights_of_sixteen_bits(digits: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, calibration, _ = digits
    target = tmp_path / "digits.onnx"
    made = thinflow.quantize(model, str(calibration), scheme="float16", format="onnx")
    assert thinflow.save(made, target) < 0.6 * made.float_bytes
    valid(target)
    assert made.calibration.samples == 0
    name = next(iter(thinflow.Session(target).inputs))
    image = np.load(calibration)[name][:1]
    (found,) = thinflow.Session(target).run(None, {name: image})
    (expected,) = thinflow.Session(model, engine="reference").run(None, {name: image})
    np.testing.assert_allclose(found, expected, atol=2e-3)


def test_weights_may_go_to_a_file_of_their_own(digits: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, calibration, _ = digits
    target = tmp_path / "digits.onnx"
    command = ["quantize", str(model), str(target), "--calibration", str(calibration)]
    assert main([*command, "--external-data"]) == 0
    assert (tmp_path / "digits.onnx.data").stat().st_size > 0
    valid(target)


def test_mobilenet_becomes_integer_convolutions(tmp_path: Path) -> None:
    """One Transpose where the picture comes in, none where values leave, no pair between."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    made = thinflow.quantize(build("mobilenet_v1"), None, format="onnx")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    runtime.InferenceSession(made.content, options, providers=["CPUExecutionProvider"])
    left = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert left.count("QLinearConv") == 28
    assert "Conv" not in left
    assert (left.count("QuantizeLinear"), left.count("DequantizeLinear")) == (1, 1)
    assert made.quantized.program.counts()["Transpose"] == 1


@pytest.mark.slow
def test_the_main_job_makes_both_for_onnx_runtime(digits: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, calibration, test = digits
    report = thinflow.optimize(
        model, tmp_path, calibration=str(calibration), test=str(test), onnx=True, measure=False
    )
    data = json.loads((tmp_path / "report.json").read_text("utf-8"))
    for key, name in (("onnx_fp32", "digits_fp32.onnx"), ("onnx_int8", "digits_int8.onnx")):
        assert report.files[key] == tmp_path / name
        assert data["size_bytes"][key] == (tmp_path / name).stat().st_size
        assert data["quality"][key]["accuracy"] == pytest.approx(98.75, abs=0.5)
        valid(tmp_path / name)
        assert thinflow.Session(tmp_path / name).inputs["image"].shape == (None, 8, 8, 1)
    assert "digits_int8.onnx" in report.markdown()
    assert thinflow.evaluate(tmp_path / "digits_int8.onnx", str(test)).accuracy == pytest.approx(
        98.75, abs=0.5
    )
    assert thinflow.evaluate(tmp_path / "digits_int8.tflite", str(test)).samples == 400


def test_the_main_job_refuses_schemes_without_onnx_form(
    digits: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match="scheme 'dynamic' has no ONNX form"):
        thinflow.optimize(digits[0], tmp_path / "out", scheme="dynamic", onnx=True, measure=False)
    assert not (tmp_path / "out").exists()


def test_files_are_evaluated_on_labelled_samples_only(
    digits: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    target = tmp_path / "digits.onnx"
    thinflow.save(thinflow.quantize(digits[0], str(digits[1]), format="onnx"), target)
    with pytest.raises(ParameterError, match="the samples have no labels"):
        thinflow.evaluate(target, str(digits[1]))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "decibels"), [("DS_CNN_S", 28), ("CNN_S", 31), ("DNN_S", 33)])
def test_keyword_models(name: str, decibels: float, shared: Path, tmp_path: Path) -> None:
    """As good as LiteRT's eight bits on the same clips, softmax included."""
    model, clips = shared / "models" / f"kws_{name}.pb", shared / "data" / "kws"
    labels = shared / "models" / "kws_labels.txt"
    reports = [
        # LiteRT's sums have room for all eight bits of the weights.
        quantize_to_file(
            *(model, tmp_path / f"int8{suffix}", str(clips)),
            **(more | {"labels": labels, "samples": 120, "effort": "none"}),
        )
        for suffix, more in ((".onnx", {"reduce_range": False}), (".tflite", {}))
    ]
    assert reports[0]["sqnr_db"] > decibels - 10
    assert reports[0]["sqnr_db"] > reports[1]["sqnr_db"] - 1
    # Its average pools of eight bits are slower than those of floats.
    assert not {"Conv", "Gemm"} & {code for code, *_ in reports[0]["float_operators"]}
    valid(tmp_path / "int8.onnx")


class TestTrainedRanges:
    def graph(self) -> thinflow.Graph:
        """conv -> relu -> fake quant -> conv, weights through a fake quant per channel."""
        graph, rng = thinflow.Graph(), np.random.default_rng(5)
        shape = ShapeAttr((1, 8, 8, 3))
        x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": shape}).output()

        def const(value, name: str):
            return graph.constant(np.asarray(value, np.float32), name)

        def conv(x, inside: int, outside: int):
            w = const(rng.uniform(-1, 1, (3, 3, inside, outside)), "w")
            limits = const(-np.ones(outside), "low"), const(np.ones(outside), "high")
            op = "FakeQuantWithMinMaxVarsPerChannel"
            w = graph.add(op, [w, *limits], attrs={"narrow_range": True}).output()
            return graph.add("Conv2D", [x, w], attrs={"strides": (1, 1, 1, 1), "padding": "SAME"}).output()

        def fake_quant(x, low: float, high: float, name: str):
            limits = [const(low, "low"), const(high, "high")]
            return graph.add("FakeQuantWithMinMaxVars", [x, *limits], name).output()

        hidden = fake_quant(graph.add("Relu", [conv(x, 3, 4)]).output(), 0.0, 3.0, "hidden")
        y = fake_quant(conv(hidden, 4, 2), -4.0, 4.0, "y")
        graph.inputs, graph.outputs = [x], [y]
        return graph

    def test_they_are_the_ranges_of_the_model(self) -> None:
        graph = self.graph()
        samples = np.random.default_rng(1).uniform(-1, 1, (5, 8, 8, 3)).astype(np.float32)
        made = thinflow.quantize(graph, samples, format="onnx")
        scales = {
            float(o.inputs[1].array())
            for o in made.quantized.program.operators
            if o.code == "QuantizeLinear" and o.inputs[1] is not None
        }
        assert {round(s * 255, 4) for s in scales} >= {3.0, 8.0}
        assert not any("_range_only" in node.attrs for node in graph)
        plan = thinflow.Session(graph, engine="reference")
        runtime = pytest.importorskip("onnxruntime")
        # As the docs say for processors on which products of eight bits may overflow.
        session = runtime.InferenceSession(
            made.content, session_options(careful=products_may_overflow()), providers=["CPUExecutionProvider"]
        )
        for sample in samples:
            (expected,) = plan.run(None, {"x": sample[None]})
            (found,) = session.run(None, {"x": sample[None]})
            # The input itself is rounded as well, which training did not do.
            assert np.abs(found - expected).max() <= 4.01 * 8 / 255
            assert found.max() <= 4.02
            assert np.mean(np.abs(found - expected)) < 8 / 255

    @pytest.mark.parametrize(("signed", "step"), [(True, 3 / 127), (False, 3 / 255)])
    def test_symmetric_grids_are_too(self, signed: bool, step: float) -> None:
        graph, rng = thinflow.Graph(), np.random.default_rng(5)
        shape = ShapeAttr((1, 8, 8, 3))
        x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": shape}).output()
        attrs = {"signed_input": signed, "range_given": True}

        def grid(value, low: float, high: float, **more):
            limits = [graph.constant(np.float32(n), "limit") for n in (low, high)]
            return graph.add("QuantizeAndDequantizeV2", [value, *limits], attrs={**attrs, **more}).output()

        w = graph.constant(rng.uniform(-1, 1, (3, 3, 3, 4)).astype(np.float32), "w")
        weights = grid(w, -1.0, 1.0, signed_input=True, narrow_range=True)
        convolved = {"strides": (1, 1, 1, 1), "padding": "SAME"}
        hidden = graph.add("Relu", [graph.add("Conv2D", [x, weights], attrs=convolved).output()]).output()
        w = graph.constant(rng.uniform(-1, 1, (3, 3, 4, 2)).astype(np.float32), "v")
        y = graph.add("Conv2D", [grid(hidden, 0.0, 3.0), w], "y", attrs=convolved).output()
        graph.inputs, graph.outputs = [x], [y]
        made = thinflow.quantize(graph, rng.uniform(-1, 1, (5, 8, 8, 3)).astype(np.float32), format="onnx")
        decided = {d.tensor: d for d in made.quantized.decisions if d.observer == "trained"}
        assert [d.scale[0] for d in decided.values()] == [pytest.approx(step)] * len(decided)
        assert decided
        assert not made.quantized.program.counts()["FakeQuant"]


class TestBadInput:
    def test_formats(self, digits: tuple[Path, Path, Path], tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match="no smaller model can be made as 'pb'"):
            thinflow.quantize(digits[0], None, format="pb")
        made = thinflow.quantize(digits[0], str(digits[1]), format="onnx")
        with pytest.raises(WriteError, match="this is an ONNX model"):
            thinflow.save(made, tmp_path / "m.tflite")
        made = thinflow.quantize(digits[0], str(digits[1]))
        with pytest.raises(WriteError, match="this is a LiteRT model") as found:
            thinflow.save(made, tmp_path / "m.mlpackage")
        assert "name it .tflite" in found.value.hint
        assert thinflow.save(made, tmp_path / "m.tflite") > 0

    def test_schemes_without_onnx_form(self, digits: tuple[Path, Path, Path], tmp_path: Path) -> None:
        made = thinflow.quantize(digits[0], scheme="dynamic")
        with pytest.raises(ParameterError, match="scheme 'dynamic' has no ONNX form"):
            thinflow.save(made, tmp_path / "m.onnx")

    @pytest.mark.parametrize(
        ("flags", "problem"),
        [
            (["--opset", "12"], "opset 12 cannot be written"),
            (["--activations", "int4"], "activations cannot be int4"),
            (["--scheme", "int16x8"], "scheme 'int16x8' has no ONNX form"),
            (["--sensitivity"], "sensitivity is measured with LiteRT"),
            (["--input-type", "int8"], "inputs and outputs of an ONNX model stay float32"),
        ],
    )
    def test_options(
        self,
        flags: list[str],
        problem: str,
        digits: tuple[Path, Path, Path],
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        target = tmp_path / "m.onnx"
        assert main(["quantize", str(digits[0]), str(target), *flags]) == 1
        assert problem in capsys.readouterr().err
        assert not target.exists()

    def test_options_for_the_other_format(
        self, digits: tuple[Path, Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["quantize", str(digits[0]), str(tmp_path / "m.tflite"), "--opset", "18"]) == 1
        assert "opset goes with .onnx files only" in capsys.readouterr().err

    def test_samples(self, digits: tuple[Path, Path, Path]) -> None:
        with pytest.raises(FeedError):
            thinflow.quantize(digits[0], np.zeros((3, 5, 5), np.float32), format="onnx")


def test_a_clamp_on_a_grid_that_reaches_farther_still_clamps(tmp_path: Path) -> None:
    """Joined with negative numbers, what a Relu gives has integers below 0, which cut nothing off."""
    rng = np.random.default_rng(5)
    g = thinflow.Graph()
    x = g.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 8, 8, 3))}).output()
    window = {"strides": (1, 1, 1, 1), "padding": b"SAME"}

    def conv(y: Value, channels: int, count: int, name: str) -> Value:
        kernel = g.constant(rng.normal(0, 0.3, (3, 3, channels, count)).astype(np.float32), f"{name}/w")
        return g.add("Conv2D", [y, kernel], name, attrs=window).output()

    positive, other = g.add("Relu", [conv(x, 3, 8, "a")], "relu").output(), conv(x, 3, 8, "b")
    axis = g.constant(np.array(3, np.int32), "axis")
    joined = g.add("ConcatV2", [positive, other, axis], "joined", attrs={"N": 2}).output()
    g.inputs, g.outputs = [x], [conv(joined, 16, 4, "y")]
    samples = [{"x": rng.normal(size=(1, 8, 8, 3)).astype(np.float32)} for _ in range(8)]
    thinflow.quantize(g, samples, format="onnx", effort="none").save(tmp_path / "m.onnx")
    exact, found = (next(iter(thinflow.run(m, samples[0]).values())) for m in (g, tmp_path / "m.onnx"))
    assert np.abs(exact - found).max() < 0.05 * np.abs(exact).max()
