"""StableHLO's padding and windows, which may dilate what they read, and LiteRT's own forms of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.lift.lifter import Call
from thinflow.lift.rules import lifts
from thinflow.tflite.counterparts import Kind, same_in_tensorflow

_MOST_PARTS = 256
"""Slices that a window may be taken apart into, over all axes."""


def _numbers(c: Call, option: str, count: int) -> tuple[int, ...]:
    found = tuple(c.get(option) or ())
    if len(found) != count:
        raise UnsupportedOp(f"its {option} are {len(found)} numbers for {count} axes")
    return found


def dilated(c: Call, x: Value, sizes: Sequence[int], steps: Sequence[int], filler: Value) -> Value:
    """x with steps - 1 elements of a scalar between neighbours, along every axis."""
    if any(n < 1 for n in steps) or math.prod(n * s for n, s in zip(sizes, steps, strict=True)) > 1 << 31:
        raise UnsupportedOp("its dilations are no positive numbers, or too large")
    left = list(sizes)
    for axis, step in enumerate(steps):
        if step == 1 or left[axis] < 1:
            continue
        # [before, n, 1, after] gets its filling behind each of the n, of which the last is cut off again.
        before, after = math.prod(left[:axis]), math.prod(left[axis + 1 :])
        apart = c.emit("Reshape", x, c.constant((before, left[axis], 1, after)), Tshape=INT32)
        widths = c.constant(np.array([[0, 0], [0, 0], [0, step - 1], [0, 0]], np.int32))
        full = c.emit("PadV2", apart, widths, filler, Tpaddings=INT32)
        flat = c.emit("Reshape", full, c.constant((before, left[axis] * step, after)), Tshape=INT32)
        left[axis] = (left[axis] - 1) * step + 1
        kept = c.constant((before, left[axis], after))
        cut = c.emit("Slice", flat, c.constant((0, 0, 0)), kept, Index=INT32)
        x = c.emit("Reshape", cut, c.constant(tuple(left)), Tshape=INT32)
    return x


def padded(c: Call, x: Value, sizes: Sequence[int], ends: Sequence[tuple[int, int]], filler: Value) -> Value:
    """x with so many elements of a scalar before and behind it on each axis; negative numbers cut off."""
    widths = [(max(low, 0), max(high, 0)) for low, high in ends]
    if any(map(any, widths)):
        x = c.emit("PadV2", x, c.constant(np.array(widths, np.int32)), filler, Tpaddings=INT32)
    if any(low < 0 or high < 0 for low, high in ends):
        begin = tuple(max(-low, 0) for low, _ in ends)
        size = tuple(max(n + low + high, 0) for n, (low, high) in zip(sizes, ends, strict=True))
        x = c.emit("Slice", x, c.constant(begin), c.constant(size), Index=INT32)
    return x


@lifts("tfl.DILATE")
def dilate(c: Call) -> Value:
    """DILATE: x, the step of each axis, and what to put between."""
    return c.emit("Identity", dilated(c, c[0], c.sizes(0), c.known(1).ravel().tolist(), _scalar(c, c[2])))


@lifts("tfl.STABLEHLO_PAD")
def pad(c: Call) -> Value:
    """STABLEHLO_PAD: elements between neighbours first, then at the ends."""
    sizes = c.sizes(0)
    low, high, inside = (
        _numbers(c, option, len(sizes))
        for option in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    filler, steps = _scalar(c, c[1]), [n + 1 for n in inside]
    x = dilated(c, c[0], sizes, steps, filler)
    wide = [max((n - 1) * s + 1, 0) for n, s in zip(sizes, steps, strict=True)]
    return c.emit("Identity", padded(c, x, wide, list(zip(low, high, strict=True)), filler))


def _scalar(c: Call, x: Value) -> Value:
    """An operand of one element as a scalar."""
    return x if x.spec.shape == () else c.emit("Reshape", x, c.constant(()), Tshape=INT32)


def computed_by(c: Call, option: str) -> str:
    """The elementwise op of TensorFlow that a subgraph of two arguments consists of.

    Raises:
        UnsupportedOp: it computes anything else.
    """
    body = c.body(option)
    steps = [n for n in body.graph if n.op.startswith("tfl.")]
    known = same_in_tensorflow(Kind.STABLEHLO) | same_in_tensorflow(Kind.BINARY)
    code = steps[0].op.removeprefix("tfl.") if steps else ""
    logical = {"STABLEHLO_AND": "LogicalAnd", "STABLEHLO_OR": "LogicalOr"}
    op = (known | logical).get(code)
    if len(steps) != 1 or op is None or set(steps[0].inputs) != set(body.inputs) or len(body.inputs) != 2:
        raise UnsupportedOp("its subgraph is not one elementwise op")
    return op


def reduced(
    c: Call, op: str, x: Value, window: Sequence[int], strides: Sequence[int], steps: Sequence[int]
) -> Value:
    """A reduction over windows: along one axis after the other, as the joined slices of that axis."""
    if min((*window, *strides, *steps), default=1) < 1 or sum(window) > _MOST_PARTS:
        raise UnsupportedOp("its windows are too large, or empty")
    rank = len(window)
    for axis in range(rank):
        shape = x.spec.shape
        size = shape[axis] if shape is not None else None
        if size is None:
            raise UnsupportedOp("the sizes of its operand 0 are not known")
        if window[axis] == 1 and strides[axis] == 1:
            continue
        count = (size - (window[axis] - 1) * steps[axis] - 1) // strides[axis] + 1
        parts = []
        for n in range(window[axis]):
            begin, end, step = [0] * rank, [0] * rank, [1] * rank
            begin[axis], step[axis] = n * steps[axis], strides[axis]
            end[axis] = n * steps[axis] + max(count - 1, -1) * strides[axis] + 1
            whole = sum(1 << k for k in range(rank) if k != axis)
            ends = (c.constant(tuple(numbers)) for numbers in (begin, end, step))
            parts.append(c.emit("StridedSlice", x, *ends, Index=INT32, begin_mask=whole, end_mask=whole))
        x = parts[0]
        for part in parts[1:]:
            x = c.emit(op, x, part)
    return x


def _spread(c: Call, x: Value, op: str, init: Value) -> Value:
    """The first value, which takes part in every window."""
    return c.emit(op, x, init)


@lifts("tfl.STABLEHLO_REDUCE_WINDOW")
def reduce_window(c: Call) -> Value:
    """STABLEHLO_REDUCE_WINDOW: x dilated and padded with the first value, which every window begins with."""
    sizes = c.sizes(0)
    rank, init = len(sizes), _scalar(c, c[1])
    window = _numbers(c, "window_dimensions", rank)
    strides, base, steps = (
        tuple(c.get(option) or (1,) * rank)
        for option in ("window_strides", "base_dilations", "window_dilations")
    )
    ends = tuple(c.get("padding") or (0,) * 2 * rank)
    op = computed_by(c, "body_subgraph_index")
    x = dilated(c, c[0], sizes, base, init)
    wide = [max((n - 1) * s + 1, 0) for n, s in zip(sizes, base, strict=True)]
    x = padded(c, x, wide, list(zip(ends[::2], ends[1::2], strict=True)), init)
    return _spread(c, reduced(c, op, x, window, strides, steps), op, init)


@lifts("tfl.REDUCE_WINDOW")
def own_reduce_window(c: Call) -> Value:
    """REDUCE_WINDOW: x, the first value, and windows, strides and dilations as operands."""
    function = c.get("reduce_function", "UNSUPPORTED")
    code = {"ALL": "LOGICAL_AND", "ANY": "LOGICAL_OR"}.get(function, function)
    op = same_in_tensorflow(Kind.BINARY).get(code)
    if op is None:
        raise UnsupportedOp("how it reduces is not known")
    window, strides, steps = (c.known(n).ravel().tolist() for n in (2, 3, 4))
    init = _scalar(c, c[1])
    return _spread(c, reduced(c, op, c[0], window, strides, steps), op, init)


@lifts("tfl.STABLEHLO_REDUCE")
def reduce(c: Call) -> Value:
    """STABLEHLO_REDUCE: over whole axes, from a first value."""
    if len(c.xs) != 2:
        raise UnsupportedOp("it reduces several operands at once")
    op = computed_by(c, "body_subgraph_index")
    whole = {
        "AddV2": "Sum",
        "Mul": "Prod",
        "Minimum": "Min",
        "Maximum": "Max",
        "LogicalAnd": "All",
        "LogicalOr": "Any",
    }
    if op not in whole:
        raise UnsupportedOp("its subgraph is no reduction that is known here")
    axes = c.constant(tuple(c.get("dimensions") or ()))
    return c.emit(op, c.emit(whole[op], c[0], axes, keep_dims=False, Tidx=INT32), _scalar(c, c[1]))
