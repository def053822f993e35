"""LiteRT's integer SVDF as an op; tests/lift/tflite/test_integer_svdf.py compares it with LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run
from thinflow.errors import ThinflowError
from thinflow.ops._fixed_point import quantized_multiplier

RNG = np.random.default_rng(8)
BATCH, INPUTS, UNITS, RANK, MEMORY = 2, 3, 4, 2, 5


def codes(kind: type, most: int, *shape: int) -> np.ndarray:
    return RNG.integers(-most, most, shape).astype(kind)


OPERANDS = [
    codes(np.int8, 127, BATCH, INPUTS),
    codes(np.int8, 127, UNITS * RANK, INPUTS),
    codes(np.int16, 3000, UNITS * RANK, MEMORY),
    codes(np.int32, 900, UNITS),
    codes(np.int16, 3000, BATCH, UNITS * RANK * MEMORY),
]
OPTIONS = {
    "rank": RANK,
    "factors": (*quantized_multiplier(0.1), *quantized_multiplier(1e-6)),
    "zeros": (3, -7),
}
CASES: dict[str, list[Case]] = {"LiteRTIntegerSVDF": [(OPERANDS, OPTIONS)]}


@pytest.mark.parametrize("name", CASES)
def test_infer_agrees_with_kernel(name: str) -> None:
    for case in CASES[name]:
        check_agreement(name, case)


def test_it_is_near_the_svdf_of_real_numbers() -> None:
    x, features, times, bias, state = (a.astype(np.float64) for a in OPERANDS)
    newest = (x - 3) @ features.T * 0.1
    kept = np.concatenate([state.reshape(BATCH, -1, MEMORY)[:, :, 1:], newest[:, :, None]], 2)
    total = (kept * times).sum(2).reshape(BATCH, UNITS, RANK).sum(2) + bias
    y, left = run("LiteRTIntegerSVDF", *OPERANDS, **OPTIONS)
    np.testing.assert_allclose(y, (total * 1e-6 - 7).clip(-128, 127), atol=1)
    np.testing.assert_allclose(left.reshape(kept.shape), kept, atol=1)


def test_operands_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ThinflowError, match="do not fit 8 filters of rank 3"):
        run("LiteRTIntegerSVDF", *OPERANDS, **{**OPTIONS, "rank": 3})
