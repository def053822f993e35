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
from thinflow.lower.tflite.wiring import (
    Match,
    Rewrite,
    Wiring,
    activation,
    is_plain,
    new_constant,
    plain,
)
from thinflow.program.fusion import Step, const, need, op, value
from thinflow.program.wiring import is_number, with_constant
from thinflow.tflite.model import Operator, Subgraph, Tensor

ERF = "ERF"


@lower("Erf", to="tflite")
def erf(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit(ERF, x)


def _gelu() -> tuple[Step, ...]:
    """x * 0.5 * (1 + erf(x / sqrt 2)), with the half anywhere.

    1 - erf(-x / sqrt 2) is the same number and found, too.
    """
    function, one, half = op(ERF, value("scaled")), const("1", 1), const("0.5", 0.5)
    found = []
    for outer in (
        op("ADD", function, one, any_order=True, where=plain),
        op("SUB", one, function, name="less", where=plain),
    ):
        halved = op("MUL", value("x"), half, any_order=True, where=plain)
        whole = op("MUL", value("x"), outer, any_order=True, where=plain)
        found += [op("MUL", halved, outer, any_order=True), op("MUL", whole, half, any_order=True)]
    return tuple(found)


class FuseGelu(Rewrite):
    """x * 0.5 * (1 + erf(x / sqrt 2)) -> gelu(x), with the half anywhere."""

    patterns = _gelu()

    def replace(self, m: Match) -> None:
        need(is_plain(m.head), f"the product ends in {activation(m.head)}")
        x, factor = _scaled(m.wiring, m.tensor("scaled"))
        need(x is m.tensor("x"), "the error function is not of what it is multiplied with")
        # 1 - erf(-z) = 1 + erf(z): the factor has the other sign there.
        sign = -1 if "less" in m.operators else 1
        need(is_number(np.float32(sign * factor), math.sqrt(0.5)), "x is not divided by the root of 2")
        m.wiring.become(m.head, "GELU", m.tensor("x"))


def _scaled(wiring: Wiring, tensor: Tensor | None) -> tuple[Tensor | None, float]:
    """The tensor that this one is a multiple of, through MUL and NEG, and the factor."""
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


def expand_erf(subgraph: Subgraph) -> None:
    """Spell out every ERF that is left: as gelu(y) = y (1 + erf(y / sqrt 2)) / 2, it is 2 gelu(y) / y - 1.

    Up to 1/200 it is 2 x / sqrt pi, and beyond 4, where it is 1 to the last bit, the sign: which is the same
    multiple of x, cut off at 1.
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

    # gelu(y) has erf(y / sqrt 2) in it, so y = x sqrt 2 gives erf(x).
    y = step("MUL", x, number(math.sqrt(2), "sqrt_2"), name="scaled")
    ratio = step("DIV", step("GELU", y, name="gelu"), y, name="ratio")
    minus_one = number(-1, "minus_one")
    twice = step("ADD", step("MUL", ratio, number(2, "two"), name="twice"), minus_one, name="erf")
    line = step("MUL", x, number(2 / math.sqrt(math.pi), "slope"), name="line")
    steps[-1].options["fused_activation_function"] = "RELU_N1_TO_1"
    # One comparison for both ends. At the lower one both forms are off by 1e-5: the next term of the series
    # is x^2 / 3 of the line, and the ratio is 1 / 2 with the rest in its last digits; at 0 it would be 0 / 0.
    low, high = 1 / 200, 4.0
    middle, reach = number((high + low) / 2, "middle"), number((high - low) / 2, "reach")
    off = step("ABS", step("SUB", step("ABS", x, name="size"), middle, name="shifted"), name="off")
    is_on_line = step("GREATER_EQUAL", off, reach, name="is_on_line")
    step("SELECT_V2", is_on_line, line, twice, name="", output=result)
    return steps
