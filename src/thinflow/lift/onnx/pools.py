"""ONNX's pools over lines, pictures and volumes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from thinflow.decompose.terms import Term
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.formulas import Formula
from thinflow.lift.onnx.maxima import places_of_maxima
from thinflow.lift.onnx.values import channels_first, channels_last, integers, like, rank
from thinflow.lift.onnx.windows import LINE, VOLUME, Window, as_line, as_picture, bordered, window
from thinflow.lift.rules import Rule, lifts

_MOST_TAPS = 1 << 10
"""Elements along all axes of a window with gaps: an operator or two for each."""


def _window(c: Call) -> Window:
    kernel = c.get("kernel_shape")
    if not kernel:
        raise UnsupportedOp("it has no kernel_shape")
    return window(c, list(kernel), is_up=c.flag("ceil_mode"))


def pooled(c: Call, op: str, x: Value, win: Window, padding: str = "VALID") -> Value:
    """MaxPool or AvgPool of x [n, ..., c], padded already where `padding` is VALID."""
    kernel, strides = win.kernel, win.strides
    if win.has_gaps:
        return _separately(c, op, Formula(c).term(x), win).value
    if win.rank == LINE:
        x, kernel, strides = as_picture(c, x), (1, *kernel), (1, *strides)
    windows: dict[str, Any] = {"ksize": (1, *kernel, 1), "strides": (1, *strides, 1), "padding": padding}
    if padding == "EXPLICIT":
        pads = [(0, 0)] * (4 - win.rank - 1) + win.whole + [(0, 0)]
        windows["explicit_paddings"] = tuple(n for pair in pads for n in pair)
    if win.rank == VOLUME:
        return c.emit(f"{op}3D", x, **windows, data_format="NDHWC")
    y = c.emit(op, x, **windows, data_format="NHWC")
    return as_line(c, y) if win.rank == LINE else y


def _separately(c: Call, op: str, x: Term, win: Window) -> Term:
    """Axis by axis, an element of the window at a time: TensorFlow's pools have no gaps."""
    if sum(win.kernel) > _MOST_TAPS:
        raise UnsupportedOp(f"its window with gaps has more than {_MOST_TAPS} elements")
    for axis in range(win.rank):
        y: Term | None = None
        for tap in range(win.kernel[axis]):
            found = x.slice({axis + 1: win.under(axis, tap)})
            y = found if y is None else y.maximum(found) if op == "MaxPool" else y + found
        assert y is not None
        x = y
    return x if op == "MaxPool" else x * (1 / math.prod(win.kernel))


@lifts("onnx.MaxPool", ignores=("pads", "storage_order"))
def _max_pool(c: Call) -> list[Value]:
    win, count = _window(c), rank(c)
    kind = c[0].dtype.numpy() if c[0].dtype is not None else np.dtype(np.float32)
    # A border that never is the maximum; integers have no infinity.
    least = float(np.iinfo(kind.name).min) if kind.kind in "iu" else float("-inf")
    x = channels_last(c, c[0], count)
    # Places in windows of TensorFlow's pools over pictures are known; others are looked for in a border.
    is_same = win.is_same and not win.has_gaps and not (len(c.node.outputs) > 1 and win.rank == VOLUME)
    if len(c.node.outputs) > 1:
        return places_of_maxima(c, x if is_same else _filled(c, x, win, least), win, is_same=is_same)
    # TensorFlow pads pictures of floats by itself.
    if is_same or (win.is_padded and win.rank != VOLUME and not win.has_gaps and kind.kind == "f"):
        return [channels_first(c, pooled(c, "MaxPool", x, win, "SAME" if is_same else "EXPLICIT"), count)]
    return [channels_first(c, pooled(c, "MaxPool", _filled(c, x, win, least), win), count)]


def _filled(c: Call, x: Value, win: Window, fill: float) -> Value:
    if not win.is_padded and win.is_same:
        raise UnsupportedOp("the sizes of its input are open, so the padding is not known")
    return bordered(c, x, win.whole, fill)


