"""Choosing boxes."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT, INT32
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, shape_of
from thinflow.program.model import Dims
from thinflow.tflite.model import Tensor

_FAR = 2.0**20


def _apart(b: Builder, boxes: Tensor, iou: Tensor) -> Tensor:
    """Boxes that overlap nothing moved far away, each to a place of its own.

    These are those without area, and all where the limit is 1 or more. LiteRT drops what it has chosen since
    it overlaps itself, and would else choose it again and again.
    """
    count = shape_of(boxes, "the boxes", 2)[0]
    far = _far(b, boxes, count)
    if iou.is_constant and float(np.asarray(iou.array()).reshape(())) >= 1:
        return far
    low, high = (
        b.step("SLICE", boxes, b.ints([0, at], "begin"), b.ints([-1, 2], "size"), shape=(count, 2))
        for at in (0, 2)
    )
    sides = b.step("SUB", high, low, shape=(count, 2))
    area = b.step("REDUCE_PROD", sides, b.ints([1], "axis"), shape=(count, 1), keep_dims=True)
    moved = b.step("EQUAL", area, b.scalar(0, area, "zero"), shape=(count, 1), element=BOOL)
    if not iou.is_constant:
        all_of_them = b.step("GREATER_EQUAL", iou, b.const(np.float32(1), "one"), shape=(), element=BOOL)
        moved = b.step("LOGICAL_OR", moved, all_of_them, shape=(count, 1), element=BOOL)
    return b.step("SELECT_V2", moved, far, boxes, shape=boxes.shape, element=boxes.dtype)


def _far(b: Builder, boxes: Tensor, count: int | None) -> Tensor:
    """A place for each box [count,4], 4 apart from the next."""
    # float32 numbers from 2**20 on are 1/8 apart, and whole up to 2**24: boxes of side 1 stay exact, and
    # no box of an image comes near.
    corners = np.array([[0, 0, 1, 1]], np.float32) + np.float32(_FAR)
    if count is not None:
        return b.const(corners + 4 * np.arange(count, dtype=np.float32)[:, None], "far")
    ends = b.const(np.int32(0), "start"), _length(b, boxes), b.const(np.int32(1), "delta")
    numbers = b.reshaped(b.cast(b.step("RANGE", *ends, shape=(None,)), FLOAT), (None, 1))
    apart = b.step("MUL", numbers, b.const(np.float32(4), "apart"), shape=(None, 1))
    return b.step("ADD", apart, b.const(corners, "corners"), shape=(None, 4))


def choose(
    b: Builder,
    boxes: Tensor,
    scores: Tensor,
    limit: Tensor,
    iou: Tensor,
    least: Tensor,
    *,
    is_sorted: bool = False,
) -> tuple[Tensor, Tensor]:
    """Places of the boxes that are kept, int32 [limit], and how many there are []; behind them is anything.

    LiteRT takes boxes of equal scores in any order, TensorFlow the first one first; and LiteRT drops a box
    whose overlap equals the limit, which TensorFlow keeps. So the boxes are sorted before and get their rank
    for a score, and the limit is one step higher.

    Args:
        is_sorted: the scores fall, and no two above `least` are equal.
    """
    iou = b.reshaped(iou, ())
    operands = (b.reshaped(limit, ()), _above(b, iou))
    least, count = b.reshaped(least, ()), shape_of(scores, "the scores", 1)[0]
    size: Dims = b.elements(limit)
    if is_sorted:
        ranks, order, rest = scores, None, (*operands, least)
    else:
        k = b.const(np.int32(count), "count") if count is not None else _length(b, scores)
        values, order = b.step_ports(
            "TOPK_V2", scores, k, shapes=[(count,)] * 2, elements=[scores.dtype, INT32], suffix="sorted"
        )
        # Now places are ranks; `order` leads back from them at the end.
        boxes = b.step("GATHER", boxes, order, shape=(count, 4), axis=0)
        order = with_one_more(b, order)
        # count ... 1 for scores above the threshold, -1 for others: all that the kernel sees is the order,
        # and 0 parts both.
        ranks = _where_above(b, values, least, _falling(b, count, k))
        rest = (*operands, b.const(np.float32(0), "none"))
    places, valid = b.step_ports(
        "NON_MAX_SUPPRESSION_V4",
        _apart(b, boxes, iou),
        ranks,
        *rest,
        shapes=[size, ()],
        elements=[INT32, INT32],
        suffix="selected",
    )
    return (places if order is None else b.step("GATHER", order, places, shape=size, axis=0)), valid


def with_one_more(b: Builder, x: Tensor) -> Tensor:
    """A list with a zero behind it where it may be empty: places that are not filled read its first item."""
    if (x.shape or (None,))[0]:
        return x
    return b.step("CONCATENATION", x, b.const(np.zeros(1, x.dtype.numpy()), "one"), shape=(None,), axis=0)


def _length(b: Builder, x: Tensor) -> Tensor:
    """The size of the first axis []."""
    sizes = b.step("SHAPE", x, shape=(len(shape_of(x)),), element=INT32, out_type=INT32)
    return b.reshaped(b.step("SLICE", sizes, b.ints([0], "begin"), b.ints([1], "size"), shape=(1,)), ())


def _falling(b: Builder, count: int | None, k: Tensor) -> Tensor:
    """count, count - 1, ... 1 as floats."""
    if count is not None:
        return b.const(np.arange(count, 0, -1, dtype=np.float32), "ranks")
    ends = b.const(np.int32(0), "end"), b.const(np.int32(-1), "delta")
    return b.cast(b.step("RANGE", k, *ends, shape=(None,)), FLOAT)


def _where_above(b: Builder, values: Tensor, least: Tensor, ranks: Tensor) -> Tensor:
    above = b.step("GREATER", values, least, shape=values.shape, element=BOOL)
    shape = values.shape
    return b.step("SELECT_V2", above, ranks, b.const(np.float32(-1), "out"), shape=shape, element=FLOAT)


def _above(b: Builder, iou: Tensor) -> Tensor:
    """The smallest number above a limit: at least that is more than the limit. At most 1; see `_apart`."""
    tiny, one = np.finfo(np.float32).tiny, np.float32(1)
    if iou.is_constant:
        limit = np.float32(np.asarray(iou.array()).reshape(()))
        # At least the smallest normal number: subnormal ones may be taken for 0.
        return b.const(np.clip(np.nextafter(limit, np.float32(np.inf)), tiny, one), "iou")
    # More than half a step, and less than one, whatever the limit's digits.
    part = b.const(np.nextafter(np.float32(2.0**-24), one), "part")
    next_one = b.step("ADD", iou, b.step("MUL", iou, part, shape=()), shape=())
    next_one = b.step("MAXIMUM", next_one, b.const(tiny, "tiny"), shape=())
    return b.step("MINIMUM", next_one, b.const(one, "one"), shape=())


def _is_kept(b: Builder, limit: Tensor, valid: Tensor) -> Tensor:
    """A mask of the places that are filled: bool [limit]."""
    size = b.elements(limit)
    if size is not None and size[0] is not None:
        order = b.const(np.arange(size[0], dtype=np.int32), "order")
    else:
        ends = b.const(np.int32(0), "start"), b.reshaped(limit, ()), b.const(np.int32(1), "delta")
        order = b.step("RANGE", *ends, shape=(None,))
    return b.step("LESS", order, valid, shape=size, element=BOOL)


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
    _is_sorted: bool = False,
) -> tuple[Tensor, ...]:
    places, valid = choose(b, boxes, scores, count, iou, score, is_sorted=_is_sorted)
    # LiteRT fills up to the limit with anything; TensorFlow pads with zeros, or hands out what is chosen
    # only.
    if pad_to_max_output_size:
        is_kept = _is_kept(b, count, valid)
        return b.emit("SELECT_V2", is_kept, places, b.scalar(0, places, "nothing")), valid
    return b.emit("SLICE", places, b.ints([0], "begin"), b.reshaped(valid, (1,))), valid
