"""What the first batch norm of a graph sees, beside what it saw in training."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.optimize.first_norm import first_norm

GRAPH = """
    x = Placeholder() {dtype=float, shape=shape[?,1,1,2]}
    gamma = Const() {value=float[2]{1, 1}}
    beta = Const() {value=float[2]{0, 0}}
    mean = Const() {value=float[2]{1, -2}}
    variance = Const() {value=float[2]{4, 9}}
    y = FusedBatchNormV3(x, gamma, beta, mean, variance) {T=float, U=float, is_training=false}
    inputs: x
    outputs: y
"""


def rows(scale: float, shift: float) -> np.ndarray:
    drawn = np.random.default_rng(0).normal(size=(4000, 1, 1, 2))
    drawn = (drawn - drawn.mean(0)) / drawn.std(0)
    return np.asarray((drawn * [2, 3] + [1, -2]) * scale + shift, np.float32)


@pytest.mark.parametrize("scale", [1.0, 3.0, 0.25])
def test_divergence_of_normal_distributions(scale: float) -> None:
    graph = parse_graph(GRAPH)
    norm = first_norm(graph)
    assert norm is not None
    assert (norm.mean.tolist(), norm.variance.tolist()) == ([1, -2], [4, 9])
    gap = norm.gap([{graph.inputs[0]: rows(scale, 0)}])
    assert gap is not None
    assert gap.times == pytest.approx(scale, rel=1e-3)
    moved = [((scale - 1) * m) ** 2 / v for m, v in ((1, 4), (2, 9))]
    expected = np.median([(scale**2 + s - 1 - math.log(scale**2)) / 2 for s in moved])
    assert gap.nats == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert not gap.is_far


def test_far_and_nothing_to_tell() -> None:
    graph = parse_graph(GRAPH)
    norm = first_norm(graph)
    assert norm is not None
    far = norm.gap([{graph.inputs[0]: rows(100, 0)}])
    assert far is not None
    assert far.is_far
    assert norm.gap([{graph.inputs[0]: np.zeros((3, 1, 1, 2), np.float32)}]) is None
    assert norm.gap([]) is None
    assert first_norm(parse_graph(GRAPH.replace("is_training=false", "is_training=true"))) is None
