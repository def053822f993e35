"""Eight bits on Cortex-M4, M7 and M33: two products of 16 bits in one instruction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.requantize import activation_limits, byte_weights, folded_bias, sum_factors
from thinflow.lower.c.windows import window
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator
from thinflow.typing import Array

_GROUP = 4
"""Bytes that a pass of the loops takes from each row."""
_UNROLLED = 4
"""Passes that stand in a row in `product_dsp` and `fully_connected_dsp`."""
_PASS_BYTES = {"product": 92, "row": 56}
"""Of code."""


class Factors(NamedTuple):
    """How 256 times a sum comes to the scale of the output; see kernels/requantize_dsp.c.

    Attributes:
        bias: int32 [channels] 256 times the bias.
        plain: int32 [channels] the bias.
        triples: int32 [channels, 3] multiplier, summand, shift.
        halves: "up" or "away".
    """

    bias: Array
    plain: Array
    triples: Array
    halves: str


@form("CONV_2D", types="int8", needs="dsp")
def conv_2d_dsp(b: LayerBuilder, op: Operator) -> None:
    """Four pixels by two filters in registers."""
    x, y = b.input(0), b.output()
    (filters, height, width, depth), channels = b.shape(b.input(1)), b.shape(x)[3]
    at = window(b, (height, width))
    if depth != channels or filters < 2 or (at.members["dilation_y"], at.members["dilation_x"]) != (1, 1):
        raise NotHere
    w = rows(b)
    made = factors(b, w, "twice")
    packed, columns = _packed(w), 4 * height * width * channels
    # Four pixels, each filled up to whole groups of four bytes: `widen_dsp` reads words.
    columns += -columns % 16
    order = _order(filters, 2)
    pairs = order.reshape(-1, 2)
    numbers = np.concatenate([made.bias[pairs], made.triples[pairs].reshape(-1, 6)], axis=1)
    least, most = activation_limits(b, y)
    layer = b.struct(
        "",
        window=at,
        factors=b.constant("factors", numbers.astype(np.int32)),
        skipped=_skipped(packed.shape[1], "product"),
        outside=b.scale(x)[1],
        min=least,
        max=most,
    )
    b.macs(b.size(y) * w.shape[1])
    in_fours = _interleaved(packed, pairs)
    spare = b.scratch(4 * filters + max(columns // 4, width * channels))
    b.call(
        "conv_2d_dsp",
        x,
        y,
        b.constant("filter", in_fours),
        b.scratch(2 * columns),
        spare,
        layer,
        halves=made.halves,
    )
    # Four pixels are widened before their outputs are written, which reach no further than these.
    if height == width == 1 and b.shape(x)[:3] == b.shape(y)[:3] and filters <= channels:
        b.in_place(0)


@form("FULLY_CONNECTED", types="int8", needs="dsp")
def fully_connected_dsp(b: LayerBuilder, op: Operator) -> None:
    """One row by four filters in registers."""
    x, y = b.input(0), b.output()
    w = rows(b)
    filters, depth = w.shape
    if depth % _GROUP:
        raise NotHere
    made = factors(b, w, "once")
    fours = _order(filters, 4).reshape(-1, 4)
    # The loop has no end for one, two or three filters: those that fill up the last four are multiplied by 0.
    known = (fours < filters)[..., None]
    fours = np.minimum(fours, filters - 1)
    triples = (made.triples[fours] * known).reshape(-1, 12)
    numbers = np.concatenate([made.bias[fours], triples], axis=1)
    least, most = activation_limits(b, y)
    layer = b.struct(
        "",
        rows=b.size(x) // depth,
        depth=depth,
        filters=filters,
        factors=b.constant("factors", numbers.astype(np.int32)),
        skipped=_skipped(depth, "row"),
        min=least,
        max=most,
    )
    b.macs(b.size(x) * filters)
    weights = b.constant("weights", _interleaved(_packed(w), fours))
    b.call("fully_connected_dsp", x, y, weights, b.scratch(2 * depth), layer, halves=made.halves)


def rows(b: LayerBuilder, *, last: bool = False) -> Array:
    """int8 [filters, depth], as the operator has them; with the filters along the last axis if `last`.

    Raises:
        NotHere: they have zero points, or another rounding is asked for.
    """
    w, zero_point = byte_weights(b, 1)
    if zero_point or b.rounding != "litert":
        raise NotHere
    return (np.moveaxis(w, -1, 0) if last else w).reshape(w.shape[-1 if last else 0], -1)


def _packed(w: Array) -> Array:
    """Weights [filters, depth] as halfwords 256 * w1 + w0, given as int8 [filters, depth to a multiple of 4].

    Raises:
        NotHere: one leaves 16 bits.
    """
    padded = np.pad(w, ((0, 0), (0, -w.shape[1] % _GROUP)))
    even, odd = padded[:, ::2].astype(np.int32), padded[:, 1::2].astype(np.int32)
    halfwords = 256 * odd + even
    # Upwards all fit, 256 * 127 + 127; only -128 with a negative weight beside it does not.
    if halfwords.min(initial=0) < -(1 << 15):
        raise NotHere
    return halfwords.astype("<i2").view(np.int8).reshape(padded.shape)


def _order(filters: int, together: int) -> Array:
    """Filters as they are computed: the last of an odd number makes a pair with the one before it."""
    # Two at a time are always written: one is computed twice rather than a byte put behind the output.
    if together == 2 and filters % 2:
        return np.array([*range(filters - 1), filters - 2, filters - 1])
    return np.arange(-(-filters // together) * together)


def _interleaved(packed: Array, blocks: Array) -> Array:
    """Weights [blocks, groups, filters of a block, 4]."""
    groups = packed[blocks].reshape(*blocks.shape, -1, _GROUP)
    return np.swapaxes(groups, 1, 2)


def _skipped(depth: int, loop: str) -> int:
    passes = (depth + _GROUP - 1) // _GROUP
    return -passes % _UNROLLED * _PASS_BYTES[loop]


def factors(b: LayerBuilder, w: Array, rounding: str, *, moved: bool = True) -> Factors:
    """Of a layer with weights [filters, depth] in the order of their products.

    Args:
        b: of the layer.
        w: int8.
        rounding: "once" or "twice".
        moved: whether odd bytes of the input are multiplied less 127.

    Raises:
        NotHere: numbers leave their 32 bits.
    """
    x, y = b.input(0), b.output()
    bias = folded_bias(b, 2, w, b.scale(x)[1], 0).astype(np.int64)
    wide = w.astype(np.int64)
    most = bias + np.maximum(127 * wide, -128 * wide).sum(1)
    least = bias + np.minimum(127 * wide, -128 * wide).sum(1)
    zero_point, limits = b.scale(y)[1], activation_limits(b, y)
    # Where nothing below the zero point is left, it does not matter how negative halves are rounded.
    halves = "up" if rounding == "once" or limits[0] >= zero_point else "away"
    scales = np.broadcast_to(sum_factors(b, x, b.input(1), y, rounding), bias.shape)
    triples = [
        _triple(float(f), (int(low), int(high)), zero_point, limits, rounding, halves)
        for f, low, high in zip(scales, least, most, strict=True)
    ]
    # Sums are modulo 2^32: only what is left in the end has to fit.
    started = bias + 127 * wide[:, 1::2].sum(1) * moved
    # By way of unsigned types, whose casts drop upper bits and raise nothing.
    wrapped = (started * 256).astype(np.uint64).astype(np.uint32).view(np.int32)
    return Factors(wrapped, bias.astype(np.int32), np.array(triples), halves)


def _triple(
    factor: float, sums: tuple[int, int], zero_point: int, limits: tuple[int, int], rounding: str, halves: str
) -> tuple[int, int, int]:
    """Multiplier, summand and shift for sums between two."""
    multiplier, left = quantized_multiplier(factor)
    right = -left
    if right < 0:
        raise NotHere
    least, most = (np.clip(_rounded(n, multiplier, right, rounding) + zero_point, *limits) for n in sums)
    if least == most:
        # Channels that training left dead: their biases may be beyond all that follows.
        return 0, int(least), 0
    if halves == "away":
        if not right:
            raise NotHere
        summand, shift = (2 * zero_point + 1) << (right - 1), right
    else:
        # The upper word of 256 * sum * multiplier is 7 bits finer than gemmlowp's doubled high half: 64 is a
        # half of that one's rounding.
        summand, shift = (2 * zero_point + 1) << (right + 6), right + 7
        summand += 64 if rounding == "twice" and right else 0
    # A register holds 256 times the sum, and 32 bits what `smmla` adds to its upper word.
    largest = max(map(abs, sums))
    if largest >= 1 << 23 or shift > 31 or (256 * largest * multiplier >> 32) + abs(summand) + 2 >= 1 << 31:
        raise NotHere
    return multiplier, summand, shift


def _rounded(sum: int, multiplier: int, right: int, rounding: str) -> int:
    """A sum times multiplier / 2^(31 + right)."""
    if rounding == "once":
        return (sum * multiplier + (1 << (30 + right))) >> (31 + right)
    high = (sum * multiplier + (1 << 30)) >> 31
    half = (1 << right) >> 1
    return (high + half - (high < 0 and half > 0)) >> right
