"""Sums, means and extremes over dimensions."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.operators.array import require_one_scale
from thinflow.lower.c.requantize import LIMITS
from thinflow.lower.c.settle import C_TYPES
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator

# The first value, what each next one does to it, what becomes of the last, and what the kernel is called.
_REDUCED = {
    "MEAN": ("0", "total + value", "total / (float)count", "The mean"),
    "SUM": ("0", "total + value", "total", "The sum"),
    "REDUCE_MAX": ("-INFINITY", "value > total ? value : total", "total", "The largest"),
    "REDUCE_MIN": ("INFINITY", "value < total ? value : total", "total", "The smallest"),
    "REDUCE_PROD": ("1", "total * value", "total", "The product"),
}


@form(*_REDUCED, types="float")
def reduced_floats(b: LayerBuilder, op: Operator) -> None:
    """Over dimensions side by side."""
    x, y = b.input(0), b.output()
    # One kernel for all, with the words of each in it.
    first, expression, last, what = _REDUCED[op.code]
    words = {"first": first, "expression": expression, "last": last, "what": what}
    b.call("reduce_float", x, y, *_split(b), op=op.code.lower(), **words)


_CHOSEN = {"REDUCE_MAX": ">", "REDUCE_MIN": "<"}
_TOTALS = {
    "SUM": ("0", "({t})(({u})total + ({u})x)"),
    "REDUCE_PROD": ("1", "({t})(({u})total * ({u})x)"),
    "REDUCE_ANY": ("false", "total || x"),
    "REDUCE_ALL": ("true", "total && x"),
}


@form(*_CHOSEN, types="int8 uint8 int16 int32 int64")
def chosen(b: LayerBuilder, op: Operator) -> None:
    """The largest or the least of integers; of those with a scale, whose order is that of their reals."""
    x, y = b.input(0), b.output()
    require_one_scale(b, [x], y)
    words = {"what": op.code[7:].lower(), "first": "x[i]", "then": f"v {_CHOSEN[op.code]} total ? v : total"}
    _whole(b, **words)


@form(*_TOTALS, types="int32 int64 bool")
def totals(b: LayerBuilder, op: Operator) -> None:
    """Of whole numbers, whose sums and products wrap; of truths, whether any or all are."""
    kind = b.input(0).dtype.name
    first, then = _TOTALS[op.code]
    t = C_TYPES[kind]
    then = then.format(t=t, u=t.replace("int", "uint")).replace("x", "v")
    _whole(b, what=op.code.lower(), first=first, then=then)


def _whole(b: LayerBuilder, **words: str) -> None:
    x, y = b.input(0), b.output()
    b.call("reduce", x, y, *_split(b), type=x.dtype.name, op=b.operator.code.lower(), **words)


@form("MEAN", types="int8 uint8 int16")
def mean_of_bytes(b: LayerBuilder, op: Operator) -> None:
    """Over dimensions side by side; the sum is exact, its mean comes to the scale of the output."""
    x, y = b.input(0), b.output()
    (x_scale, x_zero), (y_scale, y_zero) = b.scale(x), b.scale(y)
    outer, count, inner = _split(b)
    least, most = LIMITS[y.dtype.name]
    ends = {"x_zero_point": x_zero, "y_zero_point": y_zero, "min": least, "max": most}
    multiplier, shift = quantized_multiplier(float(np.float64(x_scale) / np.float64(y_scale)))
    if b.rounding == "litert":
        # As its kernel does it: the division by the count is in the factor, as far as that has room for it.
        room = min(max(63 - _leading(count), 0), 32, 31 + shift)
        multiplier, shift = (multiplier << room) // count, shift - room
        settings = b.struct(
            "", outer=outer, count=count, inner=inner, multiplier=multiplier, shift=shift, **ends
        )
        b.call("mean_twice", x, y, b.scratch(4 * inner), settings, type=x.dtype.name)
        return
    # In float32 throughout, as XNNPACK prepares it.
    factor = np.float32(x_scale / (np.float32(count) * y_scale))
    settings = b.struct("", outer=outer, count=count, inner=inner, factor=float(factor), **ends)
    b.call("mean_float", x, y, b.scratch(4 * inner), settings, type=x.dtype.name)


def _leading(count: int) -> int:
    """Leading zeros of a number of 64 bits."""
    return 64 - count.bit_length()


def _split(b: LayerBuilder) -> tuple[int, int, int]:
    """What comes before, within and behind the dimensions that are reduced.

    Raises:
        UnsupportedOp: they do not lie side by side.
    """
    # The kernels walk along three dimensions, whatever those of the input are.
    shape = b.shape(b.input(0))
    axes = sorted({int(n) % len(shape) for n in b.array(1).reshape(-1)})
    # Dimensions of one do not separate others.
    axes = [n for n in axes if shape[n] != 1] or axes[:1]
    if not axes:
        return math.prod(shape), 1, 1
    between = [n for n in range(axes[0], axes[-1] + 1) if n not in axes and shape[n] != 1]
    if between:
        raise UnsupportedOp(f"it reduces dimensions {axes} with others between them")
    return (
        math.prod(shape[: axes[0]]),
        math.prod(shape[axes[0] : axes[-1] + 1]),
        math.prod(shape[axes[-1] + 1 :]),
    )
