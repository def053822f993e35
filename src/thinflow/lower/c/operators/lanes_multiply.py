"""Products of bytes on processors with wide registers."""

from __future__ import annotations

import numpy as np

from thinflow.lower.c.broadcasting import meeting
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.lines import Stairs, line_of
from thinflow.lower.c.requantize import activation_limits
from thinflow.tflite.model import Operator


@form("MUL", types="int8", needs="avx2 avx512 vnni")
def multiply_v4(b: LayerBuilder, op: Operator) -> None:
    """AVX-512: sixteen at once."""
    _multiply(b, "v4")


@form("MUL", types="int8", needs="avx2")
def multiply_v3(b: LayerBuilder, op: Operator) -> None:
    """AVX2: eight at once."""
    _multiply(b, "v3")


@form("MUL", types="int8", needs="neon")
def multiply_neon(b: LayerBuilder, op: Operator) -> None:
    """Eight at once, in two registers."""
    _multiply(b, "neon")


def _multiply(b: LayerBuilder, isa: str) -> None:
    x, other, y = b.input(0), b.input(1), b.output()
    (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (b.scale(t) for t in (x, other, y))
    count, a_step, b_step = meeting(b, (0, 1))
    if a_step[-1] != 1 or b_step[-1] != 1:
        raise NotHere
    limits = activation_limits(b, y)
    # In float first, as LiteRT's kernels have it.
    factor = np.atleast_1d(a_scale * b_scale / y_scale)
    stairs = Stairs(factor, "twice" if b.rounding == "litert" else "float", y_zero, limits)
    ends = [(-128 - zero, 127 - zero) for zero in (a_zero, b_zero)]
    corners = [first * second for first in ends[0] for second in ends[1]]
    if stairs.right.min() < 0:
        raise NotHere
    scale, above, below, taken = line_of(stairs, np.array([min(corners)]), np.array([max(corners)]))
    settings = b.struct(
        "",
        shape=b.struct("broadcast_t", count=count, a_step=a_step, b_step=b_step),
        a_zero=float(-a_zero),
        b_zero=float(-b_zero),
        taken=float(-taken[0]),
        scale=float(scale[0]),
        offset=float(above[0]),
        below=float(below[0]),
        min=limits[0],
        max=limits[1],
    )
    b.call("multiply_lanes", x, other, y, settings, isa=isa)
    if b.shape(x) == b.shape(y):
        b.in_place()
