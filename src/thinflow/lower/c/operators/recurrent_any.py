"""Recurrent layers of reals with all that LiteRT's definitions allow: peepholes, projections, layer norms."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.c.builder import LayerBuilder
from thinflow.lower.c.forms import form
from thinflow.lower.c.layer import NOTHING, Argument, Struct
from thinflow.lower.c.operators.recurrent import activated, kept, recurrent_sizes
from thinflow.tflite.model import Operator, Tensor

_GATES = ("input", "forget", "cell", "output")


@dataclass(frozen=True)
class _Way:
    """One way through the steps.

    Attributes:
        operands: number of the input behind which its operands come, as for a layer with one way.
        state: number of the input that is its first state.
        x: what it reads.
        y: what it writes.
        width: numbers of a step of y, those of another way included.
        start: the first of them that is its own.
        is_back: from the last step on.
    """

    operands: int
    state: int
    x: Tensor
    y: Tensor
    width: int
    start: int = 0
    is_back: bool = False

    def sizes(self, b: LayerBuilder, op: Operator) -> tuple[dict[str, int], int]:
        """Members of a struct, and the batches."""
        sizes, batches = recurrent_sizes(b, op, self.width)
        last = sizes["steps"] - 1
        sizes |= {"first": 0, "y_first": self.start}
        if self.is_back:
            sizes["first"], sizes["y_first"] = (
                last * sizes["time_step"],
                self.start + last * sizes["y_time_step"],
            )
            sizes |= {name: -sizes[name] for name in ("time_step", "y_time_step")}
        return sizes, batches


def _both_ways(b: LayerBuilder, op: Operator, second: int, states: tuple[int, int], aux: int) -> list[_Way]:
    """The ways of a layer with two.

    Args:
        b, op: of the layer.
        second: number of the input before the operands of the way back.
        states: numbers of the inputs that are first states.
        aux: number of the input that the way back may read instead of the first; weights for it follow.
    """
    if any(t is not None for t in op.inputs[aux + 1 :]):
        raise UnsupportedOp("it has weights for a second input")
    back_x = b.optional(aux) or b.input(0)
    widths = [b.shape(b.input(n))[-1] for n in states]
    if op.options.get("merge_outputs"):
        both, y = sum(widths), b.output()
        return [
            _Way(0, states[0], b.input(0), y, both),
            _Way(second, states[1], back_x, y, both, widths[0], is_back=True),
        ]
    return [
        _Way(0, states[0], b.input(0), b.output(), widths[0]),
        _Way(second, states[1], back_x, b.output(1), widths[1], is_back=True),
    ]


@form("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN", types="float")
def rnn(b: LayerBuilder, op: Operator) -> None:
    """x [time,batch,inputs] or [batch,time,inputs], or [batch,inputs] of one step -> y of the same order."""
    _rnn(b, op, _Way(0, 4, b.input(0), b.output(), b.shape(b.input(1))[0]))


@form("BIDIRECTIONAL_SEQUENCE_RNN", types="float")
def rnn_both_ways(b: LayerBuilder, op: Operator) -> None:
    """As above, and from the last step to the first, side by side or each by itself."""
    # LiteRT's kernel reads the second input only where time comes first.
    is_time_major = bool(op.options.get("time_major"))
    for way in _both_ways(b, op, 4, (4, 8), 9):
        _rnn(b, op, way if is_time_major else replace(way, x=b.input(0)))


def _rnn(b: LayerBuilder, op: Operator, way: _Way) -> None:
    at = way.operands
    units, inputs = b.shape(b.input(at + 1))
    sizes, batches = way.sizes(b, op)
    sizes |= {"units": units}
    b.macs(b.size(b.input(0)) // inputs * units * (inputs + units))
    h, bias = kept(b, way.state, "h", "float", batches * units), _floats(b, at + 3)
    if b.input(at + 1).dtype.name == "int8":
        is_symmetric = int(not op.options.get("asymmetric_quantize_inputs"))
        matrices = {**_bytes(b, "weights", at + 1), **_bytes(b, "recurrent", at + 2)}
        settings = b.struct("", **sizes, symmetric=is_symmetric, **matrices, bias=bias)
        memory = b.scratch(inputs + units)
        b.call("rnn_hybrid", way.x, way.y, h, memory, settings, **activated(op, "total"))
        return
    weights, recurrent = (_floats(b, at + n) for n in (1, 2))
    settings = b.struct("", **sizes, weights=weights, recurrent=recurrent, bias=bias)
    b.call("rnn_float", way.x, way.y, h, settings, **activated(op, "total"))


@form("UNIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", types="float")
def lstm(b: LayerBuilder, op: Operator) -> None:
    """x as above; the cells that a plain kernel has no form of."""
    if op.options.get("kernel_type", "FULL") == "BASIC":
        raise UnsupportedOp("its basic kernel, which gives its states away, has no form in C")
    if op.options.get("diagonal_recurrent_tensors"):
        raise UnsupportedOp("it has diagonals for weights")
    outputs = b.shape(b.input(_RECURRENT + 1))[1]
    _lstm(b, op, _Way(0, 18, b.input(0), b.output(), outputs), norms=20)


@form("BIDIRECTIONAL_SEQUENCE_LSTM", types="float")
def lstm_both_ways(b: LayerBuilder, op: Operator) -> None:
    """As above, and from the last step to the first, side by side or each by itself."""
    for way in _both_ways(b, op, 17, (35, 37), 39):
        _lstm(b, op, way, norms=None)


# Places of operands behind the first of a way; in each group: input, forget, cell and output gate.
_WEIGHTS, _RECURRENT, _BIASES, _PROJECTION = 1, 5, 12, 16
_PEEPHOLES = {"input": 9, "forget": 10, "output": 11}


def _lstm(b: LayerBuilder, op: Operator, way: _Way, norms: int | None) -> None:
    """One way of cells; `norms` is the number of the first input for those, if there may be any."""
    at = way.operands
    if b.input(at + _WEIGHTS + 1).dtype.name == "int8":
        _lstm_hybrid(b, op, way, norms)
        return
    units, inputs = b.shape(b.input(at + _WEIGHTS + 1))
    outputs = b.shape(b.input(at + _RECURRENT + 1))[1]
    sizes, batches = way.sizes(b, op)
    gates = {name: _gate(b, at, n, norms) for n, name in enumerate(_GATES)}
    count = sum(b.optional(at + _WEIGHTS + n) is not None for n in range(4))
    projection = 0 if b.optional(at + _PROJECTION) is None else outputs * units
    b.macs(b.size(b.input(0)) // inputs * (count * units * (inputs + outputs) + projection))
    limits = (float(np.float32(op.options.get(f"{what}_clip", 0.0))) for what in ("cell", "proj"))
    ends = {
        "projection": _floats(b, at + _PROJECTION),
        "projection_bias": _floats(b, at + _PROJECTION + 1),
        **dict(zip(("cell_limit", "projection_limit"), limits, strict=True)),
    }
    settings = b.struct("", **{**sizes, "units": units, "outputs": outputs}, **gates, **ends)
    h = kept(b, way.state, "h", "float", batches * outputs)
    cell = kept(b, way.state + 1, "cell", "float", batches * units)
    words = activated(op, "total")
    # Scratch for floats: sums of four gates, and what a step makes.
    b.call("lstm_cells_float", way.x, way.y, h, cell, b.scratch(4 * 5 * units), settings, **words)


def _gate(b: LayerBuilder, at: int, n: int, norms: int | None) -> Struct:
    """The struct of a gate, without anything if it is coupled to another."""
    is_there = b.optional(at + _WEIGHTS + n) is not None
    places = {"weights": at + _WEIGHTS + n, "recurrent": at + _RECURRENT + n, "bias": at + _BIASES + n}
    places |= {"peephole": at + _PEEPHOLES[_GATES[n]]} if _GATES[n] in _PEEPHOLES else {}
    places |= {} if norms is None else {"norm": norms + n}
    members = {what: _floats(b, place) if is_there else NOTHING for what, place in places.items()}
    return b.struct("lstm_any_gate_t", **{"peephole": NOTHING, "norm": NOTHING, **members})


def _lstm_hybrid(b: LayerBuilder, op: Operator, way: _Way, norms: int | None) -> None:
    """One way of cells whose weights have eight bits; inputs and states are rounded while it runs."""
    at = way.operands
    units, inputs = b.shape(b.input(at + _WEIGHTS + 1))
    outputs = b.shape(b.input(at + _RECURRENT + 1))[1]
    sizes, batches = way.sizes(b, op)
    count = sum(b.optional(at + _WEIGHTS + n) is not None for n in range(4))
    has_projection = b.optional(at + _PROJECTION) is not None
    products = count * units * (inputs + outputs) + has_projection * outputs * units
    b.macs(b.size(b.input(0)) // inputs * products)
    limits = (float(np.float32(op.options.get(f"{what}_clip", 0.0))) for what in ("cell", "proj"))
    settings = b.struct(
        "",
        **{**sizes, "units": units, "outputs": outputs},
        symmetric=int(not op.options.get("asymmetric_quantize_inputs")),
        **{name: _hybrid_gate(b, at, n, norms) for n, name in enumerate(_GATES)},
        **(_bytes(b, "projection", at + _PROJECTION) if has_projection else _no_bytes("projection")),
        projection_bias=_floats(b, at + _PROJECTION + 1),
        **dict(zip(("cell_limit", "projection_limit"), limits, strict=True)),
    )
    h = kept(b, way.state, "h", "float", batches * outputs)
    cell = kept(b, way.state + 1, "cell", "float", batches * units)
    memory = b.scratch(4 * 5 * units), b.scratch(max(inputs + outputs, units))
    b.call("lstm_cells_hybrid", way.x, way.y, h, cell, *memory, settings, **activated(op, "total"))


def _hybrid_gate(b: LayerBuilder, at: int, n: int, norms: int | None) -> Struct:
    """The struct of a gate of bytes, without anything if it is coupled to another."""
    is_there = b.optional(at + _WEIGHTS + n) is not None
    members: dict[str, Argument] = {"bias": NOTHING, "peephole": NOTHING, "norm": NOTHING}
    for name, place in (("weights", at + _WEIGHTS + n), ("recurrent", at + _RECURRENT + n)):
        members |= _bytes(b, name, place) if is_there else _no_bytes(name)
    if is_there:
        members["bias"] = _floats(b, at + _BIASES + n)
    if is_there and norms is not None:
        members["norm"] = _floats(b, norms + n)
    peephole = at + _PEEPHOLES.get(_GATES[n], -at - 1)
    if is_there and peephole >= 0 and b.optional(peephole) is not None:
        reals = b.array(peephole).astype(np.float32) * b.scale(b.input(peephole))[0]
        members["peephole"] = b.constant("peephole", reals, "float32")
    return b.struct("lstm_hybrid_gate_t", **members)


def _bytes(b: LayerBuilder, name: str, place: int) -> dict[str, Argument]:
    """A matrix of bytes, the sums of its rows, and its scale."""
    array = b.array(place)
    if array.dtype != np.int8:
        raise UnsupportedOp(f"its weights are {b.input(place).dtype} and others int8")
    return {
        name: b.constant(f"operand_{place}", array),
        f"{name}_sums": b.constant(f"sums_{place}", array.astype(np.int32).sum(1), "int32"),
        f"{name}_scale": float(b.scale(b.input(place))[0]),
    }


def _no_bytes(name: str) -> dict[str, Argument]:
    """The members of `_bytes` of a matrix that is absent."""
    return {name: NOTHING, f"{name}_sums": NOTHING, f"{name}_scale": 0.0}


def _floats(b: LayerBuilder, number: int) -> Argument:
    """A constant operand; NULL if it is absent.

    Raises:
        UnsupportedOp: it is computed, or of other numbers.
    """
    if b.optional(number) is None:
        return NOTHING
    array = b.array(number)
    if array.dtype != np.float32:
        raise UnsupportedOp(f"its weights are {b.input(number).dtype} and its input is float")
    return b.constant(f"operand_{number}", array)
