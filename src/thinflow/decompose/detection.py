"""The end of object detectors for phones, one op of LiteRT's, by the suppression that other runtimes have."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.index_ops import arange, index_constant
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, concat, refuse_unless, where
from thinflow.ir.types import DOUBLE, FLOAT, INT32


@decompose("TFLite_Detection_PostProcess")
def detection_postprocess(
    encodings: Term,
    scores: Term,
    anchors: Term,
    *,
    max_detections: int,
    num_classes: int,
    nms_score_threshold: float,
    nms_iou_threshold: float,
    y_scale: float,
    x_scale: float,
    h_scale: float,
    w_scale: float,
    max_classes_per_detection: int = 1,
    use_regular_nms: bool = False,
    detections_per_class: int = 100,
) -> tuple[Term, ...]:
    """Boxes [1,m,4], classes [1,m], scores [1,m], count [1]; see `ops.detection`."""
    refuse_unless(nms_iou_threshold > 0, "an overlap of 0 cannot be a threshold")
    refuse_unless(use_regular_nms or max_classes_per_detection == 1, "several classes are named for a box")
    background = scores.static_size(2, "the scores") - num_classes
    boxes = _decoded(encodings.reshape(_rows(encodings)), anchors, (y_scale, x_scale, h_scale, w_scale))
    chances = scores.reshape(_rows(scores)).cut(1, background, None)
    # A score at the threshold passes in LiteRT, and not in TensorFlow: one float lower makes > do as >=.
    least = float(np.nextafter(np.float32(nms_score_threshold), np.float32(-np.inf)))
    limits = [boxes.of(nms_iou_threshold).value, boxes.of(least).value]
    body, most = boxes.body, boxes.body.constant(np.int32(max_detections), INT32)
    if use_regular_nms:
        per_class = body.constant(np.int32(detections_per_class), INT32)
        operands = [boxes.expand_dims(0).expand_dims(2), chances.expand_dims(0), per_class, most]
        found, kept, classes, count = body.add(
            "CombinedNonMaxSuppression", [*(t.value for t in operands), *limits], ports=4,
            pad_per_class=False, clip_boxes=False,
        )  # fmt: skip
        return found, classes, kept, count.cast(FLOAT)
    # Each anchor takes part once, with its best class.
    operands = [boxes, chances.reduced("Max", 1), most]
    at, valid = body.add(
        "NonMaxSuppressionV4", [*(t.value for t in operands), *limits], ports=2, T=FLOAT, T_threshold=FLOAT,
        pad_to_max_output_size=True,
    )  # fmt: skip
    near = chances.gather(at)
    is_kept = arange(index_constant(body, max_detections)).cast(INT32) < valid
    results = (
        where(is_kept.expand_dims(1), boxes.gather(at), 0.0),
        where(is_kept, near.argmax(1).cast(FLOAT), 0.0),
        where(is_kept, near.reduced("Max", 1), 0.0),
    )
    return *(t.expand_dims(0) for t in results), valid.cast(FLOAT).reshape([1])


def _rows(batch: Term) -> list[int]:
    """The sizes without the batch, which is 1."""
    return [batch.static_size(n, "an operand") for n in (1, 2)]


def _decoded(encodings: Term, anchors: Term, scales: tuple[float, ...]) -> Term:
    """Boxes [n,4] (ymin, xmin, ymax, xmax) of encodings [n,4+] and anchors [n,4], in double as the kernel."""
    y, x, h, w = (encodings.at(1, n).cast(DOUBLE) / float(np.float32(s)) for n, s in enumerate(scales))
    anchor_y, anchor_x, anchor_h, anchor_w = (anchors.at(1, n).cast(DOUBLE) for n in range(4))
    middle = [(y * anchor_h + anchor_y).cast(FLOAT), (x * anchor_w + anchor_x).cast(FLOAT)]
    half = [(t.apply("Exp") * side * 0.5).cast(FLOAT) for t, side in ((h, anchor_h), (w, anchor_w))]
    edges = [middle[0] - half[0], middle[1] - half[1], middle[0] + half[0], middle[1] + half[1]]
    return concat([t.expand_dims(1) for t in edges], 1)
