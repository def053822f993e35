"""Eight bits on Cortex-M55 and M85: sixteen products in one instruction."""

from __future__ import annotations

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.layer import Struct
from thinflow.lower.c.operators.dsp import Factors, factors, rows
from thinflow.lower.c.operators.dsp_depthwise import by_plane, sides, weights
from thinflow.lower.c.operators.mve_pairs import conv_2d_pairs_mve
from thinflow.lower.c.requantize import activation_limits
from thinflow.lower.c.windows import moves, window
from thinflow.tflite.model import Operator
from thinflow.typing import Array

_VECTOR, _FILTERS = 16, 4


@form("CONV_2D", types="int8", needs="dsp mve")
def conv_2d_mve(b: LayerBuilder, op: Operator) -> None:
    """Two pixels by four filters in registers; by all filters where numbers are as most are."""
    try:
        conv_2d_pairs_mve(b)
    except NotHere:
        pass
    else:
        return
    x, w = b.shape(b.input(0)), b.shape(b.input(1))
    if w[3] != x[3] or moves(b.operator).is_dilated:
        raise NotHere
    _product(b, window(b, (w[1], w[2])), "twice")
    if w[1:3] == (1, 1) and x[:3] == b.shape(b.output())[:3] and w[0] <= w[3]:
        b.in_place(0)


@form("FULLY_CONNECTED", types="int8", needs="dsp mve")
def fully_connected_mve(b: LayerBuilder, op: Operator) -> None:
    """A convolution whose pixels are the rows."""
    depth = b.shape(b.input(1))[1]
    count = b.size(b.input(0)) // depth
    sizes = {"batches": 1, "in_height": 1, "in_width": count, "in_channels": depth}
    sizes |= {"out_height": 1, "out_width": count, "out_channels": b.shape(b.input(1))[0]}
    sizes |= {"height": 1, "width": 1, "stride_y": 1, "stride_x": 1, "dilation_y": 1, "dilation_x": 1}
    _product(b, b.struct("window_t", **sizes, pad_top=0, pad_left=0), "once")


def _product(b: LayerBuilder, at: Struct, rounding: str) -> None:
    x, y, w = b.input(0), b.output(), rows(b)
    made = factors(b, w, rounding, moved=False)
    filters, depth = w.shape
    padded = np.pad(w, ((0, -filters % _FILTERS), (0, -depth % _VECTOR)))
    groups = padded.reshape(len(padded) // _FILTERS, _FILTERS, -1, _VECTOR)
    least, most = activation_limits(b, y)
    layer = b.struct(
        "",
        window=at,
        factors=b.constant("factors", _fours(made)),
        depth=padded.shape[1],
        outside=b.scale(x)[1],
        min=least,
        max=most,
    )
    b.macs(b.size(y) * depth)
    packed = b.constant("filter", np.swapaxes(groups, 1, 2))
    b.call("conv_2d_mve", x, y, packed, b.scratch(2 * padded.shape[1]), layer, halves=made.halves)


@form("DEPTHWISE_CONV_2D", types="int8", needs="dsp mve")
def depthwise_3x3_mve(b: LayerBuilder, op: Operator) -> None:
    """Four neighbours of a channel in a register, and nine weights in others."""
    y, x = sides(b)
    taps = weights(b)
    if (y.taps, x.taps) != (3, 3) or y.stride != x.stride or x.stride not in (1, 2):
        raise NotHere
    if -(-y.out // 4) * x.out < -(-x.out // 4) * y.out:
        y, x, taps = x, y, np.swapaxes(taps, 1, 2)
    pitch = x.reach + 4 * x.stride
    shape = {
        "batches": b.shape(b.input(0))[0],
        "channels": len(taps),
        "rows": y.inside,
        "columns": x.inside,
        "x_row": y.x_step,
        "x_step": x.x_step,
        "x_bytes": b.size(b.input(0)) // b.shape(b.input(0))[0],
        "border": y.before * pitch + x.before,
        "pitch": pitch,
        "plane_size": pitch * y.reach + 8 * x.stride,
        "out_rows": y.out,
        "out_columns": x.out,
        "y_row": y.y_step,
        "y_step": x.y_step,
    }
    by_plane(b, "depthwise_3x3_mve", taps, 2 * shape["plane_size"], shape, {"stride": str(x.stride)})


@form("DEPTHWISE_CONV_2D", types="int8", needs="dsp mve")
def depthwise_mve(b: LayerBuilder, op: Operator) -> None:
    """Four channels in a register."""
    x, y, w = b.input(0), b.output(), b.shape(b.input(1))
    if w[3] != b.shape(x)[3] or moves(b.operator).is_dilated:
        raise NotHere
    taps = rows(b, last=True)
    made = factors(b, taps, "twice", moved=False)
    least, most = activation_limits(b, y)
    layer = b.struct(
        "",
        window=window(b, (w[1], w[2])),
        factors=b.constant("factors", _fours(made)),
        outside=b.scale(x)[1],
        min=least,
        max=most,
    )
    b.macs(b.size(y) * w[1] * w[2])
    # Whole vectors are read of the weights: there are a few bytes behind the last.
    padded = b.constant("filter", np.pad(taps.T.reshape(-1), (0, _FILTERS)))
    scratch = b.scratch(4 * w[1] * w[2] + w[3])
    b.call("depthwise_mve", x, y, padded, scratch, layer, halves=made.halves)


def _fours(made: Factors) -> Array:
    """int32: of each four filters the biases, multipliers, summands and shifts, to the left."""
    # Vector shifts by a register go to the left by what it holds, to the right where that is negative.
    numbers = np.column_stack([made.plain, made.triples]) * [1, 1, 1, -1]
    padded = np.pad(numbers, ((0, -len(numbers) % _FILTERS), (0, 0)))
    return np.swapaxes(padded.reshape(-1, _FILTERS, 4), 1, 2).astype(np.int32)
