"""The places of maxima that ONNX's MaxPool gives beside them, and MaxUnpool, which puts values back there."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.terms import Term, stack
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, Size, counted, product, reshaped, scalar, size, vector
from thinflow.lift.onnx.values import channels_first, numbers, rank
from thinflow.lift.onnx.windows import VOLUME, Window, as_line, as_picture, window
from thinflow.lift.rules import lifts

_MOST_TAPS = 1 << 9
"""Elements of a window that are looked at side by side."""


def places_of_maxima(c: Call, x: Value, win: Window, *, is_same: bool) -> list[Value]:
    """Maxima and their places in the flat operand, int64, of pictures [n, ..., c] that are padded already."""
    lengths = [n for n in win.sizes if n is not None]
    if len(lengths) < win.rank:
        raise UnsupportedOp("the places of its maxima are read, and the sizes of its input are open")
    # By how much a place grows with each step along an axis.
    steps = [int(np.prod(lengths[axis + 1 :])) for axis in range(win.rank)]
    if c.flag("storage_order"):
        steps = [int(np.prod(lengths[:axis])) for axis in range(win.rank)]
    f = Formula(c)
    if win.has_gaps or win.rank == VOLUME:
        y, within = _by_taps(f, f.term(x), win, steps)
    else:
        y, within = _by_argmax(f, f.term(x), win, steps, is_same=is_same)
    count = rank(c)
    places = f.term(channels_first(c, within.value, count))
    picture = f.operand(0)
    # Numbers of channels, all pictures' one behind the other.
    batch, channels = size(picture, 0), size(picture, 1)
    row = reshaped(counted(f, product([batch, channels])), [batch, channels, *[1] * win.rank])
    return [channels_first(c, y.value, count), (places + row * int(np.prod(lengths))).cast(INT64).value]


def _by_taps(f: Formula, x: Term, win: Window, steps: list[int]) -> tuple[Term, Term]:
    """All elements of the window side by side; the first of equal ones wins."""
    taps = list(np.ndindex(*win.kernel))
    if len(taps) > _MOST_TAPS:
        raise UnsupportedOp(
            f"the places of its maxima are read, in windows of more than {_MOST_TAPS} elements"
        )
    seen = [x.slice({a + 1: win.under(a, at) for a, at in enumerate(tap)}) for tap in taps]
    together = stack(seen, -1)
    offsets = np.array(taps) * win.dilations @ np.array(steps)
    first = f.constant(offsets, INT32).gather(together.argmax(-1))
    return together.reduced("Max", -1), first + _corners(f, win, steps)


def _corners(f: Formula, win: Window, steps: list[int]) -> Term:
    """The place of the first pixel of each window, [1, *windows, 1], were it there."""
    total = np.zeros((), np.int64)
    for out, stride, (before, _), step in zip(win.counts(), win.strides, win.whole, steps, strict=True):
        total = total[..., None] + (np.arange(out) * stride - before) * step
    return f.constant(total[None, ..., None], INT32)


def _by_argmax(f: Formula, x: Term, win: Window, steps: list[int], *, is_same: bool) -> tuple[Term, Term]:
    """By TensorFlow's op, which counts rows, columns, then channels of the padded picture."""
    c, kernel, strides = f.call, win.kernel, win.strides
    line = win.rank == 1
    if line:
        x, kernel, strides = f.term(as_picture(c, x.value)), (1, *kernel), (1, *strides)
    node = c.many(
        "MaxPoolWithArgmax", x.value, ksize=(1, *kernel, 1), strides=(1, *strides, 1),
        padding="SAME" if is_same else "VALID", Targmax=INT32, include_batch_in_index=False,
    )  # fmt: skip
    y, place = (f.term(as_line(c, node.output(i)) if line else node.output(i)) for i in (0, 1))
    flat = place.apply("FloorDiv", scalar(f, size(x, 3)))
    borders = [(0, 0)] * win.rank if is_same else win.whole
    if line:
        return y, flat - borders[0][0]
    width = (win.sizes[1] or 0) + sum(borders[1])
    if not any(map(any, borders)) and steps == [width, 1]:
        return y, flat
    row, column = flat.apply("FloorDiv", width), flat.apply("FloorMod", width)
    return y, (row - borders[0][0]) * steps[0] + (column - borders[1][0]) * steps[1]


@lifts("onnx.MaxUnpool", ignores=("kernel_shape",))
def _max_unpool(c: Call) -> Value:
    """Values at places of the flat result, zeros elsewhere."""
    kernel = c.get("kernel_shape") or ()
    win = window(c, list(kernel))
    f = Formula(c)
    x, places = f.operand(0), f.operand(1)
    whole: list[Size] = [size(x, 0), size(x, 1)]
    whole += [_unpooled(x, win, axis) for axis in range(win.rank)]
    total = vector(f, [product(whole)])
    flat, at = x.reshape([-1]), places.reshape([-1, 1])
    if _are_distinct(c):
        y = f.add("ScatterNd", [at.value, flat.value, total.cast(INT64).value])[0]
    else:
        zeros = f.add("Fill", [total.value, x.of(0).value])[0]
        y = f.add("TensorScatterUpdate", [zeros.value, at.value, flat.value])[0]
    return _widened(c, reshaped(y, whole), whole)


def _unpooled(x: Term, win: Window, axis: int) -> Size:
    """The size from which so many windows come."""
    return (size(x, axis + 2) - 1) * win.strides[axis] + win.kernel[axis] - sum(win.pads[axis])


def _are_distinct(c: Call) -> bool:
    """True if no place can be named twice: they come from a pool whose windows do not overlap."""
    source = c.sources[1]
    if source is None or source.node.op != "onnx.MaxPool":
        return False
    kernel = source.node.get("kernel_shape") or ()
    strides = source.node.get("strides") or (1,) * len(kernel)
    gaps = source.node.get("dilations") or (1,) * len(kernel)
    return set(gaps) == {1} and all(s >= k for s, k in zip(strides, kernel, strict=True))


def _widened(c: Call, y: Term, sizes: list[Size]) -> Value:
    """In the corner of a larger result where a size is stated."""
    wanted = numbers(c, "", 2) if c.has(2) else None
    if wanted is None:
        return y.value
    known = [n for n in sizes if not isinstance(n, Term)]
    if len(known) < len(sizes) or len(wanted) != len(known):
        raise UnsupportedOp("the size of its result is stated, and those of its input are open")
    more = [(0, w - n) for w, n in zip(wanted, known, strict=True)]
    if min(n for _, n in more) < 0:
        raise UnsupportedOp("its stated result is smaller than its windows reach")
    return y.pad(more).value if any(map(any, more)) else y.value
