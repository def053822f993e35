"""LiteRT's LSTM in integers, from the float one: int8 matrices and state, gates and cell of 16 bits.

    x, h  int8, as calibrated; h has the grid of the output, which it is
    W, R  int8, one scale per matrix; bias int32 in units of s_x * s_W
    gate  int16 with 3 integer bits, which is all that its activation tells apart
    cell  int16 with as many integer bits as it can need: |c'| <= |f c| + |i g| <= |c| + 1 in each step

With 6 bits, for 64 steps or more, a step of the cell is 1/512, a quarter of a step of h.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, INT8, INT32, dtype
from thinflow.quantize.kernels import is_float
from thinflow.quantize.ranges import Parameters, Range, constant_range
from thinflow.quantize.recipe import Decision, Recipe
from thinflow.quantize.weights import WEIGHT_MAX
from thinflow.tflite.model import Operator, Quantization, Subgraph, Tensor
from thinflow.typing import Array

CODE = "UNIDIRECTIONAL_SEQUENCE_LSTM"
_INPUT_MATRICES, STATE_MATRICES, _BIASES = range(1, 5), range(5, 9), range(12, 16)
_PEEPHOLES, _PROJECTION, _NORMS = range(9, 12), range(16, 18), range(20, 24)
_H, _CELL = 18, 19
_INT16 = dtype("int16")
_FRACTION = 15
"""Bits of an int16 behind its sign."""
_MOST_BITS = 6
"""Integer bits of a cell that the kernel's tanh takes; a larger cell is cut off, where tanh is 1 for long."""


def why_float(operator: Operator, main: Subgraph, recipe: Recipe) -> str:
    """The reason for which an LSTM stays float; "" if it can be of integers."""
    if recipe.leaves("recurrent"):
        return "its state would have eight bits, which every step rounds again"
    given = dict(enumerate(operator.inputs))
    if any(given.get(n) is not None for n in (*_PEEPHOLES, *_PROJECTION, *_NORMS)):
        return "its peepholes, projection or norms have ranges inside that are not measured"
    constants = [given.get(n) for n in (*_INPUT_MATRICES, *STATE_MATRICES, *_BIASES)]
    if any(t is None or not t.is_constant or not is_float(t) for t in constants):
        return "it has no input gate, or weights that are computed at run time"
    if not all(np.isfinite(t.array()).all() for t in constants if t is not None):
        return "constants of it have values that are not finite"
    if _steps(operator) is None:
        return "the number of its steps is not known"
    for state in (given.get(_H), given.get(_CELL)):
        writers = [o for o in main.operators if state in o.outputs]
        readers = [o for o in main.operators if state in o.inputs]
        if state is None or readers != [operator] or [o.code for o in writers] != ["MAXIMUM"]:
            return "others read its state"
    return ""


def float_matrices(operator: Operator) -> dict[int, Tensor]:
    """Operands of an LSTM in float that LiteRT also reads as int8, beside floats: all of them, or none.

    Empty if one is computed at run time, or is not finite.
    """
    places = (*_INPUT_MATRICES, *STATE_MATRICES, *_PEEPHOLES, _PROJECTION[0])
    given = [(n, operator.inputs[n]) for n in places if n < len(operator.inputs)]
    found = {n: t for n, t in given if t is not None}
    is_constant = all(t.is_constant and is_float(t) and np.isfinite(t.array()).all() for t in found.values())
    return found if operator.code == CODE and is_constant else {}


def _steps(operator: Operator) -> int | None:
    x = operator.inputs[0]
    if x is None or x.shape is None or len(x.shape) != 3:
        return None
    return x.shape[0 if operator.options.get("time_major") else 1]


def with_starts(
    ranges: Mapping[Any, Range], main: Subgraph, lstms: Iterable[Operator]
) -> Mapping[Any, Range]:
    """Ranges in which outputs of LSTMs hold the state that these begin with, too: it has their grid."""
    found = dict(ranges)
    for operator in lstms:
        y, begins = operator.outputs[0], _start(operator, _H, main, ranges)
        if y in found and begins is not None:
            found[y] = found[y].union(begins)
    return found


def _start(operator: Operator, number: int, main: Subgraph, ranges: Mapping[Any, Range]) -> Range | None:
    state = operator.inputs[number]
    start = next(o.inputs[0] for o in main.operators if state in o.outputs)
    return constant_range(start) if start is not None and start.is_constant else ranges.get(start)


