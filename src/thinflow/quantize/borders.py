"""What a recipe says of a LiteRT program: types of inputs and outputs, and the scales of its layers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from thinflow.quantize.kernels import Kernels, Operator, is_float
from thinflow.quantize.ranges import Assignment, Parameters, constant_range, parameters_for
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.weights import LayerScales, layer_scales
from thinflow.tflite.model import Subgraph, Tensor


def integer_borders(main: Subgraph, recipe: Recipe, given: Mapping[str, str] | None) -> dict[Tensor, str]:
    """The float inputs and outputs of the model that are to be integers, and their types.

    What a custom op writes stays float, as TensorFlow's converter has it: the boxes of a detector, say.
    """
    custom = {t for operator in main.operators if operator.custom_code for t in operator.outputs}
    found: dict[Tensor, str] = {}
    for asked, tensors in ((recipe.input_type, main.inputs), (recipe.output_type, main.outputs)):
        for tensor in tensors:
            kind = asked if given is None else given.get(tensor.name, "float32")
            if kind != "float32" and is_float(tensor) and tensor not in custom:
                found.setdefault(tensor, kind)
    return found


def layer_scales_for(
    operator: Operator, kernels: Kernels, s_x: float, s_y: float, recipe: Recipe, shifted: bool
) -> LayerScales:
    """The scales of an operator's constant weights and bias; see `layer_scales`."""
    per_channel, keep = recipe.per_channel, recipe.keep_weights
    return layer_scales(operator, kernels, s_x, s_y, per_channel=per_channel, keep=keep, shifted=shifted)


def is_crossing(operator: Operator) -> bool:
    """True for an operator between real numbers and codes that an op of a float program has of its own."""
    return operator.code == "QUANTIZE" or operator.code == "DEQUANTIZE"


def is_of_grid(codes: Tensor, parameters: Parameters | None) -> bool:
    """True if codes have the type and the scale that parameters say."""
    grid = codes.quantization
    if parameters is None or grid is None or codes.dtype is not parameters.arithmetic.activation:
        return False
    own = grid.scale.tolist(), grid.zero_point.tolist()
    return own == ([float(np.float32(parameters.scale))], [parameters.zero_point])


def why_scales_apart(operator: Operator, kernels: Kernels, assignment: Assignment) -> str:
    """The reason why a kernel does not take the scales around an operator; "" if it does.

    Those who compare or add end the process where it is so.
    """
    kernel = kernels.table[operator.code]
    if kernel.scale_limit == math.inf and kernel.sum_bits is None:
        return ""  # nobody asks
    largest = _largest_scale(operator, kernels, assignment)
    if largest >= kernel.scale_limit:
        return "LiteRT compares integers only if their scales are below 1"
    y = operator.outputs[0]
    # A sum is rescaled from twice the coarser scale, shifted by so many bits, by a factor below 1.
    if kernel.sum_bits is not None and 2 * largest >= (1 << kernel.sum_bits) * assignment.of[y].scale:
        return "its output needs much finer steps than its inputs have"
    return ""


def _largest_scale(operator: Operator, kernels: Kernels, assignment: Assignment) -> float:
    """The largest scale among the float inputs of an operator."""
    read = kernels.data_inputs(operator)
    constants = [
        parameters_for(constant_range(x), arithmetic=kernels.arithmetic) for x in read if x.is_constant
    ]
    others = [assignment.of[x] for x in read if not x.is_constant]
    return max((p.scale for p in constants + others), default=0.0)
