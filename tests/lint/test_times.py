"""What findings take in a run: whose time an operator's is, and how it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.bench.profile import profile
from thinflow.bench.profile_model import Profile
from thinflow.errors import EngineUnavailable
from thinflow.lint import times
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding
from thinflow.lint.report import LintReport, cost_text
from thinflow.lint.times import RunTimes, measured, timed
from thinflow.zoo import digits

CONVOLVED = """
x = Placeholder() {dtype=float, shape=shape[1,16,16,4]}
w = Const() {dtype=float, value=float[3,3,4,8]{normal 1}}
b = Const() {dtype=float, value=float[8]{1 x 8}}
conv = Conv2D(x, w) {T=float, padding="SAME", strides=[1,1,1,1]}
biased = BiasAdd(conv, b) {T=float}
rectified = Relu(biased) {T=float}
y = Softmax(rectified) {T=float}
inputs: x
outputs: y
"""


def test_a_fused_operator_is_its_layers_time() -> None:
    found = measured(Context(parse_graph(CONVOLVED)), "litert", runs=2)
    assert found.engine == "litert"
    assert {"conv", "y"} <= set(found.nodes)
    assert not {"biased", "rectified"} & set(found.nodes), "LiteRT computes them with the convolution"
    assert found.run_ms > 0


def test_in_the_interpreter_each_node_has_its_own() -> None:
    found = measured(Context(parse_graph(CONVOLVED)), "reference", runs=2)
    assert {"conv", "biased", "rectified", "y"} <= set(found.nodes)
    assert sum(found.nodes.values()) <= found.run_ms * 1.01


def test_a_file_runs_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "digits.tflite"
    thinflow.save(digits.build(0), path)
    report = thinflow.lint(path, select=["TF403"], profile="auto")
    assert report.times is not None
    assert report.times.engine == "litert"
    assert [f.ms is not None for f in report.findings] == [True]


def test_runs_take_samples_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[str] = []

    def watched(*args: Any, **options: Any) -> Profile:
        fed.append(profile(*args, **options).fed)
        return profile(*args, **options)

    monkeypatch.setattr(times, "profile", watched)
    samples = [np.full((1, 16, 16, 4), n, np.float32) for n in range(3)]
    measured(Context(parse_graph(CONVOLVED), calibration=samples), "reference", runs=2)
    measured(Context(parse_graph(CONVOLVED)), "reference", runs=2)
    assert fed == ["3 samples", "made-up inputs"]


def test_findings_tell_their_part_of_a_run() -> None:
    known = RunTimes("litert", 1, "by the clock", 20, 4.0, {"a": 0.5, "b": 1.5, "c": 0.001})
    first, second, third = timed(
        [LintFinding("x", ("a", "b", "a")), LintFinding("y", ("d",)), LintFinding("z", ("c",), flops=12)],
        known,
    )
    assert (first.ms, second.ms) == (2.0, None)
    assert cost_text(first, known.run_ms) == "2 ms, 50 % of a run"
    assert cost_text(second, known.run_ms) == ""
    assert cost_text(third, known.run_ms) == "12 FLOP a run, 0.001 ms, under 1 % of a run"
    report = LintReport("m.pb", [first], [], times=known)
    assert "a run takes 4 ms (mean of 20 on litert, 1 thread)" in str(report).replace("\n  ", " ")
    assert report.data()["times"] == {
        "engine": "litert",
        "threads": 1,
        "method": "by the clock",
        "runs": 20,
        "run_ms": 4.0,
    }


def test_what_cannot_be_timed_is_told_and_looked_at_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise EngineUnavailable("no such runtime here")

    monkeypatch.setattr(times, "profile", refuse)
    report = thinflow.lint(digits.build(0), select=["TF102"], profile="auto")
    assert report.times is None
    assert report.notes == ["nothing was timed: no such runtime here"]
    assert [f.code for f in report.findings] == ["TF102"]


def test_an_engine_that_does_not_exist() -> None:
    with pytest.raises(thinflow.ParameterError, match="there is no profile of 'litret'"):
        thinflow.lint(digits.build(0), select=["TF102"], profile="litret")
