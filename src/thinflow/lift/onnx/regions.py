"""ONNX's RoiAlign and MaxRoiPool: regions of pictures, each brought to one size."""

from __future__ import annotations

import numpy as np

from thinflow.decompose.terms import Term, concat, stack, where
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula, Size, counted, product, reshaped, scalar, size, vector
from thinflow.lift.onnx.values import bounded, opset, text
from thinflow.lift.rules import lifts

_HALF_PIXEL = 16
"""The version of ONNX's op set from which on RoiAlign counts from the middle of pixels."""


@lifts("onnx.RoiAlign")
def _roi_align(c: Call) -> Value:
    """Samples of each region [x, y, x, y], mixed of the four pixels around them: their mean or largest."""
    f = Formula(c)
    mode = text(c, "mode", "avg")
    default = "half_pixel" if opset(c) >= _HALF_PIXEL else "output_half_pixel"
    kind = text(c, "coordinate_transformation_mode", default)
    if mode not in {"avg", "max"}:
        raise UnsupportedOp(f"it pools by '{mode}'")
    if kind not in {"half_pixel", "output_half_pixel"}:
        raise UnsupportedOp(f"its coordinates go by '{kind}'")
    x, rois = f.operand(0), f.operand(1).cast(FLOAT)
    half, scale = 0.5 if kind == "half_pixel" else 0.0, float(c.get("spatial_scale", 1.0))
    outs = int(c.get("output_height", 1)), int(c.get("output_width", 1))
    ratio = int(c.get("sampling_ratio", 0))
    if min(outs) < 1 or ratio < 0:
        raise UnsupportedOp(f"it makes {outs[0]} x {outs[1]} pixels of {ratio} samples each")
    bounded(max(outs) * max(ratio, 1))
    axes = []
    for axis, out in enumerate(outs):
        start, end = (rois.at(1, column) * scale - half for column in (1 - axis, 3 - axis))
        span = end - start if half else (end - start).maximum(1.0)
        axes.append(_samples(f, start, span, out, ratio, size(x, axis + 2)))
    return _pooled(f, x, axes, mode)


class _Samples:
    """Pixels along one axis of each region, with their weights: [regions, out, samples * 2].

    Attributes:
        is_there: of samples whose number differs from region to region; None where all are there.
        count: how many there are, float [regions] or a number.
    """

    def __init__(self, at: Term, weights: Term, is_there: Term | None, count: Term | float) -> None:
        self.at, self.weights, self.is_there, self.count = at, weights, is_there, count


def _samples(f: Formula, start: Term, span: Term, out: int, ratio: int, length: Size) -> _Samples:
    bins = (span * (1 / out)).reshape([-1, 1, 1])
    begin = start.reshape([-1, 1, 1])
    rows = f.constant(np.arange(out)[None, :, None], FLOAT)
    is_there: Term | None = None
    count: Term | float
    if ratio:
        number: Term | float = float(ratio)
        samples: Size = ratio
        steps = f.constant(np.arange(ratio)[None, None], FLOAT)
        count = float(ratio)
    else:
        # As many as the region's part has pixels; all regions get the most of any, and count their own.
        count = (span * (1 / out)).apply("Ceil").maximum(0.0)
        number = count.reshape([-1, 1, 1]).maximum(1.0)
        samples = count.reduced("Max", 0).maximum(1.0).cast(INT32)
        steps = counted(f, samples).cast(FLOAT).reshape([1, 1, -1])
        is_there = steps < count.reshape([-1, 1, 1])
    places = begin + bins * rows + (steps + 0.5) * bins / number
    last = scalar(f, length).cast(FLOAT) - 1.0
    inside = ((places >= -1.0) & (places <= last + 1.0)).cast(FLOAT)
    near = places.clip(0.0, last)
    low = near.apply("Floor")
    share = near - low
    pixels = stack([low, (low + 1.0).minimum(last)], 3).cast(INT32)
    if is_there is not None:
        inside = inside * is_there.cast(FLOAT)
    weights = stack([(1.0 - share) * inside, share * inside], 3)
    shape = [size(start, 0), out, product([samples, 2])]
    if is_there is not None:
        both = is_there.cast(FLOAT) + places * 0.0
        is_there = reshaped(stack([both, both], 3), shape) > 0.5
    return _Samples(reshaped(pixels, shape), reshaped(weights, shape), is_there, count)


def _pooled(f: Formula, x: Term, axes: list[_Samples], mode: str) -> Value:
    """All pixels with all samples of both axes -> [regions, c, out, out]."""
    rows, columns = axes
    channels = size(x, 1)
    sizes = [size(rows.at, 0), *(size(a.at, n) for n in (1, 2) for a in axes)]

    # [regions, out of rows, out of columns, samples of rows, samples of columns].
    def spread(a: Term, b: Term) -> tuple[Term, Term]:
        return a.expand_dims(2).expand_dims(4), b.expand_dims(1).expand_dims(3)

    row, column = spread(rows.at, columns.at)
    image = f.operand(2).cast(INT32).reshape([-1, 1, 1, 1, 1])
    height, width = scalar(f, size(x, 2)), scalar(f, size(x, 3))
    at = (image * height + row) * width + column
    flat = reshaped(x.transpose((0, 2, 3, 1)), [product([size(x, n) for n in (0, 2, 3)]), channels])
    found = flat.gather(at.reshape([-1]))
    a, b = spread(rows.weights, columns.weights)
    weighted = found * reshaped((a * b).cast(x.dtype), [product(sizes), 1])
    taps = product(sizes[3:])
    each = reshaped(weighted, [product(sizes[:3]), taps, channels])
    y = _largest(each, rows, columns, sizes, spread) if mode == "max" else each.sum(1)
    y = reshaped(y, [*sizes[:3], channels])
    if mode == "avg":
        y = _mean(y, rows, columns, x)
    return y.transpose((0, 3, 1, 2)).value


