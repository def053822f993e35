"""Difference of two arrays, and how much of one to allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.typing import Array

NO_CHANGE = 1e-6
"""Relative difference that reordering float additions makes; what is below it is not reported."""


@dataclass(frozen=True)
class Difference:
    """Largest difference of two arrays.

    Attributes:
        largest: largest |a - b|.
        relative: that, over the largest |a|.
        index: where, as a tuple.
        before, after: the two values there.
    """

    largest: float
    relative: float
    index: tuple[int, ...] = ()
    before: Any = None
    after: Any = None


def difference(before: Array, after: Array) -> Difference:
    """The largest difference of two arrays; NaN equals NaN, and infinity the same infinity.

    Other shapes: infinite.
    """
    if before.shape != after.shape or (before.dtype.kind in "OSU") != (after.dtype.kind in "OSU"):
        return Difference(math.inf, math.inf, (), f"shape {list(before.shape)}", f"shape {list(after.shape)}")
    if before.size == 0:
        return Difference(0.0, 0.0)
    if before.dtype.kind in "OSU":
        unequal = np.asarray(before != after)
        if not unequal.any():
            return Difference(0.0, 0.0)
        where = _position(unequal)
        return Difference(math.inf, math.inf, where, before[where], after[where])
    # In float64: differences of float16 cannot overflow there, and those of 32-bit integers are exact.
    wide = np.complex128 if before.dtype.kind == "c" else np.float64
    a, b = before.astype(wide), after.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(np.asarray(a - b))
    largest = float(gap.max())
    if math.isfinite(largest):  # then all is finite
        scale = float(np.abs(a).max())
    else:
        gap = _gap_of_oddities(a, b, gap)
        largest = float(gap.max())
        scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    index = _position(gap)
    # Relative to the largest value of the tensor, not to each element: those near
    # zero would differ by any factor.
    relative = 0.0 if largest == 0 else largest / scale if scale > 0 else math.inf
    return Difference(largest, relative, index, before[index], after[index])


def _gap_of_oddities(a: Array, b: Array, gap: Array) -> Array:
    """|a - b| where some are NaN or infinite: 0 where both are the same, infinite where one is NaN."""
    gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, gap)
    return np.where(np.isnan(gap), math.inf, gap)


def _position(array: Array) -> tuple[int, ...]:
    """Index of the largest element."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(array)), array.shape)) if array.ndim else ()


def allowed(tolerance: float, array: Array) -> float:
    """The relative difference to allow: the tolerance, but at least some units in the last place."""
    if array.dtype.kind in "OSUiub":
        return tolerance
    try:
        epsilon = float(np.finfo(array.dtype).eps)
    except ValueError:  # types that numpy knows only by extension
        import ml_dtypes

        epsilon = float(ml_dtypes.finfo(array.dtype).eps)
    # Eight: an op rounds its result once, and the few roundings that two forms of it may differ in add up.
    return max(tolerance, 8 * epsilon)
