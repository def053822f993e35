"""Borders of maxima: what stands there never shows, and eight bits hold it where anything can."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import formats
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT


def pool(before: str, kernel: int, pads: tuple[int, int], sizes: tuple[int, int] = (7, 8)) -> Graph:
    """MaxPool with explicit padding behind an op."""
    graph = Graph()
    x = graph.add(
        "Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((2, *sizes, 3))}
    ).output()
    y = graph.add(before, [x], "before", attrs={"T": FLOAT}).output()
    y = graph.add(
        "Reshape", [y, graph.constant(np.int32([2, *sizes, 3]), "shape")], attrs={"T": FLOAT}
    ).output()
    attrs = {
        "T": FLOAT, "ksize": (1, kernel, kernel, 1), "strides": (1, 2, 2, 1), "padding": b"EXPLICIT",
        "explicit_paddings": (0, 0, *pads, *pads, 0, 0), "data_format": b"NHWC",
    }  # fmt: skip
    graph.inputs, graph.outputs = [x], [graph.add("MaxPool", [y], "y", attrs=attrs).output()]
    return graph


@pytest.mark.parametrize(
    ("before", "kernel", "pads", "op"),
    [
        ("Relu", 3, (1, 1), "PAD"),
        ("Sigmoid", 3, (2, 2), "PAD"),
        ("Tanh", 3, (1, 1), "MIRROR_PAD"),
        ("Tanh", 5, (2, 1), "MIRROR_PAD"),
        ("Tanh", 3, (2, 0), "PADV2"),
        ("Neg", 2, (0, 1), "MIRROR_PAD"),
    ],
)
def test_borders(tmp_path: Path, before: str, kernel: int, pads: tuple[int, int], op: str) -> None:
    graph = pool(before, kernel, pads)
    x = np.random.default_rng(0).standard_normal((2, 7, 8, 3)).astype(np.float32)
    (one,), (other,) = (thinflow.run(graph, {"x": x}, engine=e).values() for e in ("reference", "litert"))
    np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)
    thinflow.save(graph, tmp_path / "m.tflite")
    ops = Counter(n.op for n in formats.load(tmp_path / "m.tflite"))
    assert {f"tfl.{name}": ops[f"tfl.{name}"] for name in ("PAD", "MIRROR_PAD", "PADV2")} == {
        **dict.fromkeys(("tfl.PAD", "tfl.MIRROR_PAD", "tfl.PADV2"), 0), f"tfl.{op}": 1
    }  # fmt: skip


@pytest.mark.parametrize("size", [1, 2])
def test_a_mirror_needs_so_many_pixels(tmp_path: Path, size: int) -> None:
    graph = pool("Tanh", 4, (2, 2), (size, 8))
    thinflow.save(graph, tmp_path / "m.tflite")
    ops = {n.op for n in formats.load(tmp_path / "m.tflite")}
    assert ("tfl.MIRROR_PAD" in ops) == (size == 2)
