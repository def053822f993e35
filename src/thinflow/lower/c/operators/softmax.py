"""Softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.requantize import LIMITS
from thinflow.lower.c.settle import C_TYPES
from thinflow.lower.c.tables import exponentials, softmax_exponentials
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator
from thinflow.typing import Array


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
    depth, (scale, _) = b.shape(x)[-1], b.scale(x)
    least, most = LIMITS[y.dtype.name]
    words = {"type": x.dtype.name, "least": f"({least})"}
    if x.dtype == y.dtype:
        b.in_place()
    elif b.rounding != "litert" or y.dtype.name != "int16":
        raise UnsupportedOp(f"it makes {y.dtype} of {x.dtype}")
    if b.rounding == "litert":
        words |= {
            "op": y.dtype.name,
            "y_type": C_TYPES[y.dtype.name],
            "bits": str((most - least).bit_length()),
        }
        words["most"] = str(most)
        table = b.constant("exponentials", softmax_exponentials(float(scale), _beta(op)))
        b.call("softmax_fixed", x, y, table, b.size(x) // depth, depth, **words)
        return
    # XNNPACK has no softmax of bytes: LiteRT's own optimised kernel runs beside it.
    y_scale, zero_point = b.scale(y)
    table = b.constant("exponentials", exponentials(float(scale), _beta(op)))
    b.call("softmax_table", x, y, table, b.size(x) // depth, depth, float(y_scale), zero_point, **words)


def _beta(op: Operator) -> float:
    return float(op.options.get("beta", 0.0))


@form("SOFTMAX", types="int16")
def softmax_int16(b: LayerBuilder, op: Operator) -> None:
    """Over the last dimension, by two tables with straight lines between their entries."""
    x, y = b.input(0), b.output()
    if y.dtype.name != "int16" or b.scale(y)[1]:
        raise UnsupportedOp(f"it makes {y.dtype} of int16, or has a zero point")
    depth, (scale, _) = b.shape(x)[-1], b.scale(x)
    # A difference of 10 fills the table; beyond that exp is nothing.
    multiplier, shift = quantized_multiplier(float(scale) * _beta(op) / (10.0 / 65535.0))
    settings = b.struct(
        "",
        rows=b.size(x) // depth,
        depth=depth,
        multiplier=multiplier,
        shift=shift,
        exponential=b.constant("exponential", _entries(10.0, 32767, np.exp)),
        inverse=b.constant("inverse", _entries(1.0, -32768, lambda v: 1 / (1 + v))),
    )
    b.call("softmax_int16", x, y, b.scratch(2 * depth), settings)


def _entries(width: float, zero: int, curve: Callable[[Any], Any]) -> Array:
    """int16 [513]: a curve over so many units, 15 bits behind the point; an entry is moved by half of what
    the straight line to the next one is off in the middle.

    Args:
        width: of what the stored numbers stand for, from end to end.
        zero: the stored number that stands for 0.
        curve: the function.
    """
    # In double precision in this order, as LiteRT makes them: some entries hang on the last bit.
    scale = width / 65535
    least, most = scale * (-32768 - zero), scale * (32767 - zero)
    step = (most - least) / 512
    unit = 65536 / (2 / 65535 * 32767 + 2 / 65535 * 32768)

    def rounded(v: Any) -> Any:
        return np.sign(v) * np.floor(np.abs(v) + 0.5)

    at = np.arange(512)
    here, middle, following = (
        curve(least + n * step + half) * unit for n, half in ((at, 0), (at, step / 2), (at + 1, 0))
    )
    off = rounded((following + rounded(here)) / 2) - rounded(middle)
    table = np.append(rounded(here) - rounded(off / 2), rounded(curve(most) * unit))
    return table.clip(-32768, 32767).astype(np.int16)
