"""Symmetric int8 and int4 weights, and integer biases."""

from __future__ import annotations

import numpy as np

from thinflow.typing import Array

WEIGHT_MAX = 127  # -128 is not used: kernels rely on the symmetric range
INT4_MAX = 7
BIAS_MAX = 2**31 - 1
_SMALLEST_STEP = (
    2.0**-28
)  # of an output code per weight code and input code; runtimes take factors from 2^-32 on


def weight_scales(w: Array, axis: int | None, limit: int = WEIGHT_MAX) -> Array:
    """float64 [channels along axis], or [1] for None: the largest number is code `limit`. 0 for all zeros."""
    others = None if axis is None else tuple(i for i in range(w.ndim) if i != axis)
    if not w.size:
        return np.zeros(1 if axis is None else w.shape[axis])
    # Two reductions instead of abs(): no copy of the weights.
    largest = np.maximum(w.max(axis=others), -w.min(axis=others))
    return np.atleast_1d(largest.astype(np.float64)) / limit


def usable_scales(
    scales: Array, bias: Array | None, s_x: float, s_y: float, largest_bias: int = BIAS_MAX
) -> Array:
    """float32 scales near the given ones with which every channel's arithmetic fits the kernels.

    A channel of zeros takes the scale of its finest neighbour, so that its bias is kept precisely. A scale is
    raised where the bias would exceed `largest_bias`, and where s_x * s_w / s_y would be too small.
    """
    nonzero = scales[scales > 0]
    scales = np.where(scales > 0, scales, nonzero.min() if nonzero.size else 1 / WEIGHT_MAX)
    scales = np.maximum(scales, _SMALLEST_STEP * s_y / s_x)
    if bias is not None:
        largest = np.abs(bias.astype(np.float64))
        if scales.size == 1:
            largest = largest.max(initial=0)
        scales = np.maximum(scales, largest * (1 + 1e-7) / (s_x * largest_bias))
    # The rounding to float32 may not fall below the limits again.
    rounded = scales.astype(np.float32)
    return np.where(rounded < scales, np.nextafter(rounded, np.float32(np.inf)), rounded).astype(np.float32)


def quantize_weights(w: Array, scales: Array, axis: int | None, limit: int = WEIGHT_MAX) -> Array:
    """int8 codes from -limit to limit, of the shape of `w`; copies."""
    codes = np.divide(w, _along(scales, axis, w.ndim), dtype=np.float32)
    np.rint(codes, out=codes)
    np.clip(codes, -limit, limit, out=codes)
    return codes.astype(np.int8)


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
    for factor in np.linspace(1.0, 0.4, 61):
        tried = (scales * factor).astype(np.float32)
        back = quantize_weights(w, tried, axis, limit) * _along(tried, axis, w.ndim)
        error = np.atleast_1d(np.square(w - back).sum(axis=others, dtype=np.float64))
        is_better = error < best
        found[is_better], best[is_better] = tried[is_better], error[is_better]
    return found


def quantize_bias(bias: Array, scales: Array, largest_bias: int = BIAS_MAX) -> Array:
    """Codes with the scale s_x * s_w as float32; int32, or int64 if `largest_bias` needs it."""
    codes = np.rint(bias.astype(np.float64) / scales.astype(np.float64))
    codes = np.clip(codes, -largest_bias, largest_bias)
    return codes.astype(np.int32 if largest_bias <= BIAS_MAX else np.int64)
