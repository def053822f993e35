"""The reference interpreter against small graphs with the results that TensorFlow gave for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thinflow.errors import ThinflowError
from thinflow.formats import graphdef
from thinflow.interpreter import Plan

Array = np.ndarray[Any, Any]

FLOOR = 224
"""Cases that pass; raise it when more do, never lower it."""
RELATIVE, ABSOLUTE = 1e-4, 1e-5  # for floats; everything else must be equal


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[Path]:
    found = sorted((shared / "conformance").glob("*.pb"))
    if not found:
        pytest.skip("no conformance cases")
    return found


def as_tensor(array: Array) -> Array:
    """The array, with strings as objects of bytes."""
    return array.astype(object) if array.dtype.kind in "SU" else array


def difference(actual: Array, expected: Array) -> str:
    """What is wrong with a result, "" if nothing is."""
    expected = as_tensor(expected)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{list(actual.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind in "fc":
        good = np.allclose(actual, expected, RELATIVE, ABSOLUTE, equal_nan=True)
    else:
        good = np.array_equal(actual, expected)
    return "" if good else "other values"


def failure(case: Path) -> str:
    """Why a case fails, "" if it passes."""
    graph = graphdef.load(case)
    with np.load(case.with_suffix(".npz")) as stored:
        arrays = {name: stored[name] for name in stored.files}
    feeds = {graph.value(k[3:]): as_tensor(a) for k, a in arrays.items() if k.startswith("in:")}
    expected = {k[4:]: a for k, a in arrays.items() if k.startswith("out:")}
    try:
        actual = Plan(graph, [graph.value(name) for name in expected], list(feeds)).run(feeds)
    except ThinflowError as error:
        return error.message
    found = (difference(a, e) for a, e in zip(actual, expected.values(), strict=True))
    return "; ".join(f"{name}: {text}" for name, text in zip(expected, found, strict=True) if text)


def test_enough_cases_pass(cases: list[Path]) -> None:
    failures = {case.stem: text for case in cases if (text := failure(case))}
    passed = len(cases) - len(failures)
    print(f"\n{passed} of {len(cases)} conformance cases pass")
    assert passed >= min(FLOOR, len(cases)), "\n".join(f"{name}: {text}" for name, text in failures.items())


def test_the_comparison_sees_differences() -> None:
    one = np.ones(2, np.float32)
    assert difference(one, one) == ""
    assert difference(one, one * np.float32(1.01)) == "other values"
    assert difference(one, one.astype(np.float64)) == "float32[2] instead of float64[2]"
    assert difference(one, one[:1]) == "float32[2] instead of float32[1]"
    assert difference(np.array([b"ab"], object), np.array([b"ab"])) == ""
