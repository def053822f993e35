"""Non-maximum suppression: of overlapping boxes keep the one with the best score."""

from __future__ import annotations

import heapq

import numpy as np

from thinflow.ir.types import FLOAT, INT32, TensorSpec
from thinflow.ops._shapes import Dim, rank_of
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Role, Trait
from thinflow.typing import Array

# The threshold of the versions that have none.
_LOWEST = float(np.finfo(np.float32).min)


class _Overlap:
    """Intersection over union of boxes [n,4] (two opposite corners, in any order), float32."""

    def __init__(self, boxes: Array) -> None:
        require(
            boxes.ndim == 2 and boxes.shape[1] == 4, f"boxes have shape {list(boxes.shape)}, [n,4] is needed"
        )
        boxes = boxes.astype(np.float32, copy=False)
        # Corners may come in any order, as TensorFlow allows.
        self.low = np.minimum(boxes[:, :2], boxes[:, 2:])
        self.high = np.maximum(boxes[:, :2], boxes[:, 2:])
        self.area = np.prod(self.high - self.low, axis=1)

    def __call__(self, one: int, others: Array) -> Array:
        """Overlap of a box with each of others [m]; 0 where either is empty."""
        low = np.maximum(self.low[one], self.low[others])
        high = np.minimum(self.high[one], self.high[others])
        shared = np.prod(np.maximum(high - low, np.float32(0)), axis=1)
        # Empty boxes overlap nothing, instead of 0/0.
        valid = (self.area[others] > 0) & (self.area[one] > 0)
        union = self.area[one] + self.area[others] - shared
        ratio: Array = np.divide(shared, union, out=np.zeros_like(shared), where=valid)
        return ratio


class _Given:
    """Overlaps read from a matrix [n,n]."""

    def __init__(self, overlaps: Array) -> None:
        require(
            overlaps.ndim == 2 and overlaps.shape[0] == overlaps.shape[1], "overlaps must be a square matrix"
        )
        self.matrix = overlaps

    def __call__(self, one: int, others: Array) -> Array:
        return np.asarray(self.matrix[one, others])


def _select(
    overlap: _Overlap | _Given,
    scores: Array,
    count: int,
    iou_threshold: float,
    score_threshold: float,
    sigma: float = 0.0,
) -> tuple[Array, Array]:
    """Indices of at most `count` boxes, best first, and their (with sigma > 0: reduced) scores."""
    require(scores.ndim == 1, f"scores have rank {scores.ndim}, 1 is needed")
    require(count >= 0, f"max_output_size is {count}")
    with np.errstate(invalid="ignore", over="ignore"):
        # Strictly above, as TensorFlow; NaN is never eligible.
        (eligible,) = np.nonzero(scores > scores.dtype.type(score_threshold))
        if sigma > 0:
            return _select_soft(overlap, scores, eligible, count, score_threshold, sigma)
        # In double, where negation is safe for integers and narrow floats, too; stable: of equals the lowest
        # index.
        order = eligible[np.argsort(-scores[eligible].astype(np.float64), kind="stable")]
        # Each candidate is compared with all kept ones in one numpy call; the loop over candidates has to
        # stay, as every decision depends on those before.
        kept = np.empty(min(count, order.size), np.int64)
        found = 0
        for candidate in order:
            if found == kept.size:
                break
            if not (overlap(candidate, kept[:found]) > np.float32(iou_threshold)).any():
                kept[found] = candidate
                found += 1
    return kept[:found].astype(np.int32), scores[kept[:found]]


