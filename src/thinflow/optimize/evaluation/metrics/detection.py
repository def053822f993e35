"""Of detectors: mean average precision over classes and overlaps, as COCO defines it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thinflow.errors import FeedError, ParameterError
from thinflow.optimize.evaluation.metric import Answered, Figure, metric
from thinflow.typing import Array

# As COCO's own evaluation makes them: a sum of steps is another number in its last bit.
_OVERLAPS = tuple(np.linspace(0.5, 0.95, 10).tolist())
# COCO's own 101 points, and not the area below the curve as of Pascal VOC since 2010.
_RECALLS = np.linspace(0, 1, 101)
# Boxes of a class in a picture that count, the best ones; as in COCO.
_MOST = 100
_FORMS = ("yxyx", "xyxy", "xywh")
_SIDES = ("ymin", "xmin", "ymax", "xmax")
# As COCO's own files have it, and TensorFlow's object detection.
_CROWDS = ("iscrowd", "is_crowd", "image/object/is_crowd")


@metric("map")
class MeanAveragePrecision:
    """Mean average precision at overlaps 0.5 to 0.95, and at 0.5 and 0.75 alone, over all classes that occur.

    Found boxes are an output [.., n, 4], their scores and classes two of [.., n]; an output with one number
    says how many count. What is right: fields `boxes` [n, 4] and `classes` [n], or those of TensorFlow's
    object detection, `image/object/bbox/ymin` and so on with `image/object/class/label`. `iscrowd` [n] or
    `image/object/is_crowd` marks boxes around crowds: what lies in one is neither right nor wrong. Memory
    grows with the boxes found.

    Args:
        form: of found boxes: yxyx (TensorFlow, LiteRT), xyxy or xywh.
        truth: of those in the fields, as `form`; default: the same.
        offset: added to found classes, where 0 is the first and labels begin with 1.
        score: boxes below are left out.
    """

    def __init__(self, form: str = "yxyx", truth: str = "", offset: int = 0, score: float = 0.0) -> None:
        for text in (form, truth or form):
            if text not in _FORMS:
                raise ParameterError(f"there is no form of boxes '{text}'", hint=f"give {', '.join(_FORMS)}")
        self._form, self._truth, self._offset, self._score = form, truth or form, offset, score
        self.wanted: dict[int, int] = {}
        # Class -> [score, and a bit for each overlap at which the box is right, then one for each at which it
        # does not count], as found.
        self.found: dict[int, list[list[float]]] = {}

    def add(self, sample: Answered) -> None:
        """See `Metric`.

        Raises:
            FeedError: outputs or fields are no boxes.
        """
        boxes, scores, classes = self._answers(sample.outputs)
        truth, kinds, crowds = self._wanted(sample.fields)
        # A class of crowds alone has nothing that could be found.
        for kind in np.unique(kinds[~crowds]).tolist():
            self.wanted[int(kind)] = self.wanted.get(int(kind), 0) + int((kinds[~crowds] == kind).sum())
        # Stable: of equal scores the first found comes first, as in COCO's own evaluation.
        order = np.argsort(-scores, kind="stable")
        order = order[scores[order] >= self._score]
        for kind in np.unique(classes[order]).tolist():
            mine = order[classes[order] == kind][:_MOST]
            same = kinds == kind
            bits = _matched(overlaps(boxes[mine], truth[same], crowds[same]), crowds[same])
            rows = self.found.setdefault(int(kind), [])
            rows += [[float(scores[n]), bit] for n, bit in zip(mine, bits, strict=True)]

    def _answers(self, outputs: Mapping[str, Array]) -> tuple[Array, Array, Array]:
        """Boxes [n, 4], scores [n] and classes [n]."""
        boxes = next((a for a in outputs.values() if a.ndim >= 2 and a.shape[-1] == 4), None)
        if boxes is None:
            raise _no_boxes(outputs)
        count = boxes.size // 4
        rows = {n: a for n, a in outputs.items() if a is not boxes and a.size == count}
        if len(rows) < 2:
            raise _no_boxes(outputs)
        named = {word: next((n for n in rows if word in n.lower()), None) for word in ("score", "class")}
        first, second, *_ = rows
        # LiteRT's own op gives boxes, classes, scores, and how many.
        kind_name = named["class"] or (second if named["score"] == first else first)
        score_name = named["score"] or (second if kind_name == first else first)
        single = [a for n, a in outputs.items() if a.size == 1 and n not in rows and count > 1]
        used = int(np.clip(single[0].reshape(-1)[0], 0, count)) if single else count
        scores = rows[score_name].reshape(-1)[:used].astype(np.float64)
        classes = rows[kind_name].reshape(-1)[:used].astype(np.int64) + self._offset
        is_number = np.isfinite(scores)
        found = _corners(boxes.reshape(-1, 4)[:used].astype(np.float64), self._form)
        return found[is_number], scores[is_number], classes[is_number]

    def _wanted(self, fields: Mapping[str, Any]) -> tuple[Array, Array, Array]:
        """Boxes [n, 4] and classes [n] of the sample, and whether each is a crowd [n]."""
        if "boxes" in fields and "classes" in fields:
            boxes = np.asarray(fields["boxes"], np.float64).reshape(-1, 4)
            corners = _corners(boxes, self._truth)
            classes = np.asarray(fields["classes"]).reshape(-1)
        else:
            sides = [fields.get(f"image/object/bbox/{side}") for side in _SIDES]
            label = fields.get("image/object/class/label")
            # A picture without any object has none of these fields.
            if any(side is None for side in sides) or label is None:
                if any(name.startswith("image/") for name in fields):
                    return np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0, bool)
                raise FeedError(
                    "the sample has no boxes to compare with", hint="give the fields 'boxes' and 'classes'"
                )
            corners = np.stack([np.atleast_1d(np.asarray(side, np.float64)) for side in sides], -1)
            classes = np.atleast_1d(np.asarray(label))
        told = next((fields[name] for name in _CROWDS if name in fields), np.zeros(len(corners)))
        crowds = np.atleast_1d(np.asarray(told)).astype(bool)
        for count, what in ((len(classes), "classes"), (len(crowds), "marks of crowds")):
            if len(corners) != count:
                raise FeedError(
                    f"the sample has {len(corners)} boxes and {count} {what}", hint="give one for each box"
                )
        return corners, classes.astype(np.int64), crowds

    def merge(self, later: MeanAveragePrecision) -> None:
        """See `Metric`."""
        for kind, count in later.wanted.items():
            self.wanted[kind] = self.wanted.get(kind, 0) + count
        for kind, rows in later.found.items():
            self.found.setdefault(kind, []).extend(rows)

    def figures(self) -> list[Figure]:
        """At all overlaps together, at a half, and at three quarters."""
        table = np.array([self._precisions(kind) for kind in sorted(self.wanted)])
        if not table.size:
            return [Figure("mAP", None, "%")]
        means = 100 * table.mean(0)
        return [
            Figure("mAP", float(means.mean()), "%"),
            Figure("mAP at 0.5", float(means[0]), "%"),
            Figure("mAP at 0.75", float(means[5]), "%"),
        ]

    def _precisions(self, kind: int) -> list[float]:
        """Average precision of a class at each overlap: 101 points of recall, as COCO takes them."""
        rows = np.array(self.found.get(kind, [])).reshape(-1, 2)
        rows = rows[np.argsort(-rows[:, 0], kind="stable")]
        bits = rows[:, 1].astype(np.int64)
        found = []
        for n in range(len(_OVERLAPS)):
            counted = bits[bits >> (n + len(_OVERLAPS)) & 1 == 0]
            found.append(_average(counted >> n & 1, self.wanted[kind]))
        return found


def _average(is_right: Array, wanted: int) -> float:
    if not is_right.size:
        return 0.0
    right = np.cumsum(is_right)
    precision = right / np.arange(1, len(right) + 1)
    # At each recall the best precision that a threshold with it or more gives.
    # From behind, so that precision never rises with recall.
    best = np.maximum.accumulate(precision[::-1])[::-1]
    places = np.searchsorted(right / wanted, _RECALLS, side="left")
    return float(np.where(places < len(best), best[np.minimum(places, len(best) - 1)], 0.0).mean())


def _matched(overlap: Array, crowds: Array) -> list[int]:
    """For each found box, best score first, a bit for each overlap at which it is one of those that are
    right, and behind them one for each at which it lies in a crowd.

    Args:
        overlap: [found, right] see `overlaps`.
        crowds: [right] whether it is one.
    """
    bits = [0] * len(overlap)
    for n, least in enumerate(_OVERLAPS):
        free = ~crowds
        for row, shares in enumerate(overlap):
            # Each right box is found once; a second box on it is a mistake.
            left = np.where(free, shares, -1.0)
            # Of several with the same overlap COCO's own evaluation takes the last one.
            if left.size and left[best := left.size - 1 - int(left[::-1].argmax())] >= least:
                free[best] = False
                bits[row] |= 1 << n
            # As many as there may be in it.
            elif (shares[crowds] >= least).any():
                bits[row] |= 1 << n + len(_OVERLAPS)
    return bits


def overlaps(a: Array, b: Array, crowds: Array | None = None) -> Array:
    """[n, m] intersection over union of boxes [n, 4] and [m, 4] by their corners; over the first alone where
    the second is a crowd, of which one can only be a part.
    """
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(-1)
    areas = [np.clip(x[:, 2:] - x[:, :2], 0, None).prod(-1) for x in (a, b)]
    either: Array = areas[0][:, None] + areas[1][None, :] - shared
    if crowds is not None:
        either = np.where(crowds[None], areas[0][:, None], either)
    share: Array = np.divide(shared, either, out=np.zeros_like(shared), where=either > 0)
    return share


def _corners(boxes: Array, form: str) -> Array:
    """Boxes as ymin, xmin, ymax, xmax."""
    if form == "yxyx":
        return boxes
    if form == "xyxy":
        return boxes[:, [1, 0, 3, 2]]
    x, y, width, height = boxes.T
    return np.stack([y, x, y + height, x + width], -1)


def _no_boxes(outputs: Mapping[str, Array]) -> FeedError:
    shapes = ", ".join(f"{name} {list(a.shape)}" for name, a in outputs.items())
    return FeedError(
        f"the outputs are no boxes: {shapes}",
        hint="name those of boxes [n, 4], scores and classes: --outputs",
    )
