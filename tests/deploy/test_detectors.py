"""Detectors: what the apps show are the boxes that the model's outputs hold, whichever way they come out."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.deploy.app_models import detector
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT

_LIMIT = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("models") / "boxes.tflite"
    path.write_bytes(detector())
    return path


def suppressing(path: Path) -> Path:
    """Boxes as a graph of TensorFlow's suppresses them: padded to 4, with a number of those that count."""
    graph = Graph()

    def add(op: str, inputs: list[Value], name: str, **attrs: object) -> Value:
        return graph.add(op, inputs, name, attrs=attrs).output()

    def constant(numbers: object, name: str, dtype: type = np.int32) -> Value:
        return graph.constant(np.array(numbers, dtype), name)

    x = graph.add(
        "Placeholder", name="picture", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 8, 8, 3))}
    ).output()
    rng = np.random.default_rng(4)
    ends = np.sort(rng.random((16, 2, 2)), axis=1).reshape(16, 4)
    boxes = graph.constant(ends.astype(np.float32), "anchors")
    rows = add("Reshape", [x, constant([16, 12], "rows/shape")], "rows")
    scores = add("Sigmoid", [add("Mean", [rows, constant([1], "axis")], "means")], "likely")
    limits = [constant(_LIMIT, "limit"), constant(0.5, "iou", np.float32), constant(0.0, "least", np.float32)]
    chosen = graph.add(
        "NonMaxSuppressionV4", [boxes, scores, *limits], "chosen", attrs={"pad_to_max_output_size": True}
    )
    axis = constant(0, "gather/axis")
    graph.inputs = [x]
    graph.outputs = [
        add("GatherV2", [boxes, chosen.output(0), axis], "detection_boxes"),
        add("GatherV2", [scores, chosen.output(0), axis], "detection_scores"),
        add("Identity", [chosen.output(1)], "num_detections"),
    ]
    thinflow.save(graph, path)
    return path


def test_boxes_have_names_and_the_best_is_first(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = thinflow.deploy(model, tmp_path / "app", "python", name="made_boxes")
    assert made.contract["labels"] == ["cat", "dog"]
    assert "self-test passed" in made.test()
    monkeypatch.syspath_prepend(tmp_path / "app" / "src")
    app = importlib.import_module("made_boxes")
    pixels = np.random.default_rng(3).integers(0, 256, (8, 8, 3), np.uint8)
    x = (pixels[None].astype(np.float32) - np.float32(127.5)) / np.float32(127.5)
    ends, kinds, scores, count = thinflow.Session(model).run(None, {"picture": x})
    wanted = [
        (["cat", "dog"][int(kinds[0, n])], scores[0, n], *ends[0, n])
        for n in range(int(count[0]))
        if scores[0, n] >= 0.5
    ]
    assert len(wanted) > 1
    assert [tuple(box) for box in app.predict(pixels)] == sorted(wanted, key=lambda box: -box[1])
    assert app.predict(np.zeros((8, 8, 3), np.uint8)) == []


def test_boxes_that_a_graph_suppressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = suppressing(tmp_path / "net.pb")
    made = thinflow.deploy(source, tmp_path / "app", "python", name="made_suppressed")
    kinds = [one["kind"] for one in made.contract["outputs"]]  # type: ignore[attr-defined]
    assert sorted(kinds) == ["box_count", "box_scores", "boxes"]
    assert "self-test passed" in made.test()
    monkeypatch.syspath_prepend(tmp_path / "app" / "src")
    app = importlib.import_module("made_suppressed")
    pixels = np.random.default_rng(3).integers(0, 3, (8, 8, 3), np.uint8)
    fed = {"picture": pixels[None].astype(np.float32)}
    names = ["detection_boxes", "detection_scores", "num_detections"]
    ends, scores, count = thinflow.Session(source, engine="reference").run(names, fed)
    found = app.predict(pixels)
    assert 1 < int(count) == len(found)
    np.testing.assert_allclose([box[1:] for box in found], np.c_[scores, ends][: int(count)], rtol=1e-5)
    assert {box.label for box in found} == {"box"}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("g++"), reason="needs cmake and g++")
def test_the_program_shows_them_too(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMAKE_BUILD_TYPE", "Debug")
    made = thinflow.deploy(model, tmp_path / "app", "linux")
    told = made.test()
    best, rest = made.answer.split(" at ")
    assert best.split()[0] in ("cat", "dog")
    assert f"{made.answer}; " in told
    assert len(rest.split(", ")) == 4
