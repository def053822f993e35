"""Choosing boxes: the kinds of suppression, by the one that targets have; soft suppression, by loops.

LiteRT drops boxes beyond the limit of overlap in soft suppression, too, where TensorFlow knows no limit then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from thinflow.decompose.index_ops import arange, as_index, first_of, size_of
from thinflow.decompose.loops import while_loop
from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Term, concat, refuse_unless, where
from thinflow.ir.types import FLOAT, INT32, TensorSpec

# Pairs of boxes whose factors are held at once.
_MOST_COMPARED = 1 << 20
_MOST_UNROLLED = 32
"""Iterations, each of four operators, up to which a loop costs more than what is in it."""
_WIDE = 8
"""Boxes for each that may be kept, up to which all are compared with all ahead of the loop."""
_FEW = 128
"""Boxes of which all are compared ahead in less time than a loop of eight iterations takes: ONNX Runtime
needs 0.09 ms instead of 0.12, LiteRT 0.032 instead of 0.034; of 200 boxes it is the other way round."""
_TINY = float(np.finfo(np.float32).tiny)

Lowered: TypeAlias = "Callable[..., Term]"
"""The scores [n] after a box has been chosen: from the scores, its index [], and what is fixed."""


# --- hard suppression ---------------------------------------------------------------------------------------


@decompose("NonMaxSuppression")
def nms(boxes: Term, scores: Term, count: Term, *, iou_threshold: float = 0.5) -> Term:
    return nms_v2(boxes, scores, count, boxes.of(iou_threshold))


@decompose("NonMaxSuppressionV2")
def nms_v2(boxes: Term, scores: Term, count: Term, iou: Term) -> Term:
    # Without a threshold every score counts: the lowest number is below all but itself.
    return nms_v3(boxes, scores, count, iou, scores.of(float(np.finfo(scores.dtype.numpy()).min)))


@decompose("NonMaxSuppressionV3")
def nms_v3(boxes: Term, scores: Term, count: Term, iou: Term, least: Term) -> Term:
    return _hard(boxes, scores, count, iou, least, padded=False)[0]


def _hard(
    boxes: Term, scores: Term, count: Term, iou: Term, least: Term, *, padded: bool
) -> tuple[Term, ...]:
    operands = [t.value for t in (boxes, scores, count, iou, least)]
    return boxes.body.add(
        "NonMaxSuppressionV4", operands, ports=2, T=boxes.dtype, T_threshold=iou.dtype,
        pad_to_max_output_size=padded,
    )  # fmt: skip


@decompose("NonMaxSuppressionV5")
def nms_v5(
    boxes: Term,
    scores: Term,
    count: Term,
    iou: Term,
    least: Term,
    sigma: Term,
    *,
    pad_to_max_output_size: bool = False,
) -> tuple[Term, ...]:
    """A positive sigma lowers the scores of boxes that overlap instead of dropping them."""
    width = -1.0 if sigma.known is None else float(sigma.known.reshape(()))
    refuse_unless(width >= 0, "soft_nms_sigma is computed while the model runs, or below 0")
    if width:
        return _soft(boxes, scores, count, least, width, padded=pad_to_max_output_size)
    at, valid = _hard(boxes, scores, count, iou, least, padded=pad_to_max_output_size)
    if not pad_to_max_output_size:
        return at, scores.gather(at), valid
    # Indices that are not filled read the first score, which has to be there.
    readable = scores if scores.shape[0] else concat([scores, scores.of([0.0])], 0)
    is_kept = arange(as_index(size_of(at))) < as_index(valid)
    return at, where(is_kept, readable.gather(at), 0), valid


# --- soft suppression ---------------------------------------------------------------------------------------


def _soft(
    boxes: Term, scores: Term, count: Term, least: Term, sigma: float, *, padded: bool
) -> tuple[Term, ...]:
    """A chosen box lowers the scores of the others by exp(-overlap² / (2 sigma))."""
    total, limit = boxes.shape[0], (count.elements or (None,))[0]
    refuse_unless(total != 0 and limit != 0, "there is nothing to choose")
    # Boxes may be given by any two opposite corners, (y, x) each.
    corners = [boxes.cast(FLOAT).at(1, n) for n in range(4)]
    low = [corners[n].minimum(corners[n + 2]) for n in (0, 1)]
    high = [corners[n].maximum(corners[n + 2]) for n in (0, 1)]
    area = (high[0] - low[0]) * (high[1] - low[1])
    now = scores.cast(FLOAT)
    positive = least.known is not None and bool((least.known >= 0).all())
    if total is not None and limit and total * total <= _MOST_COMPARED and total <= max(_WIDE * limit, _FEW):
        every = [t.expand_dims(0) for t in (*low, *high, area)]
        one = [t.expand_dims(1) for t in (*low, *high, area)]
        # All overlaps at once: one Exp for all pairs. A chosen box multiplies itself by 0.
        rows = _factors(every, one, sigma) * (1 - np.eye(total))
        most = min(limit, total)
        if most <= _MOST_UNROLLED and positive:
            return _unrolled(scores, rows, least, most, limit if padded else None)

        def by_row(now: Term, place: Term, rows: Term) -> Term:
            return now * rows.gather(place)

        chosen = _chosen(now, count, least, by_row, [rows], zeroes=positive)
    else:

        def lowered(now: Term, place: Term, *every: Term) -> Term:
            return now * _factors(every, [t.gather(place) for t in every], sigma)

        chosen = _chosen(now, count, least, lowered, [*low, *high, area])
    at, kept, valid = chosen
    if not padded:
        at, kept = (first_of(t, as_index(valid)) for t in (at, kept))
    return at, kept.cast(scores.dtype), valid


def _factors(every: Sequence[Term], one: Sequence[Term], sigma: float) -> Term:
    """exp(-overlap² / (2 sigma)) of boxes with others: low and high corners (y, x), and areas, of each."""
    sides = [(every[n + 2].minimum(one[n + 2]) - every[n].maximum(one[n])).maximum(0.0) for n in (0, 1)]
    shared = sides[0] * sides[1]
    # Without area nothing is shared: no more is needed than a union that can be divided by.
    overlap = shared / (every[4] + one[4] - shared).maximum(_TINY)
    # TensorFlow computes this factor in float32.
    return (overlap * overlap * float(np.float32(-0.5) / np.float32(sigma))).apply("Exp")


def _unrolled(scores: Term, rows: Term, least: Term, most: int, limit: int | None) -> tuple[Term, ...]:
    """Iterations without a loop.

    Scores above a limit from 0 only fall, so those that are chosen in vain stand behind all others.

    Args:
        rows: what the scores are multiplied by once a box is chosen [n,n].
        limit: the length of the result, None for what is filled.
    """
    now = scores.cast(FLOAT).expand_dims(0)
    at, kept = [], []
    # Everything keeps an axis of 1, by which the results are joined.
    for _ in range(most):
        place = now.argmax(1)
        at.append(place)
        kept.append(now.gather(place, 1))
        now = now * rows.gather(place)
    found, values = concat(at, 0), concat(kept, 1).reshape([most])
    above = values > least.cast(FLOAT)
    valid = above.cast(INT32).sum(0)
    if limit is None:
        return first_of(found, as_index(valid)), first_of(values, as_index(valid)).cast(scores.dtype), valid
    results = [where(above, t, 0) for t in (found, values.cast(scores.dtype))]
    return *(t.pad([(0, limit - most)]) if limit > most else t for t in results), valid


def _chosen(
    scores: Term, count: Term, least: Term, lowered: Lowered, fixed: Sequence[Term], *, zeroes: bool = False
) -> tuple[Term, Term, Term]:
    """The best box again and again, as long as it is above `least`.

    Gives indices int32 [count] and scores [count], zeros behind the last, and how many there are [].

    Args:
        scores: float [n].
        zeroes: whether `lowered` makes the score of the chosen box 0, and that is not above `least`.
    """

    def step(_: Term, now: Term, least: Term, *fixed: Term) -> tuple[list[Term], list[Term]]:
        place = now.argmax(0)
        after = lowered(now, place, *fixed)
        if not zeroes:
            after = where(arange(size_of(now)).cast(INT32).equal(place), -np.inf, after)
        return [after], [place, now.gather(place)]

    rows = [TensorSpec(INT32, ()), TensorSpec(FLOAT, ())]
    limit = None if count.known is None else int(count.known.reshape(()))
    times = count.reshape([]).cast(INT32) if limit is None else min(limit, scores.shape[0] or limit)
    _, (at, kept), number = while_loop(
        times, step, [scores], [least.reshape([]).cast(FLOAT), *fixed], rows,
        room=limit, goes_on=lambda now, least, *_: now.reduced("Max", 0) > least,
    )  # fmt: skip
    return at, kept, number


@decompose("NonMaxSuppressionWithOverlaps")
def nms_with_overlaps(overlaps: Term, scores: Term, count: Term, limit: Term, least: Term) -> Term:
    """The overlaps [n,n] are given instead of boxes."""
    refuse_unless(overlaps.shape[0] != 0, "there are no boxes")

    def lowered(now: Term, place: Term, overlaps: Term, most: Term) -> Term:
        return where(overlaps.gather(place, 1) > most, -np.inf, now)

    at, _, number = _chosen(scores.cast(FLOAT), count, least, lowered, [overlaps, limit.reshape([])])
    return first_of(at, as_index(number))
