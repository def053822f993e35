"""Real weights as int8 with a scale per output channel, with a bound on what that moves.

A float layer between two eight-bit grids can be computed in integers if its weights can. They are rounded, so
its sums move; an input is one of 256 codes, which bounds by how much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thinflow.typing import Array

INT8_MOST = 127
_CODES = 255.0
_SPREAD = 256 / math.sqrt(12)
"""Standard deviation of codes that are all equally likely."""
_LIKELY = 2.5
_SLACK = 0.9
"""Codes that a result may move by: rounding adds up to half a code, so it stays within one."""
_RARE = 2e-5
_FINEST = 2.0**-16
"""Codes of the result that a sum of 1 stands for at least, so that biases fit 32 bits."""
_WIDER = 1 + np.arange(256) / 256
"""Times the narrowest scale: one of them loses least."""
_MANY = 1 << 16  # weights, for which only the narrowest is tried
_LEVELS = 256


@dataclass(frozen=True)
class ChannelCodes:
    """Weights in eight bits.

    Attributes:
        weights: int8 [taps,m].
        scales: the real that a weight of 1 stands for, float32 [m].
        shift: a real to add to the sums of inputs in steps, float64 [m].
        rest: what rounding leaves over of the weights, float64 [taps,m].
    """

    weights: Array
    scales: Array
    shift: Array
    rest: Array

    def most(self) -> Array:
        """How far a sum may be off at most, in reals per step of the input, float64 [m]."""
        return np.abs(self.rest).sum(axis=0) * (_CODES / 2) + self._of_bias()

    def most_of_one_colour(self) -> Array:
        """The same if all inputs of a sum are equal."""
        return np.abs(self.rest.sum(axis=0)) * (_CODES / 2) + self._of_bias()

    def share_beyond(self, step: float) -> float:
        """Which share of results is more than a code off, if inputs have all codes equally likely.

        Rounding makes of an error of d steps, 1 < d < 2, two codes with the probability d - 1: that is the
        mean of max(|d| - 1, 0), for d of the normal distribution.

        Args:
            step: of the result, in reals per step of the input.
        """
        deviations = np.sqrt(np.square(self.rest).sum(axis=0)) * _SPREAD / step
        doubtful = deviations[self.most() > step]
        return math.fsum(_mean_excess(d) for d in doubtful.tolist()) / max(len(deviations), 1)

    def _of_bias(self) -> Array:
        return 0.5 * self.scales  # it is rounded to whole sums


def is_close(codes: ChannelCodes, step: float) -> bool:
    """Whether results are within one code of those of the real weights.

    That is proven for most channels. The others are so for inputs of one colour, and of inputs at random not
    two results in a hundred thousand may be further off.

    Args:
        codes: the weights.
        step: of the result, in reals per step of the input.
    """
    if (codes.most() <= _SLACK * step).all():
        return True
    is_even = bool((codes.most_of_one_colour() <= _SLACK * step).all())
    return is_even and codes.share_beyond(step) <= _RARE


def _mean_excess(deviation: float) -> float:
    """The mean of max(|d| - 1, 0) for normally distributed d."""
    z = 1 / deviation
    density = math.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return 2 * deviation * (density - z * 0.5 * math.erfc(z / math.sqrt(2)))


def channel_codes(weights: Array, zero: int, result_step: float) -> ChannelCodes:
    """Round weights, each channel to the scale that loses least.

    Inputs, in steps, lie in -zero ... 255 - zero. Their middle is taken for them in what rounding leaves
    over: sum(e * x) = sum(e) * middle + at most sum(|e|) * 127.5.

    Args:
        weights: float64 [taps,m].
        zero: the code of 0 of the input, 0 to 255.
        result_step: a step of the result in reals per step of the input, above 0.
    """
    narrowest = np.maximum(np.abs(weights).max(axis=0, initial=0) / INT8_MOST, result_step * _FINEST)
    tried = [narrowest * k for k in (_WIDER if weights.size < _MANY else (1.0,))]
    step = _grid_step(weights)
    if step is not None:
        tried.append(np.maximum(narrowest, step))
    best = np.asarray(tried[0], np.float32)
    least = _loss(_rest(weights, best))
    for scales in tried[1:]:
        scales = np.asarray(scales, np.float32)
        loss = _loss(_rest(weights, scales))
        best, least = np.where(loss < least, scales, best), np.minimum(loss, least)
    rest = _rest(weights, best)
    shift = rest.sum(axis=0) * (_CODES / 2 - zero)
    return ChannelCodes(_rounded(weights, best).astype(np.int8), best, shift, rest)


def _rounded(weights: Array, scales: Array) -> Array:
    return np.clip(np.rint(weights / scales), -INT8_MOST, INT8_MOST)


def _rest(weights: Array, scales: Array) -> Array:
    return weights - _rounded(weights, scales) * scales.astype(np.float64)


def _loss(rest: Array) -> Array:
    """How far sums are likely to be off: of inputs of one colour, and of unlike ones."""
    unlike = np.sqrt(np.square(rest).sum(axis=0)) * (_LIKELY * _SPREAD)
    return np.maximum(np.abs(rest.sum(axis=0)) * (_CODES / 2), unlike)


def _grid_step(weights: Array) -> float | None:
    """The step of weights that were stored in eight bits; None if they do not look so."""
    if weights.size >= _MANY:
        return None
    levels = np.unique(weights.astype(np.float32)).astype(np.float64)
    if not 2 <= len(levels) <= _LEVELS:
        return None
    step = float(np.diff(levels).min())
    counts = levels / step
    exact = np.abs(counts - np.rint(counts)).max() < 1e-2
    return float(np.abs(levels).max() / np.rint(np.abs(counts).max())) if exact else None
