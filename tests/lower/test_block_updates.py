"""Blocks written at a place that is computed, read from LiteRT files and written again for both runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.ir.types import FLOAT, INT32
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")


def saved(path: Path, whole: tuple[int | None, ...], part: tuple[int | None, ...]) -> Path:
    """y = relu(x) with a smaller tensor written at a place."""
    x, y, r = (Tensor(n, whole, FLOAT) for n in ("x", "y", "r"))
    value, place = Tensor("value", part, FLOAT), Tensor("place", (len(whole),), INT32)
    steps = [Operator("RELU", [x], [r]), Operator("DYNAMIC_UPDATE_SLICE", [r, value, place], [y])]
    path.write_bytes(to_bytes(Program([Subgraph([x, value, place], [y], steps)])))
    return path


@pytest.mark.parametrize("suffix", [".onnx", ".tflite"])
@pytest.mark.parametrize(
    ("whole", "part"), [((4, 5, 6), (2, 5, 3)), ((None, 5), (None, 2)), ((3, 3), (3, 3)), ((7,), (2,))]
)
def test_a_block(
    whole: tuple[int | None, ...], part: tuple[int | None, ...], suffix: str, tmp_path: Path
) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
    path = saved(tmp_path / "m.tflite", whole, part)
    # By way of a graph, so that the file is not merely copied.
    thinflow.convert(path, tmp_path / "m.pb")
    graph = thinflow.load(tmp_path / "m.pb", inputs=["x", "value", "place"], outputs=["y"])
    thinflow.convert(graph, tmp_path / f"again{suffix}")
    rng = np.random.default_rng(0)
    sizes = [tuple(n or 3 for n in shape) for shape in (whole, part)]
    x, value = (rng.normal(size=s).astype(np.float32) for s in sizes)
    # Far beyond the end it is moved inside.
    for place in (0, 1, 99):
        feed = {"x": x, "value": value, "place": np.full(len(whole), place, np.int32)}
        begin = [min(place, n - m) for n, m in zip(x.shape, value.shape, strict=True)]
        wanted = np.maximum(x, 0)
        wanted[tuple(slice(b, b + m) for b, m in zip(begin, value.shape, strict=True))] = value
        for model in (graph, tmp_path / f"again{suffix}"):
            (found,) = thinflow.run(model, feed).values()
            np.testing.assert_array_equal(found, wanted)
