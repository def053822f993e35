"""Better smaller models are found rung by rung, judged on samples that made no ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.quantize.programs import Builder, samples, uneven
from thinflow import zoo
from thinflow.errors import EngineUnavailable, ParameterError
from thinflow.optimize import climb as climbing
from thinflow.optimize.climb import EFFORTS, HOLD_OUT, Goal, climb, require_effort, smaller_program, spread
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import FloatModel, float_model, quantized_model
from thinflow.optimize.rungs import Best, Candidate, Rung, rungs
from thinflow.optimize.samples import Samples, rebind, samples_for
from thinflow.quantize.fit import Fit
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.model import Program
from thinflow.zoo import digits


@pytest.fixture(scope="module")
def model_and_samples() -> tuple[FloatModel, Samples]:
    graph = digits.build(0)
    given = samples_for(graph, zoo.calibration("digits", 48, 0))
    optimized = float_graph(graph, samples=given).graph
    moved = rebind(given, graph, optimized)
    return float_model(optimized, moved), moved


def unequal() -> Program:
    """Channels of very unequal size before a depthwise layer, which has a scale for each."""
    b = Builder(3)
    y = uneven(b, b.input(1, 8, 8, 4), 12)
    b.channels[y] = 12
    logits = b.op("MEAN", b.depthwise(y, act="NONE"), b.const(np.array([1, 2])), keep_dims=False)
    return b.program(b.op("SOFTMAX", logits, beta=1.0))


def goal(program: Program) -> Goal[Program]:
    return Goal(program, {})


@pytest.mark.parametrize(
    ("scheme", "effort"), [("int8", "best"), ("int16x8", "default"), ("int4_weights", "default")]
)
def test_only_what_helps_is_kept(
    model_and_samples: tuple[FloatModel, Samples], scheme: str, effort: str
) -> None:
    model, given = model_and_samples
    made = quantized_model(model, given, recipe=Recipe(scheme=scheme), effort=effort)
    first, *others = made.way.trials
    assert (first.what, first.kept) == ("as asked for", True)
    best = first.sqnr_db
    for trial in others:
        # No rung is content with less than a tenth.
        assert not trial.kept or trial.sqnr_db >= best + 0.1
        best = max(best, trial.sqnr_db) if trial.kept else best
    assert others
    assert made.calibration.samples == (48 if scheme != "int4_weights" else 0)


def test_every_effort_tries_what_the_smaller_ones_do(model_and_samples: tuple[FloatModel, Samples]) -> None:
    model, given = model_and_samples
    tried = [{t.what for t in quantized_model(model, given, effort=effort).way.trials} for effort in EFFORTS]
    assert not tried[0]
    assert tried[1] <= tried[2] < tried[3]


def test_what_judges_makes_no_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[bytes]] = []

    class Spy(Fit[Program]):
        def calibration(self, recipe):
            seen.append({feed["x"].tobytes() for feed in self.feeds})
            return super().calibration(recipe)

    monkeypatch.setattr(climbing, "Fit", Spy)
    program = unequal()
    feeds = [{"x": x} for x in np.random.default_rng(0).random((16, 1, 8, 8, 4), np.float32)]
    program.subgraphs[0].inputs[0].name = "x"
    climb(goal(program), feeds, Recipe(), "default")
    judging = {feed["x"].tobytes() for feed in feeds[::HOLD_OUT]}
    assert seen
    assert all(not judging & fitting and len(fitting) == 12 for fitting in seen)


def test_a_better_candidate_is_what_the_next_must_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def candidates(best: Best) -> Iterator[Candidate]:
        for rescale in ("unequal", "off"):
            yield Candidate(rescale, replace(best.recipe, rescale=rescale))
            asked.append(best.recipe.rescale)

    one = Rung("one", 1, "fast", 0.3, 0.0, 2, candidates)
    monkeypatch.setattr(climbing, "rungs", lambda: [one])
    program = unequal()
    way = climb(goal(program), samples(program), Recipe(), "fast")
    kept = {t.what: t.kept for t in way.trials}
    assert kept == {"as asked for": True, "unequal": True, "off": False}
    assert asked == ["unequal", "unequal"]


@pytest.mark.parametrize(
    ("effort", "at_risk", "is_tried"),
    [("default", True, True), ("default", False, False), ("fast", True, False), ("best", False, True)],
)
def test_what_mends_is_tried_by_default_where_answers_are_at_risk(
    effort: str, at_risk: bool, is_tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def candidates(best: Best) -> Iterator[Candidate]:
        yield Candidate("mends", replace(best.recipe, rescale="unequal"))

    def judged(best: Best) -> Iterator[Candidate]:
        yield Candidate("first", replace(best.recipe, per_channel=False))

    some = [
        Rung("first", 1, "fast", 0.3, 0.0, 2, judged),
        Rung("mends", 2, "best", 0.3, 0.0, 2, candidates, mends=0.1),
    ]
    monkeypatch.setattr(climbing, "rungs", lambda: some)
    monkeypatch.setattr(climbing, "are_at_risk", lambda *_, share: at_risk and share == 0.1)
    program = unequal()
    way = climb(goal(program), samples(program), Recipe(), effort)
    assert ("mends" in [t.what for t in way.trials]) == is_tried


@pytest.mark.parametrize(("effort", "tried"), [("default", 1), ("best", 2)])
def test_no_more_is_mended_than_it_takes(effort: str, tried: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at_risk = True

    def candidates(best: Best) -> Iterator[Candidate]:
        nonlocal at_risk
        at_risk = False
        for rescale in ("unequal", "all"):
            yield Candidate(rescale, replace(best.recipe, rescale=rescale))

    def judged(best: Best) -> Iterator[Candidate]:
        yield Candidate("first", replace(best.recipe, observer="mse"))

    some = [
        Rung("first", 1, "fast", 0.3, 0.0, 2, judged),
        Rung("mends", 2, "best", 0.3, 0.0, 2, candidates, mends=0.1),
    ]
    monkeypatch.setattr(climbing, "rungs", lambda: some)
    monkeypatch.setattr(climbing, "are_at_risk", lambda *_, share: at_risk)
    program = unequal()
    way = climb(goal(program), samples(program), Recipe(), effort)
    assert [t.what for t in way.trials] == ["as asked for", "first", "unequal", "all"][: 2 + tried]


def test_a_candidate_that_the_runtime_refuses_is_left_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Fit.quantized

    def quantized(self, recipe, part=None):
        if recipe.observer == "mse":
            raise EngineUnavailable("LiteRT refuses the model: no")
        return real(self, recipe, part)

    monkeypatch.setattr(Fit, "quantized", quantized)
    program = unequal()
    way = climb(goal(program), samples(program, 16), Recipe(), "default")
    assert "observer mse: LiteRT refuses the model: no" in way.note
    assert "observer mse" not in [t.what for t in way.trials]
    assert len(way.trials) > 3
    with pytest.raises(EngineUnavailable, match="refuses the model: no"):
        climb(goal(program), samples(program, 16), Recipe(observer="mse"), "default")


def test_few_samples_try_what_two_can_tell() -> None:
    program = unequal()
    way = climb(goal(program), samples(program, 4), Recipe(), "default")
    assert [t.what for t in way.trials] == [
        "as asked for",
        "unequal channels rescaled",
        "channels of the inputs rescaled",
    ]
    assert way.note == "4 samples are too few to tell what else helps; 8 are the least"
    assert not climb(goal(program), samples(program, 1), Recipe(), "default").trials


def test_what_gains_nothing_stays_as_it_was() -> None:
    """Equal sizes gain a lot in eight bits and nothing in halves."""
    program = unequal()
    way = climb(goal(program), samples(program), Recipe(scheme="float16"), "fast")
    assert way.recipe == Recipe(scheme="float16")
    assert climb(goal(program), samples(program), Recipe(), "fast").recipe.rescale == "unequal"


def test_a_pattern_for_what_stands_behind_the_logits() -> None:
    program = unequal()
    recipe = Recipe(skip_nodes=(program.subgraphs[0].operators[-1].origin,))
    made = smaller_program(goal(program), samples(program), recipe, "fast")
    assert "times the middle one) and were rescaled in" in made.warnings[0]
    assert "which changes no answer in float" in made.warnings[0]


def test_trained_ranges_are_not_climbed_from() -> None:
    program = unequal()
    from thinflow.quantize.ranges import Range

    stated = {program.subgraphs[0].outputs[0]: Range(0.0, 1.0, "trained")}
    way = climb(Goal(program, stated), samples(program), Recipe(), "best")
    assert (way.trials, way.note) == ([], "ranges that a model was trained with are kept as they are")


def test_made_up_samples_try_nothing() -> None:
    graph = digits.build(0)
    given = samples_for(graph, None)
    made = quantized_model(float_model(graph, given), given, effort="best")
    assert not made.way.trials


def test_rungs_are_found_and_have_an_order_and_an_effort() -> None:
    found = rungs()
    assert [r.order for r in found] == sorted({r.order for r in found})
    assert {r.effort for r in found} <= {*EFFORTS}


def test_an_effort_that_there_is_not() -> None:
    with pytest.raises(ParameterError, match="there is no effort 'bset'") as error:
        require_effort("bset")
    assert "best" in error.value.hint


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 100, 1000])
def test_spread_takes_evenly_from_any_number(count: int) -> None:
    kept = [int(feed["x"]) for feed in spread(({"x": np.array(n)} for n in range(count)), 16)]
    assert len(kept) == count if count <= 16 else 8 <= len(kept) <= 16
    steps = {b - a for a, b in pairwise(kept)}
    assert len(steps) <= 1


def test_what_the_climb_left_float_says_what_was_measured(
    model_and_samples: tuple[FloatModel, Samples],
) -> None:
    model, given = model_and_samples
    made = quantized_model(model, given, recipe=Recipe(skip_nodes=("fc1/*",)))
    floats = {o.origin: why for o, why in made.quantized.float_operators}
    assert floats["fc1/MatMul"] == "skip_nodes has 'fc1/*'"
    (trial,) = [t for t in made.way.trials if t.what == "last layer in float"]
    assert trial.kept
    assert trial.gain_db is not None
    assert floats["logits/MatMul"] == (
        f"tried as 'last layer in float', which was worth {trial.gain_db:+.1f} ± {trial.error_db:.1f} dB"
        " on samples held out"
    )
