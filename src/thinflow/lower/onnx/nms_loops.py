"""Choosing boxes where ONNX's own op does not do: soft suppression, given overlaps, all classes at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT32, INT64
from thinflow.lower.onnx.bodies import close
from thinflow.lower.onnx.builder import Builder, number, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Operator, Program, Tensor

_MOST_COMPARED = 1 << 20
_MOST_UNROLLED = 32  # turns, each of four operators
_TINY = float(np.finfo(np.float32).tiny)
_WIDE = 8
"""Boxes for each that may be kept, up to which all are compared with all ahead of the loop."""
Lowered = Callable[[Builder, Term, Term], Term]
"""The scores [n] after a box has been chosen: from the scores and its place []."""


def _never(b: Builder) -> Term:
    """The score of a box that will not be chosen."""
    return Term(b, b.const(np.float32(-np.inf), "never"))


def _best(b: Builder, scores: Term) -> Term:
    return scores.reduced("ReduceMax", 0)


def _chosen(
    b: Builder, scores: Tensor, count: Tensor, least: Tensor, lowered: Lowered, *, zeroes: bool = False
) -> tuple[Tensor, Tensor]:
    """Places int64 [k] and scores [k] of the best box again and again, as long as it is above `least`.

    Args:
        zeroes: whether `lowered` makes the score of the chosen box 0.
    """
    node = b.node
    first = Term(b, b.cast(scores, FLOAT))
    going_on = _best(b, first) > least
    inner = b.inside()
    inner.begin(node)
    turn, go = inner.own("turn", (), INT64), inner.own("go", (), BOOL)
    before = Term(inner, inner.own("scores", first.shape, FLOAT))
    place = Term(inner, inner.step("ArgMax", before.tensor, shape=(), element=INT64, axis=0, keepdims=0))
    score = before.gathered(place.tensor)
    after = lowered(inner, before, place)
    # A score of 0 is not above such a limit, so the box is out already.
    if not (zeroes and least.is_constant and least.array().item() >= 0):
        numbers = inner.step(
            "Range", inner.int64(0), _length(inner, before.tensor), inner.int64(1), shape=first.shape
        )
        after = choose(Term(inner, numbers).equals(place), _never(inner), after)
    again = _best(inner, after) > least
    body = Program(
        [turn, go, before.tensor],
        [again.tensor, after.tensor, place.tensor, score.tensor],
        inner.operators, opset=b.opset, name=f"{node.name}/body",
    )  # fmt: skip
    captured = close([body])
    last = b.own("scores", first.shape, FLOAT)
    rows = [b.own("places", (None,), INT64), b.own("kept", (None,), FLOAT)]
    limit = b.reshaped(b.index(count), ())
    b.operators.append(
        Operator(
            "Loop",
            [limit, going_on.tensor, first.tensor, *captured],
            [last, *rows],
            {},
            node.name,
            {"body": body},
            len(captured),
        )
    )
    return rows[0], rows[1]


def _length(b: Builder, x: Tensor) -> Tensor:
    sizes = b.sizes_of(x)
    return b.squeezed(b.sliced(sizes, [0], [1], [0], shape=(1,)), [0])


def _unrolled(b: Builder, scores: Tensor, least: Tensor, rows: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """As `_chosen`, turn by turn without a loop, which costs more than what is in it.

    Scores above a limit from 0 only fall, so those that are chosen in vain stand behind all others.

    Args:
        rows: what the scores are multiplied by once a box is chosen [n,n], 0 for itself.
    """
    total = shape_of(rows)[0]
    now = b.reshaped(b.cast(scores, FLOAT), (1, total))
    places, kept = [], []
    for _ in range(size):
        place = b.step("ArgMax", now, shape=(1,), element=INT64, axis=1, keepdims=0)
        places.append(place)
        kept.append(b.step("Gather", now, place, shape=(1, 1), axis=1))
        now = b.step("Mul", now, b.step("Gather", rows, place, shape=(1, total), axis=0), shape=(1, total))
    found = b.step("Concat", *places, shape=(size,), axis=0)
    values = b.reshaped(b.step("Concat", *kept, shape=(1, size), axis=1), (size,))
    above = (Term(b, values) > least).cast(INT64)
    count = b.reshaped(above.reduced("ReduceSum", 0).tensor, (1,))
    ends = b.ints([0]), count, b.ints([0])
    return (
        b.step("Slice", found, *ends, shape=(None,)),
        b.step("Slice", values, *ends, shape=(None,)),
    )


def soft_chosen(
    b: Builder, boxes: Tensor, scores: Tensor, count: Tensor, least: Tensor, sigma: float
) -> tuple[Tensor, Tensor]:
    """A chosen box lowers the scores of the others by exp(-overlap^2 / (2 sigma))."""
    require(shape_of(boxes, "the boxes", 2)[0] != 0, "there are no boxes")
    # Boxes may be given by any two opposite corners, (y, x) each.
    corners = [Term(b, b.cast(boxes, FLOAT)).gathered(np.int64(n), 1) for n in range(4)]
    low = [corners[n].least(corners[n + 2]) for n in (0, 1)]
    high = [corners[n].most(corners[n + 2]) for n in (0, 1)]
    area = (high[0] - low[0]) * (high[1] - low[1])
    total, limit = shape_of(boxes)[0], (b.elements(count) or (None,))[0]
    if total is not None and total * total <= _MOST_COMPARED and total <= _WIDE * (limit or 0):
        every = [[t.unsqueezed(0) for t in corner] for corner in (low, high)]
        one = [[t.unsqueezed(1) for t in corner] for corner in (low, high)]
        factors = _lowering(every, one, area.unsqueezed(0), area.unsqueezed(1), sigma)
        rows = factors * b.const(1 - np.eye(total, dtype=np.float32), "others")
        size = min(limit or 0, total)
        if 0 < size <= _MOST_UNROLLED and least.is_constant and least.array().item() >= 0:
            return _unrolled(b, scores, least, rows.tensor, size)

        def by_row(inner: Builder, now: Term, place: Term) -> Term:
            return now * Term(inner, rows.tensor).gathered(place.tensor)

        return _chosen(b, scores, count, least, by_row, zeroes=True)

    def lowered(inner: Builder, now: Term, place: Term) -> Term:
        every = [[Term(inner, t.tensor) for t in corner] for corner in (low, high)]
        one = [[t.gathered(place.tensor) for t in corner] for corner in every]
        areas = Term(inner, area.tensor)
        return now * _lowering(every, one, areas, areas.gathered(place.tensor), sigma)

    return _chosen(b, scores, count, least, lowered)


def _lowering(
    every: Sequence[Sequence[Term]], one: Sequence[Sequence[Term]], areas: Term, area: Term, sigma: float
) -> Term:
    """exp(-overlap^2 / (2 sigma)) of boxes, given by their low and their high corners, with others."""
    sides = [
        (every[1][n].least(one[1][n]) - every[0][n].most(one[0][n])).most(0)
        for n in (0, 1)  # of y and of x
    ]
    shared = sides[0] * sides[1]
    # Without area nothing is shared: no more is needed than a union that can be divided by.
    overlap = shared / (areas + area - shared).most(_TINY)
    # TensorFlow computes this factor in float32.
    return (overlap * overlap * float(np.float32(-0.5) / np.float32(sigma))).apply("Exp")


@lower("NonMaxSuppressionWithOverlaps", to="onnx")
def nms_with_overlaps(
    b: Builder, node: Node, overlaps: Tensor, scores: Tensor, count: Tensor, limit: Tensor, least: Tensor
) -> Tensor:
    """The overlaps [n,n] are given instead of boxes."""
    require(shape_of(overlaps, "the overlaps", 2)[0] != 0, "there are no boxes")
    most = b.reshaped(limit, ())

    def lowered(inner: Builder, now: Term, place: Term) -> Term:
        row = Term(inner, overlaps).gathered(place.tensor, 1)
        return choose(row > most, _never(inner), now)

    places, _ = _chosen(b, scores, count, b.reshaped(least, ()), lowered)
    return b.result(b.cast(places, INT32))


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
    every = b.step(
        "Expand", by_class, b.joined(amount, b.ints([kinds, count, 4])), shape=(images, kinds, count, 4)
    )
    flat_scores = b.reshaped(b.transposed(scores, (0, 2, 1)), (lists, 1, count))
    kept = b.step(
        "NonMaxSuppression", b.reshaped(every, (lists, count, 4)), flat_scores,
        b.ints([limit]), b.reshaped(iou, (1,)), b.reshaped(least, (1,)), shape=(None, 3), element=INT64,
    )  # fmt: skip
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
