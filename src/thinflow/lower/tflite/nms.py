"""Choosing boxes."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, Dims, require
from thinflow.lower.tflite.program import Tensor

_LOWEST = -3.4028234663852886e38


def _chosen(b: Builder, indices: Tensor, count: Tensor, port: int = 0) -> Tensor:
    """LiteRT pads what it chose to the size asked for; this is the part that counts."""
    return b.emit("SLICE", indices, b.ints([0], "begin"), b.reshaped(count, (1,)), port=port)


def _run_v4(b: Builder, *inputs: Tensor) -> tuple[Tensor, Tensor]:
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
        return b.emit_ports("NON_MAX_SUPPRESSION_V4", boxes, scores, count, iou, score, count=2)
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
    inputs = (boxes, scores, count, iou, score, sigma)
    limit: Dims = b.elements(count)
    kinds = [INT32, FLOAT, INT32]
    indices, kept, valid = b.step_ports(
        "NON_MAX_SUPPRESSION_V5", *inputs, shapes=[limit, limit, ()], elements=kinds, suffix="selected"
    )
    if pad_to_max_output_size:
        return indices, kept, valid
    return _chosen(b, indices, valid), _chosen(b, kept, valid, 1), valid
