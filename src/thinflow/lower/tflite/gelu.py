"""The error function, which TFLite lacks, and GELU, which is mostly what it is for; GELU by tanh, too.

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
from thinflow.program.fusion import Step, const, need, only_if, op, value
from thinflow.program.wiring import is_number, with_constant
from thinflow.tflite.model import Operator, Subgraph, Tensor
from thinflow.typing import Array

ERF = "ERF"


@lower("Erf", to="tflite")
def erf(b: Builder, node: Node, x: Tensor) -> Tensor:
    return b.emit(ERF, x)


def _gelu(code: str) -> tuple[Step, ...]:
    """x * 0.5 * (1 + f(scaled)), with the half anywhere, for an odd function.

    1 - f(-scaled) is the same number and found, too.
    """
    function, one, half = op(code, value("scaled")), const("1", 1), const("0.5", 0.5)
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

    patterns = _gelu(ERF)

    def replace(self, m: Match) -> None:
        need(is_plain(m.head), f"the product ends in {activation(m.head)}")
        x, factor = _scaled(m.wiring, m.tensor("scaled"))
        need(x is m.tensor("x"), "the error function is not of what it is multiplied with")
        # 1 - erf(-z) = 1 + erf(z): the factor has the other sign there.
        sign = -1 if "less" in m.operators else 1
        need(is_number(np.float32(sign * factor), math.sqrt(0.5)), "x is not divided by the root of 2")
        m.wiring.become(m.head, "GELU", m.tensor("x"))


class FuseTanhGelu(Rewrite):
    """x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) -> gelu(x), approximate, however it is spelled.

    The polynomial is compared, not its spelling: exporters write x^3 as a power, as products, or as
    x * (1 + 0.044715 x^2).
    """

    patterns = _gelu("TANH")

    def replace(self, m: Match) -> None:
        sign = -1 if "less" in m.operators else 1
        given = _polynomial(m.wiring, m.tensor("scaled"), m.tensor("x"))
        # A sigmoid is x * 0.5 * (1 + tanh(x / 2)): no GELU, and none that is told to be missed.
        only_if(len(given) == len(_HENDRYCKS))
        need(is_plain(m.head), f"the product ends in {activation(m.head)}")
        need(np.allclose(sign * given, _HENDRYCKS, rtol=1e-4, atol=1e-6), "its polynomial is another one")
        m.wiring.become(m.head, "GELU", m.tensor("x"), approximate=True)


_HENDRYCKS = np.array([0, math.sqrt(2 / math.pi), 0, math.sqrt(2 / math.pi) * 0.044715])
"""Factors of 1, x, x^2 and x^3 in the approximation of Hendrycks and Gimpel, 2016."""


def _polynomial(wiring: Wiring, tensor: Tensor | None, x: Tensor, steps: int = 8) -> Array:
    """What a tensor is of x: the factors of 1, x, x^2, ...; empty where it is none, or has too many steps."""
    none = np.zeros(0)
    if tensor is x:
        return np.array([0.0, 1.0])
    if tensor is None or not steps:
        return none
    if tensor.is_constant:
        content = tensor.array()
        return content.reshape(1).astype(np.float64) if content.size == 1 else none
    step = wiring.producer(tensor, "ADD", "MUL", "SQUARE", "POW", "NEG")
    if step is None or not is_plain(step):
        return none
    parts = [_polynomial(wiring, t, x, steps - 1) for t in step.inputs]
    if not all(map(len, parts)) or sum(map(len, parts)) > 2 * len(_HENDRYCKS):
        return none
    if step.code == "ADD":
        return np.polynomial.polynomial.polyadd(*parts)
    if step.code == "NEG":
        return -parts[0]
    if step.code != "POW":
        return np.polynomial.polynomial.polymul(parts[0], parts[-1])
    power = parts[1][0] if len(parts[1]) == 1 else 0
    return np.polynomial.polynomial.polypow(parts[0], int(power)) if power in (2, 3) else none


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