def _select_soft(
    overlap: _Overlap | _Given,
    scores: Array,
    eligible: Array,
    count: int,
    score_threshold: float,
    sigma: float,
) -> tuple[Array, Array]:
    """Soft-NMS: a selected box multiplies its neighbours' scores by exp(-overlap^2 / (2 sigma))."""
    scale = np.float32(np.float32(-0.5) / np.float32(sigma))
    threshold = np.float32(score_threshold)
    # Best score first, then lowest index; the last item says how many selected boxes were already counted.
    queue = [(-float(scores[i]), int(i), 0) for i in eligible]
    heapq.heapify(queue)
    kept: list[int] = []
    kept_scores: list[np.float32] = []
    while queue and len(kept) < count:
        negative, index, seen = heapq.heappop(queue)
        score = original = np.float32(-negative)
        if len(kept) > seen:
            # From the box selected last back to the first not yet counted: TensorFlow's order, in which it
            # stops early.
            similarity = overlap(index, np.array(kept[seen:]))[::-1]
            for weight in np.exp(scale * similarity * similarity).astype(np.float32):
                score = np.float32(score * weight)
                if score <= threshold:
                    break
        # Nothing lowered it, so it is still the best of the queue; else it goes back and competes again.
        if score == original:
            kept.append(index)
            kept_scores.append(score)
        elif score > threshold:
            heapq.heappush(queue, (-float(score), index, len(kept)))
    return np.array(kept, np.int32), np.array(kept_scores, scores.dtype)


def selected_boxes(
    boxes: Array, scores: Array, count: int, iou_threshold: float, score_threshold: float
) -> Array:
    """Indices int32 of at most `count` boxes whose score reaches the threshold, best first."""
    # LiteRT lets a score at the threshold pass, TensorFlow does not: one float lower makes > do as >=.
    below = float(np.nextafter(np.float32(score_threshold), np.float32(-np.inf)))
    return _select(_Overlap(boxes), scores, count, iou_threshold, below)[0]


def _padded(values: Array, size: int) -> Array:
    """Zeros added up to a size."""
    result = np.zeros((size, *values.shape[1:]), values.dtype)
    result[: len(values)] = values
    return result


def _infer_selected(
    boxes: TensorSpec, scores: TensorSpec, limit: TensorSpec, pad: bool = False
) -> TensorSpec:
    """int32 [k], known only when padded to a known size."""
    rank_of(boxes, 2, "boxes")
    rank_of(scores, 1, "scores")
    return TensorSpec(INT32, (limit.ints[0] if pad and limit.ints else None,))


@op("NonMaxSuppression")
class NonMaxSuppression(OpDef):
    """Indices of the boxes kept, best first.   boxes [n,4], scores [n], max_output_size -> int32 [k]."""

    roles = (None, None, Role.COUNT)

    traits = Trait.NMS

    @staticmethod
    def infer(boxes: TensorSpec, scores: TensorSpec, limit: TensorSpec) -> TensorSpec:
        return _infer_selected(boxes, scores, limit)

    @staticmethod
    def kernel(boxes: Array, scores: Array, limit: Array, *, iou_threshold: float = 0.5) -> Array:
        return _select(_Overlap(boxes), scores, int(limit), iou_threshold, _LOWEST)[0]


@op("NonMaxSuppressionV2")
class NonMaxSuppressionV2(OpDef):
    """NonMaxSuppression whose iou_threshold is an input."""

    roles = (None, None, Role.COUNT)

    traits = Trait.NMS

    @staticmethod
    def infer(boxes: TensorSpec, scores: TensorSpec, limit: TensorSpec, iou: TensorSpec) -> TensorSpec:
        return _infer_selected(boxes, scores, limit)

    @staticmethod
    def kernel(boxes: Array, scores: Array, limit: Array, iou: Array) -> Array:
        return _select(
            _Overlap(boxes), scores.astype(np.float32, copy=False), int(limit), float(iou), _LOWEST
        )[0]


