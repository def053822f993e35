"""Beyond two gigabytes, where protobuf and flatbuffers end. Needs 5 GB of disk and 5 GB of memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from thinflow import api
from thinflow.engines.litert import Model
from thinflow.formats import graphdef
from thinflow.interpreter import Plan
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("THINFLOW_HUGE") != "1", reason="set THINFLOW_HUGE=1 to write files of 2 GB"
    ),
]

LAYERS, WIDTH = 11, 7168  # 206 MB each
TWO_GB = 1 << 31


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Dense layers whose weights differ, and yet share one array."""
    graph = Graph()
    rng = np.random.default_rng(0)
    pool = rng.standard_normal((WIDTH + LAYERS, WIDTH), np.float32) / np.float32(WIDTH**0.5)
    value = graph.add(
        "Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, WIDTH))}
    ).output()
    graph.inputs = [value]
    for i in range(LAYERS):
        w = graph.constant(pool[i : i + WIDTH], f"w{i}")
        attrs = {"T": FLOAT, "transpose_b": True}  # as LiteRT has it, so that nothing is turned round
        value = graph.add("MatMul", [value, w], f"layer{i}", attrs=attrs).output()
    graph.outputs = [value]
    return graph


def test_graphdef(graph: Graph, tmp_path: Path) -> None:
    first, second = tmp_path / "first.pb", tmp_path / "second.pb"
    size = graphdef.save(graph, first)
    assert size == first.stat().st_size > TWO_GB
    loaded = graphdef.load(first)
    assert [n.name for n in loaded] == [n.name for n in graph]
    loaded.node("layer5").attrs["transpose_b"] = False
    assert graphdef.save(loaded, second) == second.stat().st_size
    again = graphdef.load(second)
    assert [n.name for n in again if n.get("transpose_b") is False] == ["layer5"]
    for i in (0, LAYERS // 2, LAYERS - 1):
        tensors = [g.node(f"w{i}").tensor for g in (graph, again)]
        assert tensors[0] is not None
        assert tensors[1] is not None
        np.testing.assert_array_equal(tensors[0].numpy(), tensors[1].numpy())
    first.unlink()
    second.unlink()


def test_tflite(graph: Graph, tmp_path: Path) -> None:
    """Weights stand behind the flatbuffer, whose offsets end at 2 GB."""
    path = tmp_path / "huge.tflite"
    assert api.save(graph, path) == path.stat().st_size > TWO_GB
    x = np.random.default_rng(1).standard_normal((1, WIDTH), np.float32)
    (found,) = Model(str(path)).run([x])
    (expected,) = Plan(graph, graph.outputs, graph.inputs).run({graph.inputs[0]: x})
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    path.unlink()
