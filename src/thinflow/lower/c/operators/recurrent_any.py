"""Recurrent layers of reals with all that LiteRT's definitions allow: peepholes, projections, layer norms."""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import Argument, Struct, Verbatim
from thinflow.lower.c.operators.recurrent import activated, kept, recurrent_sizes
from thinflow.tflite.model import Operator

_NOTHING = Verbatim("NULL")
_GATES = ("input", "forget", "cell", "output")
# Places of inputs as in LiteRT's definition; in each group: input, forget, cell and output gate.
_WEIGHTS, _RECURRENT, _BIASES, _PROJECTION, _H, _CELL, _NORMS = 1, 5, 12, 16, 18, 19, 20
_PEEPHOLES = {"input": 9, "forget": 10, "output": 11}
_STATE = 4


@form("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", types="float")
def rnn(b: LayerBuilder, op: Operator) -> None:
    """x [time,batch,inputs] or [batch,time,inputs], or [batch,inputs] of one step -> y of the same order."""
    weights, recurrent, bias = (_floats(b, n) for n in (1, 2, 3))
    units, inputs = b.shape(b.input(1))
    sizes, batches = recurrent_sizes(b, op, units)
    b.macs(b.size(b.input(0)) // inputs * units * (inputs + units))
    settings = b.struct("", **sizes, weights=weights, recurrent=recurrent, bias=bias)
    h = kept(b, _STATE, "h", "float", batches * units)
    b.call("rnn_float", b.input(0), b.output(), h, settings, **activated(op, "total"))


@form("UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", types="float")
def lstm(b: LayerBuilder, op: Operator) -> None:
    """x as above; the cells that a plain kernel has no form of."""
    if op.options.get("kernel_type", "FULL") == "BASIC":
        raise UnsupportedOp("its basic kernel, which gives its states away, has no form in C")
    if op.options.get("diagonal_recurrent_tensors"):
        raise UnsupportedOp("it has diagonals for weights")
    units, inputs = b.shape(b.input(_WEIGHTS + 1))
    outputs = b.shape(b.input(_RECURRENT + 1))[1]
    sizes, batches = recurrent_sizes(b, op, outputs)
    gates = {name: _gate(b, n, name) for n, name in enumerate(_GATES)}
    count = sum(b.optional(_WEIGHTS + n) is not None for n in range(4))
    projection = 0 if b.optional(_PROJECTION) is None else outputs * units
    b.macs(b.size(b.input(0)) // inputs * (count * units * (inputs + outputs) + projection))
    limits = (float(np.float32(op.options.get(f"{what}_clip", 0.0))) for what in ("cell", "proj"))
    ends = {
        "projection": _floats(b, _PROJECTION),
        "projection_bias": _floats(b, _PROJECTION + 1),
        **dict(zip(("cell_limit", "projection_limit"), limits, strict=True)),
    }
    settings = b.struct("", **{**sizes, "units": units, "outputs": outputs}, **gates, **ends)
    h = kept(b, _H, "h", "float", batches * outputs)
    cell = kept(b, _CELL, "cell", "float", batches * units)
    words = activated(op, "total")
    b.call("lstm_cells_float", b.input(0), b.output(), h, cell, b.scratch(4 * 5 * units), settings, **words)


def _gate(b: LayerBuilder, n: int, name: str) -> Struct:
    """The struct of a gate, without anything if it is coupled to another."""
    is_there = b.optional(_WEIGHTS + n) is not None
    places = {"weights": _WEIGHTS + n, "recurrent": _RECURRENT + n, "bias": _BIASES + n, "norm": _NORMS + n}
    places |= {"peephole": _PEEPHOLES[name]} if name in _PEEPHOLES else {}
    members = {what: _floats(b, place) if is_there else _NOTHING for what, place in places.items()}
    return b.struct("lstm_any_gate_t", **{"peephole": _NOTHING, **members})


def _floats(b: LayerBuilder, number: int) -> Argument:
    """A constant operand; NULL if it is absent.

    Raises:
        UnsupportedOp: it is computed, or of other numbers.
    """
    if b.optional(number) is None:
        return _NOTHING
    array = b.array(number)
    if array.dtype != np.float32:
        raise UnsupportedOp(f"its weights are {b.input(number).dtype} and its input is float")
    return b.constant(f"operand_{number}", array)
