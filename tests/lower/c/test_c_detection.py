"""Detectors in C keep the boxes that LiteRT's own kernel keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.many import Many
from thinflow.engines._c_library import compiler
from thinflow.ir.types import dtype
from thinflow.tflite.model import Operator, Quantization, Tensor
from thinflow.tflite.options import encode_map

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")

ANCHORS = 60


@pytest.mark.parametrize("background", [0, 1])
@pytest.mark.parametrize("kind", ["float", "uint8"])
@pytest.mark.parametrize(
    "options",
    [
        {"max_classes_per_detection": 1},
        {"max_classes_per_detection": 3},
        {"use_regular_nms": True, "detections_per_class": 4},
        {"use_regular_nms": True, "max_detections": 25},
        {"use_regular_nms": True, "nms_score_threshold": 0.7, "max_detections": 40},
    ],
)
def test_detections(options: dict[str, Any], kind: str, background: int) -> None:
    if kind == "uint8" and options.get("max_classes_per_detection") == 3:
        pytest.skip("which of classes that are as good comes first is not told; bytes are often equal")
    classes, rng = 5, np.random.default_rng(11)
    given = {
        "max_detections": 8,
        "max_classes_per_detection": 1,
        "num_classes": classes,
        "nms_score_threshold": 0.3,
        "nms_iou_threshold": 0.5,
        "y_scale": 10.0,
        "x_scale": 10.0,
        "h_scale": 5.0,
        "w_scale": 5.0,
        **options,
    }
    net = Many(1, ANCHORS, 4, kind=kind)
    scores = net.tensor("scores", (1, ANCHORS, classes + background))
    net.block.inputs.append(scores)
    grid = np.concatenate([rng.random((ANCHORS, 2)), rng.uniform(0.1, 0.4, (ANCHORS, 2))], 1)
    anchors = net.constant("anchors", grid.astype(np.float32))
    if kind == "uint8":
        net.x.quantization = Quantization(np.float32([0.02]), np.int64([128]))
        scores.quantization = Quantization(np.float32([1 / 256]), np.int64([0]))
        anchors = net.constant("anchors", np.uint8(np.round(grid * 200)), 0.005)
    most = given["max_detections"] * given["max_classes_per_detection"]
    shapes = [(1, most, 4), (1, most), (1, most), (1,)]
    made = [Tensor(f"y{n}", shape, dtype("float")) for n, shape in enumerate(shapes)]
    net.block.operators.append(
        Operator(
            "CUSTOM",
            [net.x, scores, anchors],
            made,
            custom_code="TFLite_Detection_PostProcess",
            custom_options=encode_map(given),
        )
    )
    net.made += made
    assert differences(net.content(), runs=6) == []
