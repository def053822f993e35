"""What LiteRT's detector leaves unwritten is compared with nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.optimize.numeric_check import detection_counts, valid_detections

# All boxes lie on one another, so that one survives of four.
DETECTOR = """
    scores = Placeholder() {{dtype=float, shape=shape[1,6,2]}}
    boxes = Const() {{value=float[1,6,4]{{0 x 24}}}}
    anchors = Const() {{value=float[6,4]{{0.5 x 24}}}}
    found = TFLite_Detection_PostProcess(boxes, scores, anchors) {{max_detections=4, \
max_classes_per_detection={best}, num_classes=2, nms_score_threshold=0.0, nms_iou_threshold=0.6, \
y_scale=10.0, x_scale=10.0, h_scale=5.0, w_scale=5.0, use_regular_nms={regular}}}
    inputs: scores
    outputs: found, found:1, found:2, found:3
"""


@pytest.mark.parametrize(("best", "regular", "rows"), [(1, "false", 2), (2, "false", 4), (2, "true", 2)])
def test_rows_of_two_boxes(best: int, regular: str, rows: int) -> None:
    graph = parse_graph(DETECTOR.format(best=best, regular=regular))
    boxes, classes, scores, count = graph.outputs
    assert detection_counts(graph.outputs) == {boxes: count, classes: count, scores: count}
    two = {boxes: np.array([2.0], np.float32)}
    assert valid_detections(np.zeros((1, 8, 4)), boxes, two).shape == (1, rows, 4)
    assert valid_detections(np.zeros((1, 8)), classes, two).shape == (1, 8)  # nothing is known of it
    assert valid_detections(np.zeros(1), count, two).shape == (1,)


def test_a_detector_that_finds_little_converts(tmp_path: Path) -> None:
    graph = parse_graph(DETECTOR.format(best=1, regular="false"))
    thinflow.convert(graph, tmp_path / "found.tflite")
    session = thinflow.Session(str(tmp_path / "found.tflite"))
    scores = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(1, 6, 2)
    *_, count = session.run(list(session.outputs), {"scores": scores})
    assert count == 1
