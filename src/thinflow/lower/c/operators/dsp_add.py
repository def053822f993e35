"""Sums of bytes on Cortex-M4, M7 and M33."""

from __future__ import annotations

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.requantize import activation_limits
from thinflow.ops._fixed_point import quantized_multiplier, scaled
from thinflow.tflite.model import Operator
from thinflow.typing import Array

_SPARE_BITS = 20
"""Behind the point, as LiteRT's kernel has them."""


@form("ADD", types="int8", needs="dsp")
def add_dsp(b: LayerBuilder, op: Operator) -> None:
    """What a byte is at the common scale stands in a table."""
    x, other, y = b.input(0), b.input(1), b.output()
    (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (b.scale(t) for t in (x, other, y))
    least, most = activation_limits(b, y)
    # LiteRT's common scale: twice the larger one, so that both factors are at most a half.
    whole = 2.0 * float(max(a_scale, b_scale))
    multiplier, left = quantized_multiplier(whole / ((1 << _SPARE_BITS) * float(y_scale)))
    # Halves go up here, and gemmlowp's away from zero: the same only where nothing negative is left.
    if b.rounding != "litert" or b.shape(x) != b.shape(other) or least < y_zero or not 0 < -left < 22:
        raise NotHere
    layer = b.struct(
        "",
        count=b.size(y),
        a=b.constant("a", _values(float(a_scale) / whole, a_zero)),
        b=b.constant("b", _values(float(b_scale) / whole, b_zero)),
        multiplier=multiplier,
        # A half of each of the two roundings, and the zero point.
        summand=1 + ((2 * y_zero + 1) << -left),
        shift=1 - left,
        min=least,
        max=most,
    )
    b.call("add_dsp", x, other, y, layer)
    b.in_place(0)


def _values(factor: float, zero_point: int) -> Array:
    """int32 [256]: four times what the bytes from -128 are at the common scale."""
    real = (np.arange(-128, 128, dtype=np.int64) - zero_point) << _SPARE_BITS
    # Times four, the upper word that `smmla` keeps is one bit finer than gemmlowp's doubled high half: that
    # bit is what the first rounding is made with.
    values: Array = 4 * scaled(real, *quantized_multiplier(factor))
    return values.astype(np.int32)
