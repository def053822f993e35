"""Operators that make as many rows as the numbers say; see `lower.c.bounded`."""

from __future__ import annotations

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.settle import C_TYPES
from thinflow.tflite.model import Operator

_MOST_DIMENSIONS = 8


@form("WHERE", types="bool float int8 uint8 int32 uint32 int64")
def where(b: LayerBuilder, op: Operator) -> None:
    """x of any sizes -> the places of what is not zero [n, rank], and n."""
    x, (y, count) = b.input(0), op.outputs
    shape = b.shape(x)
    if not 0 < len(shape) <= _MOST_DIMENSIONS:
        raise UnsupportedOp(f"it looks at {len(shape)} dimensions")
    settings = b.struct("", count=b.size(x), rank=len(shape), shape=shape)
    b.call("where", x, y, count, settings, type=x.dtype.name)


@form("UNIQUE", types="float int8 uint8 int16 int32 int64")
def unique(b: LayerBuilder, op: Operator) -> None:
    """x [m] -> numbers that differ [n], the place of each there [m], and n."""
    x, (y, places, count) = b.input(0), op.outputs
    words = {"type": x.dtype.name, "op": places.dtype.name, "y_type": C_TYPES[places.dtype.name]}
    b.call("distinct", x, y, places, count, b.size(x), **words)
