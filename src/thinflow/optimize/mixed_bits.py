"""Layers that are worth eight bits where others have four: by the noise they make, and the room they take.

Noise of different layers adds up in power, nearly, so that the best layers for so many bytes are a knapsack:
those with the most noise for each byte, as long as they fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from thinflow.ir.types import DType
from thinflow.onnx import program as onnx
from thinflow.optimize.sqnr import SqnrMeter, before_squashing
from thinflow.program.model import Operator
from thinflow.quantize.fit import Fit
from thinflow.quantize.macs import main_block
from thinflow.quantize.onnx_unpacking import unpacked
from thinflow.quantize.products import Product, products
from thinflow.quantize.recipe import Recipe, names_of
from thinflow.quantize.schemes import quantize_program
from thinflow.quantize.simulate import dequantized
from thinflow.quantize.small_weights import INT4
from thinflow.tflite import model as tflite
from thinflow.typing import Array

P = TypeVar("P", bound=tflite.Program | onnx.Program)

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


def costly_layers(fit: Fit[P], recipe: Recipe, *, threads: int = 2) -> list[Costly]:
    """Layers of a recipe with weights of four bits, the most noise for each byte first.

    One run of the network a layer and sample.
    """
    program = before_squashing(fit.rescaling(recipe).program)
    main = main_block(program)
    names = [name for operator in main.operators for name in names_of(operator)]
    plain = replace(recipe, rounding="nearest", correct_bias=False).for_names(names)
    samples = [[feed[t.name] for t in main.inputs] for feed in fit.few[:SAMPLES]]
    meter = SqnrMeter(program, samples, threads=threads)
    found = []
    for product, rounded in _in_four_bits(program, plain):
        operator = product.operator
        noise = 10 ** (-meter.sqnr(_with_weights(program, product, rounded)) / 10)
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


def _in_four_bits(program: P, recipe: Recipe) -> Iterator[tuple[Product, Array]]:
    """Layers with a name whose weights a recipe stores in four bits, and the real numbers that these are."""
    made = quantize_program(cast("Any", program), recipe)
    producers = main_block(made.program).producers()
    for product in products(program):
        new = made.made.get(product.operator)
        number = product.operator.inputs.index(product.weights)
        found = None if new is None else _unpacked(new.inputs[number], producers)
        if found is not None and found[0] is INT4 and names_of(product.operator):
            yield product, found[1]


def _unpacked(wide: Any, producers: Mapping[Any, Operator[Any]]) -> tuple[DType, Array] | None:
    """The type that weights are stored in, and the numbers that are made of them; None for stored floats."""
    writer = producers.get(wide)
    if writer is None or writer.code != "DEQUANTIZE":
        return unpacked(wide, cast("Any", producers))
    (stored,) = writer.reads()
    return stored.dtype, dequantized(stored.array(), stored.quantization)


def _with_weights(program: P, product: Product, data: Array) -> P:
    """The program with other weights in one layer."""
    main, weights = main_block(program), product.weights
    other = replace(weights, name=f"{weights.name}/in_four_bits", data=np.ascontiguousarray(data))
    inputs = [other if t is weights else t for t in product.operator.inputs]
    changed = replace(product.operator, inputs=inputs)
    operators: list[Any] = [changed if o is product.operator else o for o in main.operators]
    if isinstance(program, onnx.Program):
        return cast("P", replace(program, operators=operators))
    subgraph = replace(program.subgraphs[0], operators=operators)
    return cast("P", replace(program, subgraphs=[subgraph, *program.subgraphs[1:]]))
