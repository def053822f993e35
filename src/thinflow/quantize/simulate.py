"""Float programs that round as a scheme does, layer by layer of one's choice: what costs how much?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from thinflow.quantize.constants import Storing
from thinflow.quantize.kernels import is_float
from thinflow.quantize.kernels.litert import BY_SCHEME, weights_of
from thinflow.quantize.ranges import Parameters
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.weights import quantize_weights, usable_scales, weight_scales
from thinflow.tflite.model import Operator, Program, Quantization, Tensor
from thinflow.typing import Array


def rounded_weights(program: Program, recipe: Recipe, scheme: Storing | None = None) -> dict[Operator, Array]:
    """Layer of the main subgraph -> its weights after rounding, as float32 of the same shape.

    Args:
        scheme: of a recipe that only stores weights smaller; None for integer arithmetic.
    """
    found = {}
    for operator in program.subgraphs[0].operators:
        if recipe.why_skipped(operator):
            continue
        back = _integer_weights(operator, recipe) if scheme is None else _stored_weights(operator, scheme)
        if back is not None:
            found[operator] = back
    return found


def _integer_weights(operator: Operator, recipe: Recipe) -> Array | None:
    kernels = BY_SCHEME[recipe.scheme]
    tensor = kernels.weights(operator)
    if tensor is None or not is_float(tensor):
        return None
    axis = kernels.weight_axis(operator) if recipe.per_channel else None
    data = np.asarray(tensor.array())
    if not np.isfinite(data).all():
        return None
    # Without bias and neighbours: what the scales have to be raised for there is not an error of the weights.
    scales = usable_scales(weight_scales(data, axis), None, 1.0, 0.0)
    stored = Quantization(scales, np.zeros(len(scales), np.int64), axis or 0)
    return dequantized(quantize_weights(data, scales, axis), stored)


def _stored_weights(operator: Operator, scheme: Storing) -> Array | None:
    weights = weights_of(operator)
    if weights is None or not is_float(weights.tensor):
        return None
    smaller = scheme.choose(operator, weights.number, weights.tensor)
    if isinstance(smaller, str):
        return None
    stored = smaller.make()
    return dequantized(np.asarray(stored.array()), stored.quantization)


def dequantized(stored: Array, quantization: Quantization | None) -> Array:
    """float32 numbers that stored ones stand for."""
    if quantization is None:
        return stored.astype(np.float32)
    shape = [1] * stored.ndim
    if quantization.is_per_channel:
        shape[quantization.axis] = -1
    return stored.astype(np.float32) * quantization.scale.reshape(shape)


def simulated(
    program: Program,
    weights: Mapping[Operator, Array],
    activations: Mapping[Tensor, Parameters],
) -> Program:
    """The program with some weights replaced, and some activations rounded where they are made.

    Args:
        weights: layer -> what its weights become.
        activations: to be rounded; QUANTIZE and DEQUANTIZE stand behind them.
    """
    main = program.subgraphs[0]
    result = replace(main, operators=[])
    renamed: dict[Tensor, Tensor] = {}

    def round_behind(tensor: Tensor) -> None:
        parameters = activations.get(tensor)
        if parameters is not None:
            renamed[tensor] = _rounding(result.operators, tensor, parameters)

    # Rounded once, where it is made: all readers then see the same numbers, as they do in integers.
    for tensor in main.inputs:
        round_behind(tensor)
    for operator in main.operators:
        inputs = [renamed.get(t, t) if t is not None else None for t in operator.inputs]
        if operator in weights:
            _replace_weights(operator, inputs, weights[operator])
        result.operators.append(replace(operator, inputs=inputs))
        for tensor in operator.outputs:
            round_behind(tensor)
    result.outputs = [renamed.get(t, t) for t in main.outputs]
    # The outputs are other tensors now, and signatures name the old ones.
    return replace(program, subgraphs=[result, *program.subgraphs[1:]], signatures={})


def _replace_weights(operator: Operator, inputs: list[Tensor | None], data: Array) -> None:
    weights = weights_of(operator)
    assert weights is not None, "only layers have weights"
    inputs[weights.number] = replace(weights.tensor, data=np.ascontiguousarray(data, np.float32))


def _rounding(operators: list[Operator], tensor: Tensor, parameters: Parameters) -> Tensor:
    """Append QUANTIZE and DEQUANTIZE; the rounded tensor."""
    stored = Quantization(
        np.array([parameters.scale], np.float32), np.array([parameters.zero_point], np.int64)
    )
    element = parameters.arithmetic.activation
    stored_tensor = Tensor(f"{tensor.name}/codes", tensor.shape, element, None, stored)
    back = Tensor(f"{tensor.name}/rounded", tensor.shape, tensor.dtype)
    operators.append(Operator("QUANTIZE", [tensor], [stored_tensor]))
    operators.append(Operator("DEQUANTIZE", [stored_tensor], [back]))
    return back
