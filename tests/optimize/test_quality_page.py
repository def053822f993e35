"""Quality as blocks of a page."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from thinflow.optimize.ladder.measured import Measured, read_measured
from thinflow.optimize.quality import Judged, Quality, QualityMeter
from thinflow.optimize.quality_page import Preview, Shown, ordered, quality_blocks, samples_blocks
from thinflow.pages.report import Intervals, Samples
from thinflow.quantize.recipe import Recipe

ROWS = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def judged(pairs: list[tuple[int, int]], labels: list[int] | None) -> Quality:
    """The quality of answers, each the original's and the candidate's."""
    return meter_of(pairs, labels).result()


def meter_of(pairs: list[tuple[int, int]], labels: list[int] | None) -> QualityMeter:
    meter = QualityMeter(labels)
    for before, after in pairs:
        meter.add([np.array([ROWS[before]], np.float32)], [np.array([ROWS[after]], np.float32)])
    return meter


def test_answers_are_kept_wrong_ones_above_all() -> None:
    found = judged([(0, 0)] * 50 + [(0, 1)] * 2 + [(1, 1)], [0] * 50 + [0, 1, 0])
    assert [one.number for one in found.judged] == [0, 1, 2, 3, 4, 5, 50, 51, 52]
    assert [one.number for one in ordered(found.judged)][:2] == [50, 52]
    assert [one.number for one in ordered(found.judged)][2] == 51
    assert [one.is_lost for one in found.judged[-3:]] == [True, False, False]


def test_no_more_than_a_few_of_a_kind() -> None:
    found = judged([(0, 1)] * 100 + [(1, 1)] * 100 + [(0, 0)] * 100, [0] * 300)
    assert len(found.judged) == 12 + 12 + 6


def test_of_many_mistakes_different_ones_are_kept() -> None:
    # As files come: class by class. The few that are kept shall not all be of the first class.
    pairs = [(0, 1)] * 40 + [(1, 2)] * 40 + [(2, 0)] * 40
    labels = [0] * 40 + [1] * 40 + [2] * 40
    found = judged(pairs, labels)
    assert [one.number for one in found.judged] == [*range(4), *range(40, 44), *range(80, 84)]
    again = QualityMeter.of_state(json.loads(json.dumps(meter_of(pairs, labels).state())))
    assert again.result().judged == found.judged


def test_without_labels_another_answer_is_what_matters() -> None:
    found = judged([(0, 0), (0, 2)], None)
    assert [one.is_wrong for one in found.judged] == [False, True]
    _, block = samples_blocks(found, Shown(), ["float", "int8"])
    assert isinstance(block, Samples)
    first = block.items[0]
    assert (first.name, first.label) == ("sample 1", "")
    assert [(a.text, a.tone) for a in first.answers] == [("0", ""), ("2", "warn")]


def test_cards() -> None:
    found = judged([(0, 0), (1, 2)], [0, 1])
    shown = Shown({1: Preview("data:image/png;base64,x")}, {1: "b.png"}, ["ant", "bee", "cat"])
    text, block = samples_blocks(found, shown, ["float", "int8"])
    assert isinstance(block, Samples)
    assert "come first" in text.text  # type: ignore[attr-defined]
    first, second = block.items
    assert (first.name, first.label, first.picture) == ("b.png", "bee", "data:image/png;base64,x")
    assert [(a.text, a.tone) for a in first.answers] == [("bee", "good"), ("cat", "bad")]
    assert second.name == "sample 0"


def test_one_model_alone_has_one_answer() -> None:
    _, block = samples_blocks(judged([(1, 1)], [0]), Shown(), ["answer"])
    assert isinstance(block, Samples)
    assert [(a.text, a.tone) for a in block.items[0].answers] == [("1", "bad")]


def test_where_nothing_was_ranked_there_are_no_cards() -> None:
    assert list(samples_blocks(Quality(samples=3), Shown(), ["a", "b"])) == []


def test_shares_with_their_intervals() -> None:
    right, same, lines = quality_blocks({"int8": judged([(0, 0), (0, 1)], [0, 0])}, "float")
    assert isinstance(right, Intervals)
    assert isinstance(same, Intervals)
    assert [(s.label, s.series, s.value) for s in right.rows] == [("float", 0, 100.0), ("int8", 1, 50.0)]
    assert [(s.label, s.value) for s in same.rows] == [("int8", 50.0)]
    assert all(s.low is not None and s.low < s.value for s in [*right.rows, *same.rows])
    assert "int8: right: 1 of 2" in lines.items[0].text  # type: ignore[attr-defined]


def test_a_ladder_keeps_them() -> None:
    one = Measured("int8", "int8", "none", quality=judged([(0, 1)], [0]))
    read = read_measured(json.loads(json.dumps(one.kept())), Recipe())
    assert read.quality.judged == [Judged(0, 0, 1, 0)]
    assert asdict(read.quality) == asdict(one.quality)
