"""Boxes of detectors: where they are among outputs, which are the same, and how they are shown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT
from thinflow.optimize.detections import Box, Detections, Found, Places, found, places_of
from thinflow.optimize.judging import _answer_of
from thinflow.optimize.quality import QualityMeter
from thinflow.optimize.quality_page import Preview, Shown, quality_blocks, quality_facts, samples_blocks
from thinflow.optimize.quality_text import quality_data, quality_lines
from thinflow.pages.report import Samples

LEFT, RIGHT = (0.1, 0.1, 0.5, 0.4), (0.1, 0.6, 0.5, 0.9)
PLACES = Places(0, 1, 2, 3)


def outputs(*boxes: tuple[Any, float, int], rows: int = 4) -> list[np.ndarray[Any, Any]]:
    """Boxes, scores, classes and their number, with rows to spare."""
    ends, scores, kinds = np.zeros((1, rows, 4)), np.full((1, rows), 0.9), np.zeros((1, rows))
    for row, (box, score, kind) in enumerate(boxes):
        ends[0, row], scores[0, row], kinds[0, row] = box, score, kind
    found = [a.astype(np.float32) for a in (ends, scores, kinds)]
    return [*found, np.array([len(boxes)], np.float32)]


def detector(op: str, ports: list[int], names: list[str]) -> list[Value]:
    """Outputs of a graph that are ports of an op, handed on under some names."""
    graph = Graph()
    raw = graph.add("Placeholder", name="raw", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4, 4))}).output()
    node = graph.add(op, [raw], "chosen")
    return [
        graph.add("Identity", [node.output(port)], name).output()
        for port, name in zip(ports, names, strict=True)
    ]


@pytest.mark.parametrize(
    ("op", "ports", "names"),
    [
        ("TFLite_Detection_PostProcess", [0, 2, 1, 3], ["a", "b", "c", "d"]),
        ("CombinedNonMaxSuppression", [0, 1, 2, 3], ["a", "b", "c", "d"]),
        (
            "NonMaxSuppressionV5",
            [0] * 4,
            ["detection_boxes", "scores", "classes", "num_detections"],
        ),
    ],
)
def test_outputs_are_found_by_op_or_name(op: str, ports: list[int], names: list[str]) -> None:
    assert places_of(detector(op, ports, names), outputs((LEFT, 0.9, 1))) == PLACES


@pytest.mark.parametrize(
    ("op", "names"),
    [
        ("Softmax", ["boxes", "scores", "classes", "num"]),  # not chosen: every anchor has one
        ("NonMaxSuppressionV5", ["boxes", "a", "classes", "num"]),  # no scores
        ("NonMaxSuppressionV5", ["a", "scores", "boxes", "num"]),  # what is called boxes are none
        ("NonMaxSuppressionV5", ["scores", "scores_2", "classes", "num"]),
    ],
)
def test_other_models_have_no_boxes(op: str, names: list[str]) -> None:
    assert places_of(detector(op, [0] * 4, names), outputs((LEFT, 0.9, 1))) is None


def test_boxes_are_the_same_if_they_overlap_by_half_and_are_of_one_kind() -> None:
    before = outputs((LEFT, 0.9, 1), (RIGHT, 0.8, 1))
    moved = (0.2, 0.1, 0.6, 0.4)  # 0.3 of 0.5 high
    one = found(7, PLACES, before, outputs((RIGHT, 0.7, 2), (moved, 0.6, 1)))
    assert one.number == 7
    assert one.overlaps == (pytest.approx(0.6),)
    assert one.differing == 2
    assert [round(box.score, 1) for box in one.after] == [0.7, 0.6]


def test_what_does_not_count_is_left_out() -> None:
    unlikely = found(0, PLACES, outputs((LEFT, 0.49, 1)), outputs((LEFT, 0.51, 1)))
    assert (len(unlikely.before), len(unlikely.after)) == (0, 1)
    # Rows behind the number that the detector gives hold anything.
    assert all(
        len(boxes) == 1 for boxes in found(0, PLACES, outputs((LEFT, 1, 1)), outputs((LEFT, 1, 1)))[1:3]
    )


@pytest.mark.parametrize("ends", [(0.5, 0.5, 0.5, 0.5), (0.5, 0.5, 0.1, 0.1), (float("nan"),) * 4])
def test_boxes_without_an_area_are_no_others(ends: tuple[float, float, float, float]) -> None:
    box = Box(ends, 0.9)
    assert box.overlap(box) == 0
    assert box.overlap(Box(LEFT, 0.9)) == 0


def sums() -> Detections:
    sums = Detections()
    one, two = Box(LEFT, 0.9), Box(RIGHT, 0.9)
    sums.add(Found(0, (one,), (one,), (1.0,)))
    sums.add(Found(1, (one, two), (one,), (0.7,)))
    sums.add(Found(2, (two,), (two,), (0.6,)))
    return sums


def test_sums_and_the_weakest_first() -> None:
    found = sums()
    assert (found.before, found.after, found.same) == (4, 3, 3)
    assert found.overlap == pytest.approx((1 + 0.7 + 0.6) / 3)
    assert [one.number for one in found.judged] == [1, 2, 0]
    low, high = found.interval or (0, 0)
    assert low < 75 < high


def test_no_more_than_some_are_kept() -> None:
    sums, box = Detections(), Box(LEFT, 0.9)
    for number in range(100):
        sums.add(Found(number, (box,), (box,) if number < 90 else (), (0.9,) if number < 90 else ()))
    assert len(sums.judged) == 24
    assert {one.number for one in sums.judged} >= set(range(90, 100))


def judged() -> QualityMeter:
    meter = QualityMeter(None, ranked=False, places=PLACES)
    meter.add(outputs((LEFT, 0.9, 1)), outputs((LEFT, 0.9, 1)))
    meter.add(outputs((LEFT, 0.9, 1), (RIGHT, 0.8, 2)), outputs((RIGHT, 0.8, 2)))
    return meter


def test_quality_tells_of_boxes() -> None:
    quality = judged().result()
    assert quality.sentence() == "2 of 3 boxes found again and 0 others on 2 samples"
    assert quality_lines(quality)[0] == (
        "same boxes: 2 of 3, 66.7% (20.8% to 93.9%), with a mean overlap (IoU) of 1.00; 0 others"
    )
    data = quality_data(quality)["detections"]
    assert (data["boxes_before"], data["boxes"], data["same_boxes"]) == (3, 2, 2)
    blocks = list(quality_blocks({"int8": quality}, "the original"))
    assert [block.title for block in blocks[:3]] == ["Right answers", "Equal answers", "Same boxes"]  # type: ignore[attr-defined]
    assert [round(row.value, 1) for row in blocks[2].rows] == [66.7]  # type: ignore[attr-defined]
    assert next(quality_facts(quality)).value == "66.7 %"


def test_cards() -> None:
    picture = "data:image/png;base64,x"
    shown = Shown({0: Preview(picture), 1: Preview(picture)}, {1: "street.png"}, ["none", "cat", "dog"])
    text, block = samples_blocks(judged().result(), shown, ["float", "int8"])
    assert isinstance(block, Samples)
    assert text.text.startswith("Boxes with a score of 0.5 or more, those of float dashed")  # type: ignore[attr-defined]
    first, second = block.items
    assert first.name == "street.png"
    assert [(a.text, a.tone) for a in first.answers] == [("2 boxes", ""), ("1 again, overlap 1.00", "warn")]
    assert [(f.model, f.text) for f in first.boxes] == [(0, "cat 0.90"), (0, "dog 0.80"), (1, "dog 0.80")]
    assert first.boxes[0].ends == pytest.approx(LEFT)
    assert [(a.text, a.tone) for a in second.answers] == [("1 box", ""), ("1 again, overlap 1.00", "")]


def test_pixels_become_shares_and_stay_on_the_picture() -> None:
    meter = QualityMeter(None, ranked=False, places=Places(0, 1))
    both = [np.array([[-5, 20, 40, 120]], np.float32), np.array([0.9], np.float32)]
    meter.add(both, both)
    shown = Shown({0: Preview("data:image/png;base64,x", size=(80, 100))})
    _, block = samples_blocks(meter.result(), shown, ["float", "int8"])
    assert isinstance(block, Samples)
    assert block.items[0].boxes[0].ends == (0.0, 0.2, 0.5, 1.0)
    assert block.items[0].boxes[0].text == "0.90"


def test_boxes_without_pictures_have_no_cards() -> None:
    assert list(samples_blocks(judged().result(), Shown(), ["float", "int8"])) == []


@pytest.mark.parametrize(
    ("names", "ops", "labels", "answer"),
    [
        (("boxes", "kinds"), ("Identity", "Softmax"), None, 1),
        (("a", "b"), ("Identity", "Softmax"), [0], 1),
        (("boxes", "b"), ("Identity", "Identity"), [0], None),
        (("a", "b"), ("Identity", "Identity"), None, 0),
        (("a", "b"), ("Tanh", "Identity"), None, None),
        (("a", "b"), ("Tanh", "Identity"), [0], 0),
    ],
)
def test_of_the_coordinates_of_a_box_none_is_the_answer(
    names: tuple[str, str], ops: tuple[str, str], labels: list[int] | None, answer: int | None
) -> None:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 4))}).output()
    w = graph.constant(np.eye(4, dtype=np.float32), "w")
    made = [graph.add("MatMul", [x, w], f"m{name}").output() for name in names]
    values = [graph.add(op, [y], name).output() for op, y, name in zip(ops, made, names, strict=True)]
    arrays = [np.zeros((1, 4), np.float32)] * 2
    assert _answer_of(values, arrays, cast("Any", SimpleNamespace(labels=labels))) == answer


def test_the_output_that_answers_is_named() -> None:
    meter = QualityMeter(None, answer=1)
    box, scores = np.array([[0.1, 0.9]], np.float32), np.array([[3.0, 1.0]], np.float32)
    meter.add([box, scores], [box[:, ::-1], scores])
    quality = meter.result()
    quality.outputs = ("boxes", "kinds")
    assert quality.sentence() == "same top answer in 'kinds' on 1 of 1 sample"
