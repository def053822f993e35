"""How far answers of real files may be from those that their runtimes gave."""

from __future__ import annotations

import numpy as np

TOLERANCE = 1e-4
"""Relative to the largest number of the answer."""
STEPS = 3
"""Codes that an answer may be off: every op of eight bits rounds in its own way."""


def distance(found: np.ndarray, expected: np.ndarray) -> float:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    gap = np.abs(found.astype(np.float64) - expected).max()
    return float(
        gap / STEPS if found.dtype.kind in "iu" else gap / TOLERANCE / max(np.abs(expected).max(), 1e-9)
    )
