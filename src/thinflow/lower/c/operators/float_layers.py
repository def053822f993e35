"""Convolutions and fully connected layers of floats."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.windows import window
from thinflow.tflite.model import Operator
from thinflow.typing import Array

_BLOCK = 8
"""Filters that the kernels compute at once."""

_LIMITS = {
    "NONE": (-math.inf, math.inf),
    "RELU": (0.0, math.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
}


def float_limits(b: LayerBuilder) -> dict[str, float]:
    """The members `min` and `max` under the operator's activation.

    Raises:
        UnsupportedOp: it is no pair of limits.
    """
    activation = b.operator.options.get("fused_activation_function", "NONE")
    if activation not in _LIMITS:
        raise UnsupportedOp(f"the activation {activation} has no form in C")
    least, most = _LIMITS[activation]
    return {"min": least, "max": most}


def _blocks(weights: Array) -> Array:
    """[groups, filters, depth] as [groups, blocks, depth, 8], the last block filled up with zeros."""
    # Eight filters side by side: compilers add them up in one instruction where there are any for that.
    groups, filters, depth = weights.shape
    padded = np.zeros((groups, -(-filters // _BLOCK) * _BLOCK, depth), np.float32)
    padded[:, :filters] = weights
    blocks: Array = padded.reshape(groups, -1, _BLOCK, depth).swapaxes(2, 3)
    return blocks


def _bias(b: LayerBuilder, groups: int, filters: int) -> Array:
    """[groups, filters]: the bias, zero if absent, each group filled up to whole blocks."""
    padded = np.zeros((groups, -(-filters // _BLOCK) * _BLOCK), np.float32)
    if b.optional(2) is not None:
        padded[:, :filters] = b.array(2).reshape(groups, filters)
    return padded


@form("CONV_2D", types="float")
def conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [k,kh,kw,c/groups] -> y [n,oh,ow,k]."""
    x, y, w = b.input(0), b.output(), _float(b)
    filters, height, width, depth = w.shape
    groups = b.shape(x)[3] // depth
    each, patch = filters // groups, height * width * depth
    weights = b.constant("filter", _blocks(w.reshape(groups, each, patch)))
    bias = b.constant("bias", _bias(b, groups, each))
    b.macs(b.size(y) * patch)
    rows = b.size(y) // filters
    # One pixel of the input is its own patch.
    if height == width == groups == 1 and rows == b.size(x) // depth:
        layer = b.struct("", rows=rows, depth=depth, filters=filters, **float_limits(b))
        b.call("fully_connected_float", x, y, weights, bias, layer)
        return
    at = window(b, (height, width))
    layer = b.struct("", window=at, filter_channels=depth, **float_limits(b))
    b.call("conv_2d_float", x, y, weights, bias, b.scratch(4 * 2 * patch), layer, type="float")


@form("DEPTHWISE_CONV_2D", types="float")
def depthwise_conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [1,kh,kw,c*multiplier] -> y [n,oh,ow,c*multiplier]."""
    x, y, w = b.input(0), b.output(), _float(b)
    _, height, width, channels = w.shape
    bias = np.zeros(channels, np.float32) if b.optional(2) is None else b.array(2)
    b.macs(b.size(y) * height * width)
    layer = b.struct(
        "", window=window(b, (height, width)), multiplier=channels // b.shape(x)[3], **float_limits(b)
    )
    b.call("depthwise_conv_2d_float", x, y, b.constant("filter", w), b.constant("bias", bias), layer)


@form("FULLY_CONNECTED", types="float")
def fully_connected(b: LayerBuilder, op: Operator) -> None:
    """x [..., depth], weights [units, depth] -> y [..., units]."""
    x, y, w = b.input(0), b.output(), _float(b)
    units, depth = w.shape
    rows = b.size(x) // depth
    b.macs(rows * units * depth)
    weights = b.constant("weights", _blocks(w.reshape(1, units, depth)))
    layer = b.struct("", rows=rows, depth=depth, filters=units, **float_limits(b))
    b.call("fully_connected_float", x, y, weights, b.constant("bias", _bias(b, 1, units)), layer)


def _float(b: LayerBuilder) -> Array:
    """The weights of a float layer.

    Raises:
        NotHere: they are stored otherwise, so that LiteRT rounds what they are multiplied with.
    """
    weights = b.array(1)
    if weights.dtype != np.float32:
        raise NotHere
    return weights
