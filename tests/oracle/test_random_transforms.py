"""Random networks through pipelines of transforms: TensorFlow loads the results and computes the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings

from tests.networks import Network, networks
from tests.oracle._frozen import run_in_tensorflow, to_message
from tests.transforms.random_calls import OPTIONS
from thinflow.analysis.shapes import infer_shapes, port_count
from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph
from thinflow.rewrite.rule import options
from thinflow.rewrite.runner import run
from thinflow.transforms import find, names, resolve

LOOSE = {"quantize_weights": 0.3, "round_weights": 0.3, "quantize_nodes": 1.0, "insert_logging": 0.0}
"""How far transforms that change numbers on purpose may be off, of the largest value."""
TOLERANCE = 1e-4
PIPELINES = [
    "float",
    "strip_unused_nodes fold_constants fold_batch_norms fold_old_batch_norms",
    "for_runtime(runtime=litert)",
]
STEPS = (
    "conv 012 norm 000 activation 010 depthwise 011",
    "conv 021 bias 011 scale 011 add 011 pool 011",
    "dilated 011 norm 010 split 010 gate 111",
)
SIZES = ((6, 6, 3), (5, 7, 2), (8, 8, 4))


def example(number: int) -> Network:
    """One of three fixed networks; each step is a kind and three numbers."""
    words = STEPS[number].split()
    steps = tuple(
        (kind, int(n[0]), int(n[1]), int(n[2])) for kind, n in zip(words[::2], words[1::2], strict=True)
    )
    return Network(1 + number % 2, SIZES[number], number, steps)


EXAMPLES = tuple(map(example, range(3)))


def works_bare(name: str) -> bool:
    return all(default is not dataclasses.MISSING for _, default in options(find(name)).values())


COARSE = "num_steps=3"
"""So few levels that nothing is left of a network."""
CALLS = [
    name + text
    for name in names()
    for text in OPTIONS.get(name, [""] if works_bare(name) else [])
    if COARSE not in text
]


def in_tensorflow(graph: Graph, feeds: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    return run_in_tensorflow(to_message(graph), feeds, [v.name for v in graph.outputs])


def assert_close(before: list[Any], after: list[Any], tolerance: float) -> None:
    for a, b in zip(before, after, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        scale = max(float(np.abs(a).max(initial=0)), 1e-20)
        assert float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0)) <= tolerance * scale


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("network", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_transform(network: Network, call: str) -> None:
    graph = network.graph()
    infer_shapes(graph)
    feeds = network.sample(batch=2)
    try:
        result = run(graph, resolve(call), port_count=port_count).graph
    except ThinflowError as error:
        pytest.skip(f"it needs files or names: {error.message}")
    step = resolve(call)[0].transform
    tolerance = TOLERANCE if step.exact else LOOSE.get(step.name, 1e-4)
    feeds = {v.name: x for v, x in zip(result.inputs, feeds.values(), strict=True)}
    try:
        after = in_tensorflow(result, feeds)
    except (tf.errors.UnimplementedError, tf.errors.NotFoundError) as error:
        pytest.skip(f"TensorFlow has no kernel here for what was asked: {error.message[:80]}")
    assert_close(in_tensorflow(graph, network.sample(batch=2)), after, tolerance)


@pytest.mark.parametrize("pipeline", PIPELINES)
@settings(max_examples=15)
@given(network=networks(steps=8))
def test_pipelines(network: Network, pipeline: str) -> None:
    graph = network.graph()
    assume(all(node.get("N") != 1 for node in graph if node.op == "ConcatV2"))  # TensorFlow asks for two
    infer_shapes(graph)
    result = run(graph, resolve(pipeline), port_count=port_count).graph
    feeds = network.sample(batch=2)
    assert_close(in_tensorflow(graph, feeds), in_tensorflow(result, feeds), 1e-3)
