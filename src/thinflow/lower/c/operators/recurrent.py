"""Layers that keep a state from step to step, and from run to run."""

from __future__ import annotations

import math
import re

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import NotHere, form
from thinflow.lower.c.layer import Argument, Struct
from thinflow.ops._fixed_point import quantized_multiplier
from thinflow.tflite.model import Operator
from thinflow.typing import Array

# Places of inputs as in LiteRT's definition; in each group: input, forget, cell and output gate.
_WEIGHTS, _RECURRENT, _PEEPHOLES, _BIASES, _H, _CELL, _NORMS = 1, 5, 9, 12, 18, 19, 20
_PROJECTION = 16
_GATES = ("input", "forget", "cell", "output")
_GATE_SCALE = np.float32(2**-12)
"""Of the sums of gates, which are numbers of 16 bits."""
_HIDDEN = 4
"""Of what lies inside of the operator: the output before it is written."""


@form("UNIDIRECTIONAL_SEQUENCE_LSTM", types="float")
def lstm_float(b: LayerBuilder, op: Operator) -> None:
    """x [time,batch,inputs] or [batch,time,inputs] -> y of the same order."""
    if _extras(b, op):
        raise NotHere
    units = _plain_units(b, op)
    gates = {
        name: b.struct(
            "lstm_gate_float_t",
            weights=b.constant(f"{name}_weights", b.array(_WEIGHTS + n)),
            recurrent=b.constant(f"{name}_recurrent", b.array(_RECURRENT + n)),
            bias=b.constant(f"{name}_bias", b.array(_BIASES + n)),
        )
        for n, name in enumerate(_GATES)
    }
    # In float32, as the file has it: the kernel compares with that.
    limit = float(np.float32(op.options.get("cell_clip", 0.0)))
    sizes, batches = recurrent_sizes(b, op, units)
    settings = b.struct("", **sizes, **gates, cell_limit=limit)
    h, cell = (
        kept(b, number, name, "float", batches * units) for number, name in ((_H, "h"), (_CELL, "cell"))
    )
    b.call("lstm_float", b.input(0), b.output(), h, cell, b.scratch(4 * units), settings)


@form("UNIDIRECTIONAL_SEQUENCE_LSTM", types="int8")
def lstm_int8(b: LayerBuilder, op: Operator) -> None:
    """As of floats, with gates of 16 bits and a cell whose scale is a power of two."""
    units = _plain_units(b, op)
    if len(op.intermediates) <= _HIDDEN or b.input(_CELL).dtype.name != "int16":
        raise UnsupportedOp("its kernel of eight bits is not the one with gates of 16 bits")
    # The scale of the output before it is written; LiteRT keeps it beside the inputs.
    hidden, hidden_zero = b.scale(op.intermediates[_HIDDEN])
    # A power of two by definition of the operator, so that gates are shifted and not multiplied.
    power = round(math.log2(float(b.scale(b.input(_CELL))[0])))
    # Output gate and tangent of the cell have 15 bits behind the point each.
    multiplier, shift = quantized_multiplier(float(np.float32(2.0**-15 / np.float64(hidden) * 2.0**-15)))
    clip = np.float32(op.options.get("cell_clip", 0.0))
    limit = min(int(clip / b.scale(b.input(_CELL))[0]), 32767) if clip > 0 else 0
    sizes, batches = recurrent_sizes(b, op, units)
    gates = {name: _gate(b, n, name) for n, name in enumerate(_GATES)}
    ends = {"multiplier": multiplier, "shift": shift, "zero_point": hidden_zero}
    settings = b.struct("", **sizes, **gates, cell_bits=power + 15, cell_limit=limit, **ends)
    # The real number 0 before the first step.
    h = kept(b, _H, "h", "int8_t", batches * units, b.scale(b.input(_H))[1])
    cell = kept(b, _CELL, "cell", "int16_t", batches * units)
    b.call("lstm_int8", b.input(0), b.output(), h, cell, b.scratch(2 * units), settings)


_CURVES = {
    "NONE": "x",
    "RELU": "x < 0 ? 0 : x",
    "RELU6": "x < 0 ? 0 : x > 6 ? 6 : x",
    "RELU_N1_TO_1": "x < -1 ? -1 : x > 1 ? 1 : x",
    "TANH": "tanhf(x)",
}


