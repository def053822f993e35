"""Sizes for what a graph leaves open, with which made-up inputs go through it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.ir.graph import Graph
from thinflow.synthetic import fitting_specs, synthetic_feeds

SQUARES = """
x = Placeholder() {dtype=float, shape=shape[?,?,?,1]}
p = MaxPool(x) {T=float, ksize=[1,4,4,1], strides=[1,4,4,1], padding="VALID"}
sizes = Const() {dtype=int32, value=int32[2]{-1,625}}
flat = Reshape(p, sizes) {T=float, Tshape=int32}
s = Shape(p) {T=float, out_type=int32}
from = Const() {dtype=int32, value=int32[1]{1}}
to = Const() {dtype=int32, value=int32[1]{3}}
by = Const() {dtype=int32, value=int32[1]{1}}
sides = StridedSlice(s, from, to, by) {T=int32, Index=int32}
axis = Const() {dtype=int32, value=int32[1]{0}}
area = Prod(sides, axis) {T=int32, Tidx=int32}
rows = Const() {dtype=int32, value=int32[]{-1}}
both = Pack(rows, area) {T=int32, N=2}
pixels = Reshape(p, both) {T=float, Tshape=int32}
w = Const() {dtype=float, value=float[625,2]{*}}
y = MatMul(pixels, w) {T=float}
inputs: x
outputs: y
"""
"""A product behind a picture whose size a stripped placeholder does not say: 100 pixels a side."""
WINDOW = """
x = Placeholder() {dtype=float, shape=shape[?,?,?,3]}
y = AvgPool(x) {T=float, ksize=[1,150,150,1], strides=[1,1,1,1], padding="VALID"}
inputs: x
outputs: y
"""


def net(text: str) -> Graph:
    weights = ",".join(str(n % 7) for n in range(1250))
    return parse_graph(text.replace("*", weights))


@pytest.mark.parametrize(("text", "side"), [(SQUARES, 100), (WINDOW, 224)])
def test_pictures_of_which_only_some_fit(text: str, side: int) -> None:
    graph = net(text)
    assert [spec.shape[1:3] for spec in fitting_specs(graph.inputs).values()] == [(side, side)]
    feed = next(synthetic_feeds(graph.inputs, 1))
    assert [array.shape[1:3] for array in feed.values()] == [(side, side)]
    before = graph.inputs[0].spec
    fitting_specs(graph.inputs)
    assert graph.inputs[0].spec == before


def test_nothing_open_and_nothing_that_fits() -> None:
    closed = net(WINDOW.replace("?,?,?,3", "?,160,160,3"))
    assert fitting_specs(closed.inputs) == {}
    assert fitting_specs(net(WINDOW.replace("150,150", "2000,2000")).inputs) == {}
    assert fitting_specs([]) == {}


def test_every_verb_finds_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ai_edge_litert")
    monkeypatch.chdir(tmp_path)
    thinflow.save(net(SQUARES), "m.pb")
    assert main(["inspect", "m.pb"]) == 0
    assert "--shape x=1,100,100,1" in capsys.readouterr().out
    assert main(["convert", "m.pb", "m.c"]) == 1
    assert "--shape x=1,100,100,1" in capsys.readouterr().err
    assert main(["deploy", "m.pb", "app", "--target", "python"]) == 1
    assert "--shape x=1,100,100,1" in capsys.readouterr().err
    assert main(["convert", "m.pb", "m.tflite"]) == 0
    assert "NOT verified" not in capsys.readouterr().out
    assert main(["run", "m.pb"]) == 0
    found = thinflow.run("m.tflite", {"x": np.ones((2, 100, 100, 1), np.float32)})
    assert found["y"].shape == (2, 2)
