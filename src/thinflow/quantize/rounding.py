"""Rounding of weights to a grid: to the nearest point, or by a strategy that loses less."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thinflow.quantize.weights import WEIGHT_MAX, LayerScales, clipped_scales, quantize_weights
from thinflow.typing import Array


class Grid(NamedTuple):
    """Points that weights are rounded to: scale * (code - zero_point), the codes from -limit to limit.

    Attributes:
        scales: float32 [entries of the axis], or [1].
        axis: of the weights with a scale per entry; None for one scale.
        zero_point: of all codes, as int8, which then are all of int8.
    """

    scales: Array
    axis: int | None
    limit: int = WEIGHT_MAX
    zero_point: int = 0

    @classmethod
    def of(cls, scales: LayerScales, limit: int = WEIGHT_MAX) -> Grid:
        """The grid of a layer's weights."""
        return cls(scales.weights, scales.axis, limit, scales.zero_point)

    def along(self, rank: int) -> Array:
        """The scales in the shape that broadcasts with weights of a rank."""
        if self.axis is None or self.scales.size == 1:
            return self.scales.reshape([1] * rank)
        return self.scales.reshape([-1 if n == self.axis else 1 for n in range(rank)])

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
        return quantize_weights(w, grid.scales, grid.axis, grid.limit, zero_point=grid.zero_point)

    def bias(self, w: Array, grid: Grid, bias: Array) -> Array:
        """The bias in real numbers to store beside the codes of weights; float32 or float64, of its shape."""
        del w, grid  # nearest weights are taken for right
        return bias

    def clipped(self, w: Array, grid: Grid) -> Grid:
        """The grid for few bits, whose channels may be finer and leave out their largest weights."""
        return grid._replace(scales=clipped_scales(w, grid.scales, grid.axis, grid.limit))


NEAREST = Rounding()
"""The rounding of those who choose nothing."""
