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
from thinflow.transforms.fold import frozen_statistics
from thinflow.transforms.fold.batch_norms import load_statistics, save_statistics
from thinflow.transforms.fold.frozen_statistics import measure_batch_norms

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


def normal(x: Array, epsilon: float = 1e-3) -> Array:
    axes = tuple(range(x.ndim - 1))
    result: Array = (x - x.mean(axes)) / np.sqrt(x.var(axes) + epsilon)
    return result


def line(x: Array, t: Array, epsilon: float = 1e-3) -> tuple[Array, Array]:
    """The statistics of the norm that is nearest to t, by a solver of least squares; of columns."""
    mean, variance = [], []
    for own, wanted in zip(x.T, t.T, strict=True):
        (factor, addend), *_ = np.linalg.lstsq(
            np.stack([own, np.ones_like(own)], 1).astype(np.float64), wanted, rcond=None
        )
        mean.append(-addend / factor)
        variance.append(factor**-2 - epsilon)
    return np.array(mean), np.array(variance)


def test_statistics_are_nearest_to_those_of_each_batch() -> None:
    graph = training_graph()
    batches = [scale * batch(seed) + seed for seed, scale in ((1, 1.0), (2, 3.0), (3, 0.5))]
    mean, variance = measure_batch_norms(graph, [{graph.inputs[0]: b} for b in batches])["block/bn"]
    weights = np.arange(4).reshape(2, 2) + 1.0
    read = [(b.astype(np.float64) @ weights) for b in batches]
    columns = [np.concatenate([a.reshape(-1, 2) for a in some]) for some in (read, list(map(normal, read)))]
    expected = line(*columns)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-4)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-4)


def stacked(middle: str = "Relu") -> Graph:
    """norm, an op, norm; nothing in front of them."""
    graph = Graph()
    shape = ShapeAttr((2, 3, 3, 2))
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": shape}).output()
    graph.inputs = [x]
    one, zero = graph.constant(np.float32([1, 2]), "one"), graph.constant(np.float32([0, 1]), "zero")
    empty = graph.constant(np.empty(0, np.float32), "empty")
    attrs: dict[str, Attr] = {"T": FLOAT, "U": FLOAT, "epsilon": 1e-3, "is_training": True}
    value = graph.add("FusedBatchNormV3", [x, one, zero, empty, empty], "first", attrs=attrs).output()
    value = graph.add(
        middle, [value] if middle == "Relu" else [value, x], "middle", attrs={"T": FLOAT}
    ).output()
    last = graph.add("FusedBatchNormV3", [value, one, zero, empty, empty], "second", attrs=attrs)
    graph.outputs = [last.output()]
    return graph


def test_later_norms_are_fitted_to_what_earlier_ones_give_frozen() -> None:
    graph = stacked()
    batches = [scale * batch(seed) for seed, scale in ((1, 1.0), (2, 3.0), (3, 0.5))]
    statistics = measure_batch_norms(graph, [{graph.inputs[0]: b} for b in batches])
    mean, variance = statistics["first"]
    gamma, beta = np.array([1, 2]), np.array([0, 1])
    frozen = [np.maximum((b - mean) / np.sqrt(variance + 1e-3) * gamma + beta, 0) for b in batches]
    wanted = [normal(np.maximum(normal(b) * gamma + beta, 0)) for b in batches]
    columns = [np.concatenate([a.reshape(-1, 2) for a in some]) for some in (frozen, wanted)]
    for found, expected in zip(statistics["second"], line(*columns), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


def test_a_sum_behind_a_norm_reads_what_was_in_front_of_it() -> None:
    graph = stacked("AddV2")
    x = batch(4)
    statistics = measure_batch_norms(graph, [{graph.inputs[0]: x}])
    read = normal(x) * np.array([1, 2]) + np.array([0, 1]) + x
    np.testing.assert_allclose(statistics["second"][0], read.mean((0, 1, 2)), rtol=1e-4)
    np.testing.assert_allclose(statistics["second"][1], read.var((0, 1, 2)), rtol=1e-4)


def test_norms_behind_branches_get_the_mean_and_the_variance_of_all() -> None:
    graph = stacked("Merge")
    batches = [batch(1), 3 * batch(2)]
    mean, variance = measure_batch_norms(graph, [{graph.inputs[0]: b} for b in batches])["first"]
    both = np.concatenate(batches).astype(np.float64)
    np.testing.assert_allclose(mean, both.mean((0, 1, 2)), atol=1e-6)
    np.testing.assert_allclose(variance, both.var((0, 1, 2)), rtol=1e-6)


def test_a_norm_whose_own_statistics_are_read_gets_none() -> None:
    graph = stacked()
    graph.outputs = [*graph.outputs, graph.value("first:1")]
    assert set(measure_batch_norms(graph, [{graph.inputs[0]: batch(1)}])) == {"second"}


def test_a_channel_that_is_always_the_same_keeps_its_mean() -> None:
    graph = stacked()
    x = batch(1)
    x[..., 1] = 7
    mean, variance = measure_batch_norms(graph, [{graph.inputs[0]: x}, {graph.inputs[0]: 2 * x}])["first"]
    assert np.isfinite([mean, variance]).all()
    flat = measure_batch_norms(graph, [{graph.inputs[0]: np.full_like(x, 7)}] * 2)["first"]
    np.testing.assert_allclose(flat, [[7, 7], [0, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("count", "most", "kept"), [(3, 4, [0, 1, 2]), (9, 4, [0, 4, 8]), (7, 3, [0, 4]), (5, 1, [0])]
)
def test_batches_are_taken_at_even_distances(count: int, most: int, kept: list[int]) -> None:
    value = stacked().inputs[0]
    found = frozen_statistics._evenly(({value: np.array(n)} for n in range(count)), most)
    assert [int(feed[value]) for feed in found] == kept


def test_large_activations_are_of_fewer_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = stacked()
    feeds = [{graph.inputs[0]: batch(seed)} for seed in range(8)]
    monkeypatch.setattr(frozen_statistics, "_MEMORY", 1)
    np.testing.assert_allclose(
        measure_batch_norms(graph, feeds)["first"], measure_batch_norms(graph, feeds[:1])["first"]
    )


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
