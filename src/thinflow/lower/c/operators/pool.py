"""Pooling: the largest or the mean under a window."""

from __future__ import annotations

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Struct
from thinflow.lower.c.operators.float_layers import float_limits
from thinflow.lower.c.requantize import activation_limits
from thinflow.lower.c.windows import window
from thinflow.tflite.model import Operator

_MEANS = {
    True: "sums[c] / (float)count",
    # C divides towards zero: half the divisor first, on the side of the sign.
    False: "(sums[c] + (sums[c] > 0 ? count / 2 : -(count / 2))) / count",
}


@form("MAX_POOL_2D", types="int8 uint8 int16 float")
def max_pool_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c] -> y [n,oh,ow,c]."""
    b.call("max_pool_2d", b.input(0), b.output(), settings_of(b), type=b.output().dtype.name)


@form("AVERAGE_POOL_2D", types="int8 uint8 int16 float")
def average_pool_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c] -> y [n,oh,ow,c]."""
    x, y = b.input(0), b.output()
    # Sums of all channels side by side, which compilers add at once.
    sums = b.scratch(4 * b.shape(x)[3])
    kind = y.dtype.name
    b.call("average_pool_2d", x, y, sums, settings_of(b), type=kind, mean=_MEANS[kind == "float"])


def settings_of(b: LayerBuilder) -> Struct:
    """The struct of a layer: its window and the limits of its activation."""
    # Pools have no dilation, and as many channels as their input.
    at = window(b, (b.option("filter_height"), b.option("filter_width")))
    if b.output().dtype.name == "float":
        return b.struct("", window=at, **float_limits(b))
    least, most = activation_limits(b, b.output())
    return b.struct("", window=at, min=least, max=most)
