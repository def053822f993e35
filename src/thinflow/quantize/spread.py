"""Which of many samples to take where a few are enough: some of each class, and of each stretch of the files.

The first by name would all be of one class.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

_SEED = 0


def spread(count: int, limit: int | None, labels: Sequence[Any] | None = None) -> list[int]:
    """Numbers of at most `limit` samples of `count`, in order; the same each time.

    Args:
        labels: class of each sample; each class gives as many as the others, as far as it has them.
    """
    if limit is None or limit >= count:
        return list(range(count))
    rng = np.random.default_rng(_SEED)
    classes: dict[Any, list[int]] = {}
    for number in range(count):
        classes.setdefault(str(labels[number]) if labels is not None else "", []).append(number)
    members = list(classes.values())
    shares = _shares([len(m) for m in members], limit, rng)
    return sorted(n for m, share in zip(members, shares, strict=True) for n in _drawn(m, share, rng))


def _shares(sizes: Sequence[int], limit: int, rng: np.random.Generator) -> list[int]:
    """How many each class gives: equally many, the rest from classes spread over all of them."""
    shares = [0] * len(sizes)
    while limit:
        left = [i for i, size in enumerate(sizes) if shares[i] < size]
        each = min(limit // len(left), min(sizes[i] - shares[i] for i in left))
        for i in left if each else _drawn(left, limit, rng):
            shares[i] += each or 1
            limit -= each or 1
    return shares


def _drawn(items: Sequence[int], count: int, rng: np.random.Generator) -> list[int]:
    """One item of each of `count` equal stretches: names in order may repeat with a period of their own."""
    edges = np.linspace(0, len(items), count + 1).astype(int)
    return [items[int(rng.integers(low, high))] for low, high in pairwise(edges)]
