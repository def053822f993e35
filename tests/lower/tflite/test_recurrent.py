"""Recurrent cells and loops of them against the reference kernels, through LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.builders import floats
from tests.lower.tflite.harness import Net, compare, run_litert
from thinflow.errors import UnsupportedOp

BATCH, INPUTS, UNITS, STEPS = 2, 5, 6, 4
LSTM_WEIGHTS = [
    floats(INPUTS + UNITS, 4 * UNITS),
    floats(UNITS),
    floats(UNITS, low=-1.0),
    floats(UNITS, low=0.0),
    floats(4 * UNITS),
]


def cell_net(op, state_count, weights, **attrs):
    net = Net()
    x = net.feed(floats(BATCH, INPUTS), "x")
    states = [net.feed(floats(BATCH, UNITS) * (n + 0.5), f"s{n}") for n in range(state_count)]
    return net, net.op(op, x, *states, *weights, name="cell", **attrs).node


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"forget_bias": 0.0, "cell_clip": -1.0},
        {"cell_clip": 0.4},
        {"use_peephole": True, "forget_bias": 0.7},
    ],
)
def test_lstm_cell(attrs):
    net, node = cell_net("LSTMBlockCell", 2, LSTM_WEIGHTS, **attrs)
    codes = net.check(*(node.output(p) for p in range(7)))
    assert codes.count("FULLY_CONNECTED") == 1


def test_gru_cell():
    weights = [
        floats(INPUTS + UNITS, 2 * UNITS),
        floats(INPUTS + UNITS, UNITS),
        floats(2 * UNITS),
        floats(UNITS),
    ]
    net, node = cell_net("GRUBlockCell", 1, weights)
    net.check(*(node.output(p) for p in range(4)))


def sequence_net(op, length=STEPS, shape=(), **attrs):
    net = Net()
    x = net.feed(floats(STEPS, BATCH, INPUTS), "x", shape)
    state_shape = () if shape == () else (shape[1], UNITS)
    states = [net.feed(floats(BATCH, UNITS) * (n + 0.5), f"s{n}", state_shape) for n in range(2)]
    steps = net.const(np.int64(length), "steps")
    return net, net.op(op, steps, x, *states, *LSTM_WEIGHTS, name="lstm", **attrs).node


@pytest.mark.parametrize("op", ["BlockLSTM", "BlockLSTMV2"])
@pytest.mark.parametrize("attrs", [{}, {"use_peephole": True}, {"cell_clip": 0.3}])
@pytest.mark.parametrize("ports", [(6,), (1, 6), tuple(range(7))])
def test_lstm_over_a_sequence(op, attrs, ports):
    net, node = sequence_net(op, **attrs)
    assert net.check(*(node.output(p) for p in ports)).count("WHILE") == 1


@pytest.mark.parametrize("length", [0, 2, 9])
def test_steps_past_the_length_are_zero(length):
    net, node = sequence_net("BlockLSTM", length)
    net.check(node.output(1), node.output(6))


def test_only_what_is_read_is_collected():
    net, node = sequence_net("BlockLSTM")
    program = net.lower(node.output(6)).program
    codes = [o.code for s in program.subgraphs for o in s.operators]
    assert codes.count("DYNAMIC_UPDATE_SLICE") == 1


def test_the_number_of_steps_has_to_be_known():
    net, node = sequence_net("BlockLSTM", shape=(None, BATCH, INPUTS))
    with pytest.raises(UnsupportedOp, match="the number of steps is not known"):
        net.lower(node.output(6))


def test_two_runs_give_the_same():
    net, node = sequence_net("BlockLSTM")
    lowered, feeds = net.lower(node.output(6)), {v.name: a for v, a in net.feeds.items()}
    first, second = (run_litert(lowered, feeds)["lstm:6"] for _ in range(2))
    compare(first, second)
