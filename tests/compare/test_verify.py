"""Comparing arrays and graphs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.analysis.precision import AS_IT_RUNS_TOLERANCE, DEFAULT_TOLERANCE, RUNTIMES_TOLERANCE
from thinflow.compare.differences import difference
from thinflow.compare.output_comparer import run_by_name
from thinflow.compare.verify import verify
from thinflow.errors import GraphError, ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, INT8
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
two = Const() {dtype=float, value=float[]{%s}}
a = Mul(x, two) {T=float}
b = Relu(a) {T=float}
y = Neg(b) {T=float}
inputs: x
outputs: y
"""


def graph(factor: float = 2) -> Graph:
    return parse_graph(TEXT % factor)


@pytest.mark.parametrize(
    ("a", "b", "largest", "relative", "index"),
    [
        ([1.0, -4.0], [1.0, -4.0], 0, 0, None),
        ([1.0, -4.0], [1.5, -4.0], 0.5, 0.125, (0,)),
        ([[0.0, 0.0]], [[0.0, 1.0]], 1, math.inf, (0, 1)),
        ([math.nan, 1], [math.nan, 1], 0, 0, None),
        ([math.inf, 1], [math.inf, 1], 0, 0, None),
        ([math.inf, 1], [-math.inf, 1], math.inf, math.inf, (0,)),
        ([math.nan, 1], [0, 1], math.inf, math.inf, (0,)),
        ([], [], 0, 0, None),
        ([1.0], [1.0, 2.0], math.inf, math.inf, None),
        (2.0, 1.0, 1, 0.5, ()),
        ([1 + 1j], [1 + 2j], 1, 1 / math.sqrt(2), (0,)),
        ([250], [5], 245, 0.98, (0,)),
    ],
)
def test_difference(
    a: object, b: object, largest: float, relative: float, index: tuple[int, ...] | None
) -> None:
    kind = np.uint8 if a == [250] else None
    found = difference(np.asarray(a, kind), np.asarray(b, kind))
    assert found.largest == pytest.approx(largest)
    assert found.relative == pytest.approx(relative)
    if index is not None:
        assert found.index == index


def test_difference_of_strings() -> None:
    a, b = np.array([b"a", b"b"], object), np.array([b"a", b"c"], object)
    assert difference(a, a).relative == 0
    found = difference(a, b)
    assert (found.index, found.before, found.after) == ((1,), b"b", b"c")
    assert difference(a, np.zeros(2)).relative == math.inf


@pytest.mark.parametrize("engine", ["reference", "litert"])
def test_equal_graphs_agree(engine: str) -> None:
    found = verify(graph(), graph(), engine=engine)
    assert found.ok
    assert (found.worst, found.runs, found.first_divergence) == (0, 2, "")
    assert str(found).startswith(
        "the graphs agree: largest relative difference 0 over 2 runs (tolerance 0.0001)"
    )


def test_the_first_value_that_differs_is_named() -> None:
    feeds = {"x": np.array([[1, 2, 3, 4]], np.float32)}
    found = verify(graph(), graph(3), feeds)
    assert not found.ok
    assert found.first_divergence == "two"
    (output,) = found.outputs
    assert (output.name, output.index, output.before, output.after) == ("y", (0, 3), -8, -12)
    assert (output.largest, output.relative) == (4, 0.5)
    assert "first value that differs: two" in str(found)
    assert str(found).startswith("the graphs DIFFER")


def test_tolerance_and_several_feeds() -> None:
    feeds = [{"x": np.full((1, 4), v, np.float32)} for v in (1, 2)]
    assert verify(graph(), graph(2.001), feeds, tolerance=0.01).ok
    assert verify(graph(), graph(2.001), feeds).runs == 2
    assert not verify(graph(), graph(2.001), feeds, tolerance=0).ok


@pytest.mark.parametrize("tolerance", [-1.0, math.nan])
def test_a_tolerance_must_be_a_number_from_zero(tolerance: float) -> None:
    with pytest.raises(ParameterError, match="give 0 or more"):
        verify(graph(), graph(), tolerance=tolerance)


def test_nothing_in_common() -> None:
    other = parse_graph("q = Placeholder() {dtype=float, shape=shape[1]}\nr = Neg(q) {T=float}\noutputs: r")
    with pytest.raises(GraphError, match="no output in common"):
        verify(graph(), other)


def test_equal_graphs_do_not_diverge() -> None:
    found = verify(graph(), graph(), {"x": np.ones((1, 4), np.float32)}, tolerance=0.0)
    assert (found.ok, found.divergence, found.first_divergence) == (True, None, "")


def test_run_by_name_leaves_out_feeds_that_are_gone() -> None:
    feeds = {"x": np.ones((1, 4), np.float32), "gone": np.ones(1)}
    (y,) = run_by_name(graph(), feeds, ["y"])
    assert y.tolist() == [[-2, -2, -2, -2]]


def test_a_file_is_judged_as_when_it_was_written(tmp_path: Path) -> None:
    """Two runtimes may be farther apart than one is from itself."""
    pytest.importorskip("ai_edge_litert")
    thinflow.convert(graph(2), tmp_path / "m.tflite")
    there = thinflow.verify(graph(2 * (1 + 4e-4)), tmp_path / "m.tflite")
    assert (there.ok, there.tolerance) == (True, RUNTIMES_TOLERANCE)
    here = thinflow.verify(graph(2 * (1 + 4e-4)), graph(2))
    assert (here.ok, here.tolerance) == (False, DEFAULT_TOLERANCE)


@pytest.mark.parametrize(
    ("op", "error", "tolerance", "is_same"),
    [
        ("Sigmoid", 5e-7, 1e-3, True),
        ("Sigmoid", 5e-7, 1e-4, True),
        ("Sigmoid", 5e-6, 1e-3, False),
        ("Sigmoid", 5e-7, 0, False),
        # As small, and no probabilities.
        ("Exp", 5e-7, 1e-3, False),
    ],
)
def test_probabilities_near_zero_differ_by_what_no_runtime_is_free_of(
    op: str, error: float, tolerance: float, is_same: bool
) -> None:
    text = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
p = %s(x) {T=float}
more = Const() {dtype=float, value=float[]{%s}}
y = AddV2(p, more) {T=float}
inputs: x
outputs: %s
"""
    first, second = parse_graph(text % (op, 0.0, "p")), parse_graph(text % (op, error, "y"))
    second.rename(second.node("p"), "q")
    second.rename(second.node("y"), "p")
    feed = {"x": np.full((1, 4), -10, np.float32)}
    assert verify(first, second, feed, engine="reference", tolerance=tolerance).ok is is_same


def test_what_is_quantized_as_it_runs_may_differ_from_float(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (8, 40)).astype(np.int8)
    x, y = (Tensor(n, (1, size), FLOAT, None, None) for n, size in (("x", 40), ("y", 8)))
    w = Tensor("w", (8, 40), INT8, weights, Quantization(np.float32([0.01]), np.int64([0])))
    layer = Operator("FULLY_CONNECTED", [x, w, None], [y], {})
    path = tmp_path / "hybrid.tflite"
    path.write_bytes(to_bytes(Program([Subgraph([x], [y], [layer])])))
    found = thinflow.verify(path, thinflow.load(path), engine="reference")
    assert (found.ok, found.tolerance) == (True, AS_IT_RUNS_TOLERANCE)
    assert found.worst > RUNTIMES_TOLERANCE
    assert any("to eight bits in each run" in note for note in found.notes)
    assert thinflow.verify(path, path).tolerance == DEFAULT_TOLERANCE
