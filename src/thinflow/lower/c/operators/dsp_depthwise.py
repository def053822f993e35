"""Depthwise convolutions of eight bits by two products of 16: each channel in a plane with a border."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.layer import Argument
from thinflow.lower.c.operators.dsp import factors, rows
from thinflow.lower.c.requantize import activation_limits
from thinflow.lower.c.windows import PAD_TOP, moves
from thinflow.tflite.model import Operator
from thinflow.typing import Array

_MOST_PITCH, _MOST_STEP = 504, 1020
"""Bytes that instructions have room for."""


@dataclass(frozen=True)
class Side:
    """A layer along its height or width.

    Attributes:
        size, out, taps: of the input, the output and the window.
        stride: of the window.
        x_step, y_step: bytes from neighbour to neighbour.
        is_same: whether the border is that of "SAME".
        given: the border in front, where it is neither.
    """

    size: int
    out: int
    taps: int
    stride: int
    x_step: int
    y_step: int
    is_same: bool
    given: int | None = None

    @property
    def reach(self) -> int:
        """What all windows cover, the border included."""
        return (self.out - 1) * self.stride + self.taps

    @property
    def before(self) -> int:
        """The border in front; of an odd number the smaller part."""
        if self.given is not None:
            return self.given
        return max(self.reach - self.size, 0) // 2 if self.is_same else 0

    @property
    def inside(self) -> int:
        """Of the input, what windows cover."""
        return min(self.size, self.reach - self.before)


@form("DEPTHWISE_CONV_2D", types="int8", needs="dsp")
def depthwise_3x3_dsp(b: LayerBuilder, op: Operator) -> None:
    """Four neighbours of a channel in registers, and its nine weights."""
    y, x = sides(b)
    taps = weights(b)
    if (y.taps, x.taps) != (3, 3) or y.stride != x.stride or x.stride not in (1, 2):
        raise NotHere
    if x.stride == 1 and x.size == x.out and _cost(x.out, y.out) > _cost(y.out, x.out):
        # Along the longer side: fewer ends of rows.
        y, x, taps = x, y, np.swapaxes(taps, 1, 2)
    pitch = 2 * (x.reach + x.reach % 2)
    if pitch > _MOST_PITCH or x.x_step > _MOST_STEP:
        raise NotHere
    plane_bytes = pitch * (y.reach + 1) + 16
    words = {"stride": x.stride, "pitch": pitch, "step": x.x_step, "blocks": x.out // 4, "rest": x.out % 4}
    shape = {
        "batches": b.shape(b.input(0))[0],
        "channels": len(taps),
        "rows": y.inside,
        "columns": x.inside,
        "x_row": y.x_step,
        "x_bytes": b.size(b.input(0)) // b.shape(b.input(0))[0],
        "border": y.before * pitch // 2 + x.before,
        "plane_bytes": plane_bytes,
        "out_rows": y.out,
        "y_row": y.y_step,
    }
    named = {word: str(value) for word, value in words.items()}
    by_plane(b, "depthwise_3x3_dsp", taps, plane_bytes, shape, named)


@form("DEPTHWISE_CONV_2D", types="int8", needs="dsp")
def depthwise_dsp(b: LayerBuilder, op: Operator) -> None:
    """Windows of any size; those over one column lie down."""
    y, x = sides(b)
    taps = weights(b)
    if b.shape(b.input(0))[0] > 1:
        raise NotHere
    if _by_channels(b, y, x, taps):
        return
    if y.out > x.out:
        y, x, taps = x, y, np.swapaxes(taps, 1, 2)
    even = x.taps + x.taps % 2
    # Blocks of four outputs and pairs of taps may begin in the picture and end behind it.
    pitch = (-(-x.out // 4) * 4 - 1) * x.stride + even
    shape = {
        "channels": len(taps),
        "height": y.taps,
        "width": x.taps,
        "stride_y": y.stride,
        "rows": y.inside,
        "columns": x.inside,
        "x_row": y.x_step,
        "border": y.before * pitch + x.before,
        "pitch": pitch,
        "plane_size": pitch * y.reach,
        "out_rows": y.out,
        "out_columns": x.out,
        "y_row": y.y_step,
        "y_step": x.y_step,
    }
    named = {"stride": str(x.stride), "step": str(x.x_step)}
    by_plane(b, "depthwise_dsp", taps, 2 * (y.taps * even + pitch * y.reach), shape, named)


def _by_channels(b: LayerBuilder, y: Side, x: Side, taps: Array) -> bool:
    """Call the kernel for four channels at once, if all windows are inside the picture."""
    channels = len(taps)
    # By `benchmarks c`, sww: 24 outputs of 5 taps gain a tenth, 28 of 3 lose a sixth.
    if y.out * x.out > 5 * y.taps * x.taps:
        return False
    if channels % 4 or y.before or x.before or y.reach > y.size or x.reach > x.size:
        return False
    made = factors(b, rows(b, last=True), "twice", moved=False)
    numbers = np.concatenate([made.triples, made.bias[:, None]], axis=1).astype(np.int32)
    least, most = activation_limits(b, b.output())
    # The inner loop of taps is the fast one.
    lines, line = (x, y) if x.taps == 1 else (y, x)
    layer = b.struct(
        "",
        factors=b.constant("factors", numbers),
        channels=channels,
        height=lines.taps,
        width=line.taps,
        tap_row=lines.x_step,
        tap_step=line.x_step,
        rows=y.out,
        row_step=y.stride * y.x_step,
        columns=x.out,
        column_step=x.stride * x.x_step,
        min=least,
        max=most,
    )
    b.macs(b.size(b.output()) * y.taps * x.taps)
    # The kernel masks two of four bytes for each side: in this order every product has one of them times 256.
    fours = b.constant("filter", taps.reshape(channels // 4, 4, -1)[:, [1, 0, 3, 2]].swapaxes(1, 2))
    b.call("depthwise_channels_dsp", b.input(0), b.output(), fours, layer, halves=made.halves)
    # A window begins no earlier than its output, and is read by it for the last time.
    if b.size(b.output()) <= b.size(b.input(0)):
        b.in_place(0)
    return True


def sides(b: LayerBuilder) -> tuple[Side, Side]:
    """Height and width of a layer.

    Raises:
        NotHere: it has several filters for a channel, or dilated ones.
    """
    x, y, w = (b.shape(t) for t in (b.input(0), b.output(), b.input(1)))
    strides, dilations, is_same = moves(b.operator)
    if w[3] != x[3] or max(dilations) > 1:
        raise NotHere
    above = b.operator.options.get(PAD_TOP)
    height = Side(x[1], y[1], w[1], strides[0], x[2] * x[3], y[2] * x[3], is_same, above)
    return height, Side(x[2], y[2], w[2], strides[1], x[3], x[3], is_same)


def weights(b: LayerBuilder) -> Array:
    """int8 [channels, height, width] the weights."""
    _, height, width, channels = b.shape(b.input(1))
    return rows(b, last=True).reshape(channels, height, width)


def by_plane(
    b: LayerBuilder, kernel: str, taps: Array, scratch: int, shape: dict[str, int], words: dict[str, str]
) -> None:
    x, y = b.input(0), b.output()
    flat = rows(b, last=True)
    made = factors(b, flat, "twice", moved=False)
    numbers = np.concatenate([made.triples, made.bias[:, None]], axis=1).astype(np.int32)
    least, most = activation_limits(b, y)
    members: dict[str, Argument] = {"factors": b.constant("factors", numbers), **shape}
    members |= {"y_bytes": b.size(y) // b.shape(y)[0], "outside": b.scale(x)[1], "min": least, "max": most}
    layer = b.struct("", **members)
    b.macs(b.size(y) * flat.shape[1])
    b.call(kernel, x, y, b.constant("filter", taps), b.scratch(scratch), layer, halves=made.halves, **words)
    # A channel is read whole before any of it is written.
    if b.shape(x)[0] == 1 and b.size(y) <= b.size(x):
        b.in_place(0)


def _cost(width: int, height: int) -> int:
    """Instructions of a channel, about."""
    rest = width % 4
    return height * (55 * (width // 4) + (12 + 13 * rest) * (rest > 0) + 14)
