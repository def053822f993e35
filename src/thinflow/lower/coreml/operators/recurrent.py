"""LSTMs as MIL's own, and GRUs step by step.

MIL's GRU resets what the state has become by its weights; TensorFlow's resets the state before, which is
another network. So a GRU is written out, for as many steps as its sequence has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.lower.coreml.builder import Builder, Var
from thinflow.lower.coreml.rules import says
from thinflow.onnx.program import Operator
from thinflow.typing import Array

_MOST_STEPS = 256
"""Steps that are written out one by one."""
_PLAIN = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}
_TO_MIL = (0, 2, 1, 3)
"""Gates of an LSTM as MIL orders them, by their places in ONNX's order: input, output, forget, cell."""


@dataclass
class Layer:
    """One direction of a recurrent layer.

    Attributes:
        w, r: weights of the input and the state, [gates * hidden, ...].
        bias, state_bias: [gates * hidden].
        peephole: weights of the cell in the gates, [3 * hidden]; None if they do not look at it.
        h, c: the states before the first step, [batch, hidden].
    """

    w: Array
    r: Array
    bias: Array
    state_bias: Array
    h: Var
    c: Var | None = None
    peephole: Array | None = None


Run = Callable[[Builder, Operator, Layer, Var], list[Var]]
"""From a layer and its sequence [steps, batch, size] to all its outputs, and the states it ends with."""


def _layers(b: Builder, o: Operator, gates: int) -> list[Layer]:
    """The directions of an operator.

    Raises:
        UnsupportedOp: it is of another kind than is written.
    """
    kind = o.code
    directions = 2 if o.options.get("direction", "forward") == "bidirectional" else 1
    functions = list(o.options.get("activations", _PLAIN[kind] * directions))
    if functions != _PLAIN[kind] * directions:
        raise UnsupportedOp(f"its activations are {', '.join(map(str, functions))}")
    for option in ("clip", "input_forget", "layout", "activation_alpha", "activation_beta"):
        if o.options.get(option):
            raise UnsupportedOp(f"it has the option {option}")
    if b.has(o, 4):
        raise UnsupportedOp("its sequences have lengths of their own")
    x = b.read(o, 0)
    w, r = (b.known(o, place, "its weights").astype(np.float32) for place in (1, 2))
    hidden = r.shape[2]
    rows = gates * hidden
    both = (
        b.known(o, 3, "its bias").astype(np.float32)
        if b.has(o, 3)
        else np.zeros((len(w), 2 * rows), np.float32)
    )
    batch = b.shape(x)[1]
    looks = b.known(o, 7, "its peepholes").astype(np.float32) if kind == "LSTM" and b.has(o, 7) else None
    found = []
    for number in range(directions):
        states = [
            _start(b, o, place, number, batch, hidden) for place in ((5, 6) if kind == "LSTM" else (5,))
        ]
        layer = Layer(w[number], r[number], both[number, :rows], both[number, rows:], states[0])
        if kind == "LSTM":
            layer.c = states[1]
            layer.peephole = None if looks is None else looks[number]
        found.append(layer)
    return found


def _start(b: Builder, o: Operator, place: int, number: int, batch: int | None, hidden: int) -> Var:
    """The state that a direction starts with, [batch, hidden]."""
    if not b.has(o, place):
        if batch is None:
            raise UnsupportedOp(
                "its batch is open, and its state starts with zeros", hint="--shape NAME=1,..."
            )
        return np.zeros((batch, hidden), np.float32)
    known = b.maybe_known(o, place)
    if known is not None:
        return np.ascontiguousarray(known[number], np.float32)
    return b.mb.gather(x=b.read(o, place), indices=np.int32(number), axis=0)


