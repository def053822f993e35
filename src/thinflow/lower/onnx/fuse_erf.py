"""The inner part of a GELU as ONNX Runtime looks for it: x * 0.5 * (1 + erf(x / sqrt 2)) becomes one op.

Others write 1 - erf(-x * sqrt 0.5), or multiply where it divides; then it takes them one by one.
"""

from __future__ import annotations

import math

import numpy as np

from thinflow.lower.onnx.wiring import Wiring, new_constant
from thinflow.onnx.program import Operator, Tensor
from thinflow.program.wiring import with_constant

_CLOSE = 1e-6


def fuse_erf(wiring: Wiring, operator: Operator) -> None:
    """1 + erf(x * sqrt 0.5) and 1 - erf(-x * sqrt 0.5) -> 1 + erf(x / sqrt 2)."""
    value, one = with_constant(operator)
    function = wiring.sole_producer(value, "Erf")
    if value is None or function is None or one is None or one.size != 1 or one.reshape(()) != 1:
        return
    sign = 1.0
    if operator.code == "Sub":
        if operator.inputs[1] is not value:
            return
        sign = -1.0
    x, factor = _scaled(wiring, function.inputs[0])
    if x is None or abs(sign * factor - math.sqrt(0.5)) > _CLOSE:
        return
    argument = function.inputs[0]
    assert argument is not None
    root = new_constant(f"{value.name}/sqrt_2", np.array(math.sqrt(2), one.dtype), value.dtype)
    divided = Tensor(f"{value.name}/divided", argument.shape, argument.dtype)
    wiring.add("Div", [x, root], divided, operator.origin)
    wiring.set_input(function, 0, divided)
    operator.code = "Add"


def _scaled(wiring: Wiring, tensor: Tensor | None) -> tuple[Tensor | None, float]:
    """What a tensor is a multiple of, through Mul and Neg, and the factor."""
    factor = 1.0
    while (step := wiring.sole_producer(tensor, "Mul", "Neg")) is not None:
        if step.code == "Neg":
            tensor, factor = step.inputs[0], -factor
            continue
        source, number = with_constant(step)
        if source is None or number is None or number.size != 1:
            break
        tensor, factor = source, factor * float(number.reshape(()))
    return tensor, factor
