"""The end of object detectors that are exported for phones: boxes decoded, then suppressed, in one op."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.ops._numeric import quiet
from thinflow.ops._shapes import rank_of
from thinflow.ops.nms import selected_boxes
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


@op("TFLite_Detection_PostProcess")
class DetectionPostProcess(OpDef):
    """The best boxes of an image, with their classes.

    encodings [1,n,4+] (y, x, h, w against the anchor), scores [1,n,classes or classes+1],
    anchors [n,4] (y, x, h, w of centre and size)
      -> boxes [1,m,4] (ymin, xmin, ymax, xmax), classes [1,m], scores [1,m], count [1], all float.

    m = max_detections * max_classes_per_detection; what is left over is 0. A background class, the first, is
    skipped. With use_regular_nms each class suppresses its own boxes and keeps detections_per_class of them;
    else every anchor takes part once, with its best class.
    """

    num_outputs = 4
    traits = Trait.LITERT_CUSTOM

    @staticmethod
    def infer(
        encodings: TensorSpec,
        scores: TensorSpec,
        anchors: TensorSpec,
        *,
        max_detections: int,
        max_classes_per_detection: int = 1,
    ) -> tuple[TensorSpec, ...]:
        rank_of(encodings, 3, "the box encodings")
        rank_of(scores, 3, "the scores")
        rank_of(anchors, 2, "the anchors")
        count = max_detections * max_classes_per_detection
        row = TensorSpec(FLOAT, (1, count))
        return TensorSpec(FLOAT, (1, count, 4)), row, row, TensorSpec(FLOAT, (1,))

    @staticmethod
    @quiet
    def kernel(
        encodings: Array,
        scores: Array,
        anchors: Array,
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
    ) -> tuple[Array, ...]:
        # One class more than named is the background.
        background = scores.shape[-1] - num_classes
        require(
            encodings.shape[:2] == scores.shape[:2] == (1, len(anchors)) and background in (0, 1),
            f"encodings {list(encodings.shape)}, scores {list(scores.shape)}, anchors {list(anchors.shape)}"
            f" do not fit {num_classes} classes",
        )
        boxes = _decoded(encodings[0], anchors, (y_scale, x_scale, h_scale, w_scale))
        chances = scores[0][:, background:]
        limits = nms_iou_threshold, nms_score_threshold
        if use_regular_nms:
            places, classes = _per_class(boxes, chances, max_detections, detections_per_class, limits)
            count = len(places)
        else:
            kept = min(max_classes_per_detection, num_classes)
            chosen = selected_boxes(boxes, chances.max(1), max_detections, *limits)
            # Suppression is over the best class of each anchor; the others' classes are named only
            # afterwards.
            best = np.argsort(-chances[chosen], axis=1, kind="stable")[:, :kept]
            places, classes, count = np.repeat(chosen, kept), best.reshape(-1), len(chosen)
        size = max_detections * max_classes_per_detection
        found = boxes[places], classes, chances[places, classes]
        return (*(_filled(a, size) for a in found), np.array([count], np.float32))

    @staticmethod
    def cost(y: TensorSpec, encodings: TensorSpec, scores: TensorSpec, *rest: TensorSpec) -> Cost:
        # Some 20 operations to decode a box; suppression depends on the boxes.
        return Cost(flops=20 * (encodings.size or 0) // 4 + (scores.size or 0))


def _decoded(encodings: Array, anchors: Array, scales: tuple[float, ...]) -> Array:
    """Boxes [n,4] (ymin, xmin, ymax, xmax) from [n,4+] and anchors [n,4]; in double, as the kernel has it."""
    # The inverse of the box coder of object detection: centres relative to the anchor's size, sizes as
    # logarithms.
    y, x, h, w = (encodings[:, i].astype(np.float64) / np.float32(s) for i, s in enumerate(scales))
    anchor_y, anchor_x, anchor_h, anchor_w = anchors.astype(np.float64).T
    middle_y = (y * anchor_h + anchor_y).astype(np.float32)
    middle_x = (x * anchor_w + anchor_x).astype(np.float32)
    half_h = (0.5 * np.exp(h) * anchor_h).astype(np.float32)
    half_w = (0.5 * np.exp(w) * anchor_w).astype(np.float32)
    return np.stack([middle_y - half_h, middle_x - half_w, middle_y + half_h, middle_x + half_w], 1)


def _per_class(
    boxes: Array, chances: Array, limit: int, per_class: int, limits: tuple[float, float]
) -> tuple[Array, Array]:
    """The best `limit` of what each class keeps: boxes and their classes, best first."""
    places: Array = np.zeros(0, np.int64)
    classes: Array = np.zeros(0, np.int64)
    for number in range(chances.shape[1]):
        chosen = selected_boxes(boxes, chances[:, number], per_class, *limits)
        places = np.concatenate([places, chosen])
        classes = np.concatenate([classes, np.full(len(chosen), number)])
        # Cut after every class, as the kernel does: a stable sort keeps earlier classes first among equals.
        order = np.argsort(-chances[places, classes], kind="stable")[:limit]
        places, classes = places[order], classes[order]
    return places, classes


def _filled(found: Array, count: int) -> Array:
    """Rows as float [1,count,...], with zeros behind them."""
    result = np.zeros((1, count, *found.shape[1:]), np.float32)
    result[0, : len(found)] = found
    return result
