"""The error function, which TFLite lacks, and GELU, which is mostly what it is for.

While a graph is being lowered the error function is an operator "ERF" that no runtime knows. Fusion makes a
GELU of those it finds inside one; what is left is then spelled out.
"""

from __future__ import annotations

import math

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.program import Operator, Subgraph, Tensor
from thinflow.lower.tflite.wiring import Wiring, activation, new_constant
from thinflow.program.wiring import is_number, with_constant

ERF = "ERF"


@lower("Erf", to="tflite")
def erf(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit(ERF, x)


def fuse_gelu(wiring: Wiring, operator: Operator) -> None:
    """x * 0.5 * (1 + erf(x / sqrt 2)) -> gelu(x), with the half anywhere."""
    if activation(operator) != "NONE":
        return
    for half, other in (operator.inputs, operator.inputs[::-1]):
        x = _argument(wiring, other)
        if x is not None and _is_half_of(wiring, half, x):
            wiring.become(operator, "GELU", x)
            return
    product, factor = with_constant(operator)
    before = wiring.sole_producer(product, "MUL")
    if before is None or factor is None or not is_number(factor, 0.5) or activation(before) != "NONE":
        return
    for first, second in (before.inputs, before.inputs[::-1]):
        x = _argument(wiring, second)
        if x is not None and first is x:
            wiring.become(operator, "GELU", x)
            return


def _argument(wiring: Wiring, tensor: Tensor | None) -> Tensor | None:
    """The x of 1 + erf(x / sqrt 2), or of 1 - erf(-x / sqrt 2), which is the same number."""
    outer = wiring.sole_producer(tensor, "ADD", "SUB")
    if outer is None or activation(outer) != "NONE":
        return None
    value, one = with_constant(outer)
    function = wiring.sole_producer(value, ERF)
    if function is None or one is None or not is_number(one, 1):
        return None
    if outer.code == "SUB" and outer.inputs[1] is not value:
        return None  # erf - 1
    x, factor = _scaled(wiring, function.inputs[0])
    return x if is_number(np.float32(factor if outer.code == "ADD" else -factor), math.sqrt(0.5)) else None


def _scaled(wiring: Wiring, tensor: Tensor | None) -> tuple[Tensor | None, float]:
    """What a tensor is a multiple of, through MUL and NEG, and the factor."""
    factor = 1.0
    while (step := wiring.sole_producer(tensor, "MUL", "NEG")) is not None and activation(step) == "NONE":
        if step.code == "NEG":
            tensor, number = step.inputs[0], np.float32(-1)
        else:
            source, number = with_constant(step)
            if number is None or number.size != 1:
                break
            tensor = source
        factor *= float(number.reshape(()))
    return tensor, factor


def _is_half_of(wiring: Wiring, tensor: Tensor | None, x: Tensor) -> bool:
    half = wiring.sole_producer(tensor, "MUL")
    if half is None or activation(half) != "NONE":
        return False
    source, factor = with_constant(half)
    return source is x and factor is not None and is_number(factor, 0.5)


def expand_erf(subgraph: Subgraph) -> None:
    """Spell out every ERF that is left: as gelu(y) = y (1 + erf(y / sqrt 2)) / 2, it is 2 gelu(y) / y - 1.

    At 0 and beyond 4, where it is 1 to the last bit, it is the sign.
    """
    operators: list[Operator] = []
    for operator in subgraph.operators:
        operators += _expanded(operator) if operator.code == ERF else [operator]
    subgraph.operators = operators


def _expanded(operator: Operator) -> list[Operator]:
    x, result = operator.inputs[0], operator.outputs[0]
    assert x is not None
    steps: list[Operator] = []

    def number(value: float, name: str) -> Tensor:
        return new_constant(f"{result.name}/{name}", np.array(value, np.float32))

    def step(code: str, *inputs: Tensor, name: str, output: Tensor | None = None) -> Tensor:
        element = BOOL if code == "GREATER_EQUAL" else result.dtype
        output = output or Tensor(f"{result.name}/{name}", result.shape, element)
        steps.append(Operator(code, list(inputs), [output], origin=operator.origin))
        return output

    y = step("MUL", x, number(math.sqrt(2), "sqrt_2"), name="scaled")
    ratio = step("DIV", step("GELU", y, name="gelu"), y, name="ratio")
    minus_one = number(-1, "minus_one")
    twice = step("ADD", step("MUL", ratio, number(2, "two"), name="twice"), minus_one, name="erf")
    middle = number(2, "middle")
    off = step("ABS", step("SUB", step("ABS", x, name="size"), middle, name="shifted"), name="off")
    is_sign = step("GREATER_EQUAL", off, middle, name="is_sign")
    step("SELECT_V2", is_sign, step("SIGN", x, name="sign"), twice, name="", output=result)
    return steps
