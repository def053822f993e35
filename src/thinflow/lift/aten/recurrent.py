"""ATen's LSTM, GRU and plain recurrent layers: ONNX's, one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Value
from thinflow.lift.aten.arguments import Arguments, aten
from thinflow.typing import Array

_MOST_LAYERS = 64


def _layers(a: Arguments, op: str, order: Sequence[int], states: list[Value], **options: Attr) -> list[Value]:
    """Output of the last layer, and the last states of all.

    Args:
        op: of ONNX.
        order: ONNX's gates by their places in PyTorch's weights.
        states: before the first step, [layers * directions, batch, units].
    """
    if a.flag("train") and a.number("dropout", 0.0):
        raise UnsupportedOp("it drops at random", hint="export model.eval()")
    a.ignore("dropout")
    x = a.body.term(a.tensor("input"))
    if len(x.shape) != 3:
        raise UnsupportedOp("its sequence does not have three dimensions")
    count, directions = a.integer("num_layers"), 2 if a.flag("bidirectional") else 1
    params, has_bias = a.tensors("params"), a.flag("has_biases")
    per = 4 if has_bias else 2
    if not 1 <= count <= _MOST_LAYERS or len(params) != count * directions * per:
        raise UnsupportedOp(f"it has {len(params)} weights for {count} layers of {directions} directions")
    batch_first = a.flag("batch_first")
    x = x.transpose((1, 0, 2)) if batch_first else x
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(count):
        own = params[layer * directions * per : (layer + 1) * directions * per]
        weights = [_joined(a, own[n::per], order) for n in range(2)]
        bias = _biases(a, own, per, order) if has_bias else None
        firsts = [_first(a, s, layer * directions, directions, count * directions) for s in states]
        direction = b"bidirectional" if directions == 2 else b"forward"
        units = np.asarray(own[1].spec.shape or (0, 0))[1]
        results = a.onnx_results(
            op, x.value, *weights, bias, None, *firsts,
            count=1 + len(states), direction=direction, hidden_size=int(units), **options,
        )  # fmt: skip
        # [steps, directions, batch, units] -> [steps, batch, directions * units].
        y = a.body.term(results[0])
        if directions == 1:
            x = a.body.term(a.emit("Squeeze", y.value, squeeze_dims=(1,)))
        else:
            turned = y.transpose((0, 2, 1, 3))
            x = turned.reshape(_merged(a, turned.shape))
        for kept, value in zip(last, results[1:], strict=True):
            kept.append(value)
    ends = [v[0] if len(v) == 1 else a.emit("ConcatV2", *v, a.call.constant(0)) for v in last]
    return [(x.transpose((1, 0, 2)) if batch_first else x).value, *ends]


def _merged(a: Arguments, shape: Sequence[int | None]) -> list[int]:
    steps, batch, directions, units = shape
    if steps is None and batch is None:
        raise UnsupportedOp("neither its batch nor its number of steps is known")
    width = (directions or 0) * (units or 0)
    return [-1 if n is None else n for n in (steps, batch)] + [width]


def _known(a: Arguments, value: Value) -> Array:
    content = a.call.content(value)
    if content is None:
        raise UnsupportedOp("its weights are computed")
    return content


def _ordered(weights: Array, order: Sequence[int]) -> Array:
    """Rows of gates in another order."""
    parts = np.split(weights, len(order))
    return np.concatenate([parts[n] for n in order])


def _joined(a: Arguments, weights: Sequence[Value], order: Sequence[int]) -> Value:
    """The weights of all directions, [directions, gates * units, inputs]."""
    return a.call.constant(np.stack([_ordered(_known(a, w), order) for w in weights]))


def _biases(a: Arguments, own: Sequence[Value], per: int, order: Sequence[int]) -> Value:
    """Those of the input in front of those of the state."""
    rows = [
        np.concatenate([_ordered(_known(a, own[d + n]), order) for n in (2, 3)])
        for d in range(0, len(own), per)
    ]
    return a.call.constant(np.stack(rows))


def _first(a: Arguments, states: Value, start: int, count: int, total: int) -> Value | None:
    """The states of one layer before the first step; None for zeros."""
    # Zeros of an open batch are filled in while it runs; the number they are of tells the same.
    source = states.node.inputs[1] if states.node.op == "Fill" else states
    content = a.call.content(source)
    if content is not None and not content.any():
        return None
    if count == total:
        return states
    return a.body.term(states).cut(0, start, start + count).value


def _cell(a: Arguments, op: str, order: Sequence[int], states: list[Value], **options: Attr) -> list[Value]:
    """The states after one step.

    Args:
        states: before it, [batch, units].
    """
    bias = None
    if a.has("b_ih"):
        bias = _biases(a, [a.tensor(n) for n in ("w_ih", "w_hh", "b_ih", "b_hh")], 4, order)
    weights = [_joined(a, [a.tensor(n)], order) for n in ("w_ih", "w_hh")]
    units = int(np.asarray(a.tensor("w_hh").spec.shape or (0, 0))[1])
    x, *firsts = (a.body.term(v).expand_dims(0).value for v in (a.tensor("input"), *states))
    results = a.onnx_results(
        op, x, *weights, bias, None, *firsts,
        count=1 + len(states), direction=b"forward", hidden_size=units, **options,
    )  # fmt: skip
    return [a.emit("Squeeze", v, squeeze_dims=(0,)) for v in results[1:]]


@aten("lstm_cell")
def _lstm_cell(a: Arguments) -> list[Value]:
    return _cell(a, "LSTM", (0, 3, 1, 2), a.tensors("hx"))


@aten("gru_cell")
def _gru_cell(a: Arguments) -> list[Value]:
    # PyTorch's reset gate stands behind the product of the state, bias included; ONNX's does if told so.
    return _cell(a, "GRU", (1, 0, 2), [a.tensor("hx")], linear_before_reset=1)


@aten("rnn_tanh_cell", "rnn_relu_cell")
def _rnn_cell(a: Arguments) -> list[Value]:
    word = b"Tanh" if a.call.node.op.endswith("tanh_cell") else b"Relu"
    return _cell(a, "RNN", (0,), [a.tensor("hx")], activations=(word,))


@aten("lstm.input")
def _lstm(a: Arguments) -> list[Value]:
    """Gates i, f, g, o; ONNX's are i, o, f, g."""
    states = a.tensors("hx")
    if len(states) != 2:
        raise UnsupportedOp(f"it has {len(states)} states")
    if (states[0].spec.shape or (0,))[-1] != (states[1].spec.shape or (0,))[-1]:
        raise UnsupportedOp("it projects its state")
    return _layers(a, "LSTM", (0, 3, 1, 2), states)


@aten("gru.input")
def _gru(a: Arguments) -> list[Value]:
    """Gates r, z, n; ONNX's are z, r, n."""
    # As for the cell: the reset gate stands behind the product, which is not ONNX's default.
    return _layers(a, "GRU", (1, 0, 2), [a.tensor("hx")], linear_before_reset=1)


def _rnn(name: str, word: bytes) -> Callable[[Arguments], list[Value]]:
    def rule(a: Arguments) -> list[Value]:
        directions = 2 if a.flag("bidirectional") else 1
        return _layers(a, "RNN", (0,), [a.tensor("hx")], activations=(word,) * directions)

    aten(f"{name}.input")(rule)
    return rule


_rnn("rnn_tanh", b"Tanh")
_rnn("rnn_relu", b"Relu")
