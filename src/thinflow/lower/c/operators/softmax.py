"""Softmax."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.requantize import LIMITS
from thinflow.lower.c.tables import softmax_exponentials
from thinflow.tflite.model import Operator


@form("SOFTMAX", types="float")
def softmax_float(b: LayerBuilder, op: Operator) -> None:
    """Over the last dimension."""
    x, y = b.input(0), b.output()
    # Each row is read before it is written, number by number.
    depth = b.shape(x)[-1]
    b.in_place()
    b.call("softmax_float", x, y, b.size(x) // depth, depth, _beta(op))


@form("SOFTMAX", types="int8 uint8")
def softmax_bytes(b: LayerBuilder, op: Operator) -> None:
    """Over the last dimension: in fixed point as the reference kernel, else with a table of floats."""
    x, y = b.input(0), b.output()
    if x.dtype != y.dtype:
        raise UnsupportedOp(f"it makes {y.dtype} of {x.dtype}")
    depth, (scale, _) = b.shape(x)[-1], b.scale(x)
    b.in_place()
    words = {"type": x.dtype.name, "least": f"({LIMITS[x.dtype.name][0]})"}
    if b.rounding == "litert":
        table = b.constant("exponentials", softmax_exponentials(float(scale), _beta(op)))
        b.call("softmax_fixed", x, y, table, b.size(x) // depth, depth, **words)
        return
    # XNNPACK has no softmax of bytes: LiteRT's own optimised kernel runs beside it.
    y_scale, zero_point = b.scale(y)
    exponents = -np.float32(scale) * np.float32(_beta(op)) * np.arange(256, dtype=np.float32)
    table = b.constant("exponentials", np.exp(exponents.astype(np.float64)).astype(np.float32))
    b.call("softmax_table", x, y, table, b.size(x) // depth, depth, float(y_scale), zero_point, **words)


def _beta(op: Operator) -> float:
    return float(op.options.get("beta", 0.0))
