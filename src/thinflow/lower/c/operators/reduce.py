"""Sums, means and extremes over dimensions."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.copies import copy, row_major
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Argument
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
    y = b.output()
    # One kernel for all, with the words of each in it.
    first, expression, last, what = _REDUCED[op.code]
    words = {"first": first, "expression": expression, "last": last, "what": what}
    read, *sizes = _side_by_side(b)
    b.call("reduce_float", read, y, *sizes, op=op.code.lower(), **words)


_CHOSEN = {"REDUCE_MAX": ">", "REDUCE_MIN": "<"}
# Of truths a product is whether all are, and a sum whether any is.
_ANY, _ALL = ("false", "total || v"), ("true", "total && v")
_TRUTHS = {
    **dict.fromkeys(("SUM", "REDUCE_MAX", "REDUCE_ANY"), _ANY),
    **dict.fromkeys(("REDUCE_PROD", "REDUCE_MIN", "REDUCE_ALL"), _ALL),
}
_TOTALS = {
    "SUM": ("0", "({t})(({u})total + ({u})v)", "total"),
    "REDUCE_PROD": ("1", "({t})(({u})total * ({u})v)", "total"),
    "MEAN": ("0", "total + v", "total / count"),
}


@form(*_CHOSEN, types="int8 uint8 int16 int32 int64")
def chosen(b: LayerBuilder, op: Operator) -> None:
    """The largest or the least of integers; of those with a scale, whose order is that of their reals."""
    x, y = b.input(0), b.output()
    require_one_scale(b, [x], y)
    _whole(b, what=op.code[7:].lower(), first="x[i]", then=f"v {_CHOSEN[op.code]} total ? v : total")


@form(*_TOTALS, types="int32 int64")
def totals(b: LayerBuilder, op: Operator) -> None:
    """Of whole numbers, whose sums and products wrap."""
    kind = b.input(0).dtype.name
    first, then, last = _TOTALS[op.code]
    t = C_TYPES[kind]
    words = {"first": first, "then": then.format(t=t, u=t.replace("int", "uint")), "last": last}
    # A mean divides its exact sum towards zero.
    _whole(b, what=op.code.lower(), total_type="int64_t" if op.code == "MEAN" else t, **words)


@form(*_TRUTHS, types="bool")
def truths(b: LayerBuilder, op: Operator) -> None:
    """Whether any or all are true."""
    first, then = _TRUTHS[op.code]
    _whole(b, what=op.code.lower(), first=first, then=then)


def _whole(b: LayerBuilder, *, last: str = "total", total_type: str = "", **words: str) -> None:
    kind = b.input(0).dtype.name
    words |= {"type": kind, "last": last, "total_type": total_type or C_TYPES[kind]}
    read, *sizes = _side_by_side(b)
    b.call("reduce", read, b.output(), *sizes, op=b.operator.code.lower(), **words)


@form("MEAN", "SUM", types="int8 uint8 int16")
def mean_of_bytes(b: LayerBuilder, op: Operator) -> None:
    """The sum is exact; it, or the mean, comes to the scale of the output."""
    x, y = b.input(0), b.output()
    (x_scale, x_zero), (y_scale, y_zero) = b.scale(x), b.scale(y)
    is_sum, kind = op.code == "SUM", x.dtype.name
    read, outer, count, inner = _side_by_side(b)
    least, most = LIMITS[y.dtype.name]
    sizes = {"outer": outer, "count": count, "inner": inner}
    ends = {"x_zero_point": x_zero, "y_zero_point": y_zero, "min": least, "max": most}
    if b.rounding == "litert":
        if is_sum and kind != "uint8":
            raise UnsupportedOp(
                f"LiteRT's reference kernel adds {kind} as if they were unsigned bytes, which is no sum of"
                " them; --rounding xnnpack has it"
            )
        multiplier, shift = quantized_multiplier(float(np.float64(x_scale) / np.float64(y_scale)))
        if not is_sum:
            # As its kernel does it: the division by the count is in the factor, as far as it has room.
            room = min(max(63 - _leading(count), 0), 32, 31 + shift)
            multiplier, shift = (multiplier << room) // count, shift - room
        settings = b.struct("", **sizes, multiplier=multiplier, shift=shift, **ends)
        b.call("mean_twice", read, y, b.scratch(4 * inner), settings, type=kind)
        return
    # In float32 throughout, as XNNPACK prepares it.
    factor = np.float32(x_scale / y_scale) if is_sum else np.float32(x_scale / (np.float32(count) * y_scale))
    settings = b.struct("", **sizes, factor=float(factor), **ends)
    b.call("mean_float", read, y, b.scratch(4 * inner), settings, type=kind)


@form("REDUCE_PROD", types="int8 int16")
def product_of_bytes(b: LayerBuilder, op: Operator) -> None:
    """Each factor comes to a scale of which so many make that of the output, and is rounded."""
    x, y = b.input(0), b.output()
    (x_scale, x_zero), (y_scale, y_zero) = b.scale(x), b.scale(y)
    read, outer, count, inner = _side_by_side(b)
    multiplier, shift = quantized_multiplier(float(x_scale) / float(y_scale) ** (1 / count))
    # The kernel takes the upper 15 bits, to the nearest.
    multiplier = min((multiplier + (1 << 15)) >> 16, 0x7FFF)
    least, most = LIMITS[y.dtype.name]
    settings = b.struct(
        "",
        outer=outer,
        count=count,
        inner=inner,
        multiplier=multiplier,
        shift=shift,
        x_zero_point=x_zero,
        y_zero_point=y_zero,
        min=least,
        max=most,
    )
    b.call("reduce_product", read, y, settings, type=x.dtype.name)


def _leading(count: int) -> int:
    """Leading zeros of a number of 64 bits."""
    return 64 - count.bit_length()


def _side_by_side(b: LayerBuilder) -> tuple[Argument, int, int, int]:
    """The input, and what comes before, within and behind the dimensions that are reduced.

    Where others lie between those, they are brought together first, in memory of the layer.
    """
    # The kernels walk along three dimensions, whatever those of the input are.
    x, shape = b.input(0), b.shape(b.input(0))
    axes = sorted({int(n) % len(shape) for n in b.array(1).reshape(-1)})
    # Dimensions of one do not separate others.
    axes = [n for n in axes if shape[n] != 1] or axes[:1]
    if not axes:
        return x, math.prod(shape), 1, 1
    count = math.prod(shape[n] for n in axes)
    rest = [n for n in range(len(shape)) if n not in axes]
    if any(shape[n] != 1 for n in rest if axes[0] < n < axes[-1]):
        order = [*rest, *axes]
        gathered = b.scratch(b.size(x) * x.dtype.itemsize)
        sizes, steps = [shape[n] for n in order], row_major(shape)
        copy(b, x, gathered, sizes, [steps[n] for n in order], row_major(sizes))
        return gathered, b.size(x) // count, count, 1
    return x, math.prod(shape[: axes[0]]), count, math.prod(shape[axes[-1] + 1 :])