def _run(b: Builder, o: Operator, gates: int, run: Run) -> list[Var]:
    """The operator's outputs: of all directions, side by side."""
    x = b.require_float(b.read(o, 0))
    direction = o.options.get("direction", "forward")
    parts = []
    for number, layer in enumerate(_layers(b, o, gates)):
        is_back = direction == "reverse" or number == 1
        made = run(b, o, layer, b.mb.reverse(x=x, axes=[0]) if is_back else x)
        every = b.mb.reverse(x=made[0], axes=[0]) if is_back else made[0]
        # [steps, 1, batch, hidden], and [1, batch, hidden].
        parts.append(
            [b.mb.expand_dims(x=every, axes=[1]), *(b.mb.expand_dims(x=s, axes=[0]) for s in made[1:])]
        )
    if len(parts) == 1:
        return parts[0][: len(o.outputs)]
    joined = [
        b.mb.concat(values=list(each), axis=1 if n == 0 else 0)
        for n, each in enumerate(zip(*parts, strict=True))
    ]
    return joined[: len(o.outputs)]


@says("LSTM")
def lstm(b: Builder, o: Operator) -> list[Var]:
    return _run(b, o, 4, _lstm)


def _lstm(b: Builder, o: Operator, layer: Layer, x: Var) -> list[Var]:
    def ordered(rows: Array) -> Array:
        gates = rows.reshape(4, -1, *rows.shape[1:])
        return np.ascontiguousarray(gates[list(_TO_MIL)].reshape(rows.shape))

    more = {}
    if layer.peephole is not None:
        # Input, output, forget in ONNX's order; input, forget, output in MIL's.
        more["peephole"] = np.ascontiguousarray(layer.peephole.reshape(3, -1)[[0, 2, 1]].reshape(-1))
    made = b.mb.lstm(
        x=x,
        initial_h=layer.h,
        initial_c=layer.c,
        weight_ih=ordered(layer.w),
        weight_hh=ordered(layer.r),
        bias=ordered(layer.bias + layer.state_bias),
        direction="forward",
        output_sequence=True,
        **more,
    )
    return list(made)


@says("GRU")
def gru(b: Builder, o: Operator) -> list[Var]:
    return _run(b, o, 3, _gru)


def _gru(b: Builder, o: Operator, layer: Layer, x: Var) -> list[Var]:
    """Gates are update, reset and new; the new one resets the state in front of its weights, or behind."""
    mb, steps, hidden = b.mb, b.shape(x)[0], layer.r.shape[1]
    if steps is None or steps > _MOST_STEPS:
        told = "an open number of" if steps is None else steps
        raise UnsupportedOp(f"it has {told} steps; up to {_MOST_STEPS} are written out")
    is_late = bool(o.options.get("linear_before_reset", 0))
    gates, new = 2 * hidden, layer.r[2 * hidden :]
    fed = mb.linear(x=x, weight=layer.w, bias=layer.bias)
    state_w, state_b = (mb.const(val=np.ascontiguousarray(a[:gates])) for a in (layer.r, layer.state_bias))
    new_w, new_b = mb.const(val=np.ascontiguousarray(new)), mb.const(val=layer.state_bias[gates:].copy())
    h, every = layer.h, []
    for step in mb.split(x=fed, num_splits=steps, axis=0) if steps > 1 else [fed]:
        row = mb.squeeze(x=step, axes=[0])
        of_gates, of_new = mb.split(x=row, split_sizes=np.array([gates, hidden], np.int32), axis=1)
        both = mb.sigmoid(x=mb.add(x=of_gates, y=mb.linear(x=h, weight=state_w, bias=state_b)))
        update, reset = mb.split(x=both, num_splits=2, axis=1)
        if is_late:
            part = mb.mul(x=reset, y=mb.linear(x=h, weight=new_w, bias=new_b))
        else:
            part = mb.linear(x=mb.mul(x=reset, y=h), weight=new_w, bias=new_b)
        made = mb.tanh(x=mb.add(x=of_new, y=part))
        h = mb.add(x=made, y=mb.mul(x=update, y=mb.sub(x=h, y=made)))
        every.append(h)
    return [mb.stack(values=every, axis=0), h]
