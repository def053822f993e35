"""Convolutions the other way round: each pixel of the input adds a window to the output."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.computed_weights import weights_and_bias
from thinflow.lower.c.copies import copy
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Argument, Struct
from thinflow.lower.c.operators.float_layers import float_limits, operand
from thinflow.lower.c.operators.int16_layers import known, wide_output
from thinflow.lower.c.requantize import activation_limits, requantization, sum_factors
from thinflow.lower.c.windows import moves
from thinflow.tflite.model import Operator


@form("TRANSPOSE_CONV", types="float")
def transpose_conv_floats(b: LayerBuilder, op: Operator) -> None:
    """Filters [k,kh,kw,c], x [n,h,w,c] -> y [n,oh,ow,k]."""
    x, y, w = b.input(2), b.output(), b.input(1)
    filters, height, width, depth = b.shape(w)
    bias = operand(b, 3, "bias", filters)
    b.macs(b.size(x) * b.size(w) // depth)
    settings = b.struct("", window=_window(b), **float_limits(b))
    # All filters of a tap side by side: compilers add them up in one instruction where there is one for that.
    if w.is_constant:
        weights: Argument = b.constant("filter", np.moveaxis(b.array(1), 0, 3))
    else:
        weights = b.scratch(4 * b.size(w))
        taps = height * width * depth
        copy(b, w, weights, (taps, filters), (1, taps), (filters, 1))
    b.call("transpose_conv_float", x, y, weights, bias, settings)


@form("TRANSPOSE_CONV", types="int8 uint8")
def transpose_conv(b: LayerBuilder, op: Operator) -> None:
    """As of floats."""
    x, y = b.input(2), b.output()
    kind = x.dtype.name
    b.macs(b.size(x) * b.size(b.input(1)) // b.shape(b.input(1))[3])
    if kind == "int16":
        output = wide_output(b, x, b.shape(y)[3], 3)
        settings = b.struct("", window=_window(b), x_zero_point=0, w_zero_point=0, output=output)
        weights = known(b, 1, "filter")
        words = {"type": kind, "rounding": "wide", "sum_type": "int64_t"}
        b.call("transpose_conv", x, y, weights, settings, **words)
        return
    if kind not in ("int8", "uint8"):
        raise UnsupportedOp(f"its weights are {b.input(1).dtype} and its input is {kind}")
    w = weights_and_bias(b, "filter", 0, bias_number=3)
    rounding = w.rounding(b, "twice")
    factors = sum_factors(b, x, b.input(1), y, rounding)
    limits = activation_limits(b, y)
    output = requantization(b, rounding, factors, w.bias, limits, b.scale(y)[1])
    settings = b.struct(
        "", window=_window(b), x_zero_point=b.scale(x)[1], w_zero_point=w.zero_point, output=output
    )
    b.call("transpose_conv", x, y, w.data, settings, type=kind, rounding=rounding)


def _window(b: LayerBuilder) -> Struct:
    """The struct `window_t`: how the windows of the input lie in the output."""
    (_, height, width, _), x, y = b.shape(b.input(1)), b.shape(b.input(2)), b.shape(b.output())
    steps, _, is_same = moves(b.operator)
    pads = []
    for out, size, step in zip(y[1:3], (height, width), steps, strict=True):
        # As of the convolution that would lead back.
        before = (-(-out // step) - 1) * step + size - out
        pads.append(max(before, 0) // 2 if is_same else 0)
    names = ("batches", "in_height", "in_width", "in_channels")
    return b.struct(
        "window_t",
        **dict(zip(names, x, strict=True)),
        out_height=y[1],
        out_width=y[2],
        out_channels=y[3],
        height=height,
        width=width,
        stride_y=steps[0],
        stride_x=steps[1],
        dilation_y=1,
        dilation_x=1,
        pad_top=pads[0],
        pad_left=pads[1],
    )
