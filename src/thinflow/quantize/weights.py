"""Symmetric int8 and int4 weights, and integer biases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thinflow.quantize.kernels import Kernels, Operator
from thinflow.typing import Array

# -128 and -8 are not used: kernels rely on the symmetric range.
WEIGHT_MAX = 127
ALL_OF_INT8 = 128
"""Steps below zero of weights that other tools quantized. LiteRT's kernels need not take the last."""
INT4_MAX = 7
BIAS_MAX = 2**31 - 1
# Of s_x * s_w / s_y. Runtimes take factors from 2^-32 on; this keeps 16 times away from there.
_SMALLEST_FACTOR = 2.0**-28


class LayerScales(NamedTuple):
    """Scales of one layer with constant weights.

    Attributes:
        axis: of the weights with a scale per entry; None for one scale.
        weights: float32 [entries], the scales of the weights.
        bias: float32 [entries], those of the bias; None without one.
        bias_row: the bias in real numbers, one per entry.
        zero_point: of all weights, as int8; 0 but for those of files that have one.
    """

    axis: int | None
    weights: Array
    bias: Array | None
    bias_row: Array | None
    zero_point: int = 0

    @property
    def how(self) -> str:
        """For reports: per what there is a scale."""
        return "per tensor" if self.axis is None else f"per channel of dimension {self.axis}"


def layer_scales(
    operator: Operator,
    kernels: Kernels,
    s_x: float,
    s_y: float,
    *,
    per_channel: bool = True,
    weight_max: int = WEIGHT_MAX,
    keep: bool = False,
    shifted: bool = False,
    least: Callable[[Operator, Array, int | None], Array] | None = None,
) -> LayerScales:
    """The scales of an operator's constant weights and bias.

    Args:
        s_x, s_y: scales of its input and output; 0 for an output of any scale.
        weight_max: the largest quantized weight.
        keep: whether weights on a grid stay on it; see `Recipe.keep_weights`.
        shifted: whether that may be one of 256 steps with a zero point, for all of the tensor.
        least: gives the finest scales that a kernel's sums hold, of weights along an axis.
    """
    weights, bias = kernels.weights(operator), kernels.bias(operator)
    axis = kernels.weight_axis(operator) if per_channel else None
    # Coarser steps for fewer of them: the largest weight becomes weight_max.
    w = np.asarray(weights.array())
    # One scale for all where the file had one: it takes less room than the same for each.
    axis = None if keep and _has_grid(w, weight_max) else axis
    raw = grid_scales(w, axis, weight_max) if keep else weight_scales(w, axis) * (WEIGHT_MAX / weight_max)
    if least is not None:
        raw = np.maximum(raw, least(operator, w, axis))
    found = shifted_grid(w) if shifted else None
    if found is not None:
        axis, raw = None, np.array([found[0]])
    row = None if bias is None else _row(np.asarray(bias.array()), raw.size)
    scales = usable_scales(raw, row, s_x, s_y, kernels.arithmetic.largest_bias)
    zero = found[1] if found is not None else 0
    return LayerScales(axis, scales, None if row is None else np.float32(s_x) * scales, row, zero)


def _row(bias: Array, count: int) -> Array:
    """A bias as one number per output channel, or as one that fits the one scale there is."""
    flat = bias.reshape(-1)
    return np.broadcast_to(flat, (count,)) if flat.size == 1 and count > 1 else flat


def memory_key(data: Array) -> tuple[Any, ...]:
    """Identity of an array's memory: equal for arrays that share all of their elements.

    It holds as long as the array does: whoever keeps the key keeps the array, or the program that it is of.
    """
    return data.__array_interface__["data"][0], data.shape, data.strides, str(data.dtype)


def weight_scales(w: Array, axis: int | None, limit: int = WEIGHT_MAX) -> Array:
    """float64 [channels along axis], or [1] for None: the largest number becomes `limit`. 0 for all zeros."""
    others = None if axis is None else tuple(i for i in range(w.ndim) if i != axis)
    if not w.size:
        return np.zeros(1 if axis is None else w.shape[axis])
    # Two reductions instead of abs(): no copy of the weights.
    largest = np.maximum(w.max(axis=others), -w.min(axis=others))
    return np.atleast_1d(largest.astype(np.float64)) / limit