def state_forms(
    operator: Operator, main: Subgraph, y: Parameters, ranges: Mapping[Any, Range]
) -> dict[Tensor, Tensor]:
    """The variables of an LSTM in float -> those in integers."""
    h, cell = operator.inputs[_H], operator.inputs[_CELL]
    assert h is not None, "an LSTM has its state"
    assert cell is not None, "an LSTM has its state"
    begins = _start(operator, _CELL, main, ranges)
    most = (_steps(operator) or 1) + (0.0 if begins is None else max(-begins.low, begins.high))
    limit = operator.options.get("cell_clip") or 0.0
    most = min(most, limit) if limit > 0 else most
    bits = min(max(math.ceil(math.log2(max(most, 1.0))), 0), _MOST_BITS)
    grids = ((h, INT8, _grid(y.scale, y.zero_point)), (cell, _INT16, _grid(2.0 ** (bits - _FRACTION), 0)))
    return {t: replace(t, dtype=element, quantization=grid) for t, element, grid in grids}


def integer_lstm(
    operator: Operator, x: Tensor, y: Tensor, states: Mapping[Tensor, Tensor]
) -> tuple[Operator, list[Decision]]:
    """The operator in integers, and the grids of its constants.

    Args:
        x, y: in integers; the output has the grid of the state h.
    """
    assert x.quantization is not None, "inputs of integer operators have grids"
    s_x = float(x.quantization.scale[0])
    inputs: list[Tensor | None] = list(operator.inputs)
    decisions: list[Decision] = []

    def put(number: int, scale: float, largest: int, element: Any, reason: str) -> None:
        tensor = operator.inputs[number]
        assert tensor is not None, "what is missing stays float"
        # Codes of a bias may have 31 bits, of which float32 would hold 24.
        data = np.asarray(tensor.array(), np.float64)
        codes = np.clip(np.rint(data / scale), -largest, largest).astype(element.numpy())
        grid = _grid(scale, 0)
        inputs[number] = Tensor(tensor.name, tensor.shape, element, codes, grid)
        ends = constant_range(tensor)
        decisions.append(Decision(tensor.name, grid.scale, 0, (ends.low, ends.high), "weights", reason))

    for matrix, recurrent, bias in zip(_INPUT_MATRICES, STATE_MATRICES, _BIASES, strict=True):
        scales = {n: _scale(operator.inputs[n]) for n in (matrix, recurrent)}
        for number, scale in scales.items():
            put(number, scale, WEIGHT_MAX, INT8, "weights: symmetric, per tensor")
        put(bias, s_x * scales[matrix], 2**31 - 1, INT32, "bias: scale of input times weights")
    for number in (_H, _CELL):
        state = operator.inputs[number]
        inputs[number] = None if state is None else states[state]
    # Scales inside, without elements: those of gates are read where there are norms only, the last is that of
    # the output before a projection.
    inside = [Tensor(f"{y.name}/{gate}_sums", (0,), FLOAT) for gate in "ifgo"]
    inside.append(Tensor(f"{y.name}/hidden", (0,), INT8, quantization=y.quantization))
    # By 20 operands, not 24, LiteRT's kernel knows that there are no norms.
    return replace(operator, inputs=inputs[:20], outputs=[y], intermediates=inside), decisions


def _scale(weights: Tensor | None) -> float:
    largest = 0.0 if weights is None else float(np.abs(weights.array()).max(initial=0.0))
    # As a float32, since that is what the file says. Of what is always 0, any scale is exact.
    return float(np.float32(largest / WEIGHT_MAX)) or 1.0 / WEIGHT_MAX


def _grid(scale: float, zero: int) -> Quantization:
    return Quantization(np.array([scale], np.float32), np.array([zero], np.int64))


def started(start: Array, form: Tensor) -> Tensor:
    """A constant start of a state in integers."""
    grid = form.quantization
    assert grid is not None, "states of integer operators have grids"
    limits = np.iinfo(form.dtype.numpy())
    codes = np.rint(start.astype(np.float64) / grid.scale[0]) + grid.zero_point[0]
    held = np.clip(codes, limits.min, limits.max).astype(form.dtype.numpy())
    return Tensor(f"{form.name}/start", start.shape, form.dtype, held, grid)
