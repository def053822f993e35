"""Choosing boxes."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import INT32, INT64
from thinflow.lower.onnx.builder import Builder, number, shape_of
from thinflow.lower.onnx.nms_loops import soft_chosen
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_LOWEST = float(np.finfo(np.float32).min)


def _chosen(
    b: Builder, boxes: Tensor, scores: Tensor, count: Tensor, iou: Tensor, score: Tensor | None
) -> Tensor:
    """The places of the boxes that are kept, int64 [n]; ONNX gives [batch, class, place] for each."""
    shape_of(boxes, "the boxes", 2)
    shape_of(scores, "the scores", 1)
    limit = b.reshaped(b.index(count), (1,))
    # The older ops have no threshold: the lowest number keeps all.
    least = b.scalar(_LOWEST, scores, "lowest") if score is None else score
    kept = b.step(
        "NonMaxSuppression", b.unsqueezed(boxes, [0]), b.unsqueezed(scores, [0, 1]), limit,
        b.reshaped(iou, (1,)), b.reshaped(least, (1,)), shape=(None, 3), element=INT64,
    )  # fmt: skip
    return b.squeezed(b.sliced(kept, [2], [3], [1], shape=(None, 1)), [1])


@lower("NonMaxSuppression", to="onnx")
def nms(
    b: Builder, node: Node, boxes: Tensor, scores: Tensor, count: Tensor, *, iou_threshold: float = 0.5
) -> Tensor:
    iou = b.const(np.float32(iou_threshold), "iou")
    return b.cast(_chosen(b, boxes, scores, count, iou, None), INT32)


@lower("NonMaxSuppressionV2", to="onnx")
def nms_v2(b: Builder, node: Node, boxes: Tensor, scores: Tensor, count: Tensor, iou: Tensor) -> Tensor:
    return b.cast(_chosen(b, boxes, scores, count, iou, None), INT32)


@lower("NonMaxSuppressionV3", to="onnx")
def nms_v3(
    b: Builder, node: Node, boxes: Tensor, scores: Tensor, count: Tensor, iou: Tensor, score: Tensor
) -> Tensor:
    return b.cast(_chosen(b, boxes, scores, count, iou, score), INT32)


def _number_of(b: Builder, places: Tensor) -> Tensor:
    return b.cast(b.step("Size", places, shape=(), element=INT64), INT32)


def _filled_up(b: Builder, places: Tensor, count: Tensor) -> Tensor:
    """With zeros up to the number asked for."""
    limit = b.reshaped(b.index(count), (1,))
    # Boxes that are not there are zeros, as TensorFlow fills them up.
    missing = b.step("Sub", limit, b.step("Shape", places, shape=(1,), element=INT64), shape=(1,))
    size = b.elements(count)
    zeros = b.joined(b.ints([0]), missing)
    return b.step("Pad", places, zeros, shape=(None,) if size is None else tuple(size), mode="constant")


@lower("NonMaxSuppressionV4", to="onnx")
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
    places = _chosen(b, boxes, scores, count, iou, score)
    valid = _number_of(b, places)
    if pad_to_max_output_size:
        places = _filled_up(b, places, count)
    return b.cast(places, INT32), valid


@lower("NonMaxSuppressionV5", to="onnx")
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
    """A positive sigma lowers the scores of boxes that overlap instead of dropping them."""
    width = number(sigma, "soft_nms_sigma")
    if width > 0:
        places, kept = soft_chosen(b, boxes, scores, count, b.reshaped(score, ()), width)
    else:
        places = _chosen(b, boxes, scores, count, iou, score)
        kept = b.step("Gather", scores, places, shape=places.shape, axis=0)
    valid = _number_of(b, places)
    if pad_to_max_output_size:
        places, kept = _filled_up(b, places, count), _filled_up(b, kept, count)
    return b.cast(places, INT32), kept, valid