@op("NonMaxSuppressionV3")
class NonMaxSuppressionV3(OpDef):
    """NonMaxSuppressionV2 that ignores boxes whose score is not above score_threshold."""

    roles = (None, None, Role.COUNT)

    traits = Trait.NMS

    @staticmethod
    def infer(
        boxes: TensorSpec, scores: TensorSpec, limit: TensorSpec, iou: TensorSpec, score_threshold: TensorSpec
    ) -> TensorSpec:
        return _infer_selected(boxes, scores, limit)

    @staticmethod
    def kernel(boxes: Array, scores: Array, limit: Array, iou: Array, score_threshold: Array) -> Array:
        return _select(
            _Overlap(boxes),
            scores.astype(np.float32, copy=False),
            int(limit),
            float(iou),
            float(score_threshold),
        )[0]


@op("NonMaxSuppressionV4")
class NonMaxSuppressionV4(OpDef):
    """NonMaxSuppressionV3 that also counts.

    Gives indices int32 [k], 0-padded if pad_to_max_output_size; valid int32 scalar.
    """

    roles = (None, None, Role.COUNT)

    traits = Trait.NMS
    num_outputs = 2

    @staticmethod
    def infer(
        boxes: TensorSpec,
        scores: TensorSpec,
        limit: TensorSpec,
        iou: TensorSpec,
        score_threshold: TensorSpec,
        *,
        pad_to_max_output_size: bool = False,
    ) -> tuple[TensorSpec, TensorSpec]:
        return _infer_selected(boxes, scores, limit, pad_to_max_output_size), TensorSpec(INT32, ())

    @staticmethod
    def kernel(
        boxes: Array,
        scores: Array,
        limit: Array,
        iou: Array,
        score_threshold: Array,
        *,
        pad_to_max_output_size: bool = False,
    ) -> tuple[Array, Array]:
        kept, _ = _select(
            _Overlap(boxes),
            scores.astype(np.float32, copy=False),
            int(limit),
            float(iou),
            float(score_threshold),
        )
        return _padded(kept, int(limit)) if pad_to_max_output_size else kept, np.array(kept.size, np.int32)


@op("NonMaxSuppressionV5")
class NonMaxSuppressionV5(OpDef):
    """NonMaxSuppressionV4 with soft suppression.   -> indices int32 [k], scores [k], valid int32 scalar.

    soft_nms_sigma > 0 lowers the scores of overlapping boxes instead of dropping them.
    """

    roles = (None, None, Role.COUNT)

    traits = Trait.NMS
    num_outputs = 3

    @staticmethod
    def infer(
        boxes: TensorSpec,
        scores: TensorSpec,
        limit: TensorSpec,
        iou: TensorSpec,
        score_threshold: TensorSpec,
        sigma: TensorSpec,
        *,
        pad_to_max_output_size: bool = False,
    ) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        kept = _infer_selected(boxes, scores, limit, pad_to_max_output_size)
        return kept, TensorSpec(scores.dtype, kept.shape), TensorSpec(INT32, ())

    @staticmethod
    def kernel(
        boxes: Array,
        scores: Array,
        limit: Array,
        iou: Array,
        score_threshold: Array,
        sigma: Array,
        *,
        pad_to_max_output_size: bool = False,
    ) -> tuple[Array, Array, Array]:
        kept, values = _select(
            _Overlap(boxes),
            scores.astype(np.float32, copy=False),
            int(limit),
            float(iou),
            float(score_threshold),
            float(sigma),
        )
        values = values.astype(scores.dtype, copy=False)
        valid = np.array(kept.size, np.int32)
        if pad_to_max_output_size:
            kept, values = _padded(kept, int(limit)), _padded(values, int(limit))
        return kept, values, valid


@op("NonMaxSuppressionWithOverlaps")
class NonMaxSuppressionWithOverlaps(OpDef):
    """NonMaxSuppressionV3 with the overlaps [n,n] given instead of boxes."""

    traits = Trait.NMS

    @staticmethod
    def infer(
        overlaps: TensorSpec,
        scores: TensorSpec,
        limit: TensorSpec,
        overlap: TensorSpec,
        score_threshold: TensorSpec,
    ) -> TensorSpec:
        return _infer_selected(overlaps, scores, limit)

    @staticmethod
    def kernel(overlaps: Array, scores: Array, limit: Array, overlap: Array, score_threshold: Array) -> Array:
        return _select(_Given(overlaps), scores, int(limit), float(overlap), float(score_threshold))[0]


