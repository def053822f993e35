"""Candidates without channels that hardly tell anything."""

from __future__ import annotations

from pathlib import Path

import thinflow
from benchmarks.ptq import cases
from thinflow.optimize.ladder.candidates import Candidate, pruned_candidates
from thinflow.optimize.report import OptimizeReport
from thinflow.quantize.recipe import Recipe


def test_levels_that_bring_something_are_tried() -> None:
    parts = {40.0: 0.1, 30.0: 0.11, 25.0: 0.3}
    found = pruned_candidates(["dynamic", "int8", "int4_weights"], "best", parts.__getitem__)
    assert [c.name for c in found] == [
        "int8 (default, pruned 40 dB)",
        "int4_weights (default, pruned 40 dB)",
        "int8 (default, pruned 25 dB)",
        "int4_weights (default, pruned 25 dB)",
    ]
    assert found[0].stem == "int8_default_pruned_40"
    assert [c.name for c in pruned_candidates(["float16"], "default", parts.__getitem__)] == [
        "float16 (default, pruned 40 dB)",
        "float16 (default, pruned 25 dB)",
    ]
    assert Candidate(Recipe(prune=30.0), "none").name == "int8 (pruned 30 dB)"


def test_none_are_where_nothing_goes_or_little_is_tried() -> None:
    assert pruned_candidates(["int8"], "default", lambda level: 0.01) == []
    assert pruned_candidates(["int8"], "fast", lambda level: 0.5) == []


def test_a_trained_network_loses_channels_that_are_never_used(tmp_path: Path) -> None:
    """A quarter of the convolutions' channels of `plain`, and nothing of its answers."""
    case = cases.trained_case("plain")
    name = case.graph.inputs[0].name
    report = thinflow.optimize(
        case.graph,
        tmp_path,
        calibration={name: case.calibration[:100]},
        test={name: case.x[:200]},
        scheme="int8",
        effort="default",
        max_drop=1.0,
        measure=False,
    )
    assert isinstance(report, OptimizeReport)
    assert report.ladder is not None
    by_name = {m.name: m for m in report.ladder.measured}
    pruned, whole = by_name["int8 (default, pruned 40 dB)"], by_name["int8 (default)"]
    assert pruned.size_bytes < 0.88 * whole.size_bytes
    assert pruned.exactness_db > whole.exactness_db - 1
    assert pruned.quality.drop is not None
    assert pruned.quality.drop <= 1
    told = [line for line in report.ladder.lines() if line.startswith(f"{pruned.name}: ")]
    assert len(told) == 1
    assert "channels were removed" in told[0]
    # What was measured can be made again.
    again = thinflow.quantize(case.graph, {name: case.calibration[:100]}, recipe=pruned.recipe, effort="none")
    assert len(again.content) == pruned.size_bytes
