"""The reference interpreter against small graphs with the results that TensorFlow gave for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.conformance.cases import difference, failures, find_cases, run_all

FLOOR = 224
"""Cases that pass; raise it when more do, never lower it."""


def test_enough_cases_pass(shared: Path) -> None:
    outcomes = run_all(find_cases(shared), "reference")
    passed = sum(not o.failure for o in outcomes.values())
    assert passed >= min(FLOOR, len(outcomes)), failures(outcomes)


def test_the_comparison_sees_differences() -> None:
    one = np.ones(2, np.float32)
    assert difference(one, one) == ""
    assert (
        difference(one, one * np.float32([1, 1.01]))
        == "1.0 instead of 1.0099999904632568 at [1] (1 of 2 differ)"
    )
    assert difference(one, one.astype(np.float64)) == "float32[2] instead of float64[2]"
    assert difference(one, one[:1]) == "float32[2] instead of float32[1]"
    assert difference(np.array([b"ab"], object), np.array([b"ab"])) == ""
    assert difference(np.array([b"ab"], object), np.array([b"a"])) == "other values"
    assert difference(np.float32([np.nan]), np.float32([np.nan])) == ""
    assert difference(np.int32([1000000]), np.int32([1000001])) == "other values"
