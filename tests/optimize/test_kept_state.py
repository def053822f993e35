"""Which parts of a graph can keep its state, and calls in a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lower.variables import summing
from thinflow.errors import VerificationError
from thinflow.optimize.core import Core
from thinflow.optimize.litert import float_model
from thinflow.optimize.numeric_check import CALLS, StateNotKept, check_calls, require_states
from thinflow.optimize.quantize_job import QuantizeOptions, quantize_to_file
from thinflow.optimize.samples import samples_for


def test_a_part_keeps_no_state() -> None:
    graph = summing()
    part = Core(graph, graph.inputs, [graph.value("left")], [graph.node("left")], {graph.node("y"): "no"})
    with pytest.raises(StateNotKept, match="only a part of the model fits into a file"):
        require_states(part)


def test_a_state_that_is_read_elsewhere() -> None:
    graph = summing()
    core = Core(graph, graph.inputs, graph.outputs, [graph.node("y")], {})
    with pytest.raises(StateNotKept, match="'v' is used outside of what LiteRT can run"):
        require_states(core)


def test_samples_are_calls() -> None:
    graph = summing()
    feeds = list(samples_for(graph, [{"x": np.float32([1, 10])}] * 3))
    assert [feed[graph.value("v")].tolist() for feed in feeds] == [[1, 2], [2, 12], [3, 22]]


def test_a_file_with_another_start_is_found() -> None:
    pytest.importorskip("ai_edge_litert")
    graph = thinflow.load(summing())
    model, samples = float_model(graph), samples_for(graph, None, limit=CALLS)
    assert check_calls(model, b"".join(model.chunks()), samples) == 0
    other = float_model(thinflow.load(summing((1, 3))))
    with pytest.raises(VerificationError, match="the LiteRT model gives"):
        check_calls(model, b"".join(other.chunks()), samples)


def test_what_is_quantized_keeps_its_state(tmp_path: Path) -> None:
    """As what is converted does: a wake word of whose past nothing is kept answers otherwise."""
    pytest.importorskip("ai_edge_litert")
    thinflow.save(thinflow.load(summing()), tmp_path / "m.tflite")
    account = quantize_to_file(
        str(tmp_path / "m.tflite"), tmp_path / "q.tflite", QuantizeOptions(effort="none")
    )
    session = thinflow.Session(tmp_path / "q.tflite", "litert")
    x = np.float32([1, 1])
    first, second = (session.run(None, {"x": x})[0] for _ in range(2))
    np.testing.assert_allclose(second - first, -x, atol=0.1)
    assert "calls in a row its answers are up to 0 of" in account["warnings"][-1]
