"""Graphs as .onnx files, checked against the interpreter before they are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lower.onnx.harness import Net
from thinflow.api.converting import convert_verified
from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT

pytest.importorskip("onnxruntime")


def spectrum() -> Graph:
    """x [2,8] -> its spectrum, complex64 [2,5]."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((2, 8))}).output()
    length = graph.constant(np.int32([8]), "length")
    graph.inputs, graph.outputs = [x], [graph.add("RFFT", [x, length], "spectrum").output()]
    return graph


def test_complex_outputs_are_checked_as_pairs(tmp_path: Path) -> None:
    target = tmp_path / "spectrum.onnx"
    assert thinflow.save(spectrum(), target) == target.stat().st_size
    x = np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
    (found,) = thinflow.Session(target, engine="onnxruntime").run(None, {"x": x})
    expected = np.fft.rfft(x)
    np.testing.assert_allclose(found, np.stack([expected.real, expected.imag], -1), rtol=1e-5, atol=1e-5)


def test_a_newer_opset_is_written_where_it_holds_more(tmp_path: Path) -> None:
    """ScatterND combines by the largest since opset 18."""
    net = Net()
    x = net.feed(np.arange(6, dtype=np.float32).reshape(3, 2))
    y = net.op("UnsortedSegmentMax", x, np.int32([1, 0, 1]), np.int32(2), name="y")
    net.graph.inputs, net.graph.outputs = [x], [y]
    made = convert_verified(net.graph, str(tmp_path / "y.onnx"))
    assert "opset  18" in made.notes
    assert made.coverage is not None
    assert not made.coverage.is_part
    with pytest.raises(UnsupportedOp, match="since opset 18 only"):
        convert_verified(net.graph, str(tmp_path / "z.onnx"), opset=17)
