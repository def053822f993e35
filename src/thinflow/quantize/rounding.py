"""Rounding of weights to a grid: to the nearest point, or by a strategy that loses less."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thinflow.quantize.weights import (
    INT4_MAX,
    WEIGHT_MAX,
    LayerScales,
    clipped_scales,
    quantize_weights,
    usable_scales,
    weight_scales,
)
from thinflow.typing import Array


class Grid(NamedTuple):
    """Points that weights are rounded to: scale * (code - zero_point), the codes from -limit to limit.

    Attributes:
        scales: float32 [entries of the axis], or [1].
        axis: of the weights with a scale per entry; None for one scale.
        zero_point: of all codes, as int8, which then are all of int8.
        block: an axis, and how many entries of it share a scale, where scales are by blocks as well; these
            have the rank of the weights then.
    """

    scales: Array
    axis: int | None
    limit: int = WEIGHT_MAX
    zero_point: int = 0
    block: tuple[int, int] | None = None

    @classmethod
    def of(cls, scales: LayerScales, limit: int = WEIGHT_MAX) -> Grid:
        """The grid of a layer's weights."""
        return cls(scales.weights, scales.axis, limit, scales.zero_point)

    def along(self, rank: int) -> Array:
        """The scales in the shape that broadcasts with weights of a rank."""
        if self.block is not None:
            return np.repeat(self.scales, self.block[1], axis=self.block[0])
        if self.axis is None or self.scales.size == 1:
            return self.scales.reshape([1] * rank)
        return self.scales.reshape([-1 if n == self.axis else 1 for n in range(rank)])

    @property
    def how(self) -> str:
        """For reports: per what there is a scale."""
        if self.block is not None:
            return f"per block of {self.block[1]} along dimension {self.block[0]}"
        return "per tensor" if self.axis is None else f"per channel of dimension {self.axis}"

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for grids of the same points."""
        return self.axis, self.scales.tobytes(), self.limit, self.zero_point, self.block

    def real(self, codes: Array) -> Array:
        """float64 numbers that codes stand for."""
        numbers: Array = (codes.astype(np.float64) - self.zero_point) * self.along(codes.ndim)
        return numbers


class Rounding:
    """To the nearest point, each weight alone; strategies that know more than a weight are subclasses.

    Weights are told apart by their memory (`memory_key`). So layers that share theirs, as the steps of an
    unrolled network do, get one set of codes and one shift of their biases.
    """

    def codes(self, w: Array, grid: Grid) -> Array:
        """int8 codes of weights, of their shape. Copies."""
        return quantize_weights(w, grid.along(w.ndim), None, grid.limit, zero_point=grid.zero_point)

    def bias(self, w: Array, grid: Grid, bias: Array) -> Array:
        """The bias in real numbers to store beside the codes of weights; float32 or float64, of its shape."""
        del w, grid  # nearest weights are taken for right
        return bias

    def clipped(self, w: Array, grid: Grid) -> Grid:
        """The grid for few bits, whose channels may be finer and leave out their largest weights."""
        if grid.block is None:
            return grid._replace(scales=clipped_scales(w, grid.scales, grid.axis, grid.limit))
        axis, size = grid.block
        rows = np.moveaxis(w, axis, -1).reshape(-1, size)
        turned = np.moveaxis(grid.scales, axis, -1)
        found = clipped_scales(rows, turned.reshape(-1), 0, grid.limit).reshape(turned.shape)
        return grid._replace(scales=np.ascontiguousarray(np.moveaxis(found, -1, axis)))


def weight_grid(
    w: Array, axis: int | None, bits: int, rounding: Rounding, block: tuple[int, int] | None = None
) -> Grid:
    """The grid of weights that no integer kernel multiplies: nothing limits their scales.

    Args:
        block: see `Grid`.
    """
    limit = WEIGHT_MAX if bits == 8 else INT4_MAX
    if block is None:
        raw = weight_scales(w, axis, limit)
    else:
        along, size = block
        rows = np.moveaxis(w, along, -1)
        raw = np.abs(rows).reshape(*rows.shape[:-1], -1, size).max(axis=-1).astype(np.float64) / limit
        raw = np.moveaxis(raw, -1, along)
    # No bias and no scale of activations to get along with: only channels of zeros are mended.
    grid = Grid(usable_scales(raw, None, 1.0, 0.0), axis, limit, block=block)
    # At 8 bits clipping gains nothing measurable, at 4 it does.
    return grid if bits == 8 else rounding.clipped(w, grid)


NEAREST = Rounding()
"""The rounding of those who choose nothing."""
