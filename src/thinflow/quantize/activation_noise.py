"""Noise that rounding makes of each activation by itself: which of them eight bits cannot hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from thinflow.onnx import program as onnx
from thinflow.quantize.calibrate import watch_program
from thinflow.quantize.macs import kernels_of, main_block
from thinflow.quantize.observers import Watcher
from thinflow.quantize.placement import place
from thinflow.quantize.ranges import Assignment, Parameters, Range, assign
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.runners import Feed
from thinflow.tflite import model as tflite
from thinflow.typing import Array

SILENT_DB = 300.0
"""Signal to noise of what rounding does not change."""


def activation_parameters(
    program: tflite.Program | onnx.Program, recipe: Recipe, ranges: Mapping[Any, Range]
) -> dict[Any, Parameters]:
    """Parameters of every activation that the scheme stores as integers, its constants left out."""
    return _assignment(program, recipe, ranges).of


def _assignment(
    program: tflite.Program | onnx.Program, recipe: Recipe, ranges: Mapping[Any, Range]
) -> Assignment:
    main = main_block(program)
    kernels = kernels_of(program, recipe.scheme)
    return assign(main, place(main, kernels, recipe, ranges), ranges, kernels)


def activation_noise(
    program: tflite.Program | onnx.Program,
    recipe: Recipe,
    ranges: Mapping[Any, Range],
    feeds: Iterable[Feed],
    *,
    threads: int = 1,
) -> dict[Any, float]:
    """Signal to noise, in decibels, of each activation with nothing rounded but itself.

    What all values of a tensor have in common is no signal.

    Args:
        ranges: of all activations.
        feeds: samples; one walk.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: the runtime is missing or cannot run the program.
    """
    made = _assignment(program, recipe, ranges)
    # What a clamp cuts off is none: it is stored as what the clamp gives, which stands for both.
    before_clamps = {*made.absorbed.values()}
    watched = {t: _Rounded(p) for t, p in made.of.items() if t not in before_clamps}
    if not watched:
        return {}
    watch_program(program, watched, feeds, threads=threads)
    return {tensor: one.decibels for tensor, one in watched.items() if one.count}


class _Rounded(Watcher):
    """Sums over the values of a tensor, and over what rounding does to them."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.count = 0
        self.total = self.squares = self.noise = 0.0

    def observe(self, values: Array, low: float, high: float) -> None:
        p = self.parameters
        rounded = (p.quantized(values).astype(np.float32) - p.zero_point) * np.float32(p.scale)
        self.count += values.size
        self.total += float(values.sum(dtype=np.float64))
        self.squares += float(np.square(values, dtype=np.float64).sum())
        self.noise += float(np.square(values - rounded, dtype=np.float64).sum())

    @property
    def decibels(self) -> float:
        signal = self.squares - self.total**2 / self.count
        # Sums of floats may leave next to nothing of a constant, on either side of 0.
        if self.noise <= 0 or signal <= 0:
            return SILENT_DB
        return 10 * math.log10(signal / self.noise)
