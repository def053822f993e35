"""The error function, which TFLite lacks, and GELU, which is mostly what it is for; GELU by tanh, too.

While a graph is being lowered the error function is an operator "ERF" that no runtime knows. Fusion makes a
GELU of those it finds inside one; what is left is then spelled out.
"""

from __future__ import annotations

import math

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, FLOAT
from thinflow.lower.gelu_forms import found_gelu
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.wiring import (
    Match,
    Rewrite,
    activation,
    is_plain,
    new_constant,
)
from thinflow.program.fusion import need, only_if, op, value
from thinflow.tflite.model import Operator, Subgraph, Tensor

ERF = "ERF"


@lower("Erf", to="tflite")
def erf(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit(ERF, x)


class FuseGelu(Rewrite):
    """x * 0.5 * (1 + erf(x / sqrt 2)) -> gelu(x), and its approximation by tanh; see `gelu_forms`."""

    patterns = (op("MUL|ADD", value("first"), value("second")),)

    def replace(self, m: Match) -> None:
        gelu, name = found_gelu(m.wiring, m.head), m.output.name
        only_if(gelu is not None)
        assert gelu is not None
        x = gelu.x
        need(is_plain(m.head), f"the product ends in {activation(m.head)}")
        need(m.output.dtype is FLOAT, f"GELU takes float32, not {m.output.dtype}")
        need(x.shape is not None and x.shape == m.output.shape, "its numbers broadcast to another shape")
        # Without an approximation the option is left out, as its default says the same.
        options = {"approximate": True} if gelu.approximate else {}
        if gelu.inner != 1:
            x = self._scaled(m, x, gelu.inner, f"{name}/scaled")
        if gelu.outer == 1:
            m.wiring.become(m.head, "GELU", x, **options)
            return
        y = m.wiring.add(m.head, "GELU", [x], Tensor(f"{name}/gelu", x.shape, x.dtype), **options)
        factor = new_constant(f"{name}/factor", np.array(gelu.outer, np.float32))
        m.wiring.become(m.head, "MUL", y, factor, fused_activation_function="NONE")

    @staticmethod
    def _scaled(m: Match, x: Tensor, factor: float, name: str) -> Tensor:
        number = new_constant(f"{name}/factor", np.array(factor, np.float32))
        y = Tensor(name, x.shape, x.dtype)
        return m.wiring.add(m.head, "MUL", [x, number], y, fused_activation_function="NONE")


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
