"""ONNX's reductions and running sums in TensorFlow's words."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Value
from thinflow.ir.types import BOOL, DOUBLE, INT64
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.sizes import settled
from thinflow.lift.onnx.values import integers, like, numbers, rank, typed
from thinflow.lift.rules import Rule, lifts, lifts_counterparts
from thinflow.onnx.operators import Trait, same_in_tensorflow


def reduction_axes(c: Call) -> Value | None:
    """The axes that a reduction goes over; None for none at all.

    Options before version 13 or 18, an input since; left out means all, or none by `noop_with_empty_axes`.
    """
    keeps = c.flag("noop_with_empty_axes")
    if c.has(1) and c.content(c[1]) is None and c[1].spec.size != 0:
        return _computed_axes(c, bool(keeps))
    axes = numbers(c, "axes", 1 if c.has(1) and c[1].spec.size != 0 else None)
    if axes:
        return integers(c, axes)
    if keeps:
        return None
    if c[0].spec.shape is not None:
        return integers(c, tuple(range(rank(c))))
    # All axes, of which only the run knows how many there are.
    return c.emit("Range", c.constant(0), c.emit("Rank", c[0]), c.constant(1))


def _computed_axes(c: Call, keeps: bool) -> Value:
    """Axes that the graph computes, and all of them should there be none."""
    axes = typed(c, c[1], INT64)
    if c[1].spec.size is not None or keeps:
        return axes
    is_none = typed(c, c.emit("Equal", c.emit("Size", axes, out_type=INT64), integers(c, 0)), INT64)
    count = c.emit("Mul", typed(c, c.emit("Rank", c[0]), INT64), is_none)
    every = c.emit("Range", integers(c, 0), count, integers(c, 1))
    return c.emit("ConcatV2", axes, every, c.constant(0))


def _reduction(op: str, before: str = "", behind: str = "") -> Rule:
    """The rule for a reduction with a function before it, and one behind."""

    def rule(c: Call) -> Value:
        axes, is_kept, x = reduction_axes(c), c.flag("keepdims", default=True), c[0]
        kind = x.dtype
        # Roots and logarithms of whole numbers are cut off; TensorFlow takes those of real ones only.
        is_whole = kind is not None and kind.is_integer and (behind != "" or op == "EuclideanNorm")
        y = _reduced(c, typed(c, x, DOUBLE) if is_whole else x, axes, (op, before, behind), is_kept)
        return typed(c, y, kind) if is_whole and kind is not None else y

    return rule


def _reduced(c: Call, x: Value, axes: Value | None, ops: tuple[str, str, str], is_kept: bool) -> Value:
    op, before, behind = ops
    x = c.emit(before, x) if before else x
    if axes is None:
        # The length of a number alone is its size.
        return c.emit(behind or ("Abs" if op == "EuclideanNorm" else "Identity"), x)
    kind = _OF_BOOLS.get(op, op) if x.dtype is BOOL else op
    y = c.emit(kind, x, axes, keep_dims=is_kept)
    return c.emit(behind, y) if behind else y


# With false below true, as ONNX orders them.
_OF_BOOLS = {"Max": "Any", "Min": "All"}


@lifts("onnx.ReduceLogSumExp")
def _log_sum_exp(c: Call) -> Value:
    """log(sum(exp(x))), with the largest value taken out first."""
    axes, is_kept, kind = reduction_axes(c), c.flag("keepdims", default=True), c[0].dtype
    is_whole = kind is not None and kind.is_integer
    x = typed(c, c[0], DOUBLE) if is_whole else c[0]
    y = c.emit("Identity", x) if axes is None else _stable_log_sum(c, x, axes, bool(is_kept))
    return typed(c, y, kind) if is_whole and kind is not None else y


def _stable_log_sum(c: Call, x: Value, axes: Value, is_kept: bool) -> Value:
    high = c.emit("Max", x, axes, keep_dims=True)
    # An infinite one would be taken from itself: of all -inf the sum is 0, and its logarithm -inf.
    high = c.emit("SelectV2", c.emit("IsFinite", high), high, like(c, 0, high))
    total = c.emit("Sum", c.emit("Exp", c.emit("Sub", x, high)), axes, keep_dims=True)
    y = c.emit("AddV2", c.emit("Log", total), high)
    if is_kept:
        return y
    content = c.content(axes)
    if content is None:
        return c.emit("Sum", y, axes, keep_dims=False)
    return c.emit("Squeeze", y, squeeze_dims=tuple(int(a) for a in content.ravel()))


def _running(op: str) -> Rule:
    """The rule for sums or products of all up to each place along an axis."""

    def rule(c: Call) -> Value:
        flags = {option: c.flag(option) for option in ("exclusive", "reverse")}
        axis = settled(c, 1)
        content = c.content(axis)
        scalar = c.constant(int(np.ravel(content)[0])) if content is not None else _first(c, axis)
        return c.emit(op, c[0], scalar, **flags)

    return rule


def _first(c: Call, axis: Value) -> Value:
    return c.emit("Reshape", axis, integers(c, ()))


lifts("onnx.CumSum")(_running("Cumsum"))
lifts("onnx.CumProd")(_running("Cumprod"))
lifts("onnx.ReduceL1")(_reduction("Sum", "Abs"))
lifts("onnx.ReduceSumSquare")(_reduction("Sum", "Square"))
lifts("onnx.ReduceLogSum")(_reduction("Sum", "", "Log"))
lifts_counterparts("onnx", same_in_tensorflow(Trait.REDUCTION), _reduction)
