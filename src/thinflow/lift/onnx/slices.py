"""ONNX's Slice and Split in TensorFlow's words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.gathers import normal_axis
from thinflow.lift.onnx.sizes import Size, counted, scalar, settled, size, sizes_of, times, vector
from thinflow.lift.onnx.values import integers, rank
from thinflow.lift.rules import lifts

_INT64_MOST = (1 << 63) - 1
# Exporters write about the least number of 32 or 64 bits for "to the beginning", and the largest for "to the
# end"; no axis is that long.
_FAR = 1 << 30


@lifts("onnx.Split")
def _split(c: Call) -> list[Value]:
    """Into parts of sizes that are given, else equal ones, of which the last may be smaller."""
    count, axis = len(c.node.outputs), normal_axis(c, 0, rank(c))
    if c.get("num_outputs", count) != count:
        raise UnsupportedOp("not all of its parts have names")
    if count == 1:
        # Its size says nothing that the input's does not.
        c.has(1)
        c.get("split")
        return [c.emit("Identity", c[0])]
    node = c.many("SplitV", c[0], _parts(c, count, axis), c.constant(axis), num_split=count)
    return [node.output(i) for i in range(count)]


def _parts(c: Call, count: int, axis: int) -> Value:
    """The sizes of the parts."""
    if c.has(1):
        return settled(c, 1)
    given = c.get("split")
    if given is not None:
        return integers(c, given)
    whole = size(c, c[0], axis)
    if isinstance(whole, int):
        each = -(-whole // count)
        return integers(c, [max(min(each, whole - i * each), 0) for i in range(count)])
    up = c.emit("AddV2", scalar(c, whole), integers(c, count - 1))
    part = c.emit("FloorDiv", up, integers(c, count))
    rest = c.emit("Sub", scalar(c, whole), scalar(c, times(c, part, count - 1)))
    return vector(c, [*[part] * (count - 1), rest])


@lifts("onnx.Slice")
def _slice(c: Call) -> Value:
    """Begins, ends, axes and steps may be computed."""
    if not c.has(1):  # options, as before version 10
        starts, ends = (integers(c, c.get(option, ())) for option in ("starts", "ends"))
        axes: Sequence[int] = c.get("axes") or range(len(c.get("starts", ())))
        steps = integers(c, [1] * len(axes))
        return _strided(c, axes, starts, ends, steps)
    starts, ends = settled(c, 1), settled(c, 2)
    steps = settled(c, 4) if c.has(4) else c.emit("OnesLike", starts)
    axes_of = settled(c, 3) if c.has(3) else counted(c, size(c, starts, 0))
    content = c.content(axes_of)
    if content is None:
        return _scattered(c, axes_of, starts, ends, steps)
    return _strided(c, content.reshape(-1).tolist(), starts, ends, steps)


@lifts("onnx.Crop")
def _crop(c: Call) -> Value:
    """Crop of versions before 10: left, top, right and bottom borders of pictures, or two and a size."""
    border, wanted = (tuple(c.get(option) or ()) for option in ("border", "scale"))
    if rank(c) != 4 or len(border) != 4 or len(wanted) not in (0, 2) or min(*border, *wanted) < 0:
        raise UnsupportedOp(f"it cuts borders {list(border)} off")
    left, top, right, bottom = border
    starts = (top, left)
    # An end of 0 would take nothing.
    ends = [-n if n else _INT64_MOST for n in (bottom, right)]
    if wanted:
        ends = [start + n for start, n in zip(starts, wanted, strict=True)]
    return _strided(c, (2, 3), integers(c, starts), integers(c, ends), integers(c, (1, 1)))


def _strided(c: Call, axes: Sequence[int], starts: Value, ends: Value, steps: Value) -> Value:
    count = rank(c)
    if not all(-count <= a < count for a in axes) or len({a % count for a in axes}) < len(axes):
        raise UnsupportedOp(f"its axes {list(axes)} are not those of {count} dimensions")
    places = {axis % count: i for i, axis in enumerate(axes)}
    begin, end, stride = (
        vector(c, [_piece(c, values, places.get(axis), fill) for axis in range(count)])
        for values, fill in ((starts, 0), (ends, _INT64_MOST), (steps, 1))
    )
    return _cut(c, begin, end, stride)


def _cut(c: Call, begin: Value, end: Value, stride: Value) -> Value:
    ends, steps = c.content(end), c.content(stride)
    # To the very beginning of an axis that is walked backwards, which an end of -1 would not say; and to the
    # end, however long the axis is.
    masks = 0
    if ends is not None and steps is not None:
        open_end = np.where(steps < 0, ends <= -_FAR, ends >= _FAR)
        masks = sum(1 << i for i in np.flatnonzero(open_end).tolist())
        end = integers(c, np.where(open_end, 0, ends))
    return c.emit(
        "StridedSlice", c[0], _begun(c, begin, stride), end, stride, end_mask=masks,
        begin_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0,
    )  # fmt: skip


def _begun(c: Call, begin: Value, stride: Value) -> Value:
    """Begins, of which one in front of an axis that is walked backwards means its first element."""
    begins, steps = c.content(begin), c.content(stride)
    # TensorFlow takes nothing then. The last element, -1, is never in front.
    if (steps is not None and (steps > 0).all()) or (
        begins is not None and steps is not None and ((steps > 0) | (begins >= -1)).all()
    ):
        return begin
    first = c.emit("Neg", vector(c, sizes_of(c, c[0], rank(c))))
    at_least = c.emit("Maximum", begin, first)
    chosen = c.emit("SelectV2", c.emit("Less", stride, integers(c, 0)), at_least, begin)
    content = c.content(chosen)
    return chosen if content is None else integers(c, content)


def _piece(c: Call, values: Value, place: int | None, fill: int) -> Size:
    """One number of a vector: known, or cut out of what is computed."""
    if place is None:
        return fill
    elements, content = values.spec.elements, c.content(values)
    known = elements[place] if content is None and elements is not None else None
    if content is not None or known is not None:
        return int(content.reshape(-1)[place]) if content is not None else int(known or 0)
    return c.emit("GatherV2", values, c.constant(place), c.constant(0), batch_dims=0)


def _scattered(c: Call, axes: Value, starts: Value, ends: Value, steps: Value) -> Value:
    """The slice along axes that the graph computes: all numbers go to the places of theirs."""
    count = rank(c)
    rows = c.emit("Reshape", c.emit("FloorMod", axes, integers(c, count)), integers(c, (-1, 1)))
    whole = [np.full(count, fill, np.int64) for fill in (0, _INT64_MOST, 1)]
    begin, end, stride = (
        c.emit("TensorScatterUpdate", integers(c, filled), rows, values)
        for filled, values in zip(whole, (starts, ends, steps), strict=True)
    )
    return _cut(c, begin, end, stride)
