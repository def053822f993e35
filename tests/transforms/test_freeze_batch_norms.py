"""freeze_batch_norms: measuring, freezing, folding afterwards, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transforms.support import apply, assert_same_numbers, reasons, step
from thinflow.errors import ParameterError
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT
from thinflow.transforms.fold.batch_norms import load_statistics, measure_batch_norms, save_statistics

Array = np.ndarray[Any, Any]


def training_graph(**more: Attr) -> Graph:
    graph = Graph()
    graph.inputs = [
        graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((2, 3, 3, 2))}).output()
    ]
    weights = graph.constant(np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2) + 1, "w")
    attrs: dict[str, Attr] = {"T": FLOAT, "padding": b"VALID", "strides": (1, 1, 1, 1)}
    conv = graph.add("Conv2D", [graph.inputs[0], weights], "conv", attrs=attrs).output()
    gamma, beta = graph.constant(np.float32([1, 2]), "gamma"), graph.constant(np.float32([3, 4]), "beta")
    empty = graph.constant(np.empty(0, np.float32), "empty")
    attrs = {"T": FLOAT, "U": FLOAT, "epsilon": 1e-3, "is_training": True, **more}
    norm = graph.add("FusedBatchNormV3", [conv, gamma, beta, empty, empty], "block/bn", attrs=attrs)
    graph.outputs = [graph.add("Relu", [norm.output()], "y", attrs={"T": FLOAT}).output()]
    return graph


def batch(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((2, 3, 3, 2)).astype(np.float32)


def test_statistics_of_one_batch_give_the_same_numbers(tmp_path: Path) -> None:
    graph = training_graph()
    feed = (
        np.random.default_rng(0).standard_normal((2, 3, 3, 2)).astype(np.float32)
    )  # what the comparison feeds
    path = tmp_path / "statistics.npz"
    save_statistics(path, measure_batch_norms(graph, [{graph.inputs[0]: feed}]))
    after, report = step(graph, [("freeze_batch_norms", {"statistics": str(path)})])
    assert report.changes == 1
    node = after.node("block/bn")
    assert node.attrs["is_training"] is False
    assert [v.name for v in node.inputs[3:]] == ["block/bn/mean", "block/bn/variance"]
    assert "empty" not in after
    assert_same_numbers(graph, after, 1e-5)
    folded = apply(after, "fold_old_batch_norms").graph
    assert not any("Norm" in n.op for n in folded)
    assert_same_numbers(graph, folded, 1e-4)


def test_statistics_are_averaged() -> None:
    graph = training_graph()
    one, two, both = (
        measure_batch_norms(graph, [{graph.inputs[0]: batch(s)} for s in seeds])["block/bn"]
        for seeds in ([1], [2], [1, 2])
    )
    np.testing.assert_allclose(both[0], (one[0] + two[0]) / 2)
    np.testing.assert_allclose(both[1], (one[1] + two[1]) / 2)


def test_measuring_needs_a_batch() -> None:
    with pytest.raises(ParameterError, match="no inputs to measure"):
        measure_batch_norms(training_graph(), [])


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "statistics.npz"
    save_statistics(path, {"block/bn": (np.zeros(3), np.ones(3))})
    pipeline = [("freeze_batch_norms", {"statistics": str(path)})]
    assert "for 3 channels, it has 2" in reasons(step(training_graph(), pipeline)[1])["block/bn"]
    assert (
        "inference mode already" in reasons(step(training_graph(is_training=False), pipeline)[1])["block/bn"]
    )
    save_statistics(path, {"other": (np.zeros(2), np.ones(2))})
    assert "have no 'block/bn/mean'" in reasons(step(training_graph(), pipeline)[1])["block/bn"]
    save_statistics(path, {"block/bn": (np.zeros(2), np.ones(2))})
    graph = training_graph()
    graph.outputs = [*graph.outputs, graph.value("block/bn:1")]
    assert "a statistic of the batch" in reasons(step(graph, pipeline)[1])["block/bn"]


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"a/mean": np.zeros(2)}, "'a/variance' is missing"),
        ({"a/mean": np.zeros(2), "a/variance": np.ones(3)}, "two float vectors"),
        ({"a/mean": np.zeros(2), "a/variance": np.array([1.0, -1.0])}, "negative"),
    ],
)
def test_bad_statistics(tmp_path: Path, arrays: dict[str, Array], problem: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ParameterError, match=problem):
        load_statistics(tmp_path / "bad.npz")


def test_files_that_are_no_statistics(tmp_path: Path) -> None:
    for content in (b"", b"PK\x03\x04 broken", b"not a zip at all"):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(ParameterError, match="cannot be read"):
            load_statistics(tmp_path / "bad.npz")
    with pytest.raises(ParameterError, match="cannot be read"):
        load_statistics(tmp_path / "missing.npz")
