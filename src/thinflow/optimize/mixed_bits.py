"""Layers that are worth eight bits where others have four: by the noise they make, and the room they take.

Noise of different layers adds up in power, nearly, so that the best layers for so many bytes are a knapsack:
those with the most noise for each byte, as long as they fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from thinflow.optimize.sqnr import SqnrMeter, before_squashing
from thinflow.quantize.fit import Fit
from thinflow.quantize.kernels.litert import weights_of
from thinflow.quantize.macs import main_block
from thinflow.quantize.recipe import Recipe, names_of
from thinflow.quantize.schemes import storing
from thinflow.quantize.simulate import rounded_weights, simulated
from thinflow.tflite.model import Program

# Samples that tell an order of layers, each of which is a run of the whole network.
SAMPLES = 16


class Costly(NamedTuple):
    """A layer whose weights have four bits.

    Attributes:
        pattern: that names it in a recipe.
        noise: beside the signal of the logits, in power, that its weights alone make.
        bytes: that eight bits would add.
    """

    pattern: str
    noise: float
    bytes: int


def costly_layers(fit: Fit[Program], recipe: Recipe, *, threads: int = 2) -> list[Costly]:
    """Layers of a recipe with weights of four bits, the most noise for each byte first.

    One run of the network a layer and sample.
    """
    program = before_squashing(fit.rescaling(recipe).program)
    some = replace(recipe, rounding="nearest", correct_bias=False).for_names(_names(program))
    fine = replace(some, scheme="int8_weights", eight_bits=())
    four, eight = (rounded_weights(program, one, storing(program, one)) for one in (some, fine))
    inputs = [t.name for t in main_block(program).inputs]
    samples = [[feed[name] for name in inputs] for feed in fit.few[:SAMPLES]]
    meter = SqnrMeter(program, samples, threads=threads)
    found = []
    for operator, rounded in four.items():
        weights = weights_of(operator)
        # Those that have eight bits already round to the same numbers.
        if weights is None or not names_of(operator) or np.array_equal(rounded, eight[operator]):
            continue
        noise = 10 ** (-meter.sqnr(simulated(program, {operator: rounded}, {})) / 10)
        found.append(Costly(names_of(operator)[0], noise, rounded.size // 2))
    return sorted(found, key=lambda layer: -layer.noise / layer.bytes)


def worth_eight_bits(layers: list[Costly], room: float) -> list[Costly]:
    """Those of some layers that make the most noise together and fit into so many bytes."""
    chosen = []
    for layer in layers:
        if layer.bytes <= room:
            chosen.append(layer)
            room -= layer.bytes
    return chosen


def _names(program: Program) -> list[str]:
    return [name for operator in main_block(program).operators for name in names_of(operator)]
