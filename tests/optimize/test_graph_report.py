"""The main job on models that LiteRT cannot hold, and on those that begin or end with text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.page_scripts import PAGE
from tests.transforms.golden import parse_graph
from thinflow.bench import latency
from thinflow.errors import EngineCrashed, EngineUnavailable, UnsupportedOp
from thinflow.optimize import judging, trial_runs
from thinflow.optimize.report import GraphReport, OptimizeReport

WORDS = """
words = Placeholder() {dtype=string, shape=shape[?]}
same = Identity(words) {T=string}
upper = StringUpper(same)
inputs: words
outputs: upper
"""
LENGTHS = """
words = Placeholder() {dtype=string, shape=shape[?]}
x = Placeholder() {dtype=float, shape=shape[1,4]}
n = StringLength(words)
f = Cast(n) {SrcT=int32, DstT=float}
w = Const() {dtype=float, value=float[4,4]{1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}}
m = MatMul(x, w) {T=float}
y = Mul(m, f) {T=float}
upper = StringUpper(words)
inputs: words, x
outputs: y, upper
"""


def save(text: str, folder: Path) -> Path:
    thinflow.save(parse_graph(text), folder / "words.pb")
    return folder / "words.pb"


def test_a_model_of_text_only_becomes_a_smaller_graph(tmp_path: Path) -> None:
    report = thinflow.optimize(save(WORDS, tmp_path), tmp_path / "out", seconds=0.2)
    assert isinstance(report, GraphReport)
    names = {p.name for p in (tmp_path / "out").iterdir()}
    assert names == {"words_fp32.pb", "report.json", "report.md", *PAGE}
    assert isinstance(report.obstacle, UnsupportedOp)
    assert report.verdict.startswith("no LiteRT model can be made, because no part of the graph can become")
    assert "the graph went from 3 to 2 nodes and computes the same" in report.verdict
    feeds = {"words": np.array([b"a", b"Bc"], object)}
    found = thinflow.run(tmp_path / "out" / "words_fp32.pb", feeds)
    assert next(iter(found.values())).tolist() == [b"A", b"BC"]


def test_its_reports_agree(tmp_path: Path) -> None:
    report = thinflow.optimize(save(WORDS, tmp_path), tmp_path / "out", seconds=0.2)
    data = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert data["verdict"] == report.verdict == report.lines()[0]
    assert data["obstacle"]["why"] in report.verdict
    assert [t["transform"] for t in data["transforms"]]
    assert report.markdown() == (tmp_path / "out" / "report.md").read_text("utf-8")
    assert any(line.startswith("latency    before ") and ", after " in line for line in report.lines())
    assert report.lines()[-1] == f"next: thinflow run {tmp_path / 'out' / 'words_fp32.pb'}"


def test_text_stays_outside_the_model(tmp_path: Path) -> None:
    path = save(LENGTHS, tmp_path)
    report = thinflow.optimize(path, tmp_path / "out", outputs=["y", "upper"], measure=False)
    assert isinstance(report, OptimizeReport)
    assert all("string" not in spec for _, spec in (*report.model_inputs, *report.model_outputs))
    assert report.outside == dict.fromkeys(["n", "upper"], "it handles text, which is for the app")
    assert report.float_difference < 1e-6


def test_models_are_written_even_if_they_cannot_be_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> latency.BenchmarkReport:
        raise EngineUnavailable("there is no clock")

    monkeypatch.setattr(trial_runs, "race", fail)
    report = thinflow.optimize(save(LENGTHS, tmp_path), tmp_path / "out", outputs=["y"])
    assert report.latency is None
    assert report.warnings[0] == "nothing was timed: there is no clock"
    assert (tmp_path / "out" / "words_fp32.tflite").exists()


def test_float_is_shipped_where_the_eight_bit_model_crashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise EngineCrashed("the engine 'litert' crashed (signal 6, SIGABRT) while running the int8 model")

    monkeypatch.setattr(judging, "compare_models", crash)
    path = save(LENGTHS, tmp_path)
    report = thinflow.optimize(path, tmp_path / "out", outputs=["y", "upper"], measure=False)
    assert isinstance(report, GraphReport)
    assert report.verdict == (
        "PARTIAL: words_part_fp32.tflite holds only a part of the model: 1 of the model's 2 outputs is not "
        "in it ('upper'), because of node 'upper' (StringUpper): it handles text, which is for the app; no "
        "int8 model can be made, because the engine 'litert' crashed (signal 6, SIGABRT) while running the "
        "int8 model; the whole model is words_fp32.pb: run it with thinflow's own engines or a TensorFlow "
        "runtime"
    )
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "words_fp32.pb", "words_part_fp32.tflite", "report.json", "report.md", *PAGE
    }  # fmt: skip
    assert report.next_steps == [f"thinflow run {tmp_path / 'out' / 'words_fp32.pb'}"]


def test_a_whole_float_model_is_shipped_where_the_eight_bit_one_crashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise EngineCrashed("the engine 'litert' crashed (signal 6, SIGABRT) while running the int8 model")

    monkeypatch.setattr(judging, "compare_models", crash)
    path = save(LENGTHS, tmp_path)
    report = thinflow.optimize(path, tmp_path / "out", outputs=["y"], measure=False)
    assert report.verdict == (
        "no int8 model can be made, because the engine 'litert' crashed (signal 6, SIGABRT) while running "
        "the int8 model: ship words_fp32.tflite; the app prepares the text and feeds n"
    )
    assert report.next_steps == [f"thinflow benchmark {tmp_path / 'out' / 'words_fp32.tflite'}"]
