"""Weights of a layer as int8 values around 0, as fast kernels want them, with a bound on what that moves.

Weights that were stored as uint8 need nine bits once their zero point is subtracted: -zero ... 255 - zero.
All but a few fit into -127 ... 127. For those few there are three ways: what is left over of them is so
little that no result moves by a step, then its mean goes into the bias and the rest is dropped; the layer
reads the input channels in question once more, with the rest as weights; or the channels of the result that
they belong to get scales of their own. The last is the way of real weights, too: they are rounded, so sums
move, but an input is one of 256 values, which bounds by how much.

    x w + b  =  x clip(w) + x[some channels] (w - clip(w)) + b  =  [x, x[some channels]] [clip(w); rest] + b
    x w + b  ~  x clip(w) + (b + mean(x) sum(w - clip(w)))      if the rest is small
    x w + b  ~  s (x round(w / s) + b / s)                      with a scale s for each channel of the result
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.typing import Array

INT8_MOST = 127
# Inputs are counted 0 ... 255, whatever their zero point; the middle is what they are taken for on average.
_SPAN = 255.0
_MEAN = _SPAN / 2
# Width / sqrt(12) for a uniform distribution. Of 256 whole numbers it is sqrt((256**2 - 1) / 12): the same
# but for 1 / 2**17 of it.
_DEVIATION = 256 / math.sqrt(12)
"""Standard deviation of an input all of whose 256 values are equally likely."""
_LIKELY = 2.5
"""Deviations that the sum of many rounding errors rarely exceeds: one in 80 of a normal distribution."""
# What is promised is a quantized result at most one step of its scale off TensorFlow's: real values less than
# one step apart are rounded to the same quantized value or to neighbouring ones.
TOLERANCE = 0.9
"""Steps that a real value may be off before it is rounded; a tenth is left for float32 arithmetic."""
_RARE = 2e-5
"""Share of the results that may be two steps off, inputs being random."""
_FINEST = 2.0**-16
"""Steps of the result that a sum of 1 stands for at least. Biases of up to 2**15 results fit 32 bits then."""
# One 256th more moves the largest quotient, 127, by half a step: trials that lie closer would round alike.
_WIDER = 1 + np.arange(256) / 256
"""Times the narrowest scale. Beyond twice of it a bit of the weights would be given away for nothing."""
_MANY = 1 << 16
"""Weights from which on only the narrowest scale is tried: 256 passes over them would take seconds."""
# What eight bits tell apart.
_LEVELS = 256
_ON_GRID = 1e-2
"""Steps that weights which were stored in eight bits are off a multiple of one: float32 has rounded them."""
_MAX_RUNS = 4
"""Stretches of channels that are cut out of the input; with more, all of it is read once more."""


@dataclass(frozen=True)
class Int8Weights:
    """Weights as a kernel takes them.

    Attributes:
        values: int8 [taps,c',m], of the channels of the input and then of `copies`; or another shape alike.
        scales: what a value of 1 stands for, in units of the weights given, float64 [m] or [1].
        shift: what to add to the sums, in units of the weights times steps of the input, float64 [m] or [1].
        copies: stretches (first channel, count) of the input, to be joined to it along the channels.
        zero_point: of the values.
    """

    values: Array
    scales: Array
    shift: Array
    copies: tuple[tuple[int, int], ...] = ()
    zero_point: int = 0


def unscaled(values: Array, *, copies: tuple[tuple[int, int], ...] = (), zero_point: int = 0) -> Int8Weights:
    """Weights that are int8 values as they are."""
    return Int8Weights(values.astype(np.int8), np.ones(1), np.zeros(1), copies, zero_point)


# --- further channels ------------------------------------------------------------------------------------


def split(weights: Array, zero: int, tolerance: Array | float) -> tuple[Int8Weights, Array]:
    """Weights of which the largest are parted in two or three, and how far each sum may be off, [m].

    Args:
        weights: whole numbers [taps,c,m] around 0.
        zero: the zero point of the input, 0 to 255.
        tolerance: how far each sum may be off, [m] or one for all.
    """
    first = np.clip(weights, -INT8_MOST, INT8_MOST)
    rest = weights - first
    # An input less its zero point lies in -zero ... 255 - zero: its mean is taken for it.
    # So dropping `rest` moves a sum by sum(rest) * mean, which the bias takes over, and by no more than this:
    largest = np.abs(rest).sum(axis=(0, 1)) * _MEAN
    is_small = largest <= tolerance
    dropped = np.where(is_small, rest, 0)
    # Inputs are 0 ... 255 with a mean of 127.5; what is multiplied is an input less its zero point.
    shift = np.rint(dropped.sum(axis=(0, 1)) * (_MEAN - zero))
    # The shift is a whole number, being part of an int32 bias: half of one is lost.
    error = np.where(is_small, largest, 0.0) + 0.5 * (shift != 0)
    rest = np.where(is_small, 0, rest)
    # Sums over further channels add up to the same: w x = w1 x + w2 x with w1 + w2 = w, each within int8.
    parts, copies = [first], list[tuple[int, int]]()
    # -255 ... 255 is at most 127 + 127 + 1: two rounds do, the second one for a zero point at an end.
    while rest.any():
        runs = _runs(rest)
        channels = np.concatenate([np.arange(start, start + count) for start, count in runs])
        part = np.clip(rest[:, channels], -INT8_MOST, INT8_MOST)
        rest[:, channels] -= part
        parts.append(part)
        copies += runs
    values = np.concatenate(parts, axis=1).astype(np.int8)
    return Int8Weights(values, np.ones(1), shift.astype(np.float64), tuple(copies)), error


def _runs(rest: Array) -> list[tuple[int, int]]:
    """The stretches of channels [taps,c,m] that are not 0; all in one if there are many."""
    used = np.flatnonzero(rest.any(axis=(0, 2)))
    breaks = np.flatnonzero(np.diff(used) > 1) + 1
    groups = np.split(used, breaks)
    if len(groups) > _MAX_RUNS:
        # Every stretch is an operator that reads the input; one copy of all of it needs none.
        return [(0, rest.shape[1])]
    return [(int(g[0]), len(g)) for g in groups]


# --- a scale per channel ------------------------------------------------------------------------------------


def in_channels(
    columns: Array, zero: int, step: float, tolerance: float, *, all_channels: bool
) -> Int8Weights | None:
    """Weights [taps,m] with a scale per channel where they need one; None if results may be a step off.

    Args:
        columns: float64.
        zero: the zero point of the input, 0 to 255.
        step: of the result, in units of the weights times steps of the input.
        tolerance: real values that are told apart, in the same units.
        all_channels: whether weights are to be rounded in any case; else only where they do not fit int8.
    """
    count = columns.shape[1]
    # -128 counts as wide: int8 weights are symmetric in LiteRT's specification, -127 ... 127.
    wide = np.abs(columns).max(axis=0, initial=0) > INT8_MOST
    if all_channels:
        wide[:] = True
    if not wide.any():
        return unscaled(columns)
    values, scales, shift = columns.copy(), np.ones(count), np.zeros(count)
    rounded = quantize_per_channel(columns[:, wide], zero, step)
    if not is_close(rounded, tolerance):
        return None
    # Channels that fit keep their values, a scale of 1 and nothing to add.
    values[:, wide], scales[wide], shift[wide] = rounded.values, rounded.scales, rounded.shift
    return Int8Weights(values.astype(np.int8), scales, shift)


@dataclass(frozen=True)
class RoundedWeights:
    """Real weights as int8 with a scale per channel.

    Attributes:
        values: int8 [taps,m].
        scales: the real value that one of 1 stands for, float32 [m].
        shift: a real value to add to the sums of inputs in steps, float64 [m].
        rest: what rounding leaves over of the weights, float64 [taps,m].
    """

    values: Array
    scales: Array
    shift: Array
    rest: Array

    def worst(self) -> Array:
        """The largest error of a sum, in reals per step of the input, float64 [m]."""
        result: Array = np.abs(self.rest).sum(axis=0) * _MEAN + self._of_bias()
        return result

    def worst_of_equal_inputs(self) -> Array:
        """The same if all inputs of a sum are equal, as in a picture of one colour."""
        result: Array = np.abs(self.rest.sum(axis=0)) * _MEAN + self._of_bias()
        return result

    def share_beyond(self, step: float) -> float:
        """The share of results more than one step off, if inputs have all values equally likely.

        Rounding makes of an error of d steps, 1 < d < 2, two steps with the probability d - 1: that is the
        mean of max(|d| - 1, 0), for d of the normal distribution.

        Args:
            step: of the result, in reals per step of the input.
        """
        # Variances of independent errors add up, each that of an input times the square of its weight's
        # error.
        deviations = np.sqrt(np.square(self.rest).sum(axis=0)) * _DEVIATION / step
        # Where the worst case is within a step the tail of the normal distribution does not exist.
        doubtful = deviations[self.worst() > step]
        return math.fsum(_mean_excess(d) for d in doubtful.tolist()) / max(len(deviations), 1)

    def _of_bias(self) -> Array:
        return 0.5 * self.scales  # it is rounded to whole sums


def is_close(weights: RoundedWeights, step: float) -> bool:
    """True if results are within one step of those of the real weights.

    That is proven for most channels. The others are so for equal inputs, and of inputs at random not two
    results in a hundred thousand may be further off.

    Args:
        weights: rounded.
        step: of the result, in reals per step of the input.
    """
    if (weights.worst() <= TOLERANCE * step).all():
        return True
    # Errors of single weights cancel over inputs that differ. Those of a flat area do not, and it is seen.
    is_even = bool((weights.worst_of_equal_inputs() <= TOLERANCE * step).all())
    return is_even and weights.share_beyond(step) <= _RARE


def _mean_excess(deviation: float) -> float:
    """The mean of max(|d| - 1, 0) for normally distributed d: 2 s (pdf(z) - z sf(z)) at z = 1 / s."""
    # One step in deviations. erfc is exact far out, where 1 - erf would cancel to 0.
    z = 1 / deviation
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return 2 * deviation * (density - z * 0.5 * math.erfc(z / math.sqrt(2)))


def quantize_per_channel(weights: Array, zero: int, result_step: float) -> RoundedWeights:
    """Round weights, each channel to the scale that loses least.

    Inputs, in steps, lie in -zero ... 255 - zero. Their mean is taken for them in what rounding leaves over:
    sum(e * x) = sum(e) * mean + at most sum(|e|) * 127.5.

    Args:
        weights: float64 [taps,m].
        zero: the zero point of the input, 0 to 255.
        result_step: a step of the result in reals per step of the input, above 0.
    """
    # The narrowest scale holds the largest weight. Another one may hit more of the weights exactly, above all
    # that by which they were once stored.
    # No finer than _FINEST: the bias of tiny weights, or of none but zeros, would not fit int32.
    narrowest = np.maximum(np.abs(weights).max(axis=0, initial=0) / INT8_MOST, result_step * _FINEST)
    tried = [narrowest * k for k in (_WIDER if weights.size < _MANY else (1.0,))]
    step = _stored_scale(weights)
    if step is not None:
        # Never narrower than the largest weight allows, which the clip would cut off.
        tried.append(np.maximum(narrowest, step))
    # Losses are those of the scales as they are stored, float32.
    # The narrowest is the first, and a later one has to lose less: so ties stay with it.
    best = np.asarray(tried[0], np.float32)
    least = _loss(_rest(weights, best))
    for scales in tried[1:]:
        scales = np.asarray(scales, np.float32)
        loss = _loss(_rest(weights, scales))
        best, least = np.where(loss < least, scales, best), np.minimum(loss, least)
    rest = _rest(weights, best)
    # The mean of the inputs less their zero point, times what is left over: a constant for each channel.
    shift = rest.sum(axis=0) * (_MEAN - zero)
    return RoundedWeights(_rounded(weights, best).astype(np.int8), best, shift, rest)


def _rounded(weights: Array, scales: Array) -> Array:
    return np.clip(np.rint(weights / scales), -INT8_MOST, INT8_MOST)


def _rest(weights: Array, scales: Array) -> Array:
    # The float32 scale that is stored, but a product in float64, which adds no rounding of its own.
    result: Array = weights - _rounded(weights, scales) * scales.astype(np.float64)
    return result


def _loss(rest: Array) -> Array:
    """The likely error of sums: of equal inputs, where errors add up, and of independent ones."""
    independent = np.sqrt(np.square(rest).sum(axis=0)) * (_LIKELY * _DEVIATION)
    result: Array = np.maximum(np.abs(rest.sum(axis=0)) * _MEAN, independent)
    return result


def _stored_scale(weights: Array) -> float | None:
    """The scale of weights that were stored in eight bits; None if they do not look so."""
    if weights.size >= _MANY:
        return None
    # Few levels, all of them multiples of the least distance between two: the stored values times a scale.
    levels = np.unique(weights.astype(np.float32)).astype(np.float64)
    # One level tells no distance; more than 256 do not come from eight bits.
    if not 2 <= len(levels) <= _LEVELS:
        return None
    step = float(np.diff(levels).min())
    # The least distance has lost digits; the largest level over its count tells the scale to all of them.
    counts = levels / step
    exact = np.abs(counts - np.rint(counts)).max() < _ON_GRID
    return float(np.abs(levels).max() / np.rint(np.abs(counts).max())) if exact else None
