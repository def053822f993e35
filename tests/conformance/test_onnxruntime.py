"""ONNX Runtime, with the interpreter for what it cannot run, against the results TensorFlow gave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.cases import Outcome, failures, find_cases, run_all

FLOOR = 224
"""Cases that pass; raise these numbers when more do, never lower them."""
WHOLE_FLOOR = 180
"""Cases of which ONNX Runtime runs every node."""
PART_FLOOR = 183
"""Cases of which it runs some."""


@pytest.fixture(scope="module")
def outcomes(shared: Path) -> dict[str, Outcome]:
    pytest.importorskip("onnxruntime")
    return run_all(find_cases(shared), "onnxruntime")


def test_enough_cases_pass(outcomes: dict[str, Outcome]) -> None:
    passed = sum(not o.failure for o in outcomes.values())
    assert passed >= min(FLOOR, len(outcomes)), failures(outcomes)


def test_onnxruntime_really_runs_them(outcomes: dict[str, Outcome]) -> None:
    whole = sum(set(p) == {"onnxruntime"} for p in _places(outcomes))
    part = sum("onnxruntime" in p for p in _places(outcomes))
    print(f"\nONNX Runtime runs {whole} of {len(outcomes)} cases whole, {part - whole} in part")
    if len(outcomes) >= FLOOR:
        elsewhere = [name for name, o in outcomes.items() if "onnxruntime" not in o.placement.values()]
        assert whole >= WHOLE_FLOOR
        assert part >= PART_FLOOR, f"in the interpreter: {', '.join(elsewhere)}"


def _places(outcomes: dict[str, Outcome]) -> Iterator[list[str]]:
    return (list(o.placement.values()) for o in outcomes.values())
