"""Eight bits on Cortex-A: four sums in a register, products of bytes by two or by four."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.operators.lanes import (
    MOST_TAPS,
    Lanes,
    by_floats,
    by_lines,
    byte_rows,
    in_a_row,
    on_planes,
    one_channel,
    planes,
    sides_of,
    windows_times_filters,
)
from thinflow.lower.c.operators.neon_loops import most_windows, text
from thinflow.lower.c.requantize import activation_limits, folded_bias, sum_factors
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator
from thinflow.typing import Array

_QUARTER = 4
"""Filters that a register has sums of."""
_MOST_BLOCKS = 8
# 255 * 128 is the last multiple of 128 that 16 bits with a sign hold.
_MOST_PAIR = 255
"""What two weights may come to whose products with bytes are summed in 16 bits."""


@dataclass(frozen=True)
class Neon(Lanes):
    """Registers of 16 bytes, of which two count as one here.

    Attributes:
        taps: "pairs", where products are summed by two, or "dotprod".
    """

    taps: str = "pairs"

    @property
    def is_by_pairs(self) -> bool:
        return self.taps == "pairs"

    def tile(self, registers: int, columns: int) -> tuple[int, int]:
        """The block that takes least for all filters and windows."""

        def cost(blocks: int, windows: int) -> float:
            passes = -(-registers // blocks) * -(-columns // windows)
            # For four elements: products, and what reads weights and windows.
            if self.is_by_pairs:
                return passes * (6 * blocks * windows + blocks + 2 * windows + 2)
            return passes * (2 * blocks * windows + blocks + windows / 4 + 0.5)

        sizes = [
            (blocks, windows)
            for blocks in range(1, min(_MOST_BLOCKS, registers) + 1)
            # Beyond four there is no bias for filters that there are not.
            if blocks <= self.side_by_side or registers % blocks == 0
            for windows in range(1, min(most_windows(blocks, by_pairs=self.is_by_pairs), columns) + 1)
        ]
        return min(sizes, key=lambda size: cost(*size))

    def words(self, blocks: int, rest: int) -> dict[str, str]:
        """Those of kernels/product_neon.c."""
        loop = text(blocks, rest, by_pairs=self.is_by_pairs)
        return {"by": self.by, "taps": self.taps, "loop": loop}

    def packed(self, w: Array, blocks: int) -> Array:
        """Where products are summed by two, those of elements that are two apart: of each four filters
        the first two elements come before the next two."""
        order = super().packed(w, blocks)
        if not self.is_by_pairs:
            return order
        pairs = order.reshape(len(order), -1, _QUARTER, 2, 2)
        if (np.abs(pairs.astype(np.int16)).sum(3) > _MOST_PAIR).any():
            raise NotHere
        return np.ascontiguousarray(np.swapaxes(pairs, 2, 3)).reshape(len(order), -1)

    def numbers(self, b: LayerBuilder, w: Array) -> tuple[str, Array, list[Array], int]:
        """Multipliers and shifts, which are as few instructions as a line in float."""
        zero_point = b.scale(b.output())[1]
        if b.rounding != "litert":
            _, bias, scales = by_floats(b, w)
            return "scaled", bias, scales, zero_point
        rounding = "once" if b.operator.code == "FULLY_CONNECTED" else "twice"
        try:
            return (*_by_shifts(b, w, rounding), zero_point)
        except NotHere:
            return (*by_lines(b, w, rounding), 0)


NEON = Neon("neon", 8, 4, 1, 0, 0, 4, "neon", taps="pairs")
DOTPROD = Neon("neon", 8, 4, 1, 0, 0, 4, "neon", taps="dotprod")


def _by_shifts(b: LayerBuilder, w: Array, rounding: str) -> tuple[str, Array, list[Array]]:
    """As LiteRT has it, in the instructions that it was made after."""
    bias = folded_bias(b, 2, w, b.scale(b.input(0))[1], 0)
    factors = np.broadcast_to(sum_factors(b, b.input(0), b.input(1), b.output(), rounding), bias.shape)
    pairs = np.array([quantized_multiplier(float(f)) for f in factors], np.int64)
    multipliers, shifts = pairs.T.astype(np.int32)
    # Where nothing below the zero point is left, it does not matter how negative halves are rounded.
    if rounding == "twice" and activation_limits(b, b.output())[0] >= b.scale(b.output())[1]:
        rounding = "upwards"
    # Without a shift the first rounding is the only one, and to the left there is none.
    most = 0 if rounding == "upwards" else -1
    if (shifts[multipliers != 0] > most).any():
        raise NotHere
    return rounding, bias, [multipliers, shifts]


@form("CONV_2D", types="int8", needs="neon dotprod")
def conv_2d_dotprod(b: LayerBuilder, op: Operator) -> None:
    """Four products in each of four lanes."""
    _conv_2d(b, DOTPROD)


@form("FULLY_CONNECTED", types="int8", needs="neon dotprod")
def fully_connected_dotprod(b: LayerBuilder, op: Operator) -> None:
    """Four products in each of four lanes."""
    _fully_connected(b, DOTPROD)


@form("CONV_2D", types="int8", needs="neon")
def conv_2d_neon(b: LayerBuilder, op: Operator) -> None:
    """Two products in each of eight lanes of 16 bits."""
    _conv_2d(b, NEON)


@form("FULLY_CONNECTED", types="int8", needs="neon")
def fully_connected_neon(b: LayerBuilder, op: Operator) -> None:
    """Two products in each of eight lanes of 16 bits."""
    _fully_connected(b, NEON)


@form("DEPTHWISE_CONV_2D", types="int8", needs="neon dotprod")
def depthwise_dotprod(b: LayerBuilder, op: Operator) -> None:
    """Of one channel by the dot product; else products of two taps, which take no bytes in another order."""
    _depthwise(b, DOTPROD)


@form("DEPTHWISE_CONV_2D", types="int8", needs="neon")
def depthwise_neon(b: LayerBuilder, op: Operator) -> None:
    """Eight channels at once, and products of two taps."""
    _depthwise(b, NEON)


def _conv_2d(b: LayerBuilder, isa: Neon) -> None:
    x, y, w = b.shape(b.input(0)), b.shape(b.output()), byte_rows(b)
    if w.shape[3] != x[3]:
        raise NotHere
    down, across = sides_of(b)
    is_pointwise = (down.taps, across.taps, down.stride, across.stride) == (1, 1, 1, 1)
    if is_pointwise and x[3] % isa.group == 0:
        _rows(b, isa, w.reshape(len(w), -1), math.prod(y[:3]))
    else:
        windows_times_filters(b, isa, w, (down, across), x[0])


def _fully_connected(b: LayerBuilder, isa: Neon) -> None:
    w = byte_rows(b)
    rows, depth = b.size(b.input(0)) // w.shape[-1], w.shape[-1]
    if depth % isa.group:
        windows_times_filters(b, isa, w.reshape(len(w), 1, 1, depth), in_a_row(rows, depth, len(w)))
    else:
        _rows(b, isa, w, rows)


def _rows(b: LayerBuilder, isa: Neon, w: Array, rows: int) -> None:
    """Rows times filters [filters, depth]; the rows are read where they are."""
    filters, depth = w.shape
    blocks, rest = isa.tile(-(-filters // isa.lanes), rows)
    packed = isa.packed(w[:, None], blocks)
    how, output = isa.output(b, w)
    product = b.struct(
        "product_lanes_t",
        lines=1,
        line_step=0,
        pieces=1,
        piece_step=0,
        groups=depth // isa.group,
        filters=filters,
        output=output,
    )
    layer = b.struct("", rows=rows, window_bytes=packed.shape[1], product=product)
    b.macs(rows * w.size)
    words = {"isa": isa.name, "halves": how, "step": str(depth), "blocks": str(blocks), "rest": str(rest)}
    words |= isa.words(blocks, rest)
    b.call("rows_lanes", b.input(0), b.output(), b.constant("filter", packed.reshape(-1)), layer, **words)


def _depthwise(b: LayerBuilder, isa: Neon) -> None:
    if b.shape(b.input(0))[3] == 1:
        one_channel(b, isa)
        return
    w, times = planes(b, isa)
    height, width, channels = w.shape
    flat = w.reshape(-1, channels)
    both = np.abs(flat[: len(flat) // 2 * 2].astype(np.int16)).reshape(-1, 2, channels).sum(1)
    if len(flat) > MOST_TAPS or (both > _MOST_PAIR).any():
        raise NotHere
    wide = channels * times
    halves, output = isa.output(b, np.moveaxis(w, -1, 0).reshape(channels, -1), times)
    padded = np.pad(np.tile(flat, (1, times)), ((0, 0), (0, -wide % isa.lanes)))
    taps = padded.reshape(len(flat), -1, isa.lanes).swapaxes(0, 1)
    kept = sides_of(b)[0].taps
    layer, pitch = on_planes(b, isa, times, kept=kept, output=output)
    b.macs(b.size(b.output()) * height * width)
    words = {"isa": isa.name, "halves": halves, "blocks": str(height), "rest": str(width)}
    filter = b.constant("filter", np.ascontiguousarray(taps).reshape(-1))
    panel = b.scratch((kept + 1) * pitch)
    b.call("depthwise_neon", b.input(0), b.output(), filter, panel, layer, **words)
