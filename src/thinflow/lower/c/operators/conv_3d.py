"""Convolutions over three dimensions, which LiteRT has of floats."""

from __future__ import annotations

import math

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Struct
from thinflow.lower.c.operators.float_layers import float_limits, operand
from thinflow.lower.c.windows import before, moves
from thinflow.tflite.model import Operator, Tensor


@form("CONV_3D", types="float")
def conv_3d(b: LayerBuilder, op: Operator) -> None:
    """x [n,d,h,w,c], filters [kd,kh,kw,c,k] -> y [n,od,oh,ow,k]."""
    x, y, sizes = b.input(0), b.output(), b.shape(b.input(1))
    b.macs(b.size(y) * math.prod(sizes[:4]))
    settings = _settings(b, x, x, y)
    weights, bias = operand(b, 1, "filter", 0), operand(b, 2, "bias", sizes[4])
    b.call("conv_3d_float", x, y, weights, bias, settings)


@form("CONV_3D_TRANSPOSE", types="int32")
def transpose_conv_3d(b: LayerBuilder, op: Operator) -> None:
    """x [n,d,h,w,c] at input 2, filters [kd,kh,kw,k,c] -> y [n,od,oh,ow,k], whose sizes input 0 tells."""
    x, y, sizes = b.input(2), b.output(), b.shape(b.input(1))
    b.macs(b.size(x) * math.prod(sizes[:4]))
    # The windows are those of the convolution that goes the other way.
    settings = _settings(b, x, y, x)
    weights, bias = operand(b, 1, "filter", 0), operand(b, 3, "bias", sizes[3])
    b.call("transpose_conv_3d_float", x, y, weights, bias, settings)


def _settings(b: LayerBuilder, x: Tensor, wide: Tensor, narrow: Tensor) -> Struct:
    """The struct of a layer.

    Args:
        b: of the layer.
        x: its input.
        wide, narrow: what windows move over, and what has one number for each of them.
    """
    y, taps = b.output(), b.shape(b.input(1))[:3]
    strides, dilations, is_same = moves(b.operator, "dhw")
    pads = tuple(
        before(*sides) if is_same else 0
        for sides in zip(b.shape(wide)[1:4], b.shape(narrow)[1:4], taps, strides, dilations, strict=True)
    )
    return b.struct(
        "",
        batches=b.shape(x)[0],
        in_size=b.shape(x)[1:4],
        out_size=b.shape(y)[1:4],
        window=taps,
        stride=strides,
        dilation=dilations,
        before=pads,
        in_channels=b.shape(x)[4],
        out_channels=b.shape(y)[4],
        **float_limits(b),
    )