@op("CombinedNonMaxSuppression")
class CombinedNonMaxSuppression(OpDef):
    """Suppression per class, then the best of all classes.

    boxes [b,n,q,4] (q = 1 or classes), scores [b,n,classes], max_output_size_per_class, max_total_size,
    iou_threshold, score_threshold -> boxes [b,k,4], scores [b,k], classes float [b,k], valid int32 [b];
    unused places are 0.
    """

    traits = Trait.NMS
    num_outputs = 4

    @staticmethod
    def infer(
        boxes: TensorSpec,
        scores: TensorSpec,
        per_class: TensorSpec,
        total: TensorSpec,
        iou: TensorSpec,
        score_threshold: TensorSpec,
        *,
        pad_per_class: bool = False,
    ) -> tuple[TensorSpec, TensorSpec, TensorSpec, TensorSpec]:
        batch = rank_of(boxes, 4, "boxes")[0]
        classes = rank_of(scores, 3, "scores")[2]
        size: Dim = total.ints[0] if total.ints else None
        if pad_per_class:
            known = size is not None and per_class.ints and classes is not None
            size = min(size or 0, (per_class.ints or (0,))[0] * (classes or 0)) if known else None
        flat = TensorSpec(FLOAT, (batch, size))
        return TensorSpec(FLOAT, (batch, size, 4)), flat, flat, TensorSpec(INT32, (batch,))

    @staticmethod
    def kernel(
        boxes: Array,
        scores: Array,
        per_class: Array,
        total: Array,
        iou: Array,
        score_threshold: Array,
        *,
        pad_per_class: bool = False,
        clip_boxes: bool = True,
    ) -> tuple[Array, Array, Array, Array]:
        require(boxes.ndim == 4 and scores.ndim == 3, "boxes must be [b,n,q,4] and scores [b,n,classes]")
        batch, classes, limit = boxes.shape[0], scores.shape[2], int(per_class)
        require(boxes.shape[2] in {1, classes}, f"boxes have {boxes.shape[2]} classes, scores {classes}")
        # Without pad_per_class the output always has max_total_size places, filled or not.
        size = min(int(total), limit * classes) if pad_per_class else int(total)
        y = np.zeros((batch, size, 4), np.float32)
        y_scores, y_classes = np.zeros((batch, size), np.float32), np.zeros((batch, size), np.float32)
        valid = np.zeros(batch, np.int32)
        for b in range(batch):
            picked: list[tuple[Array, Array, Array]] = []
            for c in range(classes):
                own = boxes[b, :, c if boxes.shape[2] > 1 else 0]
                kept, values = _select(
                    _Overlap(own), scores[b, :, c], limit, float(iou), float(score_threshold)
                )
                picked.append((own[kept], values, np.full(kept.size, c, np.float32)))
            if not picked:
                continue
            all_boxes, all_scores, all_classes = (
                np.concatenate(parts) for parts in zip(*picked, strict=True)
            )
            # Of equals the lower class comes first.
            best = np.argsort(-all_scores, kind="stable")[:size]
            valid[b] = best.size
            chosen = all_boxes[best]
            y[b, : best.size] = np.clip(chosen, 0, 1) if clip_boxes else chosen
            y_scores[b, : best.size] = all_scores[best]
            y_classes[b, : best.size] = all_classes[best]
        return y, y_scores, y_classes, valid

    @staticmethod
    def cost(y: TensorSpec, boxes: TensorSpec, scores: TensorSpec, *limits: TensorSpec) -> Cost:
        return Cost(flops=12 * (scores.size or 0))
