"""Sizes that the graph leaves open, such as the steps of a recurrent net, are settled and told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main

pytest.importorskip("ai_edge_litert")
STEPS = """
frames = Placeholder() {dtype=float, shape=shape[1,?,4]}
a = Const() {dtype=int32, value=int32[1]{1}}
s = Sum(frames, a) {T=float, Tidx=int32}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = MatMul(s, w) {T=float}
inputs: frames
outputs: y
"""
EIGHT_STEPS = """
frames = Placeholder() {dtype=float, shape=shape[1,?,4]}
a = Const() {dtype=int32, value=int32[2]{1,32}}
s = Reshape(frames, a) {T=float, Tshape=int32}
w = Const() {dtype=float, value=float[32,1]{range}}
y = MatMul(s, w) {T=float}
inputs: frames
outputs: y
"""
"""Only eight steps go through, which the graph does not say of its input."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    thinflow.save(parse_graph(STEPS), tmp_path / "m.pb")
    return tmp_path / "m.pb"


def told(report: object) -> list[str]:
    return [w for w in report.warnings if "in the graph; the models are made for" in w]  # type: ignore[attr-defined]


def test_sizes_that_nobody_knows_stay_open(model: Path, tmp_path: Path) -> None:
    report = thinflow.optimize(model, tmp_path / "out", measure=False)
    assert told(report) == []
    assert report.model_inputs == [("frames", "float[1,?,4]")]
    for steps in (3, 8, 20):
        frames = np.arange(steps * 4, dtype=np.float32).reshape(1, steps, 4) / 100
        right = thinflow.run(model, {"frames": frames})["y"]
        for kind in ("fp32", "int8"):
            found = thinflow.run(tmp_path / "out" / f"m_{kind}.tflite", {"frames": frames})["y"]
            assert found.shape == right.shape
        plain = thinflow.run(tmp_path / "out" / "m_fp32.tflite", {"frames": frames})["y"]
        assert np.allclose(plain, right, rtol=1e-5)


def test_made_up_sizes_are_told(tmp_path: Path) -> None:
    model = tmp_path / "m.pb"
    thinflow.save(parse_graph(EIGHT_STEPS), model)
    report = thinflow.optimize(model, tmp_path / "out", measure=False)
    assert told(report) == [
        "'frames' is float[1,?,4] in the graph; the models are made for float[1,8,4], sizes made up: "
        "choose others with --shape frames=1,N,4"
    ]
    assert report.model_inputs == [("frames", "float[1,8,4]")]


def test_sizes_of_samples_are_told(model: Path, tmp_path: Path) -> None:
    samples = [{"frames": np.ones((1, 5, 4), np.float32)}]
    report = thinflow.optimize(model, tmp_path / "out", calibration=samples, measure=False)
    assert "made for float[1,5,4], sizes of the first sample" in told(report)[0]


def test_sizes_that_were_given_are_not(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = thinflow.optimize(model, tmp_path / "out", shapes={"frames": (1, 3, 4)}, measure=False)
    assert told(report) == []
    flags = ["--shape", "frames=1,3,4", "--no-benchmark"]
    assert main(["optimize", str(model), str(tmp_path / "again"), *flags]) == 0
    assert "the models are made for" not in capsys.readouterr().out
