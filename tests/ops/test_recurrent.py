"""LSTM and GRU cells in one op."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run

RNG = np.random.default_rng(3)
BATCH, INPUTS, UNITS, STEPS = 2, 3, 4, 5


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


X, C, H = normal(BATCH, INPUTS), normal(BATCH, UNITS), normal(BATCH, UNITS)
W, B = normal(INPUTS + UNITS, 4 * UNITS), normal(4 * UNITS)
PEEPHOLES = [normal(UNITS) for _ in range(3)]
CELL = [X, C, H, W, *PEEPHOLES, B]
SEQUENCE = [np.int64(3), normal(STEPS, BATCH, INPUTS), *CELL[1:]]
GRU = [
    X,
    H,
    normal(INPUTS + UNITS, 2 * UNITS),
    normal(INPUTS + UNITS, UNITS),
    normal(2 * UNITS),
    normal(UNITS),
]

CASES: dict[str, list[Case]] = {
    "LSTMBlockCell": [(CELL, {}), (CELL, {"use_peephole": True, "cell_clip": 0.5})],
    "BlockLSTM": [(SEQUENCE, {"forget_bias": 0.5}), (SEQUENCE, {"use_peephole": True})],
    "BlockLSTMV2": [(SEQUENCE, {}), ([np.int64(0), *SEQUENCE[1:]], {})],
    "GRUBlockCell": [(GRU, {})],
}


@pytest.mark.parametrize("name", CASES)
def test_infer_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_lstm_cell_follows_its_formula() -> None:
    gates = np.concatenate([X, H], 1) @ W + B
    i, c, f, o = np.split(gates, 4, 1)
    state = np.tanh(c) * sigmoid(i) + C * sigmoid(f + 1)
    results = run("LSTMBlockCell", *CELL, cell_clip=-1.0)
    np.testing.assert_allclose(results[1], state, rtol=1e-5)
    np.testing.assert_allclose(results[6], np.tanh(state) * sigmoid(o), rtol=1e-5)
    assert {r.dtype for r in results} == {np.dtype(np.float32)}


def test_the_state_stays_within_the_limit() -> None:
    big = [X, C * 100, *CELL[2:]]
    assert np.abs(run("LSTMBlockCell", *big)[1]).max() == 3
    assert np.abs(run("LSTMBlockCell", *big, cell_clip=0.25)[1]).max() == 0.25
    assert np.abs(run("LSTMBlockCell", *big, cell_clip=0.0)[1]).max() > 3


def test_peepholes_look_at_the_old_state_and_the_new() -> None:
    i, cs, f, o, *_ = run("LSTMBlockCell", *CELL, use_peephole=True)
    gates = dict(zip("icfo", np.split(np.concatenate([X, H], 1) @ W + B, 4, 1), strict=True))
    np.testing.assert_allclose(i, sigmoid(gates["i"] + C * PEEPHOLES[0]), rtol=1e-5)
    np.testing.assert_allclose(f, sigmoid(gates["f"] + 1 + C * PEEPHOLES[1]), rtol=1e-5)
    np.testing.assert_allclose(o, sigmoid(gates["o"] + cs * PEEPHOLES[2]), rtol=1e-5)


def test_a_sequence_is_its_steps_then_zeros() -> None:
    length, xs, state, output, *weights = SEQUENCE
    results = run("BlockLSTM", *SEQUENCE)
    for t in range(int(length)):
        step = run("LSTMBlockCell", xs[t], state, output, *weights)
        state, output = step[1], step[6]
        for whole, part in zip(results, step, strict=True):
            np.testing.assert_array_equal(whole[t], part)
    assert not results[6][int(length) :].any()


def test_version_two_has_other_gates_and_no_bias() -> None:
    i, c, f, o = np.split(W, 4, 1)
    bi, bc, bf, bo = np.split(B, 4)
    weights, bias = np.concatenate([i, f, c, o], 1), np.concatenate([bi, bf, bc, bo])
    two = run("BlockLSTMV2", *SEQUENCE[:4], weights, *PEEPHOLES, bias, cell_clip=3.0)
    one = run("BlockLSTM", *SEQUENCE, forget_bias=0.0)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_gru_cell_follows_its_formula() -> None:
    x, h, w_ru, w_c, b_ru, b_c = GRU
    r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ w_ru + b_ru), 2, 1)
    c = np.tanh(np.concatenate([x, r * h], 1) @ w_c + b_c)
    for actual, expected in zip(run("GRUBlockCell", *GRU), (r, u, c, u * h + (1 - u) * c), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