def grid_scales(w: Array, axis: int | None, limit: int = WEIGHT_MAX) -> Array:
    """As `weight_scales`; where all numbers of a channel are multiples of one, a scale that holds them.

    O(limit * a few numbers of each channel + numbers of the channels that have such a scale).
    """
    coarsest = weight_scales(w, axis, 1)
    rows = np.moveaxis(w, axis, 0).reshape(len(coarsest), -1) if axis is not None else w.reshape(1, -1)
    # In steps of the largest number: a grid of n steps up to it makes all of them multiples of 1/n.
    unit = np.where(coarsest > 0, coarsest, 1.0)[:, None]
    few = (
        np.asarray(rows[:, :: max(rows.shape[1] // _FEW, 1)]) / unit
        if rows.size
        else np.zeros((len(rows), 1))
    )
    steps = np.full(len(rows), limit)
    left = np.ones(len(rows), bool)
    if limit > WEIGHT_MAX and rows.size:
        # There is one step more below zero than above.
        below = -rows.min(axis=1) > rows.max(axis=1)
        steps[~below] = WEIGHT_MAX
    for count in range(limit, 0, -1):
        likely = np.flatnonzero(left & (count <= steps))
        likely = likely[_are_whole(few[likely] * count)]
        found = [n for n in likely.tolist() if _are_whole((rows[n] / unit[n])[None] * count)[0]]
        steps[found], left[found] = count, False
        if not left.any():
            break
    return np.asarray(coarsest / steps)


def shifted_grid(w: Array) -> tuple[float, int] | None:
    """Scale and zero point as int8 of the grid of 256 steps that all of a tensor's numbers lie on, if any."""
    low, high = min(float(w.min(initial=0)), 0.0), max(float(w.max(initial=0)), 0.0)
    if not high > low:
        return None
    numbers = np.asarray(w, np.float64).reshape(1, -1) / (high - low)
    few = numbers[:, :: max(numbers.shape[1] // _FEW, 1)]
    for count in range(255, 0, -1):
        if _are_whole(few * count)[0] and _are_whole(numbers * count)[0]:
            scale = (high - low) / count
            return scale, -128 - round(low / scale)
    return None


def has_symmetric_grid(w: Array, axis: int | None, limit: int = WEIGHT_MAX) -> bool:
    """True if the numbers of each channel lie on a grid of `limit` steps below and 127 above zero."""
    scales = grid_scales(w, axis, limit)
    steps = w / np.where(scales > 0, scales, 1).reshape([-1 if n == axis else 1 for n in range(w.ndim)])
    steps = np.asarray(steps).reshape(1, -1)
    return bool(_are_whole(steps)[0]) and bool(steps.max(initial=0) < WEIGHT_MAX + _OFF_GRID)


def _has_grid(w: Array, limit: int) -> bool:
    """True if all of a tensor's numbers lie on one grid of so many steps to either side."""
    scale = float(grid_scales(w, None, limit)[0])
    return bool(scale and _are_whole(w.reshape(1, -1) / scale)[0])


_FEW = 64
_OFF_GRID = 1e-3
"""Of a step. Weights that were made of integers are off by float32's rounding, at most 3e-5 of 127 steps."""


def _are_whole(numbers: Array) -> Array:
    """bool [rows]: whether all numbers of a row are integers."""
    return np.asarray((np.abs(numbers - np.rint(numbers)) < _OFF_GRID).all(axis=1))


def usable_scales(
    scales: Array, bias: Array | None, s_x: float, s_y: float, largest_bias: int = BIAS_MAX
) -> Array:
    """float32 scales near the given ones with which every channel's arithmetic fits the kernels.

    A channel of zeros takes the scale of its finest neighbour, so that its bias is kept precisely. A scale is
    raised where the bias would exceed `largest_bias`, and where s_x * s_w / s_y would be too small.
    """
    nonzero = scales[scales > 0]
    scales = np.where(scales > 0, scales, nonzero.min() if nonzero.size else 1 / WEIGHT_MAX)
    scales = np.maximum(scales, _SMALLEST_FACTOR * s_y / s_x)
    if bias is not None:
        largest = np.abs(bias.astype(np.float64))
        if scales.size == 1:
            largest = largest.max(initial=0)
        # s_x * s_w is rounded to float32 once more, by at most 6e-8 of it.
        scales = np.maximum(scales, largest * (1 + 1e-7) / (s_x * largest_bias))
    # The rounding to float32 may not fall below the limits again.
    rounded = scales.astype(np.float32)
    return np.where(rounded < scales, np.nextafter(rounded, np.float32(np.inf)), rounded).astype(np.float32)


def quantize_weights(
    w: Array, scales: Array, axis: int | None, limit: int = WEIGHT_MAX, *, zero_point: int = 0
) -> Array:
    """int8 from -limit to limit, of the shape of `w`; all of int8 with a zero point. Copies."""
    # One copy, rounded and clipped in place: weights are the largest arrays there are.
    quantized = np.divide(w, _along(scales, axis, w.ndim), dtype=np.float32)
    np.rint(quantized, out=quantized)
    if zero_point:
        quantized += zero_point
        limit = 128
    np.clip(quantized, -limit, min(limit, 127), out=quantized)
    return quantized.astype(np.int8)


def _along(scales: Array, axis: int | None, rank: int) -> Array:
    """Scales in the shape that broadcasts with the weights."""
    if axis is None or scales.size == 1:
        return scales
    return scales.reshape([-1 if i == axis else 1 for i in range(rank)])


def clipped_scales(w: Array, scales: Array, axis: int | None, limit: int) -> Array:
    """float32 scales that make the squared error least, of 61 from 0.4 to 1 times the given ones.

    Few bits hold most weights better when the largest are cut off.
    """
    others = None if axis is None else tuple(i for i in range(w.ndim) if i != axis)
    best = np.full(scales.shape, np.inf)
    found = scales.copy()
    # From 1 down, and only what is better replaces it: ties keep the scale that clips least.
    for factor in np.linspace(1.0, 0.4, 61):
        tried = (scales * factor).astype(np.float32)
        back = quantize_weights(w, tried, axis, limit) * _along(tried, axis, w.ndim)
        error = np.atleast_1d(np.square(w - back).sum(axis=others, dtype=np.float64))
        is_better = error < best
        found[is_better], best[is_better] = tried[is_better], error[is_better]
    result: Array = found
    return result


def quantize_bias(bias: Array, scales: Array, largest_bias: int = BIAS_MAX) -> Array:
    """A bias with the scale s_x * s_w as float32; int32, or int64 if `largest_bias` needs it."""
    # Quotients reach 2^31 and more, beyond the 24 bits that float32 holds exactly.
    quantized = np.rint(bias.astype(np.float64) / scales.astype(np.float64))
    quantized = np.clip(quantized, -largest_bias, largest_bias)
    return quantized.astype(np.int32 if largest_bias <= BIAS_MAX else np.int64)
