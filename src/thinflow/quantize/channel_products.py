"""Factors of products of two computed tensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thinflow.quantize.channel_cells import Cells
from thinflow.typing import Array


class _Product(NamedTuple):
    """Cells of what was made of two sides, all of one shape."""

    made: Array
    a: Array
    b: Array


class Products:
    """Products, of which one side carries its factors on, and the other is to have none.

    Which one is settled once all else is known.
    """

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        self._waiting: list[_Product] = []

    def of(self, a: Array, b: Array) -> Array:
        """Factors of a product, number by number."""
        if self.cells.are_bound(a).all():
            return b
        if self.cells.are_bound(b).all():
            return a
        a, b = np.broadcast_arrays(a, b)
        made = self.cells.fresh(*a.shape)
        self._waiting.append(_Product(made, a, b))
        return made

    def of_matrices(self, a: Array, b: Array) -> Array:
        """Factors of a product of matrices, [..., M, K] and [..., K, N]."""
        if a.shape[-1] == 1 and b.shape[-2] == 1:
            return self.of(a, b)
        # Terms of a sum over k have one factor if those of a and b make up for one another.
        left = self.cells.even(a, [a.ndim - 2])
        right = np.swapaxes(self.cells.even(b, [b.ndim - 1]), -1, -2)
        self.cells.join(left, right ^ 1)
        return np.zeros((1,) * max(a.ndim, b.ndim), np.int64)

    def settle(self) -> None:
        """Let one side of each product carry its factors on."""
        waiting, bound = self._waiting, 1
        while waiting:
            left = [rest for product in waiting for rest in self._settle(product)]
            if len(left) == len(waiting):
                # Only where neither side is bound by anything else, one is for this. That may settle others,
                # so it is done for few of them first, but not so that a net of thousands takes thousands of
                # rounds.
                for product in left[:bound]:
                    for rest in self._settle(product):
                        self.cells.bind(rest.a)
                bound *= 8
            waiting = left

    def _settle(self, product: _Product) -> list[_Product]:
        """Settle what is known of a product; the rest of it."""
        made, a, b = product
        by_a = self.cells.are_bound(a)
        by_b = self.cells.are_bound(b) & ~by_a
        by_made = self.cells.are_bound(made) & ~by_a & ~by_b
        if not (by_a.any() or by_b.any() or by_made.any()):
            return [product]
        self.cells.join(made[by_a], b[by_a])
        self.cells.join(made[by_b], a[by_b])
        self.cells.join(a[by_made], b[by_made] ^ 1)
        rest = ~(by_a | by_b | by_made)
        return [_Product(made[rest], a[rest], b[rest])] if rest.any() else []
