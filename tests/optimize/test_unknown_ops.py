"""The main job on graphs with an op that nothing here knows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.optimize.report import GraphReport, OptimizeReport
from thinflow.optimize.trial_runs import unknown_op

pytest.importorskip("ai_edge_litert")
WEIGHTS = "w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}\n"
BEHIND = f"""
x = Placeholder() {{dtype=float, shape=shape[1,4]}}
{WEIGHTS}i = Identity(x) {{T=float}}
y = MatMul(i, w) {{T=float}}
o = AcmeWarp(y) {{T=float}}
inputs: x
outputs: o
"""
AHEAD = f"""
x = Placeholder() {{dtype=float, shape=shape[1,4]}}
p = AcmeWarp(x) {{T=float}}
{WEIGHTS}i = Identity(p) {{T=float}}
y = MatMul(i, w) {{T=float}}
inputs: x
outputs: y
"""
NOT_RUN = "the graph was not run from end to end, as nothing here knows an op in it (node '{}' (AcmeWarp))"


def saved(text: str, folder: Path) -> Path:
    thinflow.save(parse_graph(text), folder / "acme.pb")
    return folder / "acme.pb"


def test_what_is_known_in_front_becomes_models_that_are_judged_at_their_ends(tmp_path: Path) -> None:
    report = thinflow.optimize(saved(BEHIND, tmp_path), tmp_path / "out", measure=False)
    assert isinstance(report, OptimizeReport)
    assert report.outside == {"o": "TFLite has no form of AcmeWarp"}
    assert report.warnings[0].startswith(NOT_RUN.format("o"))
    assert "stop before it with --outputs y" in report.warnings[0]
    assert report.verdict.startswith(
        "PARTIAL: acme_part_fp32.tflite and acme_part_int8.tflite hold only a part of the model: the model's "
        "output 'o' is not in it, because of node 'o' (AcmeWarp): TFLite has no form of AcmeWarp; "
    )
    assert report.float_quality.sentence().startswith("the part at its own ends: output SQNR ")
    assert report.float_quality.sqnr_db > 100
    assert 20 < report.int8_quality.sqnr_db < 100
    x = np.float32([[1, 0, 0, 0]])
    (name,) = report.model_outputs
    found = thinflow.run(tmp_path / "out" / "acme_part_fp32.tflite", {"x": x})
    assert found[name[0]].tolist() == [[1, 2]]
    assert [n.op for n in thinflow.load(tmp_path / "out" / "acme_fp32.pb")].count("AcmeWarp") == 1


def test_an_unknown_op_at_the_beginning_leaves_the_smaller_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = thinflow.optimize(saved(AHEAD, tmp_path), tmp_path / "out", seconds=0.2)
    assert isinstance(report, GraphReport)
    assert report.verdict == (
        "no LiteRT model can be made, because nothing here knows an op that it begins with "
        "(node 'p' (AcmeWarp)); the graph went from 5 to 4 nodes and computes the same: "
        "ship acme_fp32.pb with the TensorFlow runtime that has the op"
    )
    assert report.latency is None
    assert report.warnings[0].startswith(NOT_RUN.format("p"))
    assert report.warnings[0].endswith("start behind it with --inputs p, as `thinflow run` takes them")
    assert json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))["verdict"] == report.verdict
    assert report.next_steps == [f"thinflow inspect {tmp_path / 'out' / 'acme_fp32.pb'}"]
    assert main(["optimize", str(tmp_path / "acme.pb"), str(tmp_path / "again"), "--no-benchmark"]) == 0
    assert capsys.readouterr().out.startswith("no LiteRT model can be made")


def test_the_way_that_is_advised_works(tmp_path: Path) -> None:
    report = thinflow.optimize(
        saved(AHEAD, tmp_path), tmp_path / "out", inputs=["p"], shapes={"p": (1, 4)}, measure=False
    )
    assert isinstance(report, OptimizeReport)
    assert not any("not run from end to end" in w for w in report.warnings)


def test_only_ops_on_the_way_count() -> None:
    graph = parse_graph(BEHIND)
    found = unknown_op(graph)
    assert found is not None
    assert "node 'o' (AcmeWarp)" in found.where
    graph.outputs = [graph.value("y")]
    assert unknown_op(graph) is None
