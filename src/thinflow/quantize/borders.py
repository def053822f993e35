"""What a recipe says of a LiteRT program: types of inputs and outputs, and the scales of its layers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thinflow.quantize.kernels import Kernels, Operator, is_float
from thinflow.quantize.ranges import Parameters
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
