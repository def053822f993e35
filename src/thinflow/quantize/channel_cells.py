"""Unknown positive factors, of which some turn out to be equal, inverse to one another, or 1."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thinflow.typing import Array


class Cells:
    """Disjoint sets of factors, joined many at a time.

    A factor is an even number, and the odd one behind it its inverse, so that `cells ^ 1` are the inverses of
    `cells`. 0 is the factor that is 1.
    """

    def __init__(self) -> None:
        self._parents = np.zeros(1 << 10, np.int64)
        self._used = 2  # 1 is its own inverse: both have the parent 0

    def fresh(self, *shape: int) -> Array:
        """Factors that nothing is known of yet."""
        count = int(np.prod(shape))
        end = self._used + 2 * count
        if end > len(self._parents):
            self._parents = np.resize(self._parents, max(end, 2 * len(self._parents)))
        self._parents[self._used : end] = np.arange(self._used, end)
        cells = np.arange(self._used, end, 2).reshape(shape)
        self._used = end
        return cells

    def roots(self, cells: Array | None = None) -> Array:
        """The number that stands for the set of each; of all numbers by default."""
        cells = np.arange(self._used) if cells is None else cells
        roots = self._parents[cells]
        while ((above := self._parents[roots]) != roots).any():
            roots = above
        self._parents[cells] = roots
        return roots

    def join(self, a: Array, b: Array) -> None:
        """Let factors be equal, one by one; arrays are broadcast."""
        if a.size and b.size and a is not b:
            a, b = np.broadcast_arrays(a, b)
            self._join(a, b)
            self._join(a ^ 1, b ^ 1)

    def _join(self, a: Array, b: Array) -> None:
        while True:
            x, y = self.roots(a), self.roots(b)
            differ = x != y
            if not differ.any():
                return
            # Of several that a root is to hang below, the smallest is taken; another round brings the others.
            np.minimum.at(self._parents, np.maximum(x, y)[differ], np.minimum(x, y)[differ])

    def bind(self, cells: Array) -> None:
        """Let factors be 1."""
        self.join(cells, np.zeros((), np.int64))

    def are_bound(self, cells: Array) -> Array:
        """bool: whether factors are known to be 1; so is what is its own inverse."""
        roots = self.roots(cells)
        return np.asarray((roots == 0) | (roots == self.roots(cells ^ 1)))

    def even(self, cells: Array, axes: Iterable[int]) -> Array:
        """Cells of factors that are the same along some axes, and have the size 1 there."""
        for axis in axes:
            if cells.shape[axis] > 1:
                first = cells.take([0], axis)
                self.join(cells, first)
                cells = first
        return cells
