"""Pictures and networks for eight bits."""

from __future__ import annotations

import numpy as np

from tests.oracle._frozen import Array

SAMPLES = 12


def pictures(count: int, size: int, seed: int) -> Array:
    """Seeded pictures [count,size,size,3] in [-1, 1]: coarse squares and a little noise."""
    random = np.random.default_rng(seed)
    coarse = random.uniform(-1, 1, (count, 6, 6, 3))
    steps = -(-size // 6)
    large = coarse.repeat(steps, 1).repeat(steps, 2)[:, :size, :size]
    return np.asarray(np.clip(large + random.normal(0, 0.1, large.shape), -1, 1), np.float32)


def sqnr(expected: list[Array], found: list[Array]) -> float:
    """Signal to quantization noise over all samples, in decibels."""
    a, b = np.concatenate(expected).astype(np.float64), np.concatenate(found).astype(np.float64)
    return float(10 * np.log10(np.square(a).sum() / np.square(a - b).sum()))
