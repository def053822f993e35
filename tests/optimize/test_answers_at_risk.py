"""How many answers noise is expected to change."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import Builder
from thinflow.optimize.answers_at_risk import are_at_risk, changed_answers_advice, expected_changes
from thinflow.optimize.quality import Score, score_of
from thinflow.tflite.model import Program

CLASSES, SAMPLES = 4, 60


def classifier(last: str = "SOFTMAX") -> Program:
    """Gives its inputs as logits."""
    b = Builder(1)
    logits = b.op(
        "FULLY_CONNECTED",
        b.input(1, CLASSES),
        b.const(np.eye(CLASSES, dtype=np.float32)),
        b.const(np.zeros(CLASSES, np.float32)),
    )
    return b.program(b.op(last, logits, beta=1.0) if last == "SOFTMAX" else b.op(last, logits))


def feeds(program: Program, spread: float, count: int = SAMPLES) -> list[dict[str, np.ndarray]]:
    name = program.subgraphs[0].inputs[0].name
    logits = np.random.default_rng(0).normal(0, spread, (count, 1, CLASSES)).astype(np.float32)
    return [{name: one} for one in logits]


def scores(samples: list[dict[str, np.ndarray]], noise: float) -> list[Score]:
    rng = np.random.default_rng(1)
    rows = [next(iter(feed.values())) for feed in samples]
    return [score_of([x], [x + rng.normal(0, noise, x.shape)]) for x in rows]


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.5])
def test_as_many_are_expected_as_noise_changes(noise: float) -> None:
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 1, (20_000, CLASSES))
    noisy = logits + rng.normal(0, noise, logits.shape)
    changed = float((logits.argmax(1) != noisy.argmax(1)).mean())
    ordered = np.sort(logits, 1)
    shift = score_of([logits], [noisy]).shift
    expected = expected_changes(ordered[:, -1] - ordered[:, -2], np.sqrt(shift / len(logits)))
    # The third best counts, too, where noise is as large as distances are.
    assert expected == pytest.approx(changed, rel=0.2)


def test_without_noise_nothing_changes() -> None:
    assert expected_changes(np.array([0.0, 1.0]), 0.0) == 0.0


def test_a_classifier_of_near_answers_is_told_of() -> None:
    program = classifier()
    samples = feeds(program, 1.0)
    (told,) = changed_answers_advice(program, samples, scores(samples[::4], 0.05), "default")
    share = float(told.split()[1].rstrip("%")) / 100
    assert 0.01 < share < 0.06
    assert told.endswith(
        " of top answers are expected to change: so near are the two best answers of 60 samples, and so far"
        " does noise move them; --effort best tries what leaves less noise"
    )
    (told,) = changed_answers_advice(program, samples, scores(samples[::4], 0.05), "best")
    assert told.endswith(
        "; activations of sixteen bits (--scheme int16x8) or layers in float (--keep-float) leave less noise"
    )


@pytest.mark.parametrize(
    ("last", "spread", "count"),
    [
        ("SOFTMAX", 100.0, SAMPLES),  # answers are far apart
        ("RELU", 1.0, SAMPLES),  # numbers of no classes
        ("SOFTMAX", 1.0, 12),  # too few to tell
    ],
)
def test_others_are_not(last: str, spread: float, count: int) -> None:
    program = classifier(last)
    samples = feeds(program, spread, count)
    assert changed_answers_advice(program, samples, scores(samples[::4], 0.05), "default") == []


@pytest.mark.parametrize(
    ("last", "spread", "found"), [("SOFTMAX", 1.0, True), ("RELU", 1.0, True), ("SOFTMAX", 100.0, False)]
)
def test_more_is_tried_where_answers_are_near(last: str, spread: float, found: bool) -> None:
    program = classifier(last)
    samples = feeds(program, spread)
    assert are_at_risk(program, samples, scores(samples[::4], 0.05)) == found


def test_of_maps_each_place_counts() -> None:
    program = classifier("RELU")
    same = Score(1.0, 0.1, 995, 1000)
    assert not are_at_risk(program, [], [same])
    assert are_at_risk(program, [], [same, Score(1.0, 0.1, 950, 1000)])
    assert are_at_risk(program, [], [same], share=0.002)
    # Of a few answers one that changes is no share of a hundredth.
    assert not are_at_risk(program, [], [Score(1.0, 0.1, 14, 15)])


def test_nothing_is_told_where_nothing_was_judged() -> None:
    program = classifier()
    assert changed_answers_advice(program, feeds(program, 1.0), [], "default") == []


def test_the_axis_of_the_classes_is_where_they_are() -> None:
    """Of one column of classes the last axis has no second best."""
    logits = np.random.default_rng(0).normal(size=(CLASSES, 1))
    noisy = logits + np.random.default_rng(1).normal(0, 0.1, logits.shape)
    turned = score_of([logits.T], [noisy.T], [1])
    assert score_of([logits], [noisy], [0]).shift == pytest.approx(turned.shift)
    assert turned.shift > 0
