"""Convolutions and fully connected layers of eight bits."""

from __future__ import annotations

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.computed_weights import weights_and_bias
from thinflow.lower.c.forms import form
from thinflow.lower.c.requantize import activation_limits, requantization, sum_factors
from thinflow.lower.c.windows import keeps_place, rows_above, window
from thinflow.tflite.model import Operator


@form("CONV_2D", types="int8 uint8")
def conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [k,kh,kw,c/groups] -> y [n,oh,ow,k]."""
    x, y = b.input(0), b.output()
    (filters, height, width, depth), out = b.shape(b.input(1)), b.shape(y)
    x_zero_point = b.scale(x)[1]
    w = weights_and_bias(b, "filter", x_zero_point)
    rounding = w.rounding(b, "twice")
    factors = sum_factors(b, x, b.input(1), y, rounding)
    output = requantization(b, rounding, factors, w.bias, activation_limits(b, y), b.scale(y)[1])
    patch = height * width * depth
    b.macs(b.size(y) * patch)
    at = window(b, (height, width))
    pixels = out[0] * out[1] * out[2]
    # One pixel of the input is its own patch. Where pixels do not grow, they are copied all the same: then
    # the output may lie on the input.
    is_pointwise = height == width == 1 and depth == b.shape(x)[3] and pixels == b.size(x) // depth
    if is_pointwise and filters <= depth:
        # Nothing keeps a layer from having its input for weights.
        if b.input(1) is not x:
            b.in_place()
    elif is_pointwise:
        layer = b.struct(
            "", rows=pixels, depth=depth, filters=filters, w_zero_point=w.zero_point, output=output
        )
        b.call("fully_connected", x, y, w.data, layer, type=x.dtype.name, rounding=rounding)
        return
    layer = b.struct(
        "", window=at, filter_channels=depth, w_zero_point=w.zero_point, outside=x_zero_point, output=output
    )
    b.call("conv_2d", x, y, w.data, b.scratch(2 * patch), layer, type=x.dtype.name, rounding=rounding)


@form("DEPTHWISE_CONV_2D", types="int8 uint8")
def depthwise_conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [1,kh,kw,c*multiplier] -> y [n,oh,ow,c*multiplier]."""
    x, y = b.input(0), b.output()
    _, height, width, channels = b.shape(b.input(1))
    # The zero point is taken from each input here: windows over the border have fewer of them.
    w = weights_and_bias(b, "filter", 0, axis=3)
    rounding = w.rounding(b, "twice")
    factors = sum_factors(b, x, b.input(1), y, rounding)
    size = height, width
    kept = rows_above(b, size) if keeps_place(b, size) else 0
    if kept and b.input(1) is not x:
        b.in_place()
    layer = b.struct(
        "",
        window=window(b, size),
        multiplier=channels // b.shape(x)[3],
        kept=kept,
        x_zero_point=b.scale(x)[1],
        w_zero_point=w.zero_point,
        output=requantization(b, rounding, factors, w.bias, activation_limits(b, y), b.scale(y)[1]),
    )
    # Where a window leaves the picture there are fewer; the cost is told as usual, for all.
    b.macs(b.size(y) * height * width)
    words = {"type": x.dtype.name, "rounding": rounding}
    sums, rows = b.scratch(4 * channels), b.scratch(kept * b.shape(x)[2] * b.shape(x)[3])
    b.call("depthwise_conv_2d", x, y, w.data, sums, rows, layer, **words)


@form("FULLY_CONNECTED", types="int8 uint8")
def fully_connected(b: LayerBuilder, op: Operator) -> None:
    """x [..., depth], weights [units, depth] -> y [..., units]."""
    x, y = b.input(0), b.output()
    units, depth = b.shape(b.input(1))
    w = weights_and_bias(b, "weights", b.scale(x)[1])
    # LiteRT's reference kernel rounds once here, other than for convolutions.
    rounding = w.rounding(b, "once", is_delegated=x.dtype.name == "int8")
    factors = sum_factors(b, x, b.input(1), y, rounding)
    output = requantization(b, rounding, factors, w.bias, activation_limits(b, y), b.scale(y)[1])
    rows = b.size(x) // depth
    b.macs(rows * units * depth)
    layer = b.struct("", rows=rows, depth=depth, filters=units, w_zero_point=w.zero_point, output=output)
    b.call("fully_connected", x, y, w.data, layer, type=x.dtype.name, rounding=rounding)
