"""Eight bits on processors that compute one number at a time: sums in all registers that there are."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.layer import Struct
from thinflow.lower.c.operators.dsp import Factors, factors, rows
from thinflow.lower.c.operators.lanes import MOST_TAPS, sides_of
from thinflow.lower.c.processors import PROCESSORS
from thinflow.lower.c.requantize import activation_limits
from thinflow.lower.c.windows import keeps_place, window
from thinflow.tflite.model import Operator
from thinflow.typing import Array


@form("CONV_2D", types="int8", needs="scalar")
def conv_2d_scalar(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [k,kh,kw,c] -> y [n,oh,ow,k]."""
    x, y, w = b.shape(b.input(0)), b.shape(b.output()), b.shape(b.input(1))
    if w[3] != x[3]:
        raise NotHere
    depth, pixels = w[1] * w[2] * w[3], y[1] * y[2]
    is_pointwise = w[1:3] == (1, 1) and x[:3] == y[:3]
    # Where pixels do not grow, they are copied: then the output may lie on the input.
    if is_pointwise and w[0] > w[3]:
        _rows(b, "twice", x[0] * pixels)
        return
    filter, halves, output, words = _filters(b, "twice", pixels)
    layer = b.struct(
        "", window=window(b, (w[1], w[2])), depth=depth, outside=b.scale(b.input(0))[1], output=output
    )
    b.macs(b.size(b.output()) * depth)
    columns = b.scratch(int(words["rest"]) * depth)
    constant = b.constant("filter", filter)
    b.call(
        "conv_2d_scalar",
        b.input(0),
        b.output(),
        constant,
        columns,
        layer,
        type="int8",
        halves=halves,
        **words,
    )
    if is_pointwise:
        b.in_place(0)


@form("FULLY_CONNECTED", types="int8", needs="scalar")
def fully_connected_scalar(b: LayerBuilder, op: Operator) -> None:
    """x [..., depth], weights [units, depth] -> y [..., units]."""
    _rows(b, "once", b.size(b.input(0)) // b.shape(b.input(1))[1])


def _rows(b: LayerBuilder, rounding: str, count: int) -> None:
    filter, halves, output, words = _filters(b, rounding, count)
    filters, depth = b.shape(b.output())[-1], b.shape(b.input(0))[-1]
    layer = b.struct("", rows=count, depth=depth, filters=filters, output=output)
    b.macs(b.size(b.output()) * depth)
    constant = b.constant("filter", filter)
    b.call("rows_scalar", b.input(0), b.output(), constant, layer, halves=halves, **words)


def _filters(b: LayerBuilder, rounding: str, count: int) -> tuple[Array, str, Struct, dict[str, str]]:
    """Weights in the order they are read, how sums become outputs, and the words of a block."""
    w = rows(b)
    made = factors(b, w, rounding, moved=False)
    tile = PROCESSORS[b.cpu].tile
    blocks, rest = (tile.filters, min(tile.rows, count)) if count > 1 else (tile.filters_of_one, 1)
    padded = np.pad(w, ((0, -len(w) % blocks), (0, 0)))
    side_by_side = padded.reshape(-1, blocks, w.shape[1]).swapaxes(1, 2)
    output = _outputs_struct(b, made, -len(w) % blocks)
    # One row alone reads most for each product, and pays for loops most.
    unrolled = 4 if rest > 1 else 8 if tile.rows == 1 else 16
    words = {"blocks": str(blocks), "rest": str(rest), "unrolled": str(unrolled)}
    return np.ascontiguousarray(side_by_side), made.halves, output, words


@form("DEPTHWISE_CONV_2D", types="int8", needs="scalar")
def depthwise_scalar(b: LayerBuilder, op: Operator) -> None:
    """x [n,h,w,c], filters [1,kh,kw,c] -> y [n,oh,ow,c]."""
    x, y, w = b.shape(b.input(0)), b.shape(b.output()), b.shape(b.input(1))
    down, across = sides_of(b)
    if w[3] != x[3] or (down.taps, across.taps) != w[1:3] or math.prod(w[1:3]) > MOST_TAPS:
        raise NotHere
    taps = rows(b, last=True)
    made = factors(b, taps, "twice", moved=False)
    batches, is_column = x[0], x[2] == y[2] == w[2] == 1
    if is_column:
        # A picture of one column lies as one of one row does.
        down, across = replace(across, x_step=down.x_step), replace(down, x_step=across.x_step)
    outputs = min(PROCESSORS[b.cpu].tile.outputs, across.out)
    # Without a border rows are read where they lie.
    is_bordered = any(s.before or s.inside < s.reach for s in (down, across))
    pitch = max(across.reach, across.before + across.inside) * w[3] * is_bordered
    is_edged = down.before > 0 or down.inside < down.reach
    panel_bytes = (down.taps + is_edged) * pitch
    layer = b.struct(
        "",
        batches=batches,
        rows=down.out,
        columns=across.out,
        in_rows=down.inside,
        in_step=down.x_step,
        in_row=across.inside * w[3],
        in_bytes=b.size(b.input(0)) // batches,
        stride_y=down.stride,
        pad_top=down.before,
        border=across.before * w[3],
        pitch=pitch,
        bytes=panel_bytes,
        outside=b.scale(b.input(0))[1],
        output=_outputs_struct(b, made, 0),
    )
    b.macs(b.size(b.output()) * w[1] * w[2])
    if is_bordered and keeps_place(b, (w[1], w[2])):
        b.in_place(0)
    words = {"halves": made.halves, "stride": str(across.stride), "step": str(w[3]), "blocks": str(down.taps)}
    words |= {"rest": str(across.taps), "outputs": str(outputs)}
    panel = b.scratch(max(panel_bytes, 1))
    b.call("depthwise_scalar", b.input(0), b.output(), b.constant("filter", taps), panel, layer, **words)


def _outputs_struct(b: LayerBuilder, made: Factors, more: int) -> Struct:
    """How sums become outputs, with room for more biases behind the last."""
    # One factor for all channels is stored once, and read again for each.
    is_one = bool((made.triples == made.triples[0]).all())
    least, most = activation_limits(b, b.output())
    return b.struct(
        "requantize_high_t",
        bias=b.constant("bias", np.pad(made.plain, (0, more)), "int32"),
        factors=b.constant("factors", made.triples[:1] if is_one else made.triples, "int32"),
        step=0 if is_one else 3,
        min=least,
        max=most,
    )
