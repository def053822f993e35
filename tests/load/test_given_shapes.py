"""Shapes that a user gives, and with which the model cannot compute its outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.api.converting import convert_verified
from thinflow.cli import main

ROWS = """
x = Placeholder() {dtype=float}
keep_prob = Placeholder() {dtype=float}
sizes = Const() {value=int32[2]{-1,6}}
rows = Reshape(x, sizes) {T=float, Tshape=int32}
y = Mul(rows, keep_prob) {T=float}
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    thinflow.save(parse_graph(ROWS + "inputs: x, keep_prob\noutputs: y\n"), "m.pb")
    return "m.pb"


@pytest.mark.parametrize("verb", [["convert", "m.pb", "o.tflite"], ["optimize", "m.pb", "out"]])
def test_they_are_refused_before_a_part_is_made(
    verb: list[str], model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*verb, "--shape", "x=1,10"]) == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: m.pb: the shape that was given, x=[1,10], does not fit: node 'rows'")
    assert hint.startswith("hint: give the sizes that the model was made for")
    assert sorted(path.name for path in Path().iterdir()) == ["m.pb"]


def test_a_training_switch_is_not_blamed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--shape", "x=1,10"]) == 1
    assert capsys.readouterr().err.startswith("error: node 'rows' (Reshape): ")
    assert main(["run", model, "--shape", "x=1,12"]) == 0


def test_what_the_outputs_do_not_need_may_be_for_other_sizes(model: str) -> None:
    graph = parse_graph(ROWS + "z = Relu(x) {T=float}\ninputs: x, keep_prob\noutputs: z\n")
    # An input of unknown rank is made up as a scalar, which has no batch to leave open.
    made = convert_verified(graph, "z.onnx", shapes={"x": (1, 10)})
    assert not made.coverage.is_part


def test_a_branch_may_be_for_other_sizes(model: str) -> None:
    branch = """
p = Const() {value=bool[]{False}}
s = Switch(x, p) {T=float}
rows = Reshape(s:1, sizes) {T=float, Tshape=int32}
flat = Identity(s:0) {T=float}
y = Merge(flat, rows) {T=float, N=int}
"""
    text = ROWS.split("rows =")[0] + branch.replace("N=int", "N=2")
    graph = parse_graph(text + "inputs: x\noutputs: y\n")
    assert not convert_verified(graph, "b.tflite", shapes={"x": (1, 10)}).coverage.is_part
