"""Rounded weights: the levels, in every float type, and what compresses."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from tests.transforms.support import Array, apply, reasons, step, to_bytes
from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BFLOAT16, DOUBLE, FLOAT, HALF, DType
from thinflow.transforms.round_weights import RoundWeights


def weights_graph(values: Array, element: DType = FLOAT) -> Graph:
    """y = relu(c)."""
    graph = Graph()
    value = graph.constant(Tensor.from_array(values, element), "c")
    graph.outputs = [graph.add("Relu", [value], "y", attrs={"T": element}).output()]
    return graph


def rounded(values: Array, options: str, element: DType = FLOAT) -> Array:
    graph, report = step(weights_graph(values, element), f"round_weights({options})")
    assert report.changes == 1, reasons(report)
    tensor = graph.node("c").tensor
    assert tensor is not None
    assert tensor.dtype is element
    return tensor.numpy()


LINE = np.linspace(-1, 1, 17).astype(np.float32)


def test_levels() -> None:
    found = rounded(LINE, "num_steps=4")
    assert sorted(set(found.tolist())) == [-0.75, -0.25, 0, 0.25, 0.75]
    assert found[8] == 0, "a zero stays"
    found = rounded(LINE, "num_steps=4, preserve_zero=false")
    assert sorted(set(found.tolist())) == [-0.75, -0.25, 0.25, 0.75]


def test_levels_of_the_original() -> None:
    found = rounded(LINE, "num_steps=4, legacy=true")
    assert sorted(set(found.tolist())) == [-0.75, -0.25, 0.25, 0.75, 1.25]
    zeros = rounded(np.zeros(16, np.float32), "num_steps=4, legacy=true")
    assert float(zeros[0]) == pytest.approx(1.5e-39, rel=0.1)
    assert set(rounded(np.full(16, -3, np.float32), "num_steps=4, legacy=true").tolist()) == {-2.625}


@pytest.mark.parametrize("element", [FLOAT, HALF, BFLOAT16, DOUBLE])
def test_every_float_type(element: DType, rng: np.random.Generator) -> None:
    values = rng.standard_normal(1000).astype(element.numpy())
    found = rounded(values, "num_steps=16", element).astype(np.float64)
    assert len(set(found.tolist())) <= 17
    wide = values.astype(np.float64)
    slack = 0.02 if element in (HALF, BFLOAT16) else 1e-6
    assert np.abs(found - wide).max() <= np.ptp(wide) / 32 + slack
    assert wide.min() <= found.min()
    assert found.max() <= wide.max()


def test_a_range_wider_than_its_type() -> None:
    values = np.linspace(-1.7, 1.7, 40) * 1e308
    _, report = step(weights_graph(values, DOUBLE), "round_weights(num_steps=4)")
    assert "a range from -1.7e+308 to 1.7e+308 cannot be divided" in reasons(report)["c"]


def test_a_second_run_finds_nothing(rng: np.random.Generator) -> None:
    graph = weights_graph(rng.standard_normal(100_000).astype(np.float32))
    once = apply(graph, "round_weights(num_steps=16)").graph
    for options in ("num_steps=16", "num_steps=256", ""):
        result = apply(once, f"round_weights({options})")
        assert result.changes == 0
        assert "different values already" in result.steps[0].trace.left[0].text


def test_the_file_compresses(rng: np.random.Generator) -> None:
    graph = weights_graph(rng.standard_normal(50_000).astype(np.float32))
    after = apply(graph, "round_weights").graph
    before_bytes, after_bytes = to_bytes(graph), to_bytes(after)
    assert len(after_bytes) == len(before_bytes)
    assert len(gzip.compress(after_bytes)) < 0.47 * len(gzip.compress(before_bytes))


def test_equal_values_take_no_space() -> None:
    graph = weights_graph(np.full(5000, 3, np.float32))
    after, report = step(graph, "round_weights")
    assert len(to_bytes(after)) < 200
    np.testing.assert_array_equal(after.node("c").tensor.numpy(), np.full(5000, 3))  # type: ignore[union-attr]
    assert "stored once" in report.trace.changes[0].text


def test_zeros_of_both_signs_stay() -> None:
    values = np.zeros(40, np.float32)
    values[::2] = -0.0
    _, report = step(weights_graph(values), "round_weights(num_steps=4)")
    assert report.changes == 0


def test_values_closer_than_the_type_can_tell() -> None:
    values = np.full(600, 1, np.float64)
    values[::2] = np.nextafter(1, 2)
    _, report = step(weights_graph(values, DOUBLE), "round_weights(num_steps=1, preserve_zero=false)")
    assert report.changes <= 1


def test_clusters_lie_where_the_weights_are(rng: np.random.Generator) -> None:
    values = np.concatenate([rng.normal(m, 0.01, 500) for m in (-3, 0.1, 0.3, 5)]).astype(np.float32)
    found = rounded(values, "num_steps=4, clusters=true")
    np.testing.assert_allclose(np.unique(found), [-3, 0.1, 0.3, 5], atol=0.01)
    assert np.abs(found - values).max() < 0.06


@pytest.mark.parametrize("element", [FLOAT, HALF, BFLOAT16, DOUBLE])
def test_clusters_lose_less_than_even_levels(element: DType, rng: np.random.Generator) -> None:
    values = (rng.standard_normal(4000) ** 3).astype(element.numpy())
    values[::7] = 0
    even, found = (rounded(values, f"num_steps=16{more}", element) for more in ("", ", clusters=true"))
    wide = values.astype(np.float64)
    losses = [np.square(one.astype(np.float64) - wide).mean() for one in (even, found)]
    assert losses[1] < losses[0] / 2
    assert len(np.unique(found.astype(np.float64))) <= 17
    assert not found[::7].any(), "zeros stay"


def test_clustered_twice_is_clustered_once(rng: np.random.Generator) -> None:
    graph = weights_graph(rng.standard_normal(1000).astype(np.float32))
    graph, report = step(graph, "round_weights(num_steps=8, clusters=true)")
    assert report.changes == 1
    assert step(graph, "round_weights(num_steps=8, clusters=true)")[1].changes == 0


def test_more_clusters_than_values_and_the_original_are_told_apart() -> None:
    values = np.array([1, 2, 4, 8] * 5, np.float32)
    found = rounded(
        np.concatenate([values, [16]]).astype(np.float32), "num_steps=4, clusters=true, preserve_zero=false"
    )
    assert len(set(found.tolist())) <= 4
    with pytest.raises(ParameterError, match="legacy has evenly spaced levels"):
        RoundWeights(clusters=True, legacy=True)
