"""Weights in int8 or int4 while activations stay float: computed in float32, or rounded while LiteRT runs.

The schemes "dynamic", "int8_weights" and "int4_weights". None of them needs samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from thinflow.ir.types import INT8, dtype
from thinflow.lower.tflite.program import Operator, Program, Quantization, Tensor
from thinflow.quantize.constants import Reading, Smaller, Storing
from thinflow.quantize.kernels.litert import Weights, weights_of
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.result import Decision
from thinflow.quantize.weights import (
    INT4_MAX,
    WEIGHT_MAX,
    clipped_scales,
    quantize_weights,
    usable_scales,
    weight_scales,
)

INT4 = dtype("int4")
# Elements. TensorFlow's converter has the same limit (weights_min_num_elements): a layer with fewer takes
# little room.
FEWEST = 1024

# Activations of one sign then use all 256 steps, too. Convolutions have no such option in the schema.
_ASYMMETRIC = (("asymmetric_quantize_inputs", True),)
_HYBRID: dict[str, tuple[tuple[str, Any], ...]] = {
    "CONV_2D": (),
    "DEPTHWISE_CONV_2D": (),
    "TRANSPOSE_CONV": (),
    "FULLY_CONNECTED": _ASYMMETRIC,
    "BATCH_MATMUL": _ASYMMETRIC,
}
"""Ops that take float activations beside int8 weights, and the options that go with it."""


def dynamic(program: Program, recipe: Recipe) -> Storing:
    """int8 weights; LiteRT rounds the activations of each run to int8 and multiplies integers."""
    del program  # every layer is looked at alone
    return _Dynamic(recipe)


def weights_only(program: Program, recipe: Recipe) -> Storing:
    """int8 or int4 weights that LiteRT unpacks, to compute in float32."""
    scheme = _Unpacked(recipe)
    if recipe.scheme == "int4_weights":
        # As is common below eight bits: the input and the answer meet these two layers directly.
        scheme.in_four_bits = frozenset(_layers(program)[1:-1])
    return scheme


def _layers(program: Program) -> list[Operator]:
    """Operators that multiply by constant weights, in the order of the file."""
    operators = [o for subgraph in program.subgraphs for o in subgraph.operators]
    return [o for o in operators if weights_of(o) is not None and o.code != "GATHER"]


@dataclass
class _IntegerWeights(Storing):
    def choose(self, operator: Operator, number: int, constant: Tensor) -> Smaller | str:
        weights = weights_of(operator)
        if weights is None or weights.number != number:
            return ""
        data = np.asarray(constant.array())
        if data.size < FEWEST:
            return f"its weights are {data.size}, and below {FEWEST} that is not worth it"
        if not np.isfinite(data).all():
            return f"constant '{constant.name}' has values that are not finite"
        return self._smaller(operator, weights, data)

    def _smaller(self, operator: Operator, weights: Weights, data: np.ndarray) -> Smaller | str:
        raise NotImplementedError

    def _stored(self, weights: Weights, axis: int | None, *, bits: int = 8, spread: bool = False) -> Tensor:
        """The weights in integers with one scale, or one per entry of `axis`.

        Args:
            spread: repeat one scale for every output channel.
        """
        return self.once(weights.tensor, axis, bits, spread, make=lambda: _made(weights, axis, bits, spread))


def _made(weights: Weights, axis: int | None, bits: int, spread: bool) -> tuple[Tensor, Decision]:
    data = np.asarray(weights.tensor.array())
    limit = WEIGHT_MAX if bits == 8 else INT4_MAX
    # No bias and no scale of activations to get along with: only channels of zeros are mended.
    scales = usable_scales(weight_scales(data, axis, limit), None, 1.0, 0.0)
    # At 8 bits clipping gains nothing measurable, at 4 it does.
    if bits < 8:
        scales = clipped_scales(data, scales, axis, limit)
    how = "per tensor" if axis is None else f"per channel of dimension {axis}"
    if axis is None and spread:
        axis, scales = weights.axis, np.repeat(scales, data.shape[weights.axis])
    quantized = quantize_weights(data, scales, axis, limit)
    element = INT8 if bits == 8 else INT4
    name = f"{weights.tensor.name}/{element.name}"
    quantization = Quantization(scales, np.zeros(len(scales), np.int64), axis or 0)
    limits = float(data.min()), float(data.max())
    decision = Decision(name, scales, 0, limits, "weights", f"weights: {element.name}, symmetric, {how}")
    stored = Tensor(name, data.shape, element, quantized.astype(element.numpy()), quantization)
    return stored, decision


@dataclass
class _Dynamic(_IntegerWeights):
    def _smaller(self, operator: Operator, weights: Weights, data: np.ndarray) -> Smaller | str:
        if operator.code == "GATHER":
            # One scale for the whole table: the rows that come out are one tensor, whichever were looked up.
            return Smaller(partial(self._stored, weights, None), Reading.BEHIND)
        options = _HYBRID.get(operator.code)
        if options is None:
            return f"LiteRT's {operator.code} takes no int8 weights beside float activations"
        per_channel = self.recipe.per_channel and operator.code != "BATCH_MATMUL"
        # Kernels read as many scales as there are channels: depthwise ones always, others for grouped layers.
        spread = operator.code in {"CONV_2D", "DEPTHWISE_CONV_2D"}
        make = partial(self._stored, weights, weights.axis if per_channel else None, spread=spread)
        return Smaller(make, Reading.DIRECT, options)


@dataclass
class _Unpacked(_IntegerWeights):
    """`in_four_bits`: operators whose weights become int4."""

    in_four_bits: frozenset[Operator] = frozenset()

    def _smaller(self, operator: Operator, weights: Weights, data: np.ndarray) -> Smaller | str:
        axis = weights.axis if self.recipe.per_channel else None
        bits = 4 if operator in self.in_four_bits else 8
        return Smaller(partial(self._stored, weights, axis, bits=bits), Reading.BEFORE)
