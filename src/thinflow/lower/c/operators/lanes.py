"""Eight bits on processors with wide registers: a sum in each lane, several products at once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.layer import Argument, Struct
from thinflow.lower.c.lines import lines
from thinflow.lower.c.operators.dsp import factors
from thinflow.lower.c.operators.dsp_depthwise import Side
from thinflow.lower.c.requantize import activation_limits, byte_weights, folded_bias, sum_factors
from thinflow.lower.c.windows import PAD_TOP, moves
from thinflow.tflite.model import Operator
from thinflow.typing import Array

MOST_TAPS = 32
"""Of a depthwise window: kernels unroll no more of them, and taps in a loop do not stay in registers."""


@dataclass(frozen=True)
class Lanes:
    """Registers of a processor; kernels/lanes_NAME.c is written for them.

    Attributes:
        name: of the file.
        lanes: sums in a register.
        group: products summed at once.
        element: bytes of an element of a panel.
        moved: what panels add to a byte.
        sums: registers that can hold sums.
        side_by_side: of them, for filters.
        by: kernels/product_BY.c multiplies.
    """

    name: str
    lanes: int
    group: int
    element: int
    moved: int
    sums: int
    side_by_side: int
    by: str = "lanes"

    def tile(self, registers: int, columns: int) -> tuple[int, int]:
        """Registers of filters side by side, and windows at a time."""
        # One row alone is bound by the weights it reads: as many sums as there can be hide their latency.
        most = self.side_by_side if columns > 2 else 8
        whole = [n for n in range(1, most + 1) if registers % n == 0]
        # A prime number of them would go one by one.
        blocks = whole[-1] if whole[-1] > 1 or registers == 1 else min(most, 4)
        windows = min(max(self.sums // blocks, 1), 12, columns)
        return blocks, -(-columns // -(-columns // windows))

    def words(self, blocks: int, rest: int) -> dict[str, str]:
        """More words for the kernels of such a tile."""
        return {"by": self.by}

    def packed(self, w: Array, blocks: int) -> Array:
        """Weights [filters, lines, piece] as [blocks, -1] of [lines, groups, registers, lanes, group]."""
        filters, rows, piece = w.shape
        together = blocks * self.lanes
        padded = np.pad(w, ((0, -filters % together), (0, 0), (0, -piece % self.group)))
        split = padded.reshape(-1, blocks, self.lanes, rows, padded.shape[2] // self.group, self.group)
        order: Array = np.ascontiguousarray(split.transpose(0, 3, 4, 1, 2, 5))
        return order.reshape(len(order), -1)

    def output(self, b: LayerBuilder, w: Array, times: int = 1) -> tuple[str, Struct]:
        """How sums of weights [channels, depth] become outputs: the kernel's name, and its numbers.

        Args:
            b: of the layer.
            w: int8.
            times: as often channels are repeated.
        """
        how, bias, numbers, zero_point = self.numbers(b, w)
        least, most = activation_limits(b, b.output())
        # What panels add to each byte comes off again.
        started = bias.astype(np.int64) - self.moved * w.astype(np.int64).sum(1)
        # A tile may have registers of filters that there are not, and reads their numbers, too.
        fit = (0, -(len(w) * times) % self.lanes + 5 * self.lanes)
        members = {"bias": b.constant("bias", np.pad(np.tile(started, times), fit).astype(np.int32))}
        for word, data in zip(("first", "second", "third"), numbers, strict=False):
            members[word] = b.constant(word, np.pad(np.tile(data, times), fit))
        struct = b.struct("output_t", **members, zero_point=zero_point, min=least, max=most)
        return how, struct

    def numbers(self, b: LayerBuilder, w: Array) -> tuple[str, Array, list[Array], int]:
        """The kernel that makes outputs, the bias, numbers of each channel, and what it adds to outputs."""
        rounding = "once" if b.operator.code == "FULLY_CONNECTED" else "twice"
        zero_point = b.scale(b.output())[1]
        if b.rounding != "litert":
            return (*by_floats(b, w), zero_point)
        try:
            return (*by_lines(b, w, rounding), zero_point)
        except NotHere:
            return (*_integers(b, w, rounding), zero_point)


# vpdpbusd takes one side without a sign, so panels hold bytes plus 128. AVX2's product of bytes saturates at
# 16 bits: its panels are of 16 bits, whose products by pairs do not.
V4 = Lanes("v4", 16, 4, 1, 128, 24, 5)
V3 = Lanes("v3", 8, 2, 2, 0, 12, 3)


@form("CONV_2D", types="int8", needs="avx2 avx512 vnni")
def conv_2d_v4(b: LayerBuilder, op: Operator) -> None:
    """AVX-512 with VNNI: four products in each of sixteen lanes."""
    conv_2d(b, V4)


@form("FULLY_CONNECTED", types="int8", needs="avx2 avx512 vnni")
def fully_connected_v4(b: LayerBuilder, op: Operator) -> None:
    """AVX-512 with VNNI."""
    fully_connected(b, V4)


@form("DEPTHWISE_CONV_2D", types="int8", needs="avx2 avx512 vnni")
def depthwise_v4(b: LayerBuilder, op: Operator) -> None:
    """AVX-512 with VNNI: four rows at once."""
    depthwise(b, V4)


@form("CONV_2D", types="int8", needs="avx2")
def conv_2d_v3(b: LayerBuilder, op: Operator) -> None:
    """AVX2: two products in each of eight lanes."""
    conv_2d(b, V3)


@form("FULLY_CONNECTED", types="int8", needs="avx2")
def fully_connected_v3(b: LayerBuilder, op: Operator) -> None:
    """AVX2."""
    fully_connected(b, V3)


@form("DEPTHWISE_CONV_2D", types="int8", needs="avx2")
def depthwise_v3(b: LayerBuilder, op: Operator) -> None:
    """AVX2: two rows at once."""
    depthwise(b, V3)


def conv_2d(b: LayerBuilder, isa: Lanes) -> None:
    x, y, w = b.shape(b.input(0)), b.shape(b.output()), b.shape(b.input(1))
    if w[3] != x[3]:
        raise NotHere
    down, across = sides_of(b)
    taps = byte_rows(b)
    if (down.taps, across.taps, down.stride, across.stride) == (1, 1, 1, 1):
        windows_times_filters(b, isa, taps, in_a_row(math.prod(y[:3]), x[3], y[3]))
    else:
        windows_times_filters(b, isa, taps, (down, across), x[0])
    if b.size(b.output()) <= b.size(b.input(0)):
        b.in_place(0)


def fully_connected(b: LayerBuilder, isa: Lanes) -> None:
    w = byte_rows(b)
    depth = w.shape[-1]
    sides = in_a_row(b.size(b.input(0)) // depth, depth, len(w))
    windows_times_filters(b, isa, w.reshape(len(w), 1, 1, depth), sides)


def sides_of(b: LayerBuilder) -> tuple[Side, Side]:
    """Height and width of a layer; a dilated window has taps as far as it reaches."""
    x, y, w = (b.shape(t) for t in (b.input(0), b.output(), b.input(1)))
    strides, dilations, is_same = moves(b.operator)
    taps = [(w[i] - 1) * n + 1 for i, n in zip((1, 2), dilations, strict=True)]
    above = b.operator.options.get(PAD_TOP)
    height = Side(x[1], y[1], taps[0], strides[0], x[2] * x[3], y[2] * y[3], is_same, above)
    return height, Side(x[2], y[2], taps[1], strides[1], x[3], y[3], is_same)


def byte_rows(b: LayerBuilder) -> Array:
    w, zero_point = byte_weights(b, 1)
    if zero_point:
        raise NotHere
    return w


def windows_times_filters(
    b: LayerBuilder, isa: Lanes, w: Array, sides: tuple[Side, Side], batches: int = 1
) -> None:
    """Windows of a panel times filters [filters, height, width, channels]."""
    filters, height, width, channels = w.shape
    blocks, rest = isa.tile(-(-filters // isa.lanes), sides[1].out)
    pitch, dilations = pitch_of(sides[1], channels), moves(b.operator).dilations
    # Taps side by side are one piece of a line.
    pieces = width if dilations[1] > 1 else 1
    piece = width * channels // pieces
    packed = isa.packed(w.reshape(filters, height * pieces, piece), blocks)
    how, output = isa.output(b, w.reshape(filters, -1))
    product = b.struct(
        "product_lanes_t",
        lines=height,
        line_step=dilations[0] * pitch,
        pieces=pieces,
        piece_step=dilations[1] * channels,
        groups=-(-piece // isa.group),
        filters=filters,
        output=output,
    )
    at = places(b, sides, channels, batches)
    layer = b.struct("", **at, window_bytes=packed.shape[1], product=product)
    b.macs(b.size(b.output()) * height * width * channels)
    # A register more: the last window is read in whole ones.
    panel = b.scratch((sides[0].reach * pitch + 64) * isa.element)
    words = {"isa": isa.name, "halves": how, "step": str(sides[1].stride * channels)}
    words |= {"blocks": str(blocks), "rest": str(rest), **isa.words(blocks, rest)}
    filter = b.constant("filter", packed.reshape(-1))
    b.call("conv_2d_lanes", b.input(0), b.output(), filter, panel, layer, **words)


def places(b: LayerBuilder, sides: tuple[Side, Side], channels: int, batches: int) -> dict[str, int]:
    """Where a picture and its windows lie in a panel."""
    down, across = sides
    pitch = pitch_of(across, channels)
    is_whole = across.inside * channels == pitch and down.inside == down.reach
    return {
        "batches": batches,
        "rows": down.out,
        "columns": across.out,
        "in_rows": down.inside,
        "in_row": across.inside * channels,
        "in_step": down.x_step,
        "in_bytes": b.size(b.input(0)) // batches,
        "border": down.before * pitch + across.before * channels,
        "pitch": pitch,
        "filled": 0 if is_whole else down.reach * pitch,
        "outside": b.scale(b.input(0))[1],
        "row_step": down.stride * pitch,
    }


def pitch_of(across: Side, channels: int) -> int:
    return max(across.reach, across.before + across.inside) * channels


def in_a_row(pixels: int, channels: int, filters: int) -> tuple[Side, Side]:
    """The sides of pixels that are windows by themselves."""
    across = Side(pixels, pixels, 1, 1, channels, filters, False)
    return Side(1, 1, 1, 1, pixels * channels, pixels * filters, False), across


def depthwise(b: LayerBuilder, isa: Lanes) -> None:
    if b.shape(b.input(0))[3] == 1:
        one_channel(b, isa)
        return
    w, times = planes(b, isa)
    height, width, channels = w.shape
    groups = -(-height // isa.group)
    if groups * width > MOST_TAPS:
        raise NotHere
    wide = channels * times
    halves, output = isa.output(b, np.moveaxis(w, -1, 0).reshape(channels, -1), times)
    padded = np.pad(np.tile(w, (1, 1, times)), ((0, -height % isa.group), (0, 0), (0, -wide % isa.lanes)))
    taps = padded.reshape(groups, isa.group, width, -1).transpose(0, 2, 3, 1)
    layer, pitch = on_planes(b, isa, times, height=height, output=output)
    b.macs(b.size(b.output()) * height * width)
    panel = b.scratch((groups * pitch * isa.group + 64) * isa.element)
    edge = b.scratch(sides_of(b)[1].inside * channels + 64)
    words = {"isa": isa.name, "halves": halves, "blocks": str(groups), "rest": str(width)}
    filter = b.constant("filter", np.ascontiguousarray(taps).reshape(-1))
    b.call("depthwise_lanes", b.input(0), b.output(), filter, panel, edge, layer, **words)


def one_channel(b: LayerBuilder, isa: Lanes) -> None:
    """Filters of one channel: a convolution, whose filters lie along the last axis here."""
    batches = b.shape(b.input(0))[0]
    windows_times_filters(b, isa, byte_rows(b).transpose(3, 1, 2, 0), sides_of(b), batches)


def planes(b: LayerBuilder, isa: Lanes) -> tuple[Array, int]:
    """A filter [height, width, channels] for each channel, and how many pixels lie in a register.

    Raises:
        NotHere: there are several for a channel.
    """
    if b.shape(b.input(1))[3] != b.shape(b.input(0))[3]:
        raise NotHere
    w, across = byte_rows(b)[0], sides_of(b)[1]
    channels = w.shape[2]
    # Few channels: neighbours fill the register.
    times = isa.lanes // channels if across.stride == 1 and isa.lanes % channels == 0 else 1
    return w, 1 if times > 1 and across.out % times else times


def on_planes(b: LayerBuilder, isa: Lanes, times: int, **more: Argument) -> tuple[Struct, int]:
    """The settings of a kernel whose channels do not mix, and the bytes of a line of its panel."""
    x, y = b.shape(b.input(0)), b.shape(b.output())
    (down, across), dilations, channels = sides_of(b), moves(b.operator).dilations, x[3]
    # Registers are read whole, behind the last channel of the last pixel too.
    pitch = pitch_of(across, channels) + isa.lanes
    layer = b.struct(
        "",
        batches=x[0],
        rows=y[1],
        columns=y[2] // times,
        channels=channels * times,
        in_rows=x[1],
        in_row=across.inside * channels,
        in_step=down.x_step,
        in_bytes=b.size(b.input(0)) // x[0],
        stride_y=down.stride,
        dilation_y=dilations[0],
        pad_top=down.before,
        border=across.before * channels,
        pitch=pitch,
        column_step=across.stride * channels * times,
        tap_step=dilations[1] * channels,
        outside=b.scale(b.input(0))[1],
        **more,
    )
    return layer, pitch


def by_lines(b: LayerBuilder, w: Array, rounding: str) -> tuple[str, Array, list[Array]]:
    found = lines(b, w, rounding)
    if found.halves == "up":
        return "line", found.bias, [found.scale, found.offset]
    return "lines", found.bias, [found.scale, found.offset, found.below]


def _integers(b: LayerBuilder, w: Array, rounding: str) -> tuple[str, Array, list[Array]]:
    made = factors(b, w, rounding, moved=False)
    return made.halves, made.plain, [n.astype(np.int32) for n in made.triples.T]


def by_floats(b: LayerBuilder, w: Array) -> tuple[str, Array, list[Array]]:
    scale = sum_factors(b, b.input(0), b.input(1), b.output(), "float")
    bias = folded_bias(b, 2, w, b.scale(b.input(0))[1], 0)
    return "float", bias, [np.broadcast_to(scale, bias.shape).astype(np.float32)]
