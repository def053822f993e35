"""LiteRT's integer LSTM as an op; tests/lift/test_integer_lstm.py compares it with LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run
from thinflow.ops._fixed_point import quantized_multiplier

RNG = np.random.default_rng(8)
BATCH, INPUTS, UNITS, STEPS = 2, 3, 4, 5
GATES = "ifgo"
NONE = np.zeros(0, np.int16)


def codes(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 127, shape).astype(np.int8)


def gate() -> list[np.ndarray]:
    zeros = np.zeros(UNITS, np.int32)
    return [codes(UNITS, INPUTS), codes(UNITS, UNITS), zeros, zeros, NONE, NONE, zeros[:0]]


X = codes(STEPS, BATCH, INPUTS)
H, CELL = np.zeros((BATCH, UNITS), np.int8), np.zeros((BATCH, UNITS), np.int16)
ARRAYS = [a for _ in GATES for a in gate()]
NO_PROJECTION = [np.zeros((0, 0), np.int8), np.zeros(0, np.int32)]
STEP = 0.01
PAIR = quantized_multiplier(STEP * STEP / 2**-12)
FACTORS = (*PAIR, *PAIR, *quantized_multiplier(1), *quantized_multiplier(1), 10000) * len(GATES)
ENDS = (*quantized_multiplier(2**-30 / STEP), 0, 0, 0, 0, 4, 0, 0)
OPTIONS = {"gates": GATES, "factors": FACTORS, "ends": ENDS}
OPERANDS = [X, H, CELL, *ARRAYS, *NO_PROJECTION]
CASES: dict[str, list[Case]] = {"LiteRTIntegerLSTM": [(OPERANDS, OPTIONS), ([X[:0], *OPERANDS[1:]], OPTIONS)]}


@pytest.mark.parametrize("name", CASES)
def test_infer_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_it_is_near_the_lstm_of_real_numbers() -> None:
    h, c = np.zeros((BATCH, UNITS)), np.zeros((BATCH, UNITS))
    weights = {g: [a * STEP for a in ARRAYS[7 * n : 7 * n + 2]] for n, g in enumerate(GATES)}
    for x in X * STEP:
        sums = {g: x @ w.T + h @ r.T for g, (w, r) in weights.items()}
        i, f, o = (1 / (1 + np.exp(-sums[g])) for g in "ifo")
        c = f * c + i * np.tanh(sums["g"])
        h = o * np.tanh(c)
    y, last, cell = run("LiteRTIntegerLSTM", *OPERANDS, **OPTIONS)
    np.testing.assert_array_equal(y[-1], last)
    np.testing.assert_allclose(last * STEP, h, atol=2 * STEP)
    np.testing.assert_allclose(cell * 2.0**-11, c, atol=0.02)
