"""What gradients left in loops and branches goes, and TensorFlow computes the same bits without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.oracle._frozen import run_in_tensorflow, to_graph, to_message
from tests.oracle._networks import NETWORKS, Network, X
from tests.transforms.support import step
from thinflow.interpreter import run_graph
from thinflow.ir.function import reachable
from thinflow.ir.graph import Graph

v1 = tf.compat.v1
# Nothing of these is differentiable in x, or TensorFlow refuses their gradients.
_WITHOUT_GRADIENTS = {"until_large", "guarded", "constants"}
_LOOPS = {"array", "nested", "swapping", "recurrent", "map", "scan", "fold"}


def trained(network: Network) -> Any:
    """The GraphDef of a network beside its own gradients."""
    was_on = v1.control_flow_v2_enabled()
    v1.enable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [2, 4], name="x")
            y = tf.identity(network(x), name="y")
            v1.gradients(tf.reduce_sum(y * y), [x])
    finally:
        if not was_on:
            v1.disable_control_flow_v2()
    return graph.as_graph_def()


def passed(graph: Graph) -> int:
    """How many values loops, branches and calls take, at every depth."""
    bodies = [graph, *(graph.functions[name].graph for name in reachable(graph))]
    kinds = ("While", "If", "Case", "PartitionedCall")
    return sum(len(n.inputs) for body in bodies for n in body if n.op.endswith(kinds))


@pytest.mark.parametrize("name", sorted(set(NETWORKS) - _WITHOUT_GRADIENTS))
def test_after_training(name: str) -> None:
    graph_def = trained(NETWORKS[name])
    graph = to_graph(graph_def.SerializeToString(), ["x"], ["y"])
    needed, _ = step(graph, "strip_unused_nodes")
    after, report = step(needed, "prune_loop_variables")
    assert report.trace.left == []
    if name in _LOOPS:
        assert passed(after) < passed(needed)
    message = to_message(after)
    for feed in ({"x": X}, {"x": -X}):
        (expected,) = run_in_tensorflow(graph_def, feed, ["y"])
        np.testing.assert_array_equal(run_in_tensorflow(message, feed, ["y"])[0], expected)
        np.testing.assert_allclose(run_graph(after, feed, ["y"])[0], expected, rtol=1e-5, atol=1e-6)
    back, _ = step(after, "lower_control_flow")
    np.testing.assert_array_equal(
        run_in_tensorflow(to_message(back), {"x": X}, ["y"])[0],
        run_in_tensorflow(graph_def, {"x": X}, ["y"])[0],
    )
