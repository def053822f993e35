"""Convolutions of eight bits on Cortex-M55 and M85, two pixels at a time, requantized in registers."""

from __future__ import annotations

import numpy as np

from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere
from thinflow.lower.c.lines import Stairs
from thinflow.lower.c.operators.dsp import rows
from thinflow.lower.c.requantize import activation_limits, folded_bias, sum_factors
from thinflow.lower.c.windows import moves, window
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.typing import Array

_VECTOR, _FILTERS = 16, 4
_MOST_FILTERS = 1 << 15
"""A pixel's distance to the next one is in 16 bits."""
_MOST_SHIFT = 22
"""The zero point is shifted up as well."""


def conv_2d_pairs_mve(b: LayerBuilder) -> None:
    """Two pixels by four filters in registers, all filters in one go.

    Raises:
        NotHere: before anything is called.
    """
    x, y, w = b.shape(b.input(0)), b.shape(b.output()), b.shape(b.input(1))
    if w[3] != x[3] or moves(b.operator).is_dilated:
        raise NotHere
    if w[0] % _FILTERS or w[0] >= _MOST_FILTERS:
        raise NotHere
    taps = rows(b)
    numbers, halves = _numbers(b, taps)
    padded = np.pad(taps, ((0, 0), (0, -taps.shape[1] % _VECTOR)))
    groups = padded.reshape(len(padded) // _FILTERS, _FILTERS, -1, _VECTOR)
    least, most = activation_limits(b, b.output())
    layer = b.struct(
        "",
        window=window(b, (w[1], w[2])),
        factors=b.constant("factors", numbers),
        depth=padded.shape[1],
        outside=b.scale(b.input(0))[1],
        min=least,
        max=most,
    )
    is_pointwise = w[1:3] == (1, 1) and x[:3] == y[:3]
    b.macs(b.size(b.output()) * taps.shape[1])
    packed, scratch = b.constant("filter", np.swapaxes(groups, 1, 2)), b.scratch(2 * padded.shape[1])
    kind = "pointwise" if is_pointwise else "windows"
    words = {"op": kind, "halves": halves, "pointwise": str(int(is_pointwise))}
    b.call("conv_2d_pairs_mve", b.input(0), b.output(), packed, scratch, layer, **words)
    if is_pointwise and w[0] <= w[3]:
        b.in_place(0)


def _numbers(b: LayerBuilder, taps: Array) -> tuple[Array, str]:
    """Of each four filters the biases, multipliers, summands and shifts; and how halves are rounded.

    Raises:
        NotHere: a sum grows, or more than 32 bits would be needed.
    """
    x, y = b.input(0), b.output()
    bias = folded_bias(b, 2, taps, b.scale(x)[1], 0).astype(np.int64)
    wide = taps.astype(np.int64)
    most = bias + np.maximum(127 * wide, -128 * wide).sum(1)
    least = bias + np.minimum(127 * wide, -128 * wide).sum(1)
    factors = np.broadcast_to(sum_factors(b, x, b.input(1), y, "twice"), bias.shape)
    zero_point, limits = b.scale(y)[1], activation_limits(b, y)
    halves = "up" if limits[0] >= zero_point else "away"
    first, last = Stairs(factors, "twice", zero_point, limits).at(np.column_stack([least, most])).T
    # Channels that training left dead: their biases and shifts may be beyond all that follows.
    is_flat = first == last
    pairs = np.array([quantized_multiplier(float(f)) for f in factors], np.int64)
    multiplier, right = (np.where(is_flat, 0, n) for n in (pairs[:, 0], -pairs[:, 1]))
    largest = np.where(is_flat, 0, np.maximum(most, -least))
    if right.min() < 0 or right.max() > _MOST_SHIFT or largest.max() >= 1 << 31:
        raise NotHere
    if halves == "away" and (right[~is_flat] < 1).any():
        raise NotHere
    summand = np.where(is_flat, first, (zero_point << right) + ((1 << right) >> 1))
    bias = np.where(is_flat, 0, bias)
    if ((largest * multiplier >> 31) + np.abs(summand) + 2).max() >= 1 << 31:
        raise NotHere
    # Vector shifts by a register go to the left by what it holds, to the right where that is negative.
    numbers = np.column_stack([bias, multiplier, summand, -right])
    return np.swapaxes(numbers.reshape(-1, _FILTERS, 4), 1, 2).astype(np.int32), halves
