"""Loops of recurrent cells become ONNX's own LSTM, GRU and RNN, and compute the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests import recurrent
from tests.lower.lstm_layers import Layer
from tests.lower.onnx.harness import Net, run_onnx
from tests.lower.tflite.harness import compare
from tests.recurrent import BATCH, INPUTS, STEPS, UNITS, Network, numbers

CELLS = {
    "lstm": (2, "LSTM"),
    "hard_lstm": (2, "LSTM"),
    "gru": (1, "GRU"),
    "turned_gru": (1, "GRU"),
    "late_gru": (1, "GRU"),
    "rnn": (1, "RNN"),
    "relu_rnn": (1, "RNN"),
}


def network(cell, **options):
    states, _ = CELLS.get(cell, (3, ""))
    made = Network(Net(), getattr(recurrent, cell), states, **options)
    return made.net, made.build()


def agree(net, outputs, feeds=None, wanted=None):
    """ONNX Runtime gives what the reference gives; the codes of the program."""
    lowered = net.lower(*outputs)
    feeds = dict(net.feeds) | {net.graph.value(n): a for n, a in (feeds or {}).items()}
    found = run_onnx(lowered, {v.name: a for v, a in feeds.items()})
    for value, expected in zip(outputs, net.reference(*outputs, feeds=feeds), strict=True):
        if expected.size:
            compare(found[value.name], expected, 1e-5, 2e-6)
        assert found[value.name].size == expected.size
    codes = [o.code for o in lowered.program.operators]
    if wanted is not None:
        assert wanted in codes
        assert "Loop" not in codes
    return codes


@pytest.mark.parametrize("keep", ["", "lengths", "mask", "held"])
@pytest.mark.parametrize("cell", CELLS)
def test_cells_under_every_condition(cell, keep):
    net, outputs = network(cell, keep=keep)
    agree(net, outputs, wanted=CELLS[cell][1])


@pytest.mark.parametrize("keep", ["", "lengths", "mask", "held"])
@pytest.mark.parametrize("cell", ["lstm", "late_gru"])
def test_first_states_that_are_fed(cell, keep):
    net, outputs = network(cell, keep=keep, fed_states=True, open_batch=True)
    agree(net, outputs, wanted=CELLS[cell][1])


def test_a_sequence_without_a_step_keeps_its_first_state():
    net, outputs = network("lstm", keep="lengths", fed_states=True)
    agree(net, outputs, {"lengths": np.int32([0, 4])}, wanted="LSTM")
    agree(net, outputs, {"lengths": np.int32([-1, 99])}, wanted="LSTM")


def test_a_mask_that_is_true_nowhere():
    net, outputs = network("gru", keep="held", fed_states=True)
    agree(net, outputs, {"mask": np.zeros((STEPS, BATCH), bool)}, wanted="GRU")
    agree(net, outputs, {"mask": np.ones((STEPS, BATCH), bool)}, wanted="GRU")


@pytest.mark.parametrize("cell", ["lstm", "gru", "late_gru", "rnn"])
@pytest.mark.parametrize("steps", [4, 1, 0])
def test_an_open_number_of_steps(cell, steps):
    net, outputs = network(cell, open_steps=True, open_batch=True, fed_states=True)
    sequence = numbers(steps, BATCH, INPUTS)
    agree(net, outputs, {"x": sequence}, wanted=CELLS[cell][1])


def test_cells_on_top_of_each_other_run_one_after_the_other():
    net, outputs = network("stacked")
    codes = agree(net, outputs, wanted="LSTM")
    assert codes.count("RNN") == 1


def test_nothing_but_the_op_and_its_axis_is_left():
    net, outputs = network("gru")
    assert agree(net, outputs[:1]) == ["GRU", "Squeeze"]


@pytest.mark.parametrize(
    "layer",
    [
        Layer(),
        Layer(order="igof", forget_bias=0.3, is_cut=True),
        Layer(order="ifgo", is_joined=False, first_state=True),
        Layer(peephole=True),
        Layer(outputs=2),
        Layer(outputs=7, peephole=True),
        Layer(gate="Softsign"),
        Layer(steps=1, batch=1, open_batch=True),
    ],
)
def test_lstms_however_they_are_written(layer):
    outputs = layer.build()
    layer.net.__class__ = Net
    agree(layer.net, outputs, wanted="LSTM")


@pytest.mark.parametrize(
    "layer",
    [
        Layer(clip=0.3),  # ONNX clips what goes into the gates
        Layer(peephole=True, late_peephole="c"),
        Layer(outputs=2, first_state=True),
        Layer(outputs=1),  # the op would do five times the work
    ],
)
def test_what_the_op_cannot_express_stays_a_loop(layer):
    outputs = layer.build()
    layer.net.__class__ = Net
    assert "Loop" in agree(layer.net, outputs)


def another(change):
    """A GRU in which one thing is different."""

    def cell(n, x, states):
        return change(n, *recurrent.gru(n, x, states), x, states)

    return cell


@pytest.mark.parametrize(
    "change",
    [
        lambda n, y, after, x, states: (n.net.op("Mul", y, np.float32(2)), after),
        lambda n, y, after, x, states: (y, [n.net.op("AddV2", after[0], np.float32(0.5))]),
        lambda n, y, after, x, states: (y, [n.net.op("AddV2", after[0], states[0])]),
    ],
)
def test_other_cells_stay_loops(change):
    made = Network(Net(), another(change))
    outputs = made.build()
    assert "Loop" in agree(made.net, outputs)


def test_gates_with_different_functions_stay_a_loop():
    def cell(n, x, states):
        (h,) = states
        z = n.net.op("Sigmoid", n.sum(x, h, UNITS, 1))
        r = n.net.op("Tanh", n.sum(x, h, UNITS, 4))
        g = n.net.op("Tanh", n.sum(x, n.net.op("Mul", r, h), UNITS, 7))
        return recurrent._gru(n, z, g, h)

    made = Network(Net(), cell)
    outputs = made.build()
    assert "Loop" in agree(made.net, outputs)