@lifts("onnx.AveragePool", ignores=("pads",))
def _average_pool(c: Call) -> Value:
    """The mean of what lies in the window, with the border or without."""
    win, count, x = _window(c), rank(c), channels_last(c, c[0], rank(c))
    if win.is_same and not win.has_gaps and not c.flag("count_include_pad"):
        return channels_first(c, pooled(c, "AvgPool", x, win, "SAME"), count)
    y = pooled(c, "AvgPool", _filled(c, x, win, 0.0), win)
    # mean * pixels of the window / pixels that count: what is behind the border never does.
    borders = win.pads if c.flag("count_include_pad") else [(0, 0)] * win.rank
    if borders == win.whole:
        return channels_first(c, y, count)
    if None in win.sizes:
        y = c.emit("RealDiv", y, _shares(c, x, win, borders))
    else:
        y = c.emit("Mul", y, like(c, _factors(win, borders), y))
    return channels_first(c, y, count)


def _factors(win: Window, borders: Sequence[tuple[int, int]]) -> np.ndarray:
    """Pixels of the window by those that count, [1, *windows, 1]; the border counts where it is given."""
    factors = np.ones(())
    for axis, (out, n, (before, behind)) in enumerate(zip(win.counts(), win.sizes, borders, strict=True)):
        taps = np.arange(win.kernel[axis]) * win.dilations[axis] - win.whole[axis][0]
        at = np.arange(out)[:, None] * win.strides[axis] + taps
        inside = ((at >= -before) & (at < (n or 0) + behind)).sum(1)
        # A window without any such pixel has the mean 0 of nothing.
        factors = factors[..., None] * np.where(inside, win.kernel[axis] / np.maximum(inside, 1), 0)
    return factors[None, ..., None]


def _shares(c: Call, x: Value, win: Window, borders: Sequence[tuple[int, int]]) -> Value:
    """The share of pixels of each window that count, where sizes are open: the mean of ones."""
    picture = Formula(c).term(x)
    one = picture.slice({0: (0, 1, 1), win.rank + 1: (0, 1, 1)})
    ones = bordered(c, one.apply("OnesLike").value, list(borders), 1.0)
    rest = [(a - p, b - q) for (a, b), (p, q) in zip(win.whole, borders, strict=True)]
    return pooled(c, "AvgPool", bordered(c, ones, rest, 0.0), win)


@lifts("onnx.LpPool", ignores=("pads",))
def _lp_pool(c: Call) -> Value:
    """The p-norm of the window."""
    win, count = _window(c), rank(c)
    x = Formula(c).term(_filled(c, channels_last(c, c[0], count), win, 0.0))
    exponent = _exponent(c)
    means = pooled(c, "AvgPool", _powers(x, exponent).value, win)
    total = Formula(c).term(means) * float(math.prod(win.kernel))
    return channels_first(c, _root(total, exponent).value, count)


def _exponent(c: Call) -> float:
    exponent = float(c.get("p", 2))
    if exponent <= 0:
        raise UnsupportedOp(f"its exponent is {exponent:g}")
    return exponent


def _powers(x: Term, exponent: float) -> Term:
    if exponent == 2:
        return x.square()
    return x.abs() if exponent == 1 else x.abs().apply("Pow", exponent)


def _root(total: Term, exponent: float) -> Term:
    if exponent == 2:
        return total.apply("Sqrt")
    return total if exponent == 1 else total.apply("Pow", 1 / exponent)


@lifts("onnx.GlobalLpPool")
def _global_lp_pool(c: Call) -> Value:
    exponent = _exponent(c)
    powers = _powers(Formula(c).operand(0), exponent)
    return _root(powers.sum(*range(2, rank(c)), keep=True), exponent).value


def _global(op: str) -> Rule:
    return lambda c: c.emit(op, c[0], integers(c, tuple(range(2, rank(c)))), keep_dims=True)


lifts("onnx.GlobalAveragePool")(_global("Mean"))
lifts("onnx.GlobalMaxPool")(_global("Max"))
