"""Products of matrices that are both computed."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.operators.int16_layers import wide_requantization
from thinflow.lower.c.requantize import activation_limits, requantization
from thinflow.tflite.model import Operator

# LiteRT's kernel goes over five dimensions, the two of matrices included.
_BATCHES = 3


@form("BATCH_MATMUL", types="float")
def batch_matmul_floats(b: LayerBuilder, op: Operator) -> None:
    """a [..., rows, depth], b [..., depth, columns] -> y [..., rows, columns]."""
    if b.input(1).dtype.name != "float":
        raise NotHere
    b.call("batch_matmul_float", b.input(0), b.input(1), b.output(), b.struct("", **_sizes(b)))


@form("BATCH_MATMUL", types="int8")
def batch_matmul(b: LayerBuilder, op: Operator) -> None:
    """As of floats."""
    x, other, y = b.input(0), b.input(1), b.output()
    if {x.dtype.name, other.dtype.name, y.dtype.name} != {"int8"}:
        raise UnsupportedOp(f"it makes {y.dtype} of {x.dtype} and {other.dtype}")
    (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (b.scale(t) for t in (x, other, y))
    rounding = "twice" if b.rounding == "litert" else "float"
    if rounding == "float":
        factor = np.atleast_1d(a_scale * b_scale / y_scale)
    else:
        # The product in float, as the kernel prepares it.
        factor = np.atleast_1d(np.float64(a_scale * b_scale) / np.float64(y_scale))
    output = requantization(b, rounding, factor, np.zeros(1, np.int32), activation_limits(b, y), y_zero)
    settings = b.struct("", **_sizes(b), a_zero_point=a_zero, b_zero_point=b_zero, output=output)
    b.call("batch_matmul", x, other, y, settings, type="int8", rounding=rounding)


@form("BATCH_MATMUL", types="int16")
def batch_matmul_wide(b: LayerBuilder, op: Operator) -> None:
    """As of floats, with sums of 64 bits."""
    x, other, y = b.input(0), b.input(1), b.output()
    if {x.dtype.name, other.dtype.name, y.dtype.name} != {"int16"}:
        raise UnsupportedOp(f"it makes {y.dtype} of {x.dtype} and {other.dtype}")
    factors = np.atleast_1d(np.float64(b.scale(x)[0] * b.scale(other)[0]) / np.float64(b.scale(y)[0]))
    output = wide_requantization(b, "wide", factors, np.zeros(1, np.int64))
    settings = b.struct("", **_sizes(b), a_zero_point=0, b_zero_point=0, output=output)
    b.call("batch_matmul", x, other, y, settings, type="int16", rounding="wide", sum_type="int64_t")


def _sizes(b: LayerBuilder) -> dict[str, int | tuple[int, ...]]:
    """Members of both structs; the cost is noted."""
    a, c, y = b.shape(b.input(0)), b.shape(b.input(1)), b.shape(b.output())
    a_turned, b_turned = (bool(b.operator.options.get(name)) for name in ("adj_x", "adj_y"))
    rows, depth = a[:-3:-1] if a_turned else a[-2:]
    columns = c[-2] if b_turned else c[-1]
    b.macs(math.prod(y) * depth)
    batches = y[:-2]
    if len(batches) > _BATCHES:
        raise UnsupportedOp(f"it has {len(batches)} dimensions of batches, more than {_BATCHES}")
    count = (1,) * (_BATCHES - len(batches)) + batches
    return {
        "count": count,
        "a_step": _steps(a),
        "b_step": _steps(c),
        "rows": rows,
        "depth": depth,
        "columns": columns,
        "a_row": 1 if a_turned else depth,
        "a_next": rows if a_turned else 1,
        "b_row": 1 if b_turned else columns,
        "b_next": depth if b_turned else 1,
    }


def _steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from batch to batch, 0 where there is one for all."""
    sizes = (1,) * (_BATCHES + 2 - len(shape)) + shape
    return tuple(0 if sizes[n] == 1 else math.prod(sizes[n + 1 :]) for n in range(_BATCHES))
