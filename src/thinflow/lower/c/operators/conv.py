"""Convolutions and fully connected layers of eight bits."""

from __future__ import annotations

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.operators.batch_matmul import products
from thinflow.lower.c.requantize import (
    activation_limits,
    byte_weights,
    folded_bias,
    requantization,
    sum_factors,
)
from thinflow.lower.c.windows import keeps_place, rows_above, window
from thinflow.tflite.model import Operator


@form("CONV_2D", types="int8 uint8")
def conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [k,kh,kw,c/groups] -> y [n,oh,ow,k]."""
    x, y = b.input(0), b.output()
    (filters, height, width, depth), out = b.shape(b.input(1)), b.shape(y)
    w, w_zero_point = byte_weights(b, 1)
    x_zero_point = b.scale(x)[1]
    rounding = "twice" if b.rounding == "litert" else "float"
    bias = folded_bias(b, 2, w, x_zero_point, w_zero_point)
    factors = sum_factors(b, x, b.input(1), y, rounding)
    output = requantization(b, rounding, factors, bias, activation_limits(b, y), b.scale(y)[1])
    patch = height * width * depth
    b.macs(b.size(y) * patch)
    # In the order of the file, which is the one that products read.
    weights, at = b.constant("filter", w), window(b, (height, width))
    pixels = out[0] * out[1] * out[2]
    # One pixel of the input is its own patch. Where pixels do not grow, they are copied all the same: then
    # the output may lie on the input.
    is_pointwise = height == width == 1 and depth == b.shape(x)[3] and pixels == b.size(x) // depth
    if is_pointwise and filters <= depth:
        b.in_place()
    elif is_pointwise:
        layer = b.struct(
            "", rows=pixels, depth=depth, filters=filters, w_zero_point=w_zero_point, output=output
        )
        b.call("fully_connected", x, y, weights, layer, type=x.dtype.name, rounding=rounding)
        return
    layer = b.struct(
        "", window=at, filter_channels=depth, w_zero_point=w_zero_point, outside=x_zero_point, output=output
    )
    b.call("conv_2d", x, y, weights, b.scratch(2 * patch), layer, type=x.dtype.name, rounding=rounding)


@form("DEPTHWISE_CONV_2D", types="int8 uint8")
def depthwise_conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [1,kh,kw,c*multiplier] -> y [n,oh,ow,c*multiplier]."""
    x, y = b.input(0), b.output()
    _, height, width, channels = b.shape(b.input(1))
    w, w_zero_point = byte_weights(b, 1)
    rounding = "twice" if b.rounding == "litert" else "float"
    # The zero point is taken from each input here: windows over the border have fewer of them.
    bias = folded_bias(b, 2, np.moveaxis(w[0], -1, 0), 0, w_zero_point)
    factors = sum_factors(b, x, b.input(1), y, rounding)
    size = height, width
    kept = rows_above(b, size) if keeps_place(b, size) else 0
    if kept:
        b.in_place()
    layer = b.struct(
        "",
        window=window(b, size),
        multiplier=channels // b.shape(x)[3],
        kept=kept,
        x_zero_point=b.scale(x)[1],
        w_zero_point=w_zero_point,
        output=requantization(b, rounding, factors, bias, activation_limits(b, y), b.scale(y)[1]),
    )
    # Where a window leaves the picture there are fewer; the cost is told as usual, for all.
    b.macs(b.size(y) * height * width)
    words = {"type": x.dtype.name, "rounding": rounding}
    sums, rows = b.scratch(4 * channels), b.scratch(kept * b.shape(x)[2] * b.shape(x)[3])
    b.call("depthwise_conv_2d", x, y, b.constant("filter", w), sums, rows, layer, **words)


@form("FULLY_CONNECTED", types="int8 uint8")
def fully_connected(b: LayerBuilder, op: Operator) -> None:
    """x [..., depth], weights [units, depth] -> y [..., units]."""
    x, y = b.input(0), b.output()
    if not b.input(1).is_constant and b.optional(2) is None:
        _computed(b)
        return
    w, w_zero_point = byte_weights(b, 1)
    units, depth = w.shape
    # LiteRT's reference kernel rounds once here, other than for convolutions.
    rounding = "once" if b.rounding == "litert" else "float"
    factors = sum_factors(b, x, b.input(1), y, rounding)
    bias = folded_bias(b, 2, w, b.scale(x)[1], w_zero_point)
    output = requantization(b, rounding, factors, bias, activation_limits(b, y), b.scale(y)[1])
    rows = b.size(x) // depth
    b.macs(rows * units * depth)
    layer = b.struct("", rows=rows, depth=depth, filters=units, w_zero_point=w_zero_point, output=output)
    b.call("fully_connected", x, y, b.constant("weights", w), layer, type=x.dtype.name, rounding=rounding)


def _computed(b: LayerBuilder) -> None:
    """Products with weights that are computed, which are those of two matrices."""
    units, depth = b.shape(b.input(1))
    rows = b.size(b.input(0)) // depth
    b.macs(rows * units * depth)
    steps = {"a_row": depth, "a_next": 1, "b_row": 1, "b_next": depth}
    ones, still = (1,) * 3, (0,) * 3
    shared = {"count": ones, "a_step": still, "b_step": still}
    products(b, {**shared, "rows": rows, "depth": depth, "columns": units, **steps}, "once")
