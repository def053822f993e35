"""Choosing boxes for each class of each image by itself, and the best of all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.lower.tflite.nms import choose
from thinflow.tflite.model import Tensor

_LOWEST = np.float32(-3.4028234663852886e38)
_MOST_LISTS = 256  # each is an operator that chooses, and five around it


@dataclass
class _Image:
    """One image: boxes [classes or 1,n,4] and scores [classes,n], and how many of them to keep.

    Attributes:
        limit: boxes of a class; size: of all; places: how many there are room for.
    """

    b: Builder
    boxes: list[Tensor]
    scores: list[Tensor]
    limit: int
    size: int
    places: int
    iou: Tensor
    least: Tensor

    def chosen(self, *, clip: bool) -> tuple[Tensor, ...]:
        """Boxes [places,4], scores and classes [places], and how many there are []."""
        b, size = self.b, self.size
        kept = [self._of_class(c) for c in range(len(self.scores))]
        count = len(kept) * self.limit
        # The best of all classes, by rows: box and score of each stand at the same place, and so does its
        # class.
        boxes, scores = (
            b.step("CONCATENATION", *parts, shape=(count, *parts[0].shape[1:]), axis=0)
            for parts in zip(*kept, strict=True)
        )
        classes = np.repeat(np.arange(len(kept), dtype=np.float32), self.limit)
        best, places = b.step_ports(
            "TOPK_V2", scores, b.const(np.int32(size), "k"), shapes=[(size,)] * 2, elements=[FLOAT, INT32]
        )
        # Places without a box have float32's lowest number, so they come last.
        valid = b.step("GREATER", best, b.const(_LOWEST, "lowest"), shape=(size,), element=BOOL)
        rows = b.step("GATHER", boxes, places, shape=(size, 4), axis=0)
        if clip:
            rows = b.step("MAXIMUM", rows, b.const(np.float32(0), "zero"), shape=rows.shape)
            rows = b.step("MINIMUM", rows, b.const(np.float32(1), "one"), shape=rows.shape)
        kinds = b.step("GATHER", b.const(classes, "classes"), places, shape=(size,), axis=0)
        found = [self._where(b.reshaped(valid, (size, 1)), rows)]
        found += [self._where(valid, t) for t in (best, kinds)]
        ones = b.cast(valid, INT32)
        total = b.step("SUM", ones, b.ints([0], "axis"), shape=(), keep_dims=False)
        return *map(self._padded, found), total

    def _of_class(self, c: int) -> tuple[Tensor, Tensor]:
        """Boxes [limit,4] and scores [limit] of a class; the lowest of all scores where there is no box."""
        b, limit = self.b, self.limit
        # Boxes are for each class, or one list for all of them.
        boxes, scores = self.boxes[c % len(self.boxes)], self.scores[c]
        places, count = choose(b, boxes, scores, b.const(np.int32(limit), "limit"), self.iou, self.least)
        order = b.const(np.arange(limit, dtype=np.int32), "order")
        valid = b.step("LESS", order, count, shape=(limit,), element=BOOL)
        found = b.step("GATHER", scores, places, shape=(limit,), axis=0)
        shown = b.step("SELECT_V2", valid, found, b.const(_LOWEST, "lowest"), shape=(limit,), element=FLOAT)
        return b.step("GATHER", boxes, places, shape=(limit, 4), axis=0), shown

    def _where(self, valid: Tensor, x: Tensor) -> Tensor:
        zero = self.b.const(np.float32(0), "zero")
        return self.b.step("SELECT_V2", valid, x, zero, shape=x.shape, element=x.dtype)

    def _padded(self, x: Tensor) -> Tensor:
        missing = self.places - self.size
        if not missing:
            return x
        shape = shape_of(x)
        pads = np.array([[0, missing], *([[0, 0]] * (len(shape) - 1))], np.int32)
        return self.b.step("PAD", x, self.b.const(pads, "pads"), shape=(self.places, *shape[1:]))


@lower("CombinedNonMaxSuppression", to="tflite")
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
    sizes, (images, count, classes) = shape_of(boxes, "the boxes", 4), shape_of(scores, "the scores", 3)
    require(None not in (*sizes, images, count, classes), "the numbers of images and boxes are not known")
    images, count, classes, own = images or 0, count or 0, classes or 0, sizes[2] or 0
    (most,), (places,) = ints(per_class, "max_output_size_per_class"), ints(total, "max_total_size")
    # The op pads to max_total_size, or with pad_per_class to no more than the classes can fill.
    places = min(places, most * classes) if pad_per_class else places
    limit = min(most, count)
    require(images * classes * limit > 0 and places > 0, "there is nothing to choose")
    require(images * classes <= _MOST_LISTS, f"{classes} classes of {images} images are too many to unroll")
    # [images,n,classes,4] and [images,n,classes], class by class.
    flat_boxes = _lists(b, b.transposed(boxes, (0, 2, 1, 3)), images * own, (count, 4))
    flat_scores = _lists(b, b.transposed(scores, (0, 2, 1)), images * classes, (count,))
    found = [
        _Image(
            b,
            flat_boxes[n * own : (n + 1) * own],
            flat_scores[n * classes : (n + 1) * classes],
            limit,
            min(places, classes * limit),
            places,
            iou,
            least,
        ).chosen(clip=clip_boxes)
        for n in range(images)
    ]
    return tuple(
        b.emit("PACK", *parts, port=port, axis=0, values_count=images)
        for port, parts in enumerate(zip(*found, strict=True))
    )


def _lists(b: Builder, x: Tensor, lists: int, shape: tuple[int, ...]) -> list[Tensor]:
    """x as so many tensors of a shape."""
    flat = b.reshaped(x, (lists, *shape))
    return list(
        b.step_ports("UNPACK", flat, shapes=[shape] * lists, elements=[FLOAT] * lists, axis=0, num=lists)
    )