def activated(op: Operator, value: str) -> dict[str, str]:
    """Words of a kernel that has an activation: one for its name, and the expression in C of a value.

    Raises:
        UnsupportedOp: C does not have it.
    """
    name = str(op.options.get("fused_activation_function", "NONE"))
    if name not in _CURVES:
        raise UnsupportedOp(f"the activation {name} has no form in C")
    return {"op": name.lower(), "expression": re.sub(r"\bx\b", value, _CURVES[name])}


def kept(b: LayerBuilder, number: int, name: str, type: str, count: int, first: int = 0) -> Argument:
    """The memory of a state: the value that is written there before, else what lasts from run to run."""
    given = b.input(number)
    return b.state(name, type, count, first) if given.is_variable else given


def _plain_units(b: LayerBuilder, op: Operator) -> int:
    """The number of cells; the cost is noted.

    Raises:
        UnsupportedOp: it has more than gates.
    """
    if found := _extras(b, op):
        raise UnsupportedOp(f"it has {' and '.join(found)}")
    # Four gates, each of which sees the input and the output of the step before.
    units, inputs = b.array(_WEIGHTS).shape
    b.macs(b.size(b.input(0)) // inputs * 4 * units * (inputs + units))
    return int(units)


def _extras(b: LayerBuilder, op: Operator) -> list[str]:
    """What an LSTM has beside its gates."""
    extras = {
        "a coupled input gate": b.optional(_WEIGHTS) is None,
        "peepholes": any(b.optional(_PEEPHOLES + n) is not None for n in range(3)),
        "a projection": b.optional(_PROJECTION) is not None,
        "layer norms": any(b.optional(_NORMS + n) is not None for n in range(4)),
        "an activation that is not the tangent": op.options.get("fused_activation_function") != "TANH",
        "weights of eight bits for inputs that are float": b.input(0).dtype.name == "float"
        and b.input(_WEIGHTS + 1).dtype.name != "float",
        "diagonals for weights": bool(op.options.get("diagonal_recurrent_tensors")),
    }
    return [what for what, has in extras.items() if has]


def recurrent_sizes(b: LayerBuilder, op: Operator, units: int) -> tuple[dict[str, int], int]:
    """Members of the structs that tell how many there are of what, and the batches."""
    # An operator of one step has no dimension for steps.
    *outer, inputs = b.shape(b.input(0))
    is_time_major = bool(op.options.get("time_major")) or len(outer) == 1
    first, second = outer if len(outer) > 1 else (1, *outer)
    batches, steps = (second, first) if is_time_major else (first, second)
    sizes = {"batches": batches, "steps": steps}
    for prefix, each in (("", inputs), ("y_", units)):
        # What is not the outer one of the two is next to each other.
        sizes[f"{prefix}batch_step"] = each if is_time_major else steps * each
        sizes[f"{prefix}time_step"] = batches * each if is_time_major else each
    return {**sizes, "inputs": inputs, "units": units}, batches


def _gate(b: LayerBuilder, n: int, name: str) -> Struct:
    """The struct of a gate of eight bits."""
    # The factors in float32, in this order of operations: the last bits hang on it.
    w, r = b.array(_WEIGHTS + n), b.array(_RECURRENT + n)
    (x_scale, x_zero), (h_scale, h_zero) = b.scale(b.input(0)), b.scale(b.input(_H))
    bias = b.array(_BIASES + n).astype(np.int64)
    first = quantized_multiplier(float(b.scale(b.input(_WEIGHTS + n))[0] * x_scale / _GATE_SCALE))
    second = quantized_multiplier(float(b.scale(b.input(_RECURRENT + n))[0] * h_scale / _GATE_SCALE))
    members: dict[str, Argument] = {
        "weights": b.constant(f"{name}_weights", w),
        "recurrent": b.constant(f"{name}_recurrent", r),
        "bias": b.constant(f"{name}_bias", _moved(bias, w, x_zero)),
        "recurrent_bias": b.constant(f"{name}_recurrent_bias", _moved(np.zeros_like(bias), r, h_zero)),
        "multiplier": first[0],
        "shift": first[1],
        "recurrent_multiplier": second[0],
        "recurrent_shift": second[1],
    }
    return b.struct("lstm_gate_t", **members)


def _moved(bias: Array, weights: Array, zero: int) -> Array:
    """A bias that takes in the zero point of what the weights are multiplied with."""
    # sum(w (x - zero)) = sum(w x) - zero sum(w).
    moved: Array = bias - zero * weights.astype(np.int64).sum(axis=1)
    return moved.astype(np.int32)
