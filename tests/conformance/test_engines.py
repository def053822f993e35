"""Every case on every engine, the interpreter running what it cannot, against TensorFlow's results."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.conformance.cases import Outcome, difference, failures, find_cases, run_all
from thinflow.engines import names, partition


class Floor(NamedTuple):
    """Raise these numbers when more pass, never lower them.

    Attributes:
        passed: cases that pass.
        whole: cases of which the engine runs every node.
        part: cases of which it runs some.
    """

    passed: int
    whole: int
    part: int


FLOORS = {
    "litert": Floor(224, 195, 200),
    "onnxruntime": Floor(224, 198, 203),
    "openvino": Floor(224, 193, 198),
    "reference": Floor(224, 224, 224),
}
PACKAGES = {"litert": "ai_edge_litert", "onnxruntime": "onnxruntime", "openvino": "openvino"}


@pytest.fixture(scope="module", params=sorted(FLOORS))
def engine(request: pytest.FixtureRequest) -> str:
    package = PACKAGES.get(request.param)
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    return str(request.param)


@pytest.fixture(scope="module")
def outcomes(shared: Path, engine: str) -> Iterator[dict[str, Outcome]]:
    """With every region on the engine that can be: the cases are too small for any to pay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "too_small", lambda _: "")
        yield run_all(find_cases(shared), engine)


def test_every_engine_is_here() -> None:
    # What is compiled from C is compared layer by layer: tests/lower/c.
    assert {*names()} - {"c"} == set(FLOORS), "a new engine: say what it passes"


def test_enough_cases_pass(outcomes: dict[str, Outcome], engine: str) -> None:
    passed = sum(not o.failure for o in outcomes.values())
    assert passed >= min(FLOORS[engine].passed, len(outcomes)), failures(outcomes)


def test_the_engine_really_runs_them(outcomes: dict[str, Outcome], engine: str) -> None:
    places = [set(o.placement.values()) for o in outcomes.values()]
    whole = sum(p == {engine} for p in places)
    part = sum(engine in p for p in places)
    print(f"\n{engine} runs {whole} of {len(outcomes)} cases whole, {part - whole} in part")
    if len(outcomes) >= FLOORS[engine].passed and engine != "reference":
        elsewhere = [name for name, o in outcomes.items() if engine not in o.placement.values()]
        assert whole >= FLOORS[engine].whole
        assert part >= FLOORS[engine].part, f"in the interpreter: {', '.join(elsewhere)}"


def test_what_an_engine_does_not_run_has_a_reason(outcomes: dict[str, Outcome], engine: str) -> None:
    for name, outcome in outcomes.items():
        left = {n for n, where in outcome.placement.items() if where != engine}
        assert left <= set(outcome.reasons), name


def test_as_shipped(shared: Path, engine: str) -> None:
    """With small regions left to the interpreter: other borders, the same results."""
    if engine == "reference":
        pytest.skip("there are no regions")
    outcomes = run_all(find_cases(shared), engine)
    passed = sum(not o.failure for o in outcomes.values())
    assert passed >= min(FLOORS[engine].passed, len(outcomes)), failures(outcomes)


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
