"""A program with a fused LSTM."""

from __future__ import annotations

import numpy as np

from tests.quantize.programs import Builder
from thinflow.ir.types import FLOAT
from thinflow.quantize.integer_lstm import CODE
from thinflow.tflite.model import Operator, Program, Tensor

STEPS, BATCH, INPUTS, UNITS = 12, 2, 5, 8


def network(
    *,
    time_major: bool = True,
    start: float = 0.0,
    fed: bool = False,
    clip: float = 0.0,
    units: int = UNITS,
    **places: str,
) -> Program:
    """An LSTM over a sequence; more operands by their place, as "normal" or "none"."""
    b = Builder(4)
    x = b.input(*((STEPS, BATCH) if time_major else (BATCH, STEPS)), INPUTS)

    def variable(name: str) -> Tensor:
        shape = (BATCH, units)
        begins = b.input(*shape) if fed else b.const(np.full(shape, start))
        made = Tensor(name, shape, FLOAT, is_variable=True)
        b.operators.append(Operator("MAXIMUM", [begins, begins], [made], origin=name))
        return made

    inputs: list[Tensor | None] = [x]
    inputs += [b.normal(units, INPUTS, scale=0.6) for _ in "ifgo"]
    inputs += [b.normal(units, units, scale=0.4) for _ in "ifgo"]
    inputs += [None, None, None, *(b.normal(units) for _ in "ifgo"), None, None]
    inputs += [variable("h"), variable("cell"), *[None] * 4]
    for place, what in places.items():
        inputs[int(place[1:])] = b.normal(units) if what == "normal" else None
    options = {"fused_activation_function": "TANH", "cell_clip": clip, "time_major": time_major}
    y = b.op(CODE, *inputs, **options)
    return b.program(y)
