"""Pooling of bytes on Cortex-A: the channels of a pixel side by side."""

from __future__ import annotations

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.operators.pool import settings_of
from thinflow.tflite.model import Operator

_MOST = 255
"""Bytes whose sum surely has 16 bits."""


@form("MAX_POOL_2D", types="int8", needs="neon")
def max_pool_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c] -> y [n,oh,ow,c]."""
    b.call("max_pool_neon", b.input(0), b.output(), settings_of(b))


@form("AVERAGE_POOL_2D", types="int8", needs="neon")
def average_pool_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c] -> y [n,oh,ow,c]."""
    if b.option("filter_height") * b.option("filter_width") > _MOST:
        raise NotHere
    b.call("average_pool_neon", b.input(0), b.output(), settings_of(b))
