"""What the numbers of variables are like."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from thinflow.load import describing
from thinflow.load.describing import NumberStats, number_stats


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.float32([1, -2, 4]), NumberStats(-2, 4, 1, 0, 0)),
        (np.float64([np.nan, -np.inf, np.inf]), NumberStats(None, None, None, 1, 2)),
        (np.array([1.5, np.nan], ml_dtypes.bfloat16), NumberStats(1.5, 1.5, 1.5, 1, 0)),
        (np.array([-8, 7], ml_dtypes.int4), NumberStats(-8, 7, -0.5, 0, 0)),
        (np.array([True, False, True, True]), NumberStats(0, 1, 0.75, 0, 0)),
        (np.uint64([2**63]), NumberStats(2**63, 2**63, 2**63, 0, 0)),
        (np.zeros((0, 3), np.float32), NumberStats(None, None, None, 0, 0)),
        (np.float64([1.7e308, 1.7e308]), NumberStats(1.7e308, 1.7e308, None, 0, 0)),
        (np.uint32([0x7F800001, 0]).view(np.float32), NumberStats(0, 0, 0, 1, 0)),  # a signalling NaN
        (np.complex64([1j]), None),
        (np.array([b"a"], object), None),
    ],
    ids=lambda x: str(getattr(x, "dtype", "")),
)
def test_number_stats(values: Any, expected: NumberStats | None) -> None:
    assert number_stats(values) == expected


def test_large_arrays_are_looked_at_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describing, "_CHUNK", 7)
    values = np.random.default_rng(0).normal(size=(5, 11))
    found = number_stats(values)
    assert found is not None
    assert found.minimum == values.min()
    assert found.maximum == values.max()
    assert found.mean == pytest.approx(values.mean())
