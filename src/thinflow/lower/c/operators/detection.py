"""What follows the last layers of a detector: boxes of anchors, and which of them are left."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Argument
from thinflow.lower.c.sound import options_of
from thinflow.tflite.model import Operator, Tensor

# kNumDetectionsPerClass of LiteRT's detection_postprocess.cc.
_PER_CLASS = 100
"""Detections of a class, where the options do not say."""


@form("TFLite_Detection_PostProcess", types="float uint8")
def detections(b: LayerBuilder, op: Operator) -> None:
    """boxes [1,n,4], scores [1,n,classes], anchors [n,4] -> boxes, classes, scores and their number."""
    options, scores = options_of(op), b.input(1)
    (_, boxes, step), all_classes = b.shape(b.input(0)), b.shape(scores)[2]
    classes, most = int(options["num_classes"]), int(options["max_detections"])
    is_each = bool(options.get("use_regular_nms", False))
    each = int(
        options.get("detections_per_class", _PER_CLASS) if is_each else options["max_classes_per_detection"]
    )
    # One more at most: the background, which stands in front of the others and is never told.
    if not 0 <= all_classes - classes <= 1:
        raise UnsupportedOp(f"it has scores of {all_classes} classes, and {classes} are to be told")
    settings = b.struct(
        "detector_t",
        boxes=boxes,
        box_step=step,
        classes=classes,
        all_classes=all_classes,
        most=most,
        each=each,
        least_score=float(np.float32(options["nms_score_threshold"])),
        most_overlap=float(np.float32(options["nms_iou_threshold"])),
        **{f"{side}_scale": float(np.float32(options[f"{side}_scale"])) for side in "yxhw"},
        anchors=_anchors(b),
    )
    memory = (b.scratch(16 * boxes), b.scratch(4 * boxes), b.scratch(4 * most), b.scratch(boxes))
    read = _reals(b, b.input(0)), _reals(b, scores)
    kernel = "detections_of_classes" if is_each else "detections"
    b.call(kernel, *read, *op.outputs, *memory, settings)


def _reals(b: LayerBuilder, x: Tensor) -> Argument:
    """An input as reals."""
    if x.dtype.name == "float":
        return x
    scale, zero_point = b.scale(x)
    room = b.scratch(4 * b.size(x))
    b.call("dequantize", x, room, b.size(x), float(scale), zero_point, type=x.dtype.name)
    return room


def _anchors(b: LayerBuilder) -> Argument:
    tensor, array = b.input(2), b.array(2)
    if array.dtype == np.float32:
        return b.constant("anchors", array)
    scale, zero_point = b.scale(tensor)
    return b.constant("anchors", (array.astype(np.float32) - np.float32(zero_point)) * scale)
