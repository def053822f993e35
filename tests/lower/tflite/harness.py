"""Builds small graphs, runs them in LiteRT and in the reference interpreter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from thinflow.interpreter import Plan
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import dtype
from thinflow.lower.tflite.convert import Lowered, lower_graph
from thinflow.tflite.writer import to_bytes


class Net:
    """A graph under construction; `net.op("Relu", x)` adds a node."""

    def __init__(self):
        self.graph = Graph()
        self.feeds = {}

    def feed(self, array, name="x", shape=()):
        """A placeholder and what to feed it; `shape` may hold None, or be None for an unknown rank."""
        array = np.asarray(array)
        sizes = ShapeAttr(array.shape if shape == () else shape)
        node = self.graph.add("Placeholder", name=name, attrs={"dtype": dtype(array.dtype), "shape": sizes})
        self.feeds[node.output()] = array
        return node.output()

    def const(self, array, name="c"):
        return self.graph.constant(np.asarray(array), name)

    def op(self, op, *inputs, name="", port=0, **attrs):
        values = [v if hasattr(v, "node") else self.const(v) for v in inputs]
        return self.graph.add(op, values, name or op.lower().strip("_"), attrs=attrs).output(port)

    def lower(self, *outputs) -> Lowered:
        return lower_graph(self.graph, list(self.feeds), list(outputs))

    def codes(self, *outputs):
        return [o.code for o in self.lower(*outputs).program.subgraphs[0].operators]

    def counts(self, *outputs):
        return Counter(self.codes(*outputs))

    def reference(self, *outputs, feeds=None):
        feeds = self.feeds if feeds is None else feeds
        return Plan(self.graph, list(outputs), list(feeds)).run(feeds)

    def check(self, *outputs, rtol=1e-4, atol=1e-5, feeds=None):
        """LiteRT and the reference agree; returns the codes of the operators."""
        lowered = self.lower(*outputs)
        feeds = self.feeds if feeds is None else feeds
        results = run_litert(lowered, {v.name: a for v, a in feeds.items()})
        for value, expected in zip(outputs, self.reference(*outputs, feeds=feeds), strict=True):
            compare(results[value.name], expected, rtol, atol)
        return [o.code for o in lowered.program.subgraphs[0].operators]


def run_litert(lowered: Lowered, feeds):
    """Outputs by name."""
    module = pytest.importorskip("ai_edge_litert.interpreter")
    session = module.Interpreter(model_content=to_bytes(lowered.program))
    return session.get_signature_runner("serving_default")(**feeds)


def compare(actual, expected, rtol=1e-4, atol=1e-5):
    expected = np.asarray(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.dtype.kind in "fc":
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(actual, expected)
