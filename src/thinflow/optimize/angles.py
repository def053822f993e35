"""Angles of two runtimes: -pi and pi are one direction; which one comes out hangs on the sign of a zero."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Value
from thinflow.typing import Array

_ANGLES = frozenset({"Angle", "Atan2"})
_PASSING = frozenset(
    {"Identity", "Reshape", "Squeeze", "ExpandDims", "Transpose", "Slice", "StridedSlice", "StopGradient"}
)


def is_angle(value: Value) -> bool:
    """Whether a value holds angles as they come out of an op, at most moved about."""
    while value.node.op in _PASSING and value.node.inputs:
        value = value.node.inputs[0]
    return value.node.op in _ANGLES


def same_turn(value: Value, expected: Array, found: Array) -> Array:
    """`found` [...], angles with whole turns added that put them next to `expected` [...]."""
    if expected.shape != found.shape or expected.dtype.kind != "f" or not is_angle(value):
        return found
    with np.errstate(invalid="ignore"):
        turns = np.rint((expected.astype(np.float64) - found) / (2 * np.pi))
    turns = np.where(np.isfinite(turns), turns, 0)
    return np.asarray(found + turns * 2 * np.pi, found.dtype)
