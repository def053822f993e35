"""Loops and branches in the words of TF1 and of TF2 compute in TensorFlow what they did, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.oracle._frozen import Frozen, freeze, run_in_tensorflow, to_graph, to_message
from tests.transforms.support import step
from thinflow.interpreter import run_graph
from thinflow.ir.graph import Graph

v1 = tf.compat.v1
X = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
Network = Callable[[Any], Any]
OLD = frozenset({"Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond", "_SwitchN"})
NEW = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"})


def _array(x: Any) -> Any:
    def body(i: Any, y: Any, items: Any) -> tuple[Any, ...]:
        return i + 1, tf.tanh(y * 1.5 + 0.1), items.write(i, y)

    return tf.while_loop(lambda i, *_: i < 5, body, [0, x, tf.TensorArray(tf.float32, 5)])[2].stack()


def _nested(x: Any) -> Any:
    def inner(i: Any, y: Any) -> Any:
        def body(j: Any, z: Any) -> tuple[Any, Any]:
            return j + 1, z * 0.9 + tf.cast(i, tf.float32) * x

        return tf.while_loop(lambda j, _: j < i + 1, body, [0, y])[1]

    return tf.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, inner(i, y)), [0, x])[1]


def _branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, tf.ones([4, 3])), lambda: x[:, :3] - 1.0)


def _branch_in_branch(x: Any) -> Any:
    def then() -> Any:
        return tf.cond(tf.reduce_max(x) > 1, lambda: x * 2, lambda: x + tf.constant(3.0))

    return tf.cond(tf.reduce_sum(x) > 0, then, lambda: tf.constant(7.0) * tf.ones([2, 4]))


def _constants(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.constant(1.0), lambda: tf.constant(2.0))


def _two_results(x: Any) -> Any:
    a, b = tf.cond(tf.reduce_sum(x) > 0, lambda: (x, x * 2), lambda: (x + 1, x))
    return a + b


def _loop_in_branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0, lambda: _nested(x), lambda: _array(x)[1])


def _branch_in_loop(x: Any) -> Any:
    def body(i: Any, y: Any) -> tuple[Any, Any]:
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * 0.5, lambda: y + tf.cast(i, tf.float32))

    return tf.while_loop(lambda i, _: i < 6, body, [0, x])[1]


def _one_after_another(x: Any) -> Any:
    a = tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x)
    b = tf.cond(tf.reduce_sum(a) > 1, lambda: a - 1, lambda: a * a)
    return tf.cond(tf.reduce_sum(b) > 1, lambda: b - 1, lambda: b * b)


def _swapping(x: Any) -> Any:
    return tf.while_loop(lambda i, *_: i < 3, lambda i, a, b: (i + 1, b, a * 2), [0, x, x + 1])[2]


def _guarded(x: Any) -> Any:
    with tf.control_dependencies([v1.assert_greater(tf.reduce_sum(x * x), 0.0)]):
        return x * 2


def _until_large(x: Any) -> Any:
    def body(i: Any, y: Any) -> tuple[Any, Any]:
        return i + 1, tf.abs(y) * 2 + 1

    return tf.while_loop(lambda _, y: tf.reduce_sum(y) < 100.0, body, [0, x])[0]


def _never_turning(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 0, lambda i, y: (i + 1, y * 2), [0, x])[1]


def _recurrent(x: Any) -> Any:
    """What dynamic_rnn builds: steps read from one TensorArray, states written to another."""
    w = tf.constant(np.random.default_rng(2).normal(size=(6, 8)).astype(np.float32))
    steps = tf.TensorArray(tf.float32, 3).unstack(tf.stack([x, x * 2, x - 1]))

    def body(t: Any, c: Any, h: Any, out: Any) -> tuple[Any, ...]:
        i, j, f, o = tf.split(tf.matmul(tf.concat([steps.read(t), h], 1), w), 4, 1)
        c = c * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return t + 1, c, h, out.write(t, h)

    start = [tf.constant(0), tf.zeros([2, 2]), tf.zeros([2, 2]), tf.TensorArray(tf.float32, 3)]
    return tf.while_loop(lambda t, *_: t < 3, body, start)[3].stack()


NETWORKS: dict[str, Network] = {
    "array": _array,
    "nested": _nested,
    "branch": _branch,
    "branch_in_branch": _branch_in_branch,
    "constants": _constants,
    "two_results": _two_results,
    "loop_in_branch": _loop_in_branch,
    "branch_in_loop": _branch_in_loop,
    "one_after_another": _one_after_another,
    "swapping": _swapping,
    "guarded": _guarded,
    "until_large": _until_large,
    "never_turning": _never_turning,
    "recurrent": _recurrent,
    "map": lambda x: tf.map_fn(lambda r: tf.reduce_sum(r) * r, x),
    "scan": lambda x: tf.scan(lambda a, r: a * 0.5 + r, x),
    "fold": lambda x: tf.foldl(lambda a, r: a + r * a, x),
}


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
