"""Random networks as ONNX models, beside the interpreter.

A failing example is printed as a `Network(...)`; `Network(...).graph()` is the graph.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, note, settings

from tests.lower.onnx.harness import check_model
from tests.networks import Network, networks
from thinflow.compare.differences import difference
from thinflow.engines.session import Session
from thinflow.ir.text import graph_text
from thinflow.lower.onnx.convert import lower_graph
from thinflow.onnx.program import OPSETS
from thinflow.onnx.writer import to_bytes
from thinflow.optimize.float_graph import float_graph

TOLERANCE = 1e-4
"""Relative to the largest value; norms by the numbers of the batch enlarge differences of rounding."""


def assert_close(found, expected):
    for a, b in zip(expected, found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        gap = difference(a, b)
        assert gap.largest <= TOLERANCE * max(1.0, np.abs(a).max(initial=0.0)), gap


@settings(max_examples=150)
@given(networks())
def test_the_engine_agrees(network: Network) -> None:
    pytest.importorskip("onnxruntime")
    graph = network.graph()
    note(graph_text(graph))
    session = Session(graph, "onnxruntime")
    for batch in (2, 1, 3):
        feed = network.sample(batch=batch)
        assert_close(session.run(None, feed), Session(graph, "reference").run(None, feed))
    assert set(session.placement.values()) <= {"onnxruntime"}, session.reasons


@settings(max_examples=50)
@given(networks())
def test_files_are_valid(network: Network) -> None:
    graph = float_graph(network.graph(), verify=False).graph
    note(graph_text(graph))
    for opset in (OPSETS[0], OPSETS[-1]):
        lowered = lower_graph(graph, graph.inputs, graph.outputs, opset=opset)
        check_model(to_bytes(lowered.program), lowered)
