"""Biases that give the output channels of a quantized network the means that they have in float.

    b' = b + W E[x] - Wq E[xq]        x of the float network, xq of the quantized one as it is by then

W E[x] is a linear layer's mean before its activation, so that nothing but means of inputs are measured. Of
rounded weights alone this is the correction of Nagel et al. (ICCV 2019); E[xq] takes what rounded and clipped
activations do, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from thinflow.onnx import program as onnx
from thinflow.quantize.grams import Layer, Some, gather, layers_of
from thinflow.quantize.parts import part_making
from thinflow.quantize.products import Product, products
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.rounding import Grid, Rounding
from thinflow.quantize.runners import Feed
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.steps import steps_of
from thinflow.quantize.weights import memory_key
from thinflow.tflite import model as tflite
from thinflow.typing import Array, Progress

# The quantized network is run by reference kernels, which are slow. Means of channels over all places of a
# picture need few pictures.
MOST_SAMPLES = 24


class CorrectedBiases(Rounding):
    """Another rounding's codes, and biases by the means of some layers' inputs.

    Attributes:
        means: memory of weights -> the layer, its inputs' means in float, and in the quantized network.
    """

    def __init__(self, rounding: Rounding) -> None:
        self.rounding = rounding
        self.means: dict[tuple[Any, ...], tuple[Product, Array, Array]] = {}

    def codes(self, w: Array, grid: Grid) -> Array:
        return self.rounding.codes(w, grid)

    def clipped(self, w: Array, grid: Grid) -> Grid:
        return self.rounding.clipped(w, grid)

    def bias(self, w: Array, grid: Grid, bias: Array) -> Array:
        known = self.means.get(memory_key(w))
        if known is None:
            return self.rounding.bias(w, grid, bias)
        product, mean, read = known
        return product.corrected_bias(bias, w, mean, grid.real(self.codes(w, grid)), read)


def corrected_biases(
    program: tflite.Program | onnx.Program,
    recipe: Recipe,
    ranges: Any,
    rounding: Rounding,
    feeds: Iterable[Feed],
    *,
    threads: int = 1,
    progress: Progress | None = None,
    **choices: Any,
) -> CorrectedBiases:
    """A rounding with the codes of another and with biases that suit the quantized network.

    Layers without a bias get none, and layers that share their weights get one shift, by what all of them
    read: no tensors come about but biases of their own for layers that shared one.

    Args:
        ranges: of activations, as for `quantize_program`; so are `choices`.
        feeds: samples; no iterator.

    Raises:
        FeedError: a sample does not fit the inputs, or there are no samples.
        EngineUnavailable: the runtime is missing or cannot run one of the programs.
    """
    # Inputs and outputs in float, so that the same samples fit; columns that are merged change no result.
    trial = replace(recipe, input_type="float32", output_type="float32", columns="off")
    found = [p for p in products(program) if not recipe.why_skipped(p.operator)]
    layers = {key: layer for key, layer in layers_of(found).items() if layer.is_centred}
    some = Some(feeds, MOST_SAMPLES)
    result = CorrectedBiases(rounding)
    if not layers:
        return result
    for layer in layers.values():
        layer.parts = []
    gather(program, [*layers.values()], some, threads=threads)
    steps = steps_of(program, layers, len(some), math.inf)
    for number, step in enumerate(steps):
        made = quantize_program(program, trial, ranges, rounding=result, **choices)
        there = {key: layers[key].products_in(made) for key in step.keys}
        chosen = {key: Layer(p, layers[key].groups, layers[key].inputs) for key, p in there.items() if p}
        looked_at = [*chosen.values()]
        ends = [product.x for layer in looked_at for product in layer.products]
        gather(part_making(made.program, ends), looked_at, some, threads=threads)
        for key, found_there in chosen.items():
            if found_there.seen and layers[key].seen:
                quantized = found_there.means
                mean = layers[key].means if key in step.first else quantized
                result.means[key] = layers[key].product, mean, quantized
        if progress is not None:
            progress(number + 1, len(steps), "correcting biases")
    return result
