"""Models of the kinds that templates of apps have: sound, numbers, boxes; pictures are digits."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT, INT32
from thinflow.ir.usage import AUDIO, IMAGE, RGB, InputUsage, OutputUsage, Usage, Words
from thinflow.tflite.described import described
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.options import encode_map
from thinflow.tflite.writer import to_bytes

_BOXES = {
    "max_detections": 4,
    "max_classes_per_detection": 1,
    "num_classes": 2,
    "use_regular_nms": False,
    "nms_score_threshold": 0.0,
    "nms_iou_threshold": 0.6,
    "detections_per_class": 4,
    "y_scale": 10.0,
    "x_scale": 10.0,
    "h_scale": 5.0,
    "w_scale": 5.0,
}


def sound() -> bytes:
    """softmax of the means of even and odd samples [1,64]: a .tflite with metadata."""
    x, y = Tensor("sound", (1, 64), FLOAT), Tensor("scores", (1, 2), FLOAT)
    folded, mean = Tensor("folded", (1, 32, 2), FLOAT), Tensor("mean", (1, 2), FLOAT)
    steps = [
        Operator("RESHAPE", [x, Tensor("shape", (3,), INT32, np.int32([1, 32, 2]))], [folded]),
        Operator("MEAN", [folded, Tensor("axis", (1,), INT32, np.int32([1]))], [mean], {"keep_dims": False}),
        Operator("SOFTMAX", [mean], [y], {"beta": 30.0}),
    ]
    usage = Usage(
        {"sound": InputUsage(AUDIO, sample_rate=8000)},
        {"scores": OutputUsage(Words("w.txt", ("even", "odd")))},
    )
    return to_bytes(described(Program([Subgraph([x], [y], steps)]), usage))


def numbers() -> bytes:
    """total [1,5,2] = x [1,5,2] + x: a .tflite."""
    x, y = Tensor("x", (1, 5, 2), FLOAT), Tensor("total", (1, 5, 2), FLOAT)
    return to_bytes(Program([Subgraph([x], [y], [Operator("ADD", [x, x], [y])])]))


def detector() -> bytes:
    """Boxes around the anchors that a picture [1,8,8,3] lights up: a .tflite with metadata."""
    rng = np.random.default_rng(4)
    corners = np.concatenate([0.2 + 0.6 * rng.random((16, 2)), 0.2 + 0.1 * rng.random((16, 2))], 1)
    anchors = Tensor("anchors", (16, 4), FLOAT, corners.astype(np.float32))
    x = Tensor("picture", (1, 8, 8, 3), FLOAT)
    rows, codes, raw, scores = (
        Tensor(name, shape, FLOAT)
        for name, shape in (
            *(("rows", (1, 16, 12)), ("codes", (1, 16, 4)), ("raw", (1, 16, 3)), ("scores", (1, 16, 3))),
        )
    )
    boxes, kinds, best = (
        Tensor("boxes", (1, 4, 4), FLOAT),
        Tensor("kinds", (1, 4), FLOAT),
        Tensor("best", (1, 4), FLOAT),
    )
    count = Tensor("count", (1,), FLOAT)

    def part(to: Tensor) -> Operator:
        ends = [
            Tensor(f"{to.name}_{n}", (3,), INT32, np.int32(v)) for n, v in enumerate(((0, 0, 0), to.shape))
        ]
        return Operator("SLICE", [rows, *ends], [to])

    steps = [
        Operator("RESHAPE", [x, Tensor("shape", (3,), INT32, np.int32([1, 16, 12]))], [rows]),
        part(codes),
        part(raw),
        Operator("LOGISTIC", [raw], [scores]),
        Operator(
            "CUSTOM",
            [codes, scores, anchors],
            [boxes, kinds, best, count],
            custom_code="TFLite_Detection_PostProcess",
            custom_options=encode_map(_BOXES),
        ),
    ]
    usage = Usage(
        {"picture": InputUsage(IMAGE, RGB, mean=(127.5,), std=(127.5,))},
        {
            "boxes": OutputUsage(kind="boxes"),
            "kinds": OutputUsage(Words("kinds.txt", ("cat", "dog"), of="values")),
        },
    )
    return to_bytes(described(Program([Subgraph([x], [boxes, kinds, best, count], steps)]), usage))
