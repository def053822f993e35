"""The end of detectors for phones in runtimes that know plain suppression only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.errors import UnsupportedOp

TEXT = """
encodings = Placeholder() {dtype=float, shape=shape[1,50,4]}
scores = Placeholder() {dtype=float, shape=shape[1,50,4]}
anchors = Placeholder() {dtype=float, shape=shape[50,4]}
found = TFLite_Detection_PostProcess(encodings, scores, anchors) {max_detections=8, num_classes=3,
  nms_score_threshold=0.3, nms_iou_threshold=0.5, y_scale=10.0, x_scale=10.0, h_scale=5.0, w_scale=5.0,
  detections_per_class=5, %s}
inputs: encodings, scores, anchors
outputs: found, found:1, found:2, found:3
""".replace(",\n  ", ", ")


@pytest.mark.parametrize("regular", ["true", "false"])
def test_detections_of_phones_in_onnx(regular: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    graph = parse_graph(TEXT % f"use_regular_nms={regular}, max_classes_per_detection=1")
    thinflow.convert(graph, tmp_path / "found.onnx", verify=False)
    rng = np.random.default_rng(0)
    anchors = np.concatenate([rng.uniform(0.2, 0.8, (50, 2)), rng.uniform(0.1, 0.3, (50, 2))], 1)
    sessions = thinflow.Session(graph, "reference"), thinflow.Session(tmp_path / "found.onnx")
    for most, count in ((1.0, 8), (0.32, None), (0.2, 0)):
        feed = {
            "encodings": rng.standard_normal((1, 50, 4)).astype(np.float32),
            "scores": rng.uniform(0, most, (1, 50, 4)).astype(np.float32),
            "anchors": anchors.astype(np.float32),
        }
        expected, found = (s.run(None, feed) for s in sessions)
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6)
        assert count is None or found[3] == [count]


def test_several_classes_of_a_box_are_refused_by_name(tmp_path: Path) -> None:
    graph = parse_graph(TEXT % "use_regular_nms=false, max_classes_per_detection=2")
    with pytest.raises(UnsupportedOp, match="several classes are named for a box"):
        thinflow.convert(graph, tmp_path / "found.onnx")
