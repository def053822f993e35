"""Records of how a model is used, and their texts."""

from __future__ import annotations

import json

from thinflow.ir.usage import (
    AUDIO,
    IMAGE,
    RGB,
    TEXT,
    VALUES,
    InputUsage,
    OutputUsage,
    Usage,
    Words,
    scaling_text,
)

LABELS = Words("labels.txt", ("a", "b", "c", "d"))


def test_formulas() -> None:
    assert scaling_text((0,), (1,)) == "x"
    assert scaling_text((0, 0), (255,)) == "x / 255"
    assert scaling_text((127.5,), (127.5,)) == "(x - 127.5) / 127.5"
    assert scaling_text((1, 2, 3), (1, 1, 1)) == "x - [1, 2, 3]"
    assert InputUsage(mean=(1.0,)).formula == ""


def test_texts() -> None:
    image = InputUsage(IMAGE, RGB, (10, 20), (0.0,), (1.0,), said="KEY")
    assert image.text() == "20x10 RGB picture, pixels 0..255 as they are [KEY]"
    assert image.text((1, 3, 30, 40)).startswith("40x30 RGB picture")
    assert image.text((None, 30, 40, 3)).startswith("40x30 RGB picture")
    assert InputUsage(AUDIO).text() == "sound"
    assert InputUsage(TEXT, words=LABELS).text() == "text, 4 words (a, b, c, ...) from labels.txt"
    assert InputUsage("features", low=(-1.0,), high=(2.0, 3.0)).text() == "features, values -1..3"
    own = InputUsage(IMAGE, own="x / 255", mean=(0.0,), std=(1.0,), assumed="pixels go in")
    assert own.text().endswith("the model itself computes x / 255 of it [assumed: pixels go in]")
    assert InputUsage().text() == ""
    assert OutputUsage().text() == ""
    assert OutputUsage(low=(0.0,), high=(1.0,), said="KEY").text() == "values 0..1 [KEY]"
    assert OutputUsage(LABELS, notes=("noted",)).text() == "4 labels (a, b, c, ...) from labels.txt, noted"


def test_labels_are_those_of_an_axis_of_their_number() -> None:
    usage = Usage(outputs={"y": OutputUsage(LABELS), "n": OutputUsage(Words("l", ("a",), of=VALUES))})
    assert usage.labels("y") is usage.labels("y:0", 4) is LABELS
    assert usage.labels("y", 5) is usage.labels("n") is usage.labels("z") is None


def test_data_is_json_without_what_is_not_known() -> None:
    usage = Usage(
        {"x": InputUsage(IMAGE, mean=(1.0,), std=(2.0,))}, {"y": OutputUsage(LABELS)}, {"k": "v"}, ("p",)
    )
    data = json.loads(json.dumps(usage.data()))
    assert data["inputs"] == {"x": {"kind": "image", "mean": [1.0], "std": [2.0]}}
    assert data["outputs"]["y"]["labels"] == ["a", "b", "c", "d"]
    assert (data["notes"], data["problems"]) == ({"k": "v"}, ["p"])
    assert usage
    assert not Usage()
