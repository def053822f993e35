"""The whole ladder on the small bundled model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lower.variables import summing
from tests.page_scripts import BUILT
from thinflow.errors import ParameterError
from thinflow.optimize import judging
from thinflow.optimize.ladder import climber, figures, measured
from thinflow.optimize.ladder.climber import LadderInterrupted
from thinflow.optimize.report import OptimizeReport
from thinflow.pages.shell import data_of
from thinflow.quantize.recipe import ONNX_SCHEMES, SCHEMES, Recipe


def optimized(job: dict[str, Any], out: Path, **words: Any) -> OptimizeReport:
    source = job["source"]
    rest = {key: value for key, value in job.items() if key != "source"}
    report = thinflow.optimize(source, out, **(rest | words))
    assert isinstance(report, OptimizeReport)
    return report


def test_every_scheme_is_tried_and_the_best_is_shipped(job: dict[str, Any], out: Path) -> None:
    report = optimized(job, out, max_drop="5%", max_size="60KB")
    ladder = report.ladder
    assert ladder is not None
    assert {m.name for m in ladder.measured} == {"float32", *SCHEMES}
    assert not report.misses_budget
    chosen = ladder.choice.best
    assert report.verdict.startswith(f"within drop <= 5 points, size <= 60.0 kB: {chosen.name} is ")
    assert report.verdict.endswith(f": ship {report.files['int8'].name}")
    # What is shipped is what was measured.
    assert report.sizes["int8"] == chosen.size_bytes <= 60_000
    assert report.int8_quality == chosen.quality
    assert report.recipe == chosen.recipe
    assert report.files["plot"].read_text("utf-8").startswith("<svg ")
    data = json.loads((out / "report.json").read_text("utf-8"))
    assert data["within_budget"] is True
    assert data["ladder"]["litert"]["chosen"] == chosen.name
    assert len(data["ladder"]["litert"]["candidates"]) == len(SCHEMES) + 1
    page = (out / "report.md").read_text("utf-8")
    table = page.partition("```text\n")[2].partition("```")[0].splitlines()
    assert len(table) == len([m for m in ladder.measured if m.is_own]) + 1
    assert max(map(len, table)) <= 80
    assert f"> {chosen.name}" in page
    assert not list(out.glob("ladder/*/*.tflite"))


def test_the_recipe_repeats_what_was_shipped(job: dict[str, Any], out: Path, tmp_path: Path) -> None:
    first = optimized(job, out, max_drop=5, scheme="int8", effort="default")
    # Of the same samples: some were not held out, as others judge.
    again = optimized(job, tmp_path / "again", recipe=first.files["recipe"], effort=None)
    assert again.files["int8"].read_bytes() == first.files["int8"].read_bytes()
    assert again.ladder is None


def test_a_goal_out_of_reach_ships_the_best_found_and_says_why(job: dict[str, Any], out: Path) -> None:
    report = optimized(job, out, scheme="int8", max_size="10KB")
    assert report.misses_budget
    size = report.sizes["int8"] / 1000
    assert report.verdict.startswith(
        "OUT OF REACH is drop <= 1.5 points, size <= 10.0 kB: int8, the smallest of all, has a size of"
        f" {size:.1f} kB, not 10.0 kB; best found: int8 is 3.4x smaller"
    )
    assert report.files["int8"].is_file()
    assert json.loads((out / "report.json").read_text("utf-8"))["within_budget"] is False


def test_nothing_smaller_is_good_enough(
    job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "too_much_lost", lambda *_: "int8 loses a lot")
    report = optimized(job, out, scheme="int8", max_drop=0)
    assert report.verdict == (
        "within drop <= 0 points: float32, as nothing smaller fits (int8 loses a lot):"
        " ship digits_fp32.tflite"
    )
    assert not report.misses_budget


def test_a_network_without_weights_gains_nothing(out: Path) -> None:
    calls = [{"x": np.float32([n, 1])} for n in range(12)]
    report = thinflow.optimize(
        thinflow.load(summing()), out, calibration=calls, max_drop=1, effort="none", measure=False
    )
    assert isinstance(report, OptimizeReport)
    assert report.verdict == ("within drop <= 1 points: float32, as less is no gain: ship model_fp32.tflite")
    assert report.ladder is not None
    assert {row[-1] for row in report.ladder.rows()[1:]} == {"-"}


def test_a_second_run_goes_on_from_the_first(job: dict[str, Any], out: Path) -> None:
    first = optimized(job, out, scheme="int8", effort="fast", max_drop=5)
    told: list[str] = []
    second = optimized(
        job,
        out,
        scheme="int8",
        effort="fast",
        max_size="60KB",
        progress=lambda done, total, label: told.append(label),
    )
    assert second.ladder is not None
    assert first.ladder is not None
    assert [m.digest for m in second.ladder.measured] == [m.digest for m in first.ladder.measured]
    assert "2 of 2 results are of an earlier run" in second.ladder.notes
    assert not any(" of 2" in label for label in told)


def test_results_of_other_samples_are_made_anew_with_a_word(job: dict[str, Any], out: Path) -> None:
    optimized(job, out, scheme="float16", max_drop=5)
    other = optimized(job, out, scheme="float16", max_drop=5, samples=20)
    assert other.ladder is not None
    (note,) = other.ladder.notes
    assert note.startswith("1 result is of another model, other samples, other settings or another version")


def interrupted(job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch) -> LadderInterrupted:
    """What is raised when Ctrl-C is pressed while a later candidate is measured."""
    real = climber._Climber._measured

    def pressed(self: Any, candidate: Any, progress: Any) -> Any:
        if candidate.scheme == "int8_weights":
            raise KeyboardInterrupt
        return real(self, candidate, progress)

    monkeypatch.setattr(climber._Climber, "_measured", pressed)
    with pytest.raises(LadderInterrupted) as stopped:
        optimized(job, out, scheme="auto")
    return stopped.value


def test_ctrl_c_keeps_what_is_done(job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = interrupted(job, out, monkeypatch)
    monkeypatch.undo()
    done = len(list(out.glob("ladder/litert/*.json")))
    assert done
    assert str(stopped) == (
        f"{done} of {len(SCHEMES)} candidates are measured and kept in {out / 'ladder' / 'litert'};"
        " the same command goes on from there"
    )
    assert {p.suffix for p in (out / "ladder" / "litert").iterdir()} == {".json", ".toml"}
    report = optimized(job, out, scheme="auto")
    assert report.ladder is not None
    assert f"{done} of {len(SCHEMES)} results are of an earlier run" in report.ladder.notes


def test_a_candidate_that_fails_is_told_and_never_shipped(
    job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = climber._Climber._measured

    def failing(self: Any, candidate: Any, progress: Any) -> Any:
        if candidate.scheme == "int8":
            raise thinflow.EngineCrashed("the engine ended")
        return real(self, candidate, progress)

    monkeypatch.setattr(climber._Climber, "_measured", failing)
    report = optimized(job, out, scheme="auto")
    assert report.ladder is not None
    assert report.ladder.choice.best.scheme != "int8"
    assert "int8: the engine ended" in report.ladder.remarks()
    assert "int8: the engine ended" in report.markdown()
    # If nothing can be made, the float model is what is left, and the budget was not kept.
    alone = thinflow.optimize(
        job["source"], out, **{k: v for k, v in job.items() if k != "source"}, scheme="int8", max_drop=1
    )
    assert alone.misses_budget
    assert "no int8 model can be made, because the engine ended" in alone.verdict


def test_what_gives_no_numbers_is_never_shipped(
    job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = judging.QualityMeter.result

    def broken(self: Any) -> Any:
        found = real(self)
        found.not_finite = found.samples
        return found

    monkeypatch.setattr(judging.QualityMeter, "result", broken)
    rest = {k: v for k, v in job.items() if k != "source"}
    alone = thinflow.optimize(job["source"], out, **rest, scheme="float16", max_drop=100)
    assert alone.misses_budget
    assert "it gives NaN or infinity where the model gives numbers" in alone.verdict
    assert "int8" not in alone.files


def test_what_comes_out_differently_is_measured_again(
    job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = climber._Climber._measured, []

    def unlike(self: Any, candidate: Any, progress: Any) -> Any:
        calls.append(candidate)
        made = real(self, candidate, progress)
        return climber.replace(made, digest="another", size_bytes=1)

    monkeypatch.setattr(climber._Climber, "_measured", unlike)
    report = optimized(job, out, scheme="int8", max_drop=5)
    assert report.ladder is not None
    assert len(calls) == 1
    assert report.ladder.choice.smaller.size_bytes == report.sizes["int8"]


def test_samples_that_judge_make_no_ranges(job: dict[str, Any], out: Path) -> None:
    report = optimized(job, out, scheme="int8", max_drop=20, test=None)
    assert report.samples.startswith("18 to calibrate with, of 24 samples from")
    assert report.tested_on.startswith("6 held out to judge on, of 24 samples from")
    assert report.int8_quality.samples == 6
    assert report.ladder is not None
    # Of six one answer is a sixth.
    coarse = optimized(job, out, scheme="int8", max_drop=1, test=None)
    assert coarse.ladder is not None
    assert any(
        note.startswith("6 samples judged, so that one answer is 16.7 points") for note in coarse.ladder.notes
    )
    assert not any(note.startswith("6 samples") for note in report.ladder.notes)


def test_times_are_measured_beside_float(job: dict[str, Any], out: Path) -> None:
    report = optimized(job, out, scheme="int8", max_latency="10s", measure=True, seconds=0.2, threads=[1])
    assert report.ladder is not None
    by_name = {m.name: m for m in report.ladder.measured}
    assert by_name["float32"].latency is not None
    assert by_name["float32"].latency.ratio == 1
    time = by_name["int8"].latency
    assert time is not None
    assert 0 < time.ms < 100
    assert time.float_ms == by_name["float32"].latency.ms
    assert report.ladder.rows()[0] == ["  candidate", "size", "RAM", "time", "x float", "loss", "dB"]


def test_the_same_for_onnx(job: dict[str, Any], out: Path) -> None:
    pytest.importorskip("onnxruntime")
    report = optimized(job, out, max_drop=5, onnx=True)
    assert report.onnx is not None
    ladder = report.onnx.ladder
    assert ladder is not None
    assert {m.name for m in ladder.measured} == {"float32", *ONNX_SCHEMES}
    assert report.files["onnx_int8"].name == f"digits_{ladder.choice.smaller.scheme}.onnx"
    assert report.sizes["onnx_int8"] == ladder.choice.smaller.size_bytes
    assert set(report.sizes) == {"fp32_pb", "fp32", "int8", "onnx_fp32", "onnx_int8"}
    assert report.files["onnx_recipe"].is_file()
    assert report.files["onnx_plot"].is_file()
    assert set(report.data()["ladder"]) == {"litert", "onnx"}
    named = next(line for line in report.lines() if ".onnx" in line and "fp32" not in line)
    assert named.startswith(ladder.choice.smaller.scheme)
    # Between the leanest of both: one misses the budget, and the first line says so.
    assert report.ladder is not None
    leanest = [min(m.ram_bytes for m in one.measured if m.is_own) for one in (report.ladder, ladder)]
    assert leanest[0] < leanest[1]
    both = optimized(job, out, max_drop=5, max_ram=sum(leanest) / 2, onnx=True)
    assert [one.is_reached for one in both.ladders] == [True, False]
    assert both.misses_budget
    assert "; ONNX: OUT OF REACH is drop <= 5 points, RAM <= " in both.verdict


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"max_size": "60KB", "calibration": None},
            "a budget needs samples: what fewer bits cost cannot be told from inputs that are made up\n"
            "hint: give some: calibration=SAMPLES",
        ),
        (
            {"max_latency": "20ms"},
            "a bound on latency needs measuring, which is switched off\nhint: leave out one of them",
        ),
        ({"max_size": "60 apples"}, "'60 apples' is no size\nhint: write 100KB"),
        ({"max_drop": "-1%"}, "a drop of at most -1 points makes no sense\nhint: give 0 to 100"),
        ({"scheme": "int9", "max_size": "60KB"}, "there is no quantization scheme 'int9'"),
        ({"scheme": "auto", "effort": "much"}, "there is no effort 'much'"),
    ],
)
def test_budgets_that_cannot_be(job: dict[str, Any], out: Path, words: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        optimized(job, out, **words)
    assert str(refused.value).startswith(message)
    assert not out.exists()


def test_a_recipe_leaves_nothing_to_look_for(job: dict[str, Any], out: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="a recipe says how the model is made, and a budget looks for"):
        optimized(job, out, recipe=Recipe(), max_size="60KB")
    # A drop alone is what the verdict goes by.
    report = optimized(job, out, recipe=Recipe(), max_drop=30)
    assert report.ladder is None
    assert report.max_drop == 30


def test_one_sample_and_samples_with_nan(job: dict[str, Any], out: Path, tmp_path: Path) -> None:
    report = optimized(job, out, scheme="int8", max_drop=50, test=None, samples=1)
    assert report.int8_quality.samples == 1
    bad = {"image": np.full((4, 8, 8, 1), np.nan, np.float32)}
    with pytest.raises(thinflow.FeedError):
        optimized(job, tmp_path / "nan", scheme="int8", max_drop=50, calibration=bad, test=None)


def test_the_graph_answers_each_sample_once(
    job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = judging.answers_ahead

    def counted(graph: Any, read: Any, ends: Any, feeds: Any) -> Any:
        given = list(feeds)
        asked.append(sum(feed is not None for _, feed in given))
        return real(graph, read, ends, iter(given))

    monkeypatch.setattr(judging, "answers_ahead", counted)
    optimized(job, out, scheme="auto", max_drop=5)
    assert len(asked) == len(SCHEMES) + 1
    assert sum(asked) == asked[0] == 24


def test_what_cannot_be_timed_is_judged_without(
    job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: Any, **__: Any) -> Any:
        raise thinflow.FeedError("no inputs")

    monkeypatch.setattr(figures, "race", refusing)
    report = optimized(job, out, scheme="int8", max_latency=20, measure=True, seconds=0.2, threads=[1])
    assert report.ladder is not None
    assert "some were not timed: no inputs" in report.ladder.notes
    assert report.verdict.startswith(
        "OUT OF REACH is drop <= 1.5 points, latency <= 20 ms: latency could not"
    )


@pytest.mark.parametrize("words", [{}, {"max_drop": 5}])
def test_nothing_to_judge_on(job: dict[str, Any], out: Path, words: dict[str, Any]) -> None:
    with pytest.raises(thinflow.FeedError, match="there are no samples to judge on\nhint: give at least one"):
        optimized(job, out, test=lambda: iter(()), scheme="float16", **words)


@BUILT
def test_an_interrupted_run_leaves_a_page_that_says_so(
    job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = interrupted(job, out, monkeypatch)
    found = data_of((out / "report_interrupted.html").read_bytes())
    done = len(stopped.measured) - 1
    kept = out / "ladder" / "litert"
    told = f"{done} of {len(SCHEMES)} candidates are measured and kept in {kept}"
    assert found["verdict"] == f"interrupted: {told}"
    assert found["unfinished"] == "Interrupted: nothing is chosen yet, and no model is written."
    first, last = found["sections"]
    assert last["blocks"][0]["text"] == "The same command goes on from there."
    points = first["blocks"][0]["points"]
    assert {"float32"} < {p["label"] for p in points}
    assert not any(p["state"] == "chosen" for p in points)
    assert len(found["data"]["ladder"]["litert"]["candidates"]) == done + 1


@BUILT
def test_an_interrupted_run_leaves_the_report_of_a_finished_one(
    job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimized(job, out, scheme="float16")
    finished = {path: path.read_bytes() for path in out.iterdir()}
    interrupted(job, out, monkeypatch)
    assert {path: path.read_bytes() for path in finished} == finished
    assert {path.name for path in out.iterdir() if path not in finished} == {
        "ladder",
        "report_interrupted.html",
    }
    monkeypatch.undo()
    # The next run that is finished takes its place.
    optimized(job, out, scheme="auto")
    assert not (out / "report_interrupted.html").exists()
    assert data_of((out / "report.html").read_bytes())["unfinished"] == ""


def test_what_is_slower_than_float_is_also_tried_with_layers_in_float(
    job: dict[str, Any], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_a_float_layer(ground: Any, pair: Any) -> Any:
        recipe = replace(pair.quantized.way.recipe, skip_nodes=("conv3/Conv2D",))
        return pair.maker.pair(ground.model, ground.original, ground.calibration, ground.evaluation, recipe)

    monkeypatch.setattr(climber, "is_slower", lambda latency: True)
    monkeypatch.setattr(climber, "quicker", with_a_float_layer)
    report = optimized(job, out, max_drop=100, scheme="int8")
    assert report.ladder is not None
    assert [m.name for m in report.ladder.measured] == ["float32", "int8", "int8 (slow layers in float)"]
    last = report.ladder.measured[-1]
    assert last.recipe.skip_nodes == ("conv3/Conv2D",)
    assert last.size_bytes > report.ladder.measured[1].size_bytes
