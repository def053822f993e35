"""A weight that is there twice, under two names, is stored once on every road to .onnx and .tflite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.api import convert_verified
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT

pytest.importorskip("onnxruntime")
SIZE = 64
WEIGHTS = np.random.default_rng(3).normal(size=(SIZE, SIZE)).astype(np.float32) / 8


def network(copies: int) -> Graph:
    """Layer after layer with the same weights, each under a name of its own."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, SIZE))}).output()
    graph.inputs, value = [x], x
    for number in range(copies):
        weights = graph.constant(WEIGHTS.copy(), f"w{number}")
        value = graph.add("MatMul", [value, weights], f"y{number}", attrs={"T": FLOAT}).output()
        value = graph.add("Tanh", [value], f"t{number}", attrs={"T": FLOAT}).output()
    graph.outputs = [value]
    return graph


def stored(road: str, graph: Graph, folder: Path) -> int:
    """Bytes of all files that a road writes for a graph."""
    folder.mkdir()
    if road in ("m.onnx", "m.tflite"):
        thinflow.convert(graph, folder / road)
    elif road == "external":
        convert_verified(graph, folder / "m.onnx", external_data=True)
    elif road.startswith("int8."):
        thinflow.save(thinflow.quantize(graph, scheme="int8"), folder / f"q{road.removeprefix('int8')}")
    else:
        report = thinflow.optimize(graph, folder, measure=False, samples=2, onnx=True)
        return report.files[road].stat().st_size
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.parametrize(
    "road", ["m.onnx", "external", "m.tflite", "int8.tflite", "onnx_fp32", "onnx_int8", "fp32", "int8"]
)
def test_four_of_them_take_little_more_than_one(road: str, tmp_path: Path) -> None:
    one, four = (stored(road, network(copies), tmp_path / str(copies)) for copies in (1, 4))
    bits = 8 if "int8" in road else 32
    assert four - one < SIZE * SIZE * bits // 8, (one, four)
