"""Recurrent networks the way TensorFlow 1 writes them: a loop that reads, computes a cell, and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.loops import entered, while_loop
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT

UNITS, INPUTS, STEPS, BATCH = 5, 3, 4, 2


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


@dataclass
class Network:
    """A loop over a sequence; `build` gives the rows it collects and its last states.

    Attributes:
        net: what it is built in, one of the harnesses.
        cell: (x, states) -> what is handed out, and the next states.
        states: how many there are.
        keep: "" for every step, "lengths", "mask", or "held", a mask under which the last output is repeated.
        open_steps: whether the number of steps is fed; open_batch: the number of sequences.
        fed_states: whether the first states are fed, else they are zero.
    """

    net: object
    cell: Callable[[Network, Value, Sequence[Value]], tuple[Value, Sequence[Value]]]
    states: int = 1
    keep: str = ""
    open_steps: bool = False
    open_batch: bool = False
    fed_states: bool = False
    steps: int = STEPS
    inputs: list[Value] = field(default_factory=list)

    def build(self) -> list[Value]:
        net = self.net
        sizes = (None if self.open_steps else self.steps, None if self.open_batch else BATCH)
        x = net.feed(numbers(self.steps, BATCH, INPUTS, seed=9), "x", (*sizes, INPUTS))
        count = self._count(x)
        source = net.op("TensorArrayV3", count, name="source", dtype=FLOAT)
        target = net.op("TensorArrayV3", count, name="target", dtype=FLOAT)
        order = net.op("Range", np.int32(0), count, np.int32(1), name="order")
        read = net.op("TensorArrayScatterV3", source, order, x, source.node.output(1), T=FLOAT)
        inside = [entered(net.graph, "rnn", v) for v in (source, read, target)]
        condition = self._condition()
        zeros = [self._first(n, x) for n in range(self.states + 1)]
        nothing = entered(net.graph, "rnn", zeros[0])

        def body(v: list[Value]) -> list[Value]:
            step = net.op("TensorArrayReadV3", inside[0], v[0], inside[1], dtype=FLOAT)
            made, after = self.cell(self, step, v[3:])
            last = v[2]
            if condition is not None:
                live = net.op("ExpandDims", condition(v[0]), np.int32(1))
                other = v[2] if self.keep == "held" else nothing
                made = net.op("SelectV2", live, made, other)
                after = [net.op("SelectV2", live, new, old) for new, old in zip(after, v[3:], strict=True)]
                last = made
            kept = net.op("TensorArrayWriteV3", inside[2], v[0], made, v[1], T=FLOAT)
            return [net.op("AddV2", v[0], np.int32(1)), kept, last, *after]

        start = [net.const(np.int32(0), "t"), target.node.output(1), *zeros]
        limit = entered(net.graph, "rnn", count)
        ends = while_loop(net.graph, "rnn", start, lambda v: net.op("Less", v[0], limit), body)
        rows = net.op("TensorArrayGatherV3", target, order, ends[1], dtype=FLOAT, name="rows")
        return [rows, *(net.op("Identity", v, name=f"end{n}") for n, v in enumerate(ends[3:]))]

    def _count(self, x: Value) -> Value:
        if not self.open_steps:
            return self.net.const(np.int32(self.steps), "count")
        shape = self.net.op("Shape", x)
        return self.net.op(
            "StridedSlice",
            shape,
            np.int32([0]),
            np.int32([1]),
            np.int32([1]),
            shrink_axis_mask=1,
            name="count",
        )

    def _first(self, number: int, x: Value) -> Value:
        net = self.net
        if self.fed_states and number:
            batch = None if self.open_batch else BATCH
            return net.feed(numbers(BATCH, UNITS, seed=number), f"start{number}", (batch, UNITS))
        if not self.open_batch:
            return net.const(np.zeros((BATCH, UNITS), np.float32), "zeros")
        row = net.op("Gather", net.op("Shape", x), np.int32([1]))
        return net.op("Fill", net.op("ConcatV2", row, np.int32([UNITS]), np.int32(0)), np.float32(0))

    def _condition(self) -> Callable[[Value], Value] | None:
        net, batch = self.net, None if self.open_batch else BATCH
        if self.keep == "lengths":
            lengths = net.feed(np.int32([3, 1]), "lengths", (batch,))
            outer = entered(net.graph, "rnn", lengths)
            return lambda t: net.op("Less", t, outer)
        if not self.keep:
            return None
        # A mask that has holes, and begins with one.
        mask = net.feed(np.array([[0, 1], [1, 0], [0, 1], [1, 0]], bool), "mask", (self.steps, batch))
        outer = entered(net.graph, "rnn", mask)
        return lambda t: net.op("GatherV2", outer, t, np.int32(0))

    # --- cells ----------------------------------------------------------------------------------------------

    def sum(self, x: Value, h: Value, units: int, seed: int) -> Value:
        net = self.net
        wx = net.op("MatMul", x, numbers(INPUTS if x is not h else UNITS, units, seed=seed))
        wh = net.op("MatMul", h, numbers(UNITS, units, seed=seed + 1))
        return net.op("BiasAdd", net.op("AddV2", wx, wh), numbers(units, seed=seed + 2))


def lstm(n: Network, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    h, c = states
    parts = n.net.op("Split", np.int32(1), n.sum(x, h, 4 * UNITS, 1), num_split=4).node
    i, f, o = (n.net.op("Sigmoid", parts.output(p)) for p in (0, 1, 3))
    g = n.net.op("Tanh", parts.output(2))
    new = n.net.op("AddV2", n.net.op("Mul", f, c), n.net.op("Mul", g, i))
    h = n.net.op("Mul", o, n.net.op("Tanh", new))
    return h, [h, new]


def _gru(n: Network, z: Value, g: Value, h: Value, *, turned: bool = False) -> tuple[Value, Sequence[Value]]:
    old, new = (g, h) if turned else (h, g)
    rest = n.net.op("Sub", np.float32(1), z)
    y = n.net.op("AddV2", n.net.op("Mul", z, old), n.net.op("Mul", rest, new))
    return y, [y]


def gru(n: Network, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    """The reset gate in front of the product."""
    (h,) = states
    parts = n.net.op("Split", np.int32(1), n.net.op("Sigmoid", n.sum(x, h, 2 * UNITS, 1)), num_split=2).node
    reset = n.net.op("Mul", parts.output(0), h)
    return _gru(n, parts.output(1), n.net.op("Tanh", n.sum(x, reset, UNITS, 5)), h)


def turned_gru(n: Network, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    """z in the place of 1 - z."""
    (h,) = states
    parts = n.net.op("Split", np.int32(1), n.net.op("Sigmoid", n.sum(x, h, 2 * UNITS, 1)), num_split=2).node
    reset = n.net.op("Mul", parts.output(0), h)
    return _gru(n, parts.output(1), n.net.op("Tanh", n.sum(x, reset, UNITS, 5)), h, turned=True)


def late_gru(n: Network, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    """The reset gate behind the product, as Keras and cuDNN have it."""
    (h,) = states
    net = n.net
    z, r = (net.op("Sigmoid", n.sum(x, h, UNITS, seed)) for seed in (1, 11))
    product = net.op("AddV2", net.op("MatMul", h, numbers(UNITS, UNITS, seed=21)), numbers(UNITS, seed=22))
    read = net.op("AddV2", net.op("MatMul", x, numbers(INPUTS, UNITS, seed=23)), numbers(UNITS, seed=24))
    return _gru(n, z, net.op("Tanh", net.op("AddV2", read, net.op("Mul", r, product))), h)


def rnn(n: Network, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    h = n.net.op("Tanh", n.sum(x, states[0], UNITS, 1))
    return h, [h]


def relu_rnn(n: Network, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    h = n.net.op("Relu", n.sum(x, states[0], UNITS, 1))
    return h, [h]


def hard_lstm(n: Network, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    """Gates by clip((s + 3) / 6, 0, 1), written with Relu6."""
    net = n.net
    h, c = states
    parts = net.op("Split", np.int32(1), n.sum(x, h, 4 * UNITS, 1), num_split=4).node
    i, f, o = (
        net.op("Mul", net.op("Relu6", net.op("AddV2", parts.output(p), np.float32(3))), np.float32(1 / 6))
        for p in (0, 1, 3)
    )
    new = net.op("AddV2", net.op("Mul", f, c), net.op("Mul", i, net.op("Tanh", parts.output(2))))
    h = net.op("Mul", o, net.op("Softsign", new))
    return h, [h, new]


def stacked(n: Network, x: Value, states: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    """An RNN that reads an LSTM."""
    _, first = lstm(n, x, states[:2])
    net = n.net
    total = net.op(
        "AddV2",
        *(net.op("MatMul", v, numbers(UNITS, UNITS, seed=s)) for s, v in enumerate((first[0], states[2]))),
    )
    h = net.op("Tanh", total)
    return h, [*first, h]
