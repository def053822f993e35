"""Rows brought to one length or sum, and slopes of what is negative."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.broadcasting import broadcast
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.operators.float_layers import float_limits
from thinflow.lower.c.requantize import LIMITS
from thinflow.lower.c.settle import C_TYPES
from thinflow.lower.c.tables import exponentials, softmax_exponentials
from thinflow.lower.c.windows import window
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator


@form("LOG_SOFTMAX", types="float")
def log_softmax(b: LayerBuilder, op: Operator) -> None:
    """Over the last dimension."""
    depth = b.shape(b.input(0))[-1]
    b.in_place()
    b.call("softmax_log_float", b.input(0), b.output(), b.size(b.output()) // depth, depth)


@form("L2_NORMALIZATION", types="float")
def l2_normalization(b: LayerBuilder, op: Operator) -> None:
    """Over the last dimension."""
    depth = b.shape(b.input(0))[-1]
    b.in_place()
    b.call("l2_normalize_float", b.input(0), b.output(), b.size(b.output()) // depth, depth)


@form("L2_NORMALIZATION", types="int8 uint8")
def l2_normalization_of_bytes(b: LayerBuilder, op: Operator) -> None:
    """As of floats; outputs have 7 bits behind the point, by definition of the operator."""
    x, y = b.input(0), b.output()
    kind, zero = x.dtype.name, 128 if x.dtype.name == "uint8" else 0
    if b.scale(y) != (np.float32(1 / 128), zero):
        raise UnsupportedOp("its output has not the scale of 1/128 that its kernel gives it")
    depth = b.shape(x)[-1]
    b.in_place()
    words = {"type": kind, "is_signed": str(int(kind == "int8")), "zero": str(zero)}
    b.call("l2_normalize_fixed", x, y, b.size(y) // depth, depth, b.scale(x)[1], **words)


@form("LOG_SOFTMAX", types="int8 uint8")
def log_softmax_of_bytes(b: LayerBuilder, op: Operator) -> None:
    """Over the last dimension: in fixed point as the reference kernel, else with a table of floats."""
    x, y = b.input(0), b.output()
    kind, depth, scale = x.dtype.name, b.shape(x)[-1], float(b.scale(x)[0])
    rows = b.size(y) // depth
    least, _ = LIMITS[kind]
    if b.scale(y) != (np.float32(1 / 16), least + 255):
        raise UnsupportedOp("its output has not the scale of 1/16 that its kernel gives it")
    b.in_place()
    if b.rounding != "litert":
        table = b.constant("exponentials", exponentials(scale, 1.0))
        ends = float(b.scale(y)[0]), b.scale(y)[1]
        b.call("softmax_log_table", x, y, table, rows, depth, scale, *ends, type=kind, least=f"({least})")
        return
    # Differences with five integer bits and back.
    multiplier, shift = quantized_multiplier(min(scale * 2**26, 2.0**31 - 1))
    back, back_shift = quantized_multiplier(2.0 ** (31 - shift) / multiplier)
    settings = b.struct(
        "",
        rows=rows,
        depth=depth,
        multiplier=multiplier,
        shift=shift,
        back_multiplier=back,
        back_shift=back_shift,
        least=-math.floor(31 * 2.0**26 / 2.0**shift),
    )
    table = b.constant("exponentials", softmax_exponentials(scale, 1.0))
    words = {"type": kind, "least": f"({least})"}
    b.call("softmax_log_fixed", x, y, table, settings, **words)


@form("LOCAL_RESPONSE_NORMALIZATION", types="float")
def local_response(b: LayerBuilder, op: Operator) -> None:
    """Over neighbours in the last dimension."""
    depth = b.shape(b.input(0))[-1]
    numbers = {name: float(op.options.get(name, 0.0)) for name in ("bias", "alpha", "beta")}
    rows = b.size(b.output()) // depth
    before = b.option("radius")
    # LiteRT's reference kernel leaves out the last neighbour.
    behind = before - 1 if b.rounding == "litert" else before
    settings = b.struct("", rows=rows, depth=depth, before=before, behind=behind, **numbers)
    b.call("local_response_float", b.input(0), b.output(), settings)


@form("L2_POOL_2D", types="float")
def l2_pool(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c] -> y [n,oh,ow,c]."""
    at = window(b, (b.option("filter_height"), b.option("filter_width")))
    b.call("l2_pool_2d", b.input(0), b.output(), b.struct("", window=at, **float_limits(b)))


@form("PRELU", types="float")
def prelu_floats(b: LayerBuilder, op: Operator) -> None:
    """A slope for what is negative, for each channel."""
    words = {"type": "float", "op": "prelu", "expression": "a >= 0 ? a : a * b"}
    settings = b.struct("", shape=broadcast(b), **float_limits(b))
    b.call("combine", b.input(0), b.input(1), b.output(), settings, **words)


@form("PRELU", types="int8 uint8 int16")
def prelu(b: LayerBuilder, op: Operator) -> None:
    """As of floats; slopes of numbers of 16 bits are bytes."""
    x, slopes, y = b.input(0), b.input(1), b.output()
    (x_scale, x_zero), (slope_scale, slope_zero), (y_scale, y_zero) = (b.scale(t) for t in (x, slopes, y))
    if slopes.dtype.name != ("int8" if x.dtype.name == "int16" else x.dtype.name):
        raise UnsupportedOp(f"its slopes are {slopes.dtype}, and LiteRT's kernel reads bytes")
    # In float, as the kernel prepares them.
    plain = quantized_multiplier(float(x_scale / y_scale))
    sloped = quantized_multiplier(float(x_scale * slope_scale / y_scale))
    least, most = LIMITS[y.dtype.name]
    settings = b.struct(
        "",
        shape=broadcast(b),
        x_zero_point=x_zero,
        slope_zero_point=slope_zero,
        y_zero_point=y_zero,
        multiplier=plain[0],
        shift=plain[1],
        slope_multiplier=sloped[0],
        slope_shift=sloped[1],
    )
    words = {"type": y.dtype.name, "slope_type": C_TYPES[slopes.dtype.name]}
    b.call("prelu", x, slopes, y, settings, least=f"({least})", most=str(most), **words)