def _mean(y: Term, rows: _Samples, columns: _Samples, x: Term) -> Term:
    if isinstance(rows.count, Term) and isinstance(columns.count, Term):
        counts = (rows.count * columns.count).maximum(1.0).cast(x.dtype)
        return y / counts.reshape([-1, 1, 1, 1])
    assert not isinstance(rows.count, Term)
    assert not isinstance(columns.count, Term)
    return y * (1 / (rows.count * columns.count))


def _largest(each: Term, rows: _Samples, columns: _Samples, sizes: list[Size], spread: object) -> Term:
    """The largest weighted pixel of the samples that are there; 0 of none."""
    if rows.is_there is None or columns.is_there is None:
        return each.reduced("Max", 1)
    assert callable(spread)
    a, b = spread(rows.is_there, columns.is_there)
    is_there = reshaped(a & b, [product(sizes[:3]), product(sizes[3:]), 1])
    low = float(np.finfo(each.dtype.numpy()).min)
    most = where(is_there, each, low).reduced("Max", 1)
    some = is_there.cast(FLOAT).reduced("Max", 1) > 0.5
    return where(some, most, 0.0)


@lifts("onnx.MaxRoiPool")
def _max_roi_pool(c: Call) -> Value:
    """The largest pixel of each part of a region [image, x, y, x, y], whose ends are rounded to pixels."""
    f = Formula(c)
    x, rois = f.operand(0), f.operand(1)
    outs, scale = list(c.get("pooled_shape") or ()), float(c.get("spatial_scale", 1.0))
    if len(outs) != 2 or min(outs) < 1 or len(x.shape) != 4:
        raise UnsupportedOp(f"its regions have {len(outs)} sizes, not 2 above 0")
    bounded(max(outs))
    pictures = x.transpose((0, 2, 3, 1)).gather(rois.at(1, 0).cast(INT32))
    regions, channels = size(rois, 0), size(x, 1)
    for axis, out in enumerate(outs):
        start, end = (_rounded(rois.at(1, column) * scale) for column in (2 - axis, 4 - axis))
        length = size(x, axis + 2)
        bins = (end - start + 1.0).maximum(1.0).reshape([-1, 1]) / float(out)
        part = f.constant(np.arange(out)[None], x.dtype)
        last = scalar(f, length).cast(x.dtype)
        begin = ((part * bins).apply("Floor") + start.reshape([-1, 1])).clip(0.0, last).expand_dims(2)
        stop = (((part + 1.0) * bins).apply("Ceil") + start.reshape([-1, 1])).clip(0.0, last).expand_dims(2)
        pixel = counted(f, length).cast(x.dtype).reshape([1, 1, -1])
        inside = (pixel >= begin) & (pixel < stop)
        # [regions, out, length, rest, c] of what is left of both axes.
        if axis == 0:
            rest = size(x, 3)
            seen = reshaped(pictures, [regions, 1, length, product([rest, channels])])
            mask = inside.expand_dims(3)
            largest = where(mask, seen, float("-inf")).reduced("Max", 2)
            pictures = reshaped(largest, [regions, outs[0], rest, channels])
        else:
            seen = reshaped(pictures, [regions, outs[0], 1, length, channels])
            mask = reshaped(inside, [regions, 1, out, length, 1])
            pictures = where(mask, seen, float("-inf")).reduced("Max", 3)
    # Of no pixel the largest is 0.
    y = where(pictures.equal(float("-inf")), 0.0, pictures)
    return y.transpose((0, 3, 1, 2)).value


def _rounded(x: Term) -> Term:
    """To the nearest whole number, halves away from 0."""
    return x.apply("Sign") * (x.abs() + 0.5).apply("Floor")


@lifts("onnx.CenterCropPad")
def _center_crop_pad(c: Call) -> Value:
    """The middle of axes that are too long, zeros around those that are too short."""
    f = Formula(c)
    x = f.operand(0)
    count = len(x.shape)
    named = c.get("axes")
    axes = [int(a) % count for a in (named if named is not None else range(count))]
    wanted = f.operand(1).elements
    if wanted is None or len(wanted) != len(axes) or len(set(axes)) < len(axes):
        raise UnsupportedOp("its sizes are computed, or do not fit its axes")
    begins: list[Size] = [0] * count
    sizes: list[Size] = [size(x, n) for n in range(count)]
    pads: list[tuple[Size, Size]] = [(0, 0)] * count
    shape = list(sizes)
    for at, (n, new) in enumerate(zip(axes, wanted, strict=True)):
        goal: Size = f.operand(1).at(0, at).cast(INT32) if new is None else new
        shape[n] = goal
        more, less = _above(goal, sizes[n]), _above(sizes[n], goal)
        begins[n], pads[n] = _half(less), (_half(more), more - _half(more))
        sizes[n] = sizes[n] - less
    y = x
    if any(b != 0 for b in begins) or sizes != [size(x, n) for n in range(count)]:
        y = f.add("Slice", [x.value, vector(f, begins).value, vector(f, sizes).value])[0]
    if any(p != (0, 0) for p in pads):
        table = concat([vector(f, list(p)).reshape([1, 2]) for p in pads], 0)
        y = f.add("Pad", [y.value, table.value])[0]
    return (y.apply("Identity") if y is x else y).value


def _above(a: Size, b: Size) -> Size:
    """By how much one size is above another; 0 if it is not."""
    if not isinstance(a, Term) and not isinstance(b, Term):
        return max(a - b, 0)
    return (a - b).maximum(0)  # type: ignore[union-attr]


def _half(n: Size) -> Size:
    return n.apply("FloorDiv", 2) if isinstance(n, Term) else n // 2
