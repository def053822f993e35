"""`thinflow quantize`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.page_scripts import BUILT, without_scripts
from tests.transforms.golden import parse_graph
from thinflow import zoo
from thinflow.cli import main
from thinflow.cli.quantize import _beside
from thinflow.pages.shell import data_of


def test_writes_a_smaller_model(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("c.npz", **zoo.calibration("digits", 20, 0))
    assert main(["quantize", model, "my q.tflite", "--calibration", "c.npz"]) == 0
    first, second, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("wrote my q.tflite: ")
    assert "x smaller than float" in first
    assert second == "  samples: 20 samples from c.npz"
    assert last == "next: thinflow benchmark 'my q.tflite'"
    assert Path("my q.tflite").read_bytes()[4:8] == b"TFL3"


def test_a_tiny_network_gets_larger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "w = Const() {dtype=float, value=float[2,2]{1,2,3,4}}\ny = MatMul(x, w) {T=float}"
    declared = "x = Placeholder() {dtype=float, shape=shape[?,2]}"
    thinflow.save(parse_graph(f"{declared}\n{text}\ninputs: x\noutputs: y"), "m.pb")
    assert main(["quantize", "m.pb", "q.tflite"]) == 0
    assert "x LARGER than float" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("size", "told"),
    [(9, "11.1x smaller than"), (98, "as large as"), (102, "as large as"), (1100, "11.0x LARGER than")],
)
def test_the_size_beside_float(size: int, told: str) -> None:
    assert _beside(100, size) == told


def test_json_says_that_inputs_were_made_up(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", model, "q.tflite", "--samples", "2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["synthetic"] is True
    assert data["size_bytes"] == Path("q.tflite").stat().st_size < data["float_bytes"]
    assert data["samples"].startswith("2 made-up inputs")


@pytest.mark.parametrize(
    ("scheme", "smaller"), [("float16", 1.9), ("dynamic", 3.2), ("int16x8", 3.2), ("int4_weights", 5.0)]
)
def test_scheme(model: str, scheme: str, smaller: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quantize", model, "q.tflite", "--scheme", scheme, "--samples", "2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["scheme"] == scheme
    assert data["float_bytes"] / data["size_bytes"] > smaller


def test_tuning_and_sensitivity_are_printed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("c.npz", **zoo.calibration("digits", 20, 0))
    options = ["--calibration", "c.npz", "--tune", "--sensitivity", "--keep-float", "conv1/*"]
    assert main(["quantize", model, "q.tflite", *options]) == 0
    out = capsys.readouterr().out
    assert re.search(r"  kept: as asked for +[\d.]+ dB +[\d.]+%  █", out)
    assert ": bias correction " in out
    assert "  float: CONV_2D conv1/Conv2D: skip_nodes has 'conv1/*'" in out
    table = out[out.index("  rounded alone") :].splitlines()
    assert table[0].split() == ["rounded", "alone", "weights", "output"]
    assert any(line.split()[0] == "fc1/MatMul" for line in table[1:-1])


def test_another_test_set_is_named(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("c.npz", **zoo.calibration("digits", 20, 0))
    np.savez("t.npz", **zoo.test_set("digits"))
    assert main(["quantize", model, "q.tflite", "--calibration", "c.npz", "--test", "t.npz"]) == 0
    out = capsys.readouterr().out
    assert "accuracy " in out
    assert "  judged on: 400 samples from t.npz" in out


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        (["--scheme", "flaot16"], "there is no quantization scheme 'flaot16'", "float16"),
        (["--columns", "amd"], "columns cannot be 'amd'", "did you mean 'amx'?"),
        (["--observer", "percentil"], "there is no observer 'percentil'", "percentile"),
        (["--observer", "mse(bits=4)"], "observer 'mse' has no option 'bits'", "levels"),
        (["--observer", "mse(levels=4"], "a bracket is open", "write percentile(percent=99.99)"),
        (["--keep-float", "fc9/*"], "no operator of the LiteRT model is called 'fc9/*'", ""),
        (["--input-type", "int7"], "scheme 'int8' cannot have int7 inputs", "uint8"),
        (["--scheme", "float16", "--output-type", "int8"], "cannot have int8 outputs", "float32"),
    ],
)
def test_choices_that_do_not_exist(
    model: str, options: list[str], problem: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quantize", model, "q.tflite", "--samples", "2", *options]) == 1
    error = capsys.readouterr().err
    assert problem in error
    assert hint in error.partition("hint:")[2]
    assert not Path("q.tflite").exists()


def test_a_layer_that_no_onnx_file_has(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["quantize", model, "q.onnx", "--samples", "2", "--keep-float", "fc9/*"]) == 1
    assert "no operator of the ONNX model is called 'fc9/*'" in capsys.readouterr().err


@BUILT
@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_a_page(suffix: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("c.npz", **zoo.calibration("digits", 20, 0))
    np.savez("t.npz", **{k: v[:40] for k, v in zoo.test_set("digits").items()})
    given = ["--calibration", "c.npz", "--test", "t.npz", "--effort", "none", "--html", "q.html"]
    given += ["--sensitivity"] if suffix == "tflite" else []
    assert main(["quantize", model, f"q.{suffix}", "--json", *given]) == 0
    found = data_of(Path("q.html").read_bytes())
    printed = json.loads(capsys.readouterr().out)
    assert found["data"] == printed
    assert printed["quality"] in found["verdict"]
    kinds = [b["kind"] for s in found["sections"] for b in s["blocks"]]
    assert {"facts", "bars", "intervals", "samples", "layers", "table", "commands"} <= set(kinds)
    layers = next(b for s in found["sections"] for b in s["blocks"] if b["kind"] == "layers")
    assert [row["label"] for row in layers["rows"]] == [
        x["name"] for x in printed["noise_by_layer"]["layers"]
    ]


def test_a_page_of_made_up_inputs_shows_none_of_them(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    if BUILT.args[0]:
        pytest.skip(BUILT.kwargs["reason"])
    given = ["--samples", "2", "--scheme", "dynamic", "--html", "q.html"]
    assert main(["quantize", model, "q.tflite", *given]) == 0
    assert capsys.readouterr().out.splitlines()[-2] == "page: q.html"
    found = data_of(Path("q.html").read_bytes())
    cards = [b for s in found["sections"] for b in s["blocks"] if b["kind"] == "samples"]
    assert not any(item["picture"] for block in cards for item in block["items"])
    assert found["tone"] == "warn"


def test_no_page_without_scripts_and_nothing_is_made(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_scripts(monkeypatch)
    assert main(["quantize", model, "q.tflite", "--html", "q.html"]) == 1
    assert "came without the scripts of its pages" in capsys.readouterr().err
    assert not Path("q.tflite").exists()
