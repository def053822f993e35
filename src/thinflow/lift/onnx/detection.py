"""ONNX's NonMaxSuppression: TensorFlow's for each class of each picture."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.terms import Term, concat, stack
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula
from thinflow.lift.rules import lifts

_MOST_CLASSES = 1 << 10
"""Classes of all pictures; each has operators of its own."""
_INT32_MOST = (1 << 31) - 1


@lifts("onnx.NonMaxSuppression")
def _non_max_suppression(c: Call) -> Value:
    """Boxes [n, boxes, 4] by scores [n, classes, boxes]; rows [picture, class, box] of those kept."""
    f = Formula(c)
    boxes, scores = f.operand(0), f.operand(1)
    images, classes = scores.shape[0] if boxes.shape[0] is None else boxes.shape[0], scores.shape[1]
    if images is None or classes is None:
        raise UnsupportedOp("the number of its pictures or classes is not known")
    if images * classes > _MOST_CLASSES:
        raise UnsupportedOp(f"it has {images * classes} classes in all pictures")
    limit = _limit(f)
    overlap = _number(f, 3, 0.0)
    # Without a threshold all scores count.
    least = _number(f, 4, float(np.finfo(np.float32).min) if not c.has(4) else 0.0)
    if not images * classes or (limit.known is not None and int(limit.known) <= 0):
        return f.constant(np.zeros((0, 3)), INT64).value
    corners = _corners(c, boxes)
    rows = []
    for image in range(images):
        of_image, scores_of_image = corners.at(0, image), scores.at(0, image)
        for number in range(classes):
            operands = [of_image, scores_of_image.at(0, number), limit, overlap, least]
            kept = f.add("NonMaxSuppressionV3", [t.value for t in operands])[0]
            # [boxes] -> [boxes, 3], of which the picture and the class are the same for all.
            row = kept.reshape([-1, 1]).pad([(0, 0), (2, 0)])
            rows.append(row + np.array([image, number, 0]) if image or number else row)
    return concat(rows, 0).cast(INT64).value


def _number(f: Formula, place: int, default: float) -> Term:
    """A scalar operand, which may be a vector of one."""
    if not f.call.has(place):
        return f.constant(default, FLOAT)
    given = f.operand(place)
    return f.constant(given.known.reshape(()), FLOAT) if given.known is not None else given.reshape([])


def _limit(f: Formula) -> Term:
    """The number of boxes of a class, int32; none is given for nothing at all."""
    if not f.call.has(2):
        return f.constant(0, INT32)
    given = f.operand(2)
    if given.known is not None:
        return f.constant(min(int(given.known.reshape(())), _INT32_MOST), INT32)
    return given.reshape([]).minimum(_INT32_MOST).maximum(0).cast(INT32)


def _corners(c: Call, boxes: Term) -> Term:
    """Boxes by two corners, which is what TensorFlow's are."""
    kind = c.get("center_point_box", 0)
    if kind not in (0, 1):
        raise UnsupportedOp(f"its center_point_box is {kind}")
    if not kind:
        return boxes
    x, y, width, height = (boxes.at(2, n) for n in range(4))
    halves = width * 0.5, height * 0.5
    return stack([y - halves[1], x - halves[0], y + halves[1], x + halves[0]], 2)
