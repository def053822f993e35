"""Shapes of inputs that the graph leaves open, told by what reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main

FILTERS = "f = Const() {dtype=float, value=float[1,1,3,2]{1,2,3,4,5,6}}\n"
MATRIX = "w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}\n"
SCALED = "c = Const() {dtype=float, value=float[]{2}}\ns = Sub(x, c) {T=float}\n"
CONV = FILTERS + 'y = Conv2D(%s, f) {T=float, strides=[1,1,1,1], padding="SAME"%s}'


def shape_of(body: str, declared: str = "") -> str:
    graph = parse_graph(f"x = Placeholder() {{dtype=float{declared}}}\n{body}\ninputs: x\noutputs: y")
    return str(thinflow.load(graph).inputs[0].spec)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (CONV % ("x", ""), "float[?,?,?,3]"),
        (CONV % ("x", ', data_format="NCHW"'), "float[?,3,?,?]"),
        (MATRIX + "y = MatMul(x, w) {T=float}", "float[?,4]"),
        (MATRIX + "y = MatMul(x, w) {T=float, transpose_b=true}", "float[?,2]"),
        (MATRIX + "y = MatMul(x, w) {T=float, transpose_a=true}", "float[4,?]"),
        ('y = MaxPool(x) {T=float, ksize=[1,2,2,1], strides=[1,2,2,1], padding="SAME"}', "float[?,?,?,?]"),
        (SCALED + CONV % ("s", ""), "float[?,?,?,3]"),
        ("c = Const() {dtype=float, value=float[3]{1,2,3}}\ny = Sub(x, c) {T=float}", "float?"),
        ("y = Softmax(x) {T=float}", "float?"),
        # What freezing leaves of a variable.
        (MATRIX + "r = Identity(w) {T=float}\ny = MatMul(x, r) {T=float}", "float[?,4]"),
        # Readers that contradict each other say nothing.
        (MATRIX + "m = MatMul(x, w) {T=float}\n" + CONV % ("x", ""), "float?"),
    ],
)
def test_readers_tell(body: str, found: str) -> None:
    assert shape_of(body) == found


def test_what_is_declared_counts_first() -> None:
    assert shape_of(CONV % ("x", ""), ", shape=shape[?,8,?,?]") == "float[?,8,?,3]"
    assert shape_of(CONV % ("x", ""), ", shape=shape[?,8,8,5]") == "float[?,8,8,5]"
    assert shape_of(CONV % ("x", ""), ", shape=shape[?,?]") == "float[?,?]"
    assert shape_of("y = Softmax(x) {T=float}", ", shape=shape[?,?]") == "float[?,?]"


def test_early_files_say_the_same_of_a_number_as_of_any_shape() -> None:
    assert shape_of(MATRIX + "y = MatMul(x, w) {T=float}", ", shape=shape[]") == "float[?,4]"
    assert shape_of(SCALED + "y = Relu(s) {T=float}", ", shape=shape[]") == "float[]"


def test_a_picture_of_unknown_rank_goes_through_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ai_edge_litert")
    monkeypatch.chdir(tmp_path)
    body = f"{CONV % ('x', '')}\nz = Tanh(y) {{T=float}}"
    graph = parse_graph(f"x = Placeholder() {{dtype=float}}\n{body}\ninputs: x\noutputs: z")
    thinflow.save(graph, "net.pb")
    assert main(["inspect", "net.pb"]) == 0
    told = capsys.readouterr().out
    assert "x: a placeholder of float[?,?,?,3]" in told
    assert "--shape x=1,224,224,3" in told
    assert main(["optimize", "net.pb", "out", "--no-benchmark", "--strict"]) == 0
    assert main(["convert", "net.pb", "net.tflite", "--strict"]) == 0
    found = thinflow.run("net.tflite", {"x": np.ones((1, 5, 7, 3), np.float32)})
    assert found["z"].shape == (1, 5, 7, 2)
