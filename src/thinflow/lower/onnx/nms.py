"""Choosing boxes."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT32, INT64
from thinflow.lower.onnx.builder import Builder, number, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor


def _chosen(b: Builder, boxes: Tensor, scores: Tensor, count: Tensor, iou: Tensor, least: Tensor) -> Tensor:
    """The places of the boxes that are kept, int64 [n]; ONNX gives [batch, class, place] for each."""
    shape_of(boxes, "the boxes", 2)
    shape_of(scores, "the scores", 1)
    limit = b.reshaped(b.index(count), (1,))
    kept = b.step(
        "NonMaxSuppression", b.unsqueezed(boxes, [0]), b.unsqueezed(scores, [0, 1]), limit,
        b.reshaped(iou, (1,)), b.reshaped(least, (1,)), shape=(None, 3), element=INT64,
    )  # fmt: skip
    return b.squeezed(b.sliced(kept, [2], [3], [1], shape=(None, 1)), [1])


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


@lower("CombinedNonMaxSuppression", to="onnx")
def combined(
    b: Builder,
    node: Node,
    boxes: Tensor,
    scores: Tensor,
    per_class: Tensor,
    total: Tensor,
    iou: Tensor,
    least: Tensor,
    *,
    pad_per_class: bool = False,
    clip_boxes: bool = True,
) -> tuple[Tensor, ...]:
    """Each class of each image by itself; what is not kept loses its score, and the best of all win."""
    images, n, own, _ = shape_of(boxes, "the boxes", 4)
    classes = shape_of(scores, "the scores", 3)[2]
    require(None not in (n, own, classes) and bool(n), "the sizes of the boxes are not known")
    count, kinds = n or 0, classes or 0
    limit = int(number(per_class, "max_output_size_per_class"))
    size = int(number(total, "max_total_size"))
    size = min(size, limit * kinds) if pad_per_class else size
    require(images != 0 and kinds > 0 and 0 < size <= 1 << 20, "there is nothing to choose")
    require(all(t.dtype is FLOAT for t in (boxes, scores, iou, least)), "boxes and scores have to be float")
    lists = None if images is None else images * kinds
    by_class = b.transposed(boxes, (0, 2, 1, 3))
    amount = b.sliced(b.sizes_of(scores), [0], [1], [0], shape=(1,))
    # A class of an image becomes an image of one class: boxes may differ by class, which ONNX's op does not
    # know.
    every = b.step(
        "Expand", by_class, b.joined(amount, b.ints([kinds, count, 4])), shape=(images, kinds, count, 4)
    )
    flat_scores = b.reshaped(b.transposed(scores, (0, 2, 1)), (lists, 1, count))
    kept = b.step(
        "NonMaxSuppression", b.reshaped(every, (lists, count, 4)), flat_scores,
        b.ints([limit]), b.reshaped(iou, (1,)), b.reshaped(least, (1,)), shape=(None, 3), element=INT64,
    )  # fmt: skip
    # The op's [image, class, place] are indices of the scores: 1 where a box is kept.
    alive = b.step(
        "ScatterND", b.filled(b.sizes_of(flat_scores), 0, FLOAT, shape=flat_scores.shape), kept,
        b.step("Expand", b.const(np.float32(1), "one"), b.sliced(b.sizes_of(kept), [0], [1], [0], shape=(1,)),
               shape=(None,)),
        shape=flat_scores.shape,
    )  # fmt: skip
    # -inf and not 0: scores that are kept may be negative.
    masked = choose(Term(b, alive) > 0, Term(b, flat_scores), -np.inf)
    k = min(size, kinds * count)
    values, places = (
        Term(b, t)
        for t in b.step_ports(
            "TopK",
            b.reshaped(masked.tensor, (images, kinds * count)),
            b.ints([k]),
            shapes=[(images, k)] * 2,
            elements=[None, INT64],
            axis=-1,
        )
    )
    # Places count within an image; the gathered boxes lie image after image.
    rows = places + Term(b, _first_rows(b, amount, images)) * (kinds * count)
    boxes_of_all = b.reshaped(every, (None if images is None else images * kinds * count, 4))
    found = Term(b, boxes_of_all).gathered(rows.tensor)
    valid = values > -np.inf
    found = found.most(0).least(1) if clip_boxes else found
    results = [
        choose(valid.unsqueezed(2), found, 0),
        choose(valid, values, 0),
        # Places go on from class to class, so the quotient is the class.
        choose(valid, (places / count).cast(FLOAT), 0),
    ]
    padded = [b.result(_padded(b, t.tensor, size - k), port) for port, t in enumerate(results)]
    return *padded, b.result(valid.cast(INT32).reduced("ReduceSum", 1).tensor, 3)


def _first_rows(b: Builder, amount: Tensor, images: int | None) -> Tensor:
    """0, 1, ... as a column [images,1]."""
    if images is not None:
        return b.const(np.arange(images)[:, None], "images")
    numbers = b.step("Range", b.int64(0), b.reshaped(amount, ()), b.int64(1), shape=(None,))
    return b.unsqueezed(numbers, [1])


def _padded(b: Builder, x: Tensor, missing: int) -> Tensor:
    if not missing:
        return x
    rank = len(shape_of(x))
    shape = tuple(s + missing if a == 1 and s is not None else s for a, s in enumerate(shape_of(x)))
    pads = b.ints([0] * rank + [missing if a == 1 else 0 for a in range(rank)])
    return b.step("Pad", x, pads, shape=shape, mode="constant")
