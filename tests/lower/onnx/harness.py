"""Builds small graphs, runs them in ONNX Runtime and in the reference interpreter."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.lower.tflite import harness
from tests.lower.tflite.harness import compare
from thinflow.engines.onnxruntime import products_may_overflow
from thinflow.lower.onnx.convert import Lowered, lower_graph
from thinflow.onnx.program import DEFAULT_OPSET
from thinflow.onnx.writer import to_bytes


class Net(harness.Net):
    """A graph under construction; `net.op("Relu", x)` adds a node."""

    opset = DEFAULT_OPSET

    def lower(self, *outputs) -> Lowered:
        return lower_graph(self.graph, list(self.feeds), list(outputs), opset=self.opset)

    def codes(self, *outputs):
        return [o.code for o in self.lower(*outputs).program.operators]

    def check(self, *outputs, rtol=1e-4, atol=1e-5, feeds=None):
        """ONNX Runtime and the reference agree, and the model is valid; returns the operators' codes."""
        lowered = self.lower(*outputs)
        feeds = self.feeds if feeds is None else feeds
        results = run_onnx(lowered, {v.name: a for v, a in feeds.items()})
        for value, expected in zip(outputs, self.reference(*outputs, feeds=feeds), strict=True):
            compare(results[value.name], expected, rtol, atol)
        return [o.code for o in lowered.program.operators]


def run_onnx(lowered: Lowered, feeds):
    """Outputs by name, of a model that the onnx package finds valid."""
    runtime = pytest.importorskip("onnxruntime")
    content = to_bytes(lowered.program)
    check_model(content, lowered)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    if products_may_overflow():
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, {k: np.asarray(v) for k, v in feeds.items()}), strict=True))


def check_model(content, lowered=None):
    """What the onnx package thinks of it. It wants inputs and outputs of known rank, which need not be."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx = pytest.importorskip("onnx")
    ends = [] if lowered is None else [*lowered.program.inputs, *lowered.program.outputs]
    if all(t.shape is not None for t in ends):
        onnx.checker.check_model(content, full_check=True)
