"""Graphs and files side by side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.errors import FeedError, GraphError, ParameterError

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = MatMul(x, w) {T=float}
z = Relu(y) {T=float}
inputs: x
outputs: z
"""
X = np.float32([[1, -1, 1, 2]])
Y = [[17, 20]]


@pytest.fixture(params=["tflite", "onnx"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    pytest.importorskip("ai_edge_litert" if request.param == "tflite" else "onnxruntime")
    path = tmp_path / f"m.{request.param}"
    thinflow.save(parse_graph(TEXT), path)
    return path


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.pb")
    return tmp_path / "m.pb"


def test_a_file_is_run_as_it_is(file: Path) -> None:
    assert {n.removesuffix(":0"): y.tolist() for n, y in thinflow.run(file, {"x": X}).items()} == {"z": Y}
    assert thinflow.run(file, {"x:0": X}, ["z"])["z"].tolist() == Y
    with pytest.raises(GraphError, match=r"cannot feed 'xx': the file has no such input\nhint: did you mean"):
        thinflow.run(file, {"xx": X})
    with pytest.raises(FeedError, match="nothing was fed for the input 'x"):
        thinflow.run(file, {})
    other = "onnxruntime" if file.suffix == ".tflite" else "litert"
    assert thinflow.run(file, {"x": X}, engine=other)["z"].tolist() == Y
    assert thinflow.run(file, {"x": X}, engine="reference")["z"].tolist() == Y


def test_the_command_runs_files(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", X)
    assert main(["run", str(file), "--feed", f"x={tmp_path / 'x.npy'}"]) == 0
    out = capsys.readouterr().out
    assert "17, 20" in out or "[1] 20" in out
    assert out.splitlines()[-1].startswith("next: thinflow benchmark ")
    assert main(["run", str(file), "--placement"]) == 0
    assert "nodes on" in (out := capsys.readouterr().out) or "1 node on" in out
    assert main(["run", str(file), "--inputs", "x"]) == 1
    assert "this file has inputs of its own" in capsys.readouterr().err


def test_a_graph_agrees_with_its_file(graph: Path, file: Path) -> None:
    for a, b in ((graph, file), (file, graph), (file, file)):
        found = thinflow.verify(a, b)
        assert found.ok, str(found)
        assert [o.name for o in found.outputs] == ["z"]
        assert found.runs == 2
    assert thinflow.verify(graph, file, {"x": X}).runs == 1


def test_a_difference_is_found(tmp_path: Path, file: Path) -> None:
    thinflow.save(parse_graph(TEXT.replace("{1,2", "{9,2")), tmp_path / "other.pb")
    found = thinflow.verify(tmp_path / "other.pb", file, {"x": X})
    assert not found.ok
    assert found.outputs[0].before == 25
    assert found.outputs[0].after == 17


def test_other_names_are_paired_by_position(tmp_path: Path, file: Path) -> None:
    text = TEXT.replace("x =", "image =").replace("(x,", "(image,").replace("inputs: x", "inputs: image")
    thinflow.save(parse_graph(text.replace("z", "scores")), tmp_path / "named.pb")
    found = thinflow.verify(tmp_path / "named.pb", file)
    assert found.ok
    assert any("inputs are paired by position" in note and "image with x" in note for note in found.notes)


def test_models_that_cannot_be_paired(tmp_path: Path, file: Path) -> None:
    text = TEXT + "b = Placeholder() {dtype=float, shape=shape[1,2]}\nt = Add(z, b) {T=float}\n"
    text = text.replace("inputs: x\noutputs: z\n", "") + "inputs: x, b\noutputs: t, y\n"
    text = text.replace("z = ", "r = ").replace("(z,", "(r,")
    thinflow.save(parse_graph(text), tmp_path / "two.pb")
    with pytest.raises(
        GraphError, match=r"the outputs cannot be paired: .*\nhint: say which is which: --outputs A=B"
    ):
        thinflow.verify(tmp_path / "two.pb", file, outputs=["t", "y"])
    with pytest.raises(ParameterError, match="the tolerance is nan"):
        thinflow.verify(file, file, tolerance=float("nan"))


def test_a_file_that_holds_a_part_is_compared_where_it_ends(tmp_path: Path, file: Path) -> None:
    text = TEXT.replace("outputs: z", "outputs: s").replace(
        "inputs: x", "s = Softmax(z) {T=float}\ninputs: x"
    )
    thinflow.save(parse_graph(text), tmp_path / "whole.pb")
    found = thinflow.verify(tmp_path / "whole.pb", file)
    assert found.ok
    assert [o.name for o in found.outputs] == ["z"]
    assert any("the first is read inside" in note for note in found.notes)
    thinflow.save(parse_graph(text.replace("Relu(y)", "Neg(y)")), tmp_path / "other.pb")
    assert not thinflow.verify(tmp_path / "other.pb", file).ok


def test_a_file_that_begins_inside_is_fed_what_the_graph_computes(tmp_path: Path, file: Path) -> None:
    head = """
i = Placeholder() {dtype=int32, shape=shape[1,4]}
t = Const() {dtype=float, value=float[3]{1, 2, 3}}
x = Gather(t, i) {Tindices=int32, Tparams=float}
"""
    text = head + TEXT[TEXT.index("w = ") :].replace("inputs: x", "inputs: i")
    thinflow.save(parse_graph(text), tmp_path / "whole.pb")
    found = thinflow.verify(tmp_path / "whole.pb", file)
    assert found.ok
    assert any("the first is fed inside, at x" in note for note in found.notes)


def test_the_command_verifies_files(graph: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(graph), str(file)]) == 0
    assert capsys.readouterr().out.startswith("the graphs agree")


def test_placement_is_told(graph: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(graph), "--placement", "--engine", "reference"]) == 0
    out = capsys.readouterr().out
    assert "placement:\n  2 nodes on reference\n" in out
    assert main(["run", str(graph), "--placement", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data["placement"]) == {"y", "z"}
    assert data["reasons"] == {}


def test_inspect_tells_where_nodes_would_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ai_edge_litert")
    text = TEXT.replace("z = Relu(y)", "t = AsString(y) {T=float}\nz = StringToNumber(t)").replace(
        "z = StringToNumber(t) {T=float}", "z = StringToNumber(t) {out_type=float}"
    )
    thinflow.save(parse_graph(text), tmp_path / "m.pb")
    assert main(["inspect", str(tmp_path / "m.pb"), "--placement", "litert"]) == 0
    out = capsys.readouterr().out
    assert "placement:\n  3 nodes on reference\n" in out
    assert "  t  reference  (TFLite has no form of AsString)" in out
    assert out.splitlines()[-1].startswith("next: ")
    assert main(["inspect", str(tmp_path / "m.pb"), "--placement", "reference", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data["placement"].values()) == {"reference"}
    assert data["placement_reasons"] == {}


def test_the_choice_of_an_engine_is_kept_when_asked(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(graph), "--measure"]) == 0
    cache = tmp_path / "engines.json"
    assert not cache.exists()
    for _ in range(2):
        assert main(["run", str(graph), "--engine-cache", str(cache)]) == 0
    assert len(json.loads(cache.read_text())["engines"]) == 1
    assert main(["run", str(graph), "--measure", "--engine", "litert"]) == 1
    assert "nothing to measure" in capsys.readouterr().err


def test_codes_of_a_litert_file_are_those_of_the_onnx_file_made_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("onnxruntime")
    graph, ours, theirs = (str(tmp_path / name) for name in ("m.pb", "ours.tflite", "theirs.onnx"))
    thinflow.save(parse_graph(TEXT), graph)
    assert main(["quantize", graph, ours, "--input-type", "int8"]) == 0
    assert main(["convert", ours, theirs]) == 0
    assert str(thinflow.Session(theirs).inputs["x"].dtype) == "int8"
    for pair in ((ours, theirs), (theirs, ours)):
        assert thinflow.verify(*pair).ok
    assert main(["diff", ours, theirs]) == 0
    assert "outputs agree" in capsys.readouterr().out
