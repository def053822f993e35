"""`thinflow convert`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import thinflow
from thinflow.cli import main
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT


def test_tflite(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", model, "my m.tflite"]) == 0
    first, *middle, last = capsys.readouterr().out.splitlines()
    assert first.startswith("wrote my m.tflite: ")
    assert "LiteRT agrees with the graph" in first
    assert any(line.startswith("  input  image  float[") for line in middle)
    assert last == "next: thinflow benchmark 'my m.tflite'"
    assert Path("my m.tflite").read_bytes()[4:8] == b"TFL3"


@pytest.mark.parametrize("name", ["o.pbtxt", "o.pb", "o.pb.gz"])
def test_graph_formats(
    name: str, model: str, capsys: pytest.CaptureFixture[str], paste: Callable[[str], int]
) -> None:
    assert main(["convert", model, name]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.endswith("every node and weight kept as it was")
    assert main(["convert", model, "copy"]) == 0
    assert "; a GraphDef, as the name has no ending: every node" in capsys.readouterr().out
    assert paste(last) == 0
    assert thinflow.compare(model, name) == []


def test_json_and_no_verify(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", model, "m.tflite", "--no-verify", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["proof"] == "not verified (--no-verify)"
    assert data["size_bytes"] == Path("m.tflite").stat().st_size


def test_onnx(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["convert", model, "m.onnx", "--opset", "18"]) == 0
    first, *middle, last = capsys.readouterr().out.splitlines()
    assert first.startswith("wrote m.onnx: ")
    assert "ONNX Runtime agrees with the graph" in first
    assert "  opset  18" in middle
    assert last.startswith("next: thinflow benchmark ")
    assert last.endswith("--engine litert,onnxruntime")
    assert thinflow.save(thinflow.load(model), "plain.onnx") == Path("plain.onnx").stat().st_size


def test_onnx_options(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", model, "m.onnx", "--opset", "3"]) == 1
    assert "opset 3 cannot be written" in capsys.readouterr().err
    assert main(["convert", model, "m.pb", "--opset", "18"]) == 1
    assert "goes with .onnx files only" in capsys.readouterr().err
    assert main(["convert", model, "m.pb", "--external-data"]) == 1
    assert "external data goes with .onnx files only" in capsys.readouterr().err
    assert not Path("m.onnx").exists()


def test_onnx_with_weights_in_a_second_file(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["convert", model, "m.onnx", "--external-data"]) == 0
    assert "ONNX Runtime agrees with the graph" in capsys.readouterr().out
    assert Path("m.onnx").stat().st_size < Path("m.onnx.data").stat().st_size


def test_onnx_without_a_runtime(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from thinflow.engines.onnxruntime import OnnxRuntime

    monkeypatch.setattr(OnnxRuntime, "available", lambda self: "the package onnxruntime is missing")
    assert main(["convert", model, "m.onnx"]) == 0
    assert "not run: the package onnxruntime is missing" in capsys.readouterr().out
    assert Path("m.onnx").stat().st_size > 100


CONVERT = ["convert", "summing.pb", "m.tflite", "--outputs", "total,y", "--no-verify"]


def test_why_tells_what_was_not_fused(summing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CONVERT, "--why"]) == 0
    assert "  left 'y': 'total' is an output" in capsys.readouterr().out.splitlines()


def test_what_was_not_fused_in_json(summing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CONVERT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_fused"] == [["'total' is an output", 1, "y"]]


def test_why_where_all_is_fused(summing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", summing, "m.tflite", "--outputs", "y", "--no-verify", "--why"]) == 0
    assert "  nothing was left to fuse" in capsys.readouterr().out.splitlines()


@pytest.fixture
def pooling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An average over 7x7 places, every second one."""
    monkeypatch.chdir(tmp_path)
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, None, None, 2))})
    sides = {"ksize": [1, 7, 7, 1], "strides": [1, 2, 2, 1], "padding": b"VALID"}
    graph.outputs = [graph.add("AvgPool", [x.output()], "pool", attrs={"T": FLOAT, **sides}).output()]
    graph.inputs = [x.output()]
    thinflow.save(graph, "pooling.pb")
    return "pooling.pb"


@pytest.mark.parametrize(
    ("side", "told"),
    [
        (4, "'pool' is empty for inputs of this size, [1, 0, 0, 2], which LiteRT cannot give"),
        (2, "a window of 7 with padding VALID does not fit into 2"),
    ],
)
def test_inputs_too_small_for_a_window(
    side: int, told: str, pooling: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """TensorFlow gives nothing for the first, and refuses the second."""
    assert main(["convert", pooling, "p.tflite", "--shape", f"x=1,{side},{side},2"]) == 1
    assert told in capsys.readouterr().err
    assert not Path("p.tflite").exists()


@pytest.mark.parametrize("suffix", ["tflite", "onnx", "c"])
def test_a_graph_that_was_never_frozen(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part of it without its weights, each of them an input, would help nobody."""
    monkeypatch.chdir(tmp_path)
    graph = thinflow.Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 2))}).output()
    w = graph.add("VariableV2", name="w", attrs={"dtype": FLOAT, "shape": ShapeAttr((2, 3))}).output()
    b = graph.add("VariableV2", name="b", attrs={"dtype": FLOAT, "shape": ShapeAttr((3,))}).output()
    xw = graph.add("MatMul", [x, w], "xw", attrs={"T": FLOAT}).output()
    y = graph.add("Add", [xw, b], "y", attrs={"T": FLOAT}).output()
    graph.inputs, graph.outputs = [x], [y]
    thinflow.save(graph, "m.pb")
    assert main(["convert", "m.pb", f"out.{suffix}"]) == 1
    told = capsys.readouterr().err
    assert "is a variable, its values are in a checkpoint" in told
    assert "--checkpoint PREFIX" in told
    assert [path.name for path in Path().iterdir()] == ["m.pb"]
