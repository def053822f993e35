"""Loops and branches in the words of TF1 and of TF2 compute in TensorFlow what they did, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.oracle._frozen import Frozen, freeze, run_in_tensorflow, to_graph, to_message
from tests.oracle._networks import NETWORKS, Network, X, v1
from tests.transforms.support import step
from thinflow.interpreter import run_graph
from thinflow.ir.graph import Graph

OLD = frozenset({"Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond", "_SwitchN"})
NEW = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"})


def built(network: Network, *, functions: bool) -> Any:
    """The GraphDef of a network, its loops and branches as functions or not."""
    was_on = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if functions else v1.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [2, 4], name="x")
            tf.identity(network(x), name="y")
    finally:
        (v1.enable_control_flow_v2 if was_on else v1.disable_control_flow_v2)()
    return graph.as_graph_def()


def check(graph_def: Any, feeds: list[dict[str, Any]], outputs: list[str], order: tuple[str, ...]) -> Graph:
    """Apply transforms; after each, TensorFlow and the interpreter give what the graph gave before all."""
    graph = to_graph(graph_def.SerializeToString(), list(feeds[0]), outputs)
    expected = [run_in_tensorflow(graph_def, feed, outputs) for feed in feeds]
    for pipeline in order:
        graph, report = step(graph, pipeline)
        assert report.trace.left == []
        gone = (
            OLD if pipeline == "raise_control_flow" else NEW | {"PartitionedCall", "StatefulPartitionedCall"}
        )
        assert gone.isdisjoint(n.op for n in graph)
        for feed, arrays in zip(feeds, expected, strict=True):
            for a, b in zip(arrays, run_in_tensorflow(to_message(graph), feed, outputs), strict=True):
                np.testing.assert_array_equal(a, b)
            for a, b in zip(arrays, run_graph(graph, feed, outputs), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    return graph


@pytest.mark.parametrize("name", NETWORKS)
def test_frames_and_switches(name: str) -> None:
    graph_def = built(NETWORKS[name], functions=False)
    order = ("raise_control_flow", "lower_control_flow", "raise_control_flow")
    check(graph_def, [{"x": X}, {"x": -X}], ["y"], order)


@pytest.mark.parametrize("name", NETWORKS)
def test_functions(name: str) -> None:
    graph_def = built(NETWORKS[name], functions=True)
    order = ("lower_control_flow", "raise_control_flow", "lower_control_flow")
    graph = check(graph_def, [{"x": X}, {"x": -X}], ["y"], order)
    assert not graph.functions


def _chosen(x: Any) -> Any:
    index = tf.cast(x[0, 0], tf.int32)
    return tf.switch_case(index, [lambda: x, lambda: x + 1, lambda: tf.constant(2.0) * tf.ones([2, 4])])


def test_case() -> None:
    feeds = [{"x": np.full((2, 4), n, np.float32)} for n in (-1, 0, 1, 2, 9)]
    order = ("lower_control_flow", "raise_control_flow", "lower_control_flow")
    check(built(_chosen, functions=True), feeds, ["y"], order)


KERAS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: tf.keras.layers.LSTM(5, return_sequences=True),
    "gru": lambda: tf.keras.layers.GRU(5),
    "bidirectional": lambda: tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(3)),
}


def _keras(name: str, *, lowered: bool) -> Frozen:
    tf.keras.utils.set_random_seed(3)
    start = tf.keras.Input((6, 4), batch_size=2)
    model = tf.keras.Model(start, KERAS[name]()(start))
    specs = {"x": ((2, 6, 4), np.dtype(np.float32))}
    return freeze(lambda x: model(x), specs, lower_control_flow=lowered)


@pytest.mark.parametrize("name", KERAS)
def test_recurrent_layers_of_keras(name: str) -> None:
    """Frozen with their functions, and frozen as TensorFlow lowers them itself."""
    frozen = _keras(name, lowered=False)
    order = ("lower_control_flow", "raise_control_flow")
    check(frozen.graph_def, [frozen.feeds(0)], list(frozen.outputs), order)
    frozen = _keras(name, lowered=True)
    check(frozen.graph_def, [frozen.feeds(0)], list(frozen.outputs), order[::-1])


# --- effects ----------------------------------------------------------------------------------------------


def _counted(x: Any) -> Any:
    """A variable that each turn changes after the branch of the turn before has read it."""
    total = v1.get_variable("total", [], initializer=v1.zeros_initializer(), use_resource=True)

    def body(i: Any, y: Any) -> tuple[Any, Any]:
        with tf.control_dependencies([y]):
            added = tf.cond(
                tf.equal(i % 2, 0), lambda: total.assign_add(1.0), lambda: total.assign(total * 3.0)
            )
        with tf.control_dependencies([added]):
            return i + 1, y + total.read_value()

    return tf.while_loop(lambda i, _: i < 5, body, [0, x], parallel_iterations=10)[1]


def _in_session(graph_def: Any) -> list[Any]:
    """What the network gives, and the variable afterwards, twice."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with v1.Session(graph=graph) as session:
            session.run("init")
            return [session.run(["y:0", "after:0"], {"x:0": X}) for _ in range(2)]


@pytest.mark.parametrize("functions", [False, True])
def test_effects_keep_their_order(functions: bool) -> None:
    (v1.enable_control_flow_v2 if functions else v1.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as graph:
            x = v1.placeholder(tf.float32, [2, 4], name="x")
            y = tf.identity(_counted(x), name="y")
            with tf.control_dependencies([y]):
                tf.identity(v1.trainable_variables()[0].read_value(), name="after")
            tf.group(v1.global_variables_initializer(), name="init")
    finally:
        v1.enable_control_flow_v2()
    graph_def = graph.as_graph_def()
    expected = _in_session(graph_def)
    ours = to_graph(graph_def.SerializeToString(), ["x"], ["y", "after"])
    order = ("raise_control_flow", "lower_control_flow", "raise_control_flow")
    for pipeline in order[functions:]:
        ours, report = step(ours, pipeline)
        assert report.trace.left == []
        for before, after in zip(expected, _in_session(to_message(ours)), strict=True):
            for a, b in zip(before, after, strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_runtime_of_tensorflow_1_can_take_it() -> None:
    """Nothing in the graph is younger than the release, and it still runs."""
    frozen = _keras("lstm", lowered=False)
    graph = to_graph(frozen.graph_def.SerializeToString(), list(frozen.inputs), list(frozen.outputs))
    old, _ = step(graph, "target_runtime(version=1.7)")
    assert NEW.isdisjoint(n.op for n in old)
    feeds = frozen.feeds(0)
    (expected,) = run_in_tensorflow(frozen.graph_def, feeds, frozen.outputs)
    (found,) = run_in_tensorflow(to_message(old), feeds, frozen.outputs)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
