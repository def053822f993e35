"""Sines and cosines for Fourier transforms as products with matrices."""

from __future__ import annotations

import numpy as np

from thinflow.typing import Array

MOST_POINTS = 1 << 13
"""Along an axis; a matrix has this squared elements."""


def waves(rows: int, columns: int, points: int) -> tuple[Array, Array]:
    """Cosine and sine of 2 pi k n / points, float64 [rows,columns]; exact for large products, and where 0."""
    product = np.outer(np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64))
    # Reduced while whole: 2 pi k n / points of a large k n would lose its fraction to the mantissa.
    angles = 2 * np.pi / points * (product % points)
    cosines, sines = np.cos(angles), np.sin(angles)
    # The frequencies of real numbers that are real themselves have no imaginary part at all.
    sines[2 * product % points == 0] = 0
    cosines[(4 * product % points == 0) & (2 * product % points != 0)] = 0
    return cosines, sines


def mirrored_weights(points: int) -> Array:
    """The weight of each frequency [points // 2 + 1, 1] in the inverse transform to real numbers."""
    # Frequencies k and points - k are one pair of conjugates, but for 0 and, if there is one, the middle.
    weights = np.full((points // 2 + 1, 1), 2.0 / points)
    weights[0] = 1 / points
    if points % 2 == 0:
        weights[-1] = 1 / points
    return weights
