"""Choosing boxes."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, Dims, require, shape_of
from thinflow.lower.tflite.program import Tensor

_FAR = 2.0**20
_LOWEST = -3.4028234663852886e38


def _chosen(b: Builder, indices: Tensor, count: Tensor, port: int = 0) -> Tensor:
    """LiteRT pads what it chose to the size asked for; this is the part that counts."""
    return b.emit("SLICE", indices, b.ints([0], "begin"), b.reshaped(count, (1,)), port=port)


def with_area(b: Builder, boxes: Tensor) -> Tensor:
    """Boxes without area moved far away, each to a place of its own: LiteRT would choose one again and again.

    None of them overlaps any other, as before.
    """
    count = shape_of(boxes, "the boxes", 2)[0]
    if count is None or boxes.is_constant:
        return boxes
    low, high = (
        b.step("SLICE", boxes, b.ints([0, at], "begin"), b.ints([count, 2], "size"), shape=(count, 2))
        for at in (0, 2)
    )
    sides = b.step("SUB", high, low, shape=(count, 2))
    area = b.step("REDUCE_PROD", sides, b.ints([1], "axis"), shape=(count, 1), keep_dims=True)
    is_flat = b.step("EQUAL", area, b.scalar(0, area, "zero"), shape=(count, 1), element=BOOL)
    start = _FAR + 4 * np.arange(count, dtype=np.float32)[:, None]
    far = b.const(start + np.array([0, 0, 1, 1], np.float32), "far", boxes.dtype)
    return b.step("SELECT_V2", is_flat, far, boxes, shape=boxes.shape, element=boxes.dtype)


def _run_v4(b: Builder, boxes: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
    inputs = (with_area(b, boxes), *rest)
    limit: Dims = b.elements(inputs[2])
    first, second = b.step_ports(
        "NON_MAX_SUPPRESSION_V4", *inputs, shapes=[limit, ()], elements=[INT32, INT32], suffix="selected"
    )
    return first, second


@lower("NonMaxSuppression", to="tflite")
def nms(
    b: Builder, node: Node, boxes: Tensor, scores: Tensor, count: Tensor, *, iou_threshold: float = 0.5
) -> Tensor:
    iou = b.scalar(iou_threshold, boxes, "iou")
    return _chosen(b, *_run_v4(b, boxes, scores, count, iou, b.scalar(_LOWEST, scores, "lowest")))


@lower("NonMaxSuppressionV2", to="tflite")
def nms_v2(b: Builder, node: Node, boxes: Tensor, scores: Tensor, count: Tensor, iou: Tensor) -> Tensor:
    return _chosen(b, *_run_v4(b, boxes, scores, count, iou, b.scalar(_LOWEST, scores, "lowest")))


@lower("NonMaxSuppressionV3", to="tflite")
def nms_v3(
    b: Builder, node: Node, boxes: Tensor, scores: Tensor, count: Tensor, iou: Tensor, score: Tensor
) -> Tensor:
    return _chosen(b, *_run_v4(b, boxes, scores, count, iou, score))


@lower("NonMaxSuppressionV4", to="tflite")
def nms_v4(
    b: Builder,
    node: Node,
    boxes: Tensor,
    scores: Tensor,
    count: Tensor,
    iou: Tensor,
    score: Tensor,
    *,
    pad_to_max_output_size: bool = False,
) -> tuple[Tensor, ...]:
    if pad_to_max_output_size:
        return b.emit_ports("NON_MAX_SUPPRESSION_V4", with_area(b, boxes), scores, count, iou, score, count=2)
    indices, valid = _run_v4(b, boxes, scores, count, iou, score)
    return _chosen(b, indices, valid), valid


@lower("NonMaxSuppressionV5", to="tflite")
def nms_v5(
    b: Builder,
    node: Node,
    boxes: Tensor,
    scores: Tensor,
    count: Tensor,
    iou: Tensor,
    score: Tensor,
    sigma: Tensor,
    *,
    pad_to_max_output_size: bool = False,
) -> tuple[Tensor, ...]:
    # Where boxes overlap beyond the limit, the two part: LiteRT has kept 12 of 20 where TensorFlow kept 13.
    hard = sigma.is_constant and not np.asarray(sigma.array()).any()
    require(hard, "LiteRT's soft suppression (a sigma other than 0) chooses other boxes than TensorFlow's")
    inputs = (with_area(b, boxes), scores, count, iou, score, sigma)
    limit: Dims = b.elements(count)
    kinds = [INT32, FLOAT, INT32]
    indices, kept, valid = b.step_ports(
        "NON_MAX_SUPPRESSION_V5", *inputs, shapes=[limit, limit, ()], elements=kinds, suffix="selected"
    )
    if pad_to_max_output_size:
        return indices, kept, valid
    return _chosen(b, indices, valid), _chosen(b, kept, valid, 1), valid
