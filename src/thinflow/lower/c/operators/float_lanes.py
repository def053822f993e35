"""Convolutions and fully connected layers of floats on processors with wide registers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.layer import Constant
from thinflow.lower.c.operators.float_layers import float_limits, float_sizes
from thinflow.lower.c.operators.lanes import Lanes
from thinflow.lower.c.processors import PROCESSORS
from thinflow.lower.c.windows import window
from thinflow.tflite.model import Operator

_MOST_BLOCKS = 4
"""Registers of channels that a depthwise convolution sums at a time."""


@dataclass(frozen=True)
class _Weights:
    """Filters and bias as kernels read them.

    Attributes:
        filters, bias: constants.
        words: what kernels are made for: registers of filters side by side, and rows at a time.
    """

    filters: Constant
    bias: Constant
    words: dict[str, str]


V4 = Lanes("v4", 16, 1, 4, 0, 24, 4)
V3 = Lanes("v3", 8, 1, 4, 0, 12, 3)
# Two registers count as one here, and half of those that there are hold sums.
NEON = Lanes("neon", 8, 1, 4, 0, 12, 2)
_CONV, _DEPTHWISE, _DENSE = "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"


@form(_CONV, _DEPTHWISE, _DENSE, types="float", needs="avx2")
def layer_x86(b: LayerBuilder, op: Operator) -> None:
    """AVX-512, sixteen sums in a register, or AVX2, eight: a network has registers of one width."""
    _layer(b, V4 if "avx512" in PROCESSORS[b.cpu].features else V3)


@form(_CONV, _DEPTHWISE, _DENSE, types="float", needs="neon")
def layer_neon(b: LayerBuilder, op: Operator) -> None:
    """NEON: four sums in a register."""
    _layer(b, NEON)


def _layer(b: LayerBuilder, isa: Lanes) -> None:
    # The portable kernel brings computed weights into its order while it runs.
    bias = b.optional(2)
    if not b.input(1).is_constant or (bias is not None and not bias.is_constant):
        raise NotHere
    forms = {_CONV: _conv_2d, _DEPTHWISE: _depthwise, _DENSE: _fully_connected}
    forms[b.operator.code](b, isa, float_sizes(b))


def _conv_2d(b: LayerBuilder, isa: Lanes, sizes: tuple[int, ...]) -> None:
    """x [n,h,w,c], filters [k,kh,kw,c] -> y [n,oh,ow,k]."""
    x, y = b.input(0), b.output()
    filters, height, width, depth = sizes
    if depth != b.shape(x)[3]:
        raise NotHere
    pixels, patch = b.size(y) // filters, height * width * depth
    if height == width == 1 and pixels == b.size(x) // depth:
        _rows(b, isa, (pixels, depth, filters))
        return
    w = _weights(b, isa, (pixels // b.shape(y)[0], patch, filters))
    layer = b.struct("", window=window(b, (height, width)), **float_limits(b))
    b.macs(b.size(y) * patch)
    columns = b.scratch(4 * int(w.words["rest"]) * patch)
    b.call("conv_2d_float_lanes", x, y, w.filters, w.bias, columns, layer, type="float", **w.words)


def _fully_connected(b: LayerBuilder, isa: Lanes, sizes: tuple[int, ...]) -> None:
    """x [..., depth], weights [units, depth] -> y [..., units]."""
    units, depth = sizes
    _rows(b, isa, (b.size(b.input(0)) // depth, depth, units))


def _rows(b: LayerBuilder, isa: Lanes, sizes: tuple[int, int, int]) -> None:
    """Rows that are their own patches."""
    rows, depth, filters = sizes
    w = _weights(b, isa, sizes)
    layer = b.struct("", rows=rows, depth=depth, filters=filters, **float_limits(b))
    b.macs(rows * depth * filters)
    b.call("fully_connected_float_lanes", b.input(0), b.output(), w.filters, w.bias, layer, **w.words)


def _weights(b: LayerBuilder, isa: Lanes, sizes: tuple[int, int, int]) -> _Weights:
    """Weights [filters, depth] for so many rows in a picture."""
    rows, depth, filters = sizes
    if not rows or not depth:
        raise NotHere
    blocks, rest = isa.tile(-(-filters // isa.lanes), rows)
    packed = isa.packed(b.array(1).reshape(filters, 1, depth), blocks)
    bias = np.zeros(len(packed) * blocks * isa.lanes, np.float32)
    bias[:filters] = b.array_or_zeros(2, filters, np.float32)
    words = {"isa": isa.name, "blocks": str(blocks), "rest": str(rest)}
    return _Weights(b.constant("weights", packed.reshape(-1)), b.constant("bias", bias), words)


def _depthwise(b: LayerBuilder, isa: Lanes, sizes: tuple[int, ...]) -> None:
    """x [n,h,w,c], filters [1,kh,kw,c] -> y [n,oh,ow,c]."""
    x, y = b.input(0), b.output()
    _, height, width, channels = sizes
    if channels != b.shape(x)[3] or channels < isa.lanes:
        raise NotHere
    layer = b.struct("", window=window(b, (height, width)), **float_limits(b))
    b.macs(b.size(y) * height * width)
    bias = b.constant("bias", b.array_or_zeros(2, channels, np.float32))
    words = {"isa": isa.name, "blocks": str(min(channels // isa.lanes, _MOST_BLOCKS))}
    b.call("depthwise_float_lanes", x, y, b.constant("filter", b.array(1)), bias, layer, **words)
