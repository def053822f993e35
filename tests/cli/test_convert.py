"""`thinflow convert`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import thinflow
from thinflow.cli import main


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
    assert last.endswith("--engines litert,onnxruntime")
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
