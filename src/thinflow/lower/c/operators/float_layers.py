"""Convolutions and fully connected layers of floats."""

from __future__ import annotations

import math

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.copies import copy
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.layer import Argument
from thinflow.lower.c.processors import PROCESSORS
from thinflow.lower.c.windows import window
from thinflow.tflite.model import Operator

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


def _blocks(b: LayerBuilder, number: int, sizes: tuple[int, int, int]) -> Argument:
    """Weights [groups, filters, depth] as [groups, blocks, depth, 8], the last block filled up with zeros.

    Args:
        b: of the layer.
        number: of the input; what is computed is brought into this order while it runs.
        sizes: groups, filters and depth.
    """
    # Eight filters side by side: compilers add them up in one instruction where there are any for that.
    groups, filters, depth = sizes
    blocks = -(-filters // _BLOCK)
    w = b.input(number)
    if w.is_constant:
        padded = np.zeros((groups, blocks * _BLOCK, depth), np.float32)
        padded[:, :filters] = b.array(number).reshape(sizes)
        return b.constant("weights", padded.reshape(groups, blocks, _BLOCK, depth).swapaxes(2, 3))
    room = b.scratch(4 * groups * blocks * depth * _BLOCK)
    whole, rest = divmod(filters, _BLOCK)
    if rest:
        b.call("fill", room, groups * blocks * depth * _BLOCK, 0.0, type="float")
    x_step, y_step = (filters * depth, _BLOCK * depth, depth, 1), (blocks * depth * 8, depth * 8, 1, _BLOCK)
    copy(b, w, room, (groups, whole, _BLOCK, depth), x_step, y_step)
    ends = {"x_start": whole * _BLOCK * depth, "y_start": whole * depth * _BLOCK}
    copy(b, w, room, (groups, 1, rest, depth), x_step, y_step, **ends)
    return room


def _unrolled(b: LayerBuilder) -> str:
    """How many sums of a block are written out one by one.

    Where a register holds one number, all of them, or they would lie in memory. Else none: compilers put sums
    of a loop into registers of several. GCC at -O3 writes them out by itself, and is ten times slower then.
    """
    features = PROCESSORS[b.cpu].features
    return str(_BLOCK if "scalar" in features else 1)


def _bias(b: LayerBuilder, groups: int, filters: int) -> Argument:
    """[groups, filters]: the bias, zero if absent, each group filled up to whole blocks."""
    width = -(-filters // _BLOCK) * _BLOCK
    given = b.optional(2)
    if given is not None and not given.is_constant:
        room = b.scratch(4 * groups * width)
        b.call("fill", room, groups * width, 0.0, type="float")
        copy(b, given, room, (groups, filters), (filters, 1), (width, 1))
        return room
    padded = np.zeros((groups, width), np.float32)
    if given is not None:
        padded[:, :filters] = b.array(2).reshape(groups, filters)
    return b.constant("bias", padded)


def operand(b: LayerBuilder, number: int, name: str, size: int) -> Argument:
    """Reals in the order of the file: a constant, or what is computed; zeros if absent."""
    given = b.optional(number)
    if given is not None and not given.is_constant:
        return given
    return b.constant(name, b.array_or_zeros(number, size, np.float32))


@form("CONV_2D", types="float")
def conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [k,kh,kw,c/groups] -> y [n,oh,ow,k]."""
    x, y = b.input(0), b.output()
    filters, height, width, depth = float_sizes(b)
    groups = b.shape(x)[3] // depth
    each, patch = filters // groups, height * width * depth
    weights, bias = _blocks(b, 1, (groups, each, patch)), _bias(b, groups, each)
    b.macs(b.size(y) * patch)
    rows = b.size(y) // filters
    # One pixel of the input is its own patch.
    if height == width == groups == 1 and rows == b.size(x) // depth:
        layer = b.struct("", rows=rows, depth=depth, filters=filters, **float_limits(b))
        b.call("fully_connected_float", x, y, weights, bias, layer, unrolled=_unrolled(b))
        return
    at = window(b, (height, width))
    layer = b.struct("", window=at, filter_channels=depth, **float_limits(b))
    # Two patches side by side: `product_float` reads each weight once for both.
    words = {"type": "float", "unrolled": _unrolled(b)}
    b.call("conv_2d_float", x, y, weights, bias, b.scratch(4 * 2 * patch), layer, **words)


@form("DEPTHWISE_CONV_2D", types="float")
def depthwise_conv_2d(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [1,kh,kw,c*multiplier] -> y [n,oh,ow,c*multiplier]."""
    x, y = b.input(0), b.output()
    _, height, width, channels = float_sizes(b)
    weights, bias = operand(b, 1, "filter", 0), operand(b, 2, "bias", channels)
    b.macs(b.size(y) * height * width)
    layer = b.struct(
        "", window=window(b, (height, width)), multiplier=channels // b.shape(x)[3], **float_limits(b)
    )
    b.call("depthwise_conv_2d_float", x, y, weights, bias, layer)


@form("FULLY_CONNECTED", types="float")
def fully_connected(b: LayerBuilder, op: Operator) -> None:
    """x [..., depth], weights [units, depth] -> y [..., units]."""
    x, y = b.input(0), b.output()
    units, depth = float_sizes(b)
    rows = b.size(x) // depth
    b.macs(rows * units * depth)
    weights, bias = _blocks(b, 1, (1, units, depth)), _bias(b, 1, units)
    layer = b.struct("", rows=rows, depth=depth, filters=units, **float_limits(b))
    b.call("fully_connected_float", x, y, weights, bias, layer, unrolled=_unrolled(b))


def float_sizes(b: LayerBuilder) -> tuple[int, ...]:
    """The sizes of the weights of a float layer.

    Raises:
        NotHere: they are stored otherwise, so that LiteRT rounds what they are multiplied with.
    """
    if b.input(1).dtype.name != "float":
        raise NotHere
    return b.shape(b.input(1))
