"""Frozen graphs made by TensorFlow, with seeded random weights: Keras networks, TF1 graphs, TF2 functions."""

from __future__ import annotations

import contextlib
import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import (
    convert_variables_to_constants_v2_as_graph,
)

import thinflow
from thinflow.analysis.shapes import placeholder_spec
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph
from thinflow.zoo import build

Array = np.ndarray[Any, Any]
Spec = tuple[tuple[int | None, ...], np.dtype[Any]]

tf.config.threading.set_intra_op_parallelism_threads(2)


@dataclass(frozen=True)
class Frozen:
    """A GraphDef and what to feed and fetch.

    Attributes:
        inputs: placeholder -> shape and dtype to feed.
        outputs: names of the nodes to fetch.
    """

    graph_def: Any
    inputs: dict[str, Spec]
    outputs: tuple[str, ...]

    def feeds(self, seed: int = 0) -> dict[str, Array]:
        """Seeded numbers by input name: uniform in [-1, 1] for floats, 0 or 1 otherwise."""
        random = np.random.default_rng(seed)
        return {name: _numbers(random, *spec) for name, spec in self.inputs.items()}

    def graph(self) -> Graph:
        """The same graph in thinflow, with inputs and outputs set."""
        return to_graph(self.graph_def.SerializeToString(), self.inputs, self.outputs)

    def run(self, seed: int = 0) -> list[Array]:
        """What TensorFlow computes for `feeds(seed)`."""
        return run_in_tensorflow(self.graph_def, self.feeds(seed), self.outputs)


def _numbers(random: np.random.Generator, shape: tuple[int | None, ...], kind: np.dtype[Any]) -> Array:
    sizes = [2 if size is None else size for size in shape]
    if kind.kind == "f":
        return np.asarray(random.uniform(-1, 1, sizes), kind)
    return np.asarray(random.integers(0, 2, sizes), kind)


def to_graph(content: bytes, inputs: Sequence[str] | dict[str, Spec], outputs: Sequence[str]) -> Graph:
    """A GraphDef's bytes as a Graph with inputs and outputs set."""
    return thinflow.load(graphdef.from_bytes(memoryview(content)), inputs=list(inputs), outputs=list(outputs))


def to_message(graph: Graph) -> Any:
    """What TensorFlow reads from the bytes thinflow writes."""
    return tf.compat.v1.GraphDef.FromString(graphdef.to_bytes(graph))


def run_in_tensorflow(graph_def: Any, feeds: dict[str, Array], outputs: Sequence[str]) -> list[Array]:
    """Import and run; feeds for inputs the graph no longer has are left out.

    TensorFlow's own optimiser is off, so that what runs is what was imported.
    """
    names = {node.name for node in graph_def.node}
    options = tf.compat.v1.ConfigProto(graph_options=tf.compat.v1.GraphOptions())
    options.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph, config=options) as session:
            present = {_port(name): x for name, x in feeds.items() if name.split(":")[0] in names}
            return [np.asarray(x) for x in session.run([_port(name) for name in outputs], present)]


def _port(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def freeze(
    function: Callable[..., Any], specs: dict[str, Spec], *, lower_control_flow: bool = True
) -> Frozen:
    """A TF2 function as a frozen GraphDef."""
    signature = [tf.TensorSpec(shape, kind, name=name) for name, (shape, kind) in specs.items()]
    concrete = tf.function(function, autograph=False).get_concrete_function(*signature)
    frozen, graph_def = convert_variables_to_constants_v2_as_graph(
        concrete, lower_control_flow=lower_control_flow
    )
    outputs = tuple(t.name.split(":")[0] for t in frozen.outputs)
    return Frozen(graph_def, specs, outputs)


KERAS: dict[str, tuple[Callable[..., Any], int, dict[str, Any]]] = {
    "mobilenet": (tf.keras.applications.MobileNet, 224, {}),
    "mobilenet_small": (tf.keras.applications.MobileNet, 96, {"alpha": 0.25, "classes": 10}),
    "mobilenet_v2": (tf.keras.applications.MobileNetV2, 96, {}),
    "mobilenet_v2_small": (tf.keras.applications.MobileNetV2, 96, {"alpha": 0.35, "classes": 10}),
    "resnet50_v2": (tf.keras.applications.ResNet50V2, 96, {}),
    # Without the softmax: behind it, logits of this size leave one class and rounding errors.
    "inception_v3": (tf.keras.applications.InceptionV3, 96, {"classifier_activation": None}),
}
"""Name -> network, the height and width of its images, and what else it takes."""


@functools.cache
def keras(name: str, size: int | None = None, *, fused_norms: bool = True) -> Frozen:
    """A Keras network, batch 1, the same in every run. Its norms hold the statistics of its own activations.

    Args:
        name: a key of `KERAS`.
        size: height and width; default: what `KERAS` says.
        fused_norms: norms as FusedBatchNormV3, as Keras 2 wrote them, not spelled out in Mul, Sub and Rsqrt.
    """
    network, usual, options = KERAS[name]
    size = size or usual
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(zlib.crc32(name.encode()))
    model = network(weights=None, input_shape=(size, size, 3), **options)
    _settle_norms(model, size)
    spec: Spec = ((1, size, size, 3), np.dtype(np.float32))
    norm = tf.keras.layers.BatchNormalization
    with mock.patch.object(norm, "call", _fused_norm if fused_norms else norm.call):
        return freeze(lambda x: model(x, training=False), {"x": spec})


def _fused_norm(self: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:
    scale = tf.ones_like(self.beta) if self.gamma is None else tf.convert_to_tensor(self.gamma)
    y, _, _ = tf.compat.v1.nn.fused_batch_norm(
        inputs,
        scale,
        tf.convert_to_tensor(self.beta),
        tf.convert_to_tensor(self.moving_mean),
        tf.convert_to_tensor(self.moving_variance),
        epsilon=self.epsilon,
        is_training=False,
    )
    return y


def _settle_norms(model: Any, size: int) -> None:
    """Give each norm random factors and the statistics of what reaches it, so that a wrong fold shows."""
    random = np.random.default_rng(3)
    norms = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    for layer in norms:
        layer.momentum = 0.0
        channels = int(layer.moving_mean.shape[0])
        layer.beta.assign(random.uniform(-0.3, 0.3, channels))
        if layer.gamma is not None:
            layer.gamma.assign(random.uniform(0.7, 1.3, channels))
    model(random.uniform(-1, 1, (4, size, size, 3)).astype(np.float32), training=True)


# --- TensorFlow 1 ---


def _tf1(build: Callable[[], Any]) -> Frozen:
    """A TF1 graph with its variables frozen. `build` returns the outputs; the placeholders are the inputs."""
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, _control_flow_v1():
        v1.set_random_seed(7)
        outputs = build()
        names = [t.op.name for t in outputs]
        with v1.Session(graph=graph) as session:
            session.run(v1.global_variables_initializer())
            graph_def = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
        inputs = {
            op.name: (tuple(op.outputs[0].shape.as_list()), np.dtype(op.outputs[0].dtype.as_numpy_dtype))
            for op in graph.get_operations()
            if op.type == "Placeholder"
        }
    return Frozen(graph_def, inputs, tuple(names))


@contextlib.contextmanager
def _control_flow_v1() -> Iterator[None]:
    """Switch, Merge, Enter and so on, as TF1 files have them."""
    was_on = tf.compat.v1.control_flow_v2_enabled()
    tf.compat.v1.disable_control_flow_v2()
    try:
        yield
    finally:
        if was_on:
            tf.compat.v1.enable_control_flow_v2()


def _variable(name: str, *shape: int, low: float = -0.5, high: float = 0.5) -> Any:
    numbers = np.random.default_rng(zlib.crc32(name.encode())).uniform(low, high, shape).astype(np.float32)
    return tf.compat.v1.get_variable(name, initializer=tf.constant(numbers), use_resource=False)


def _tf1_norms() -> Any:
    """Two convolutions with norms, one over a shared tensor, a concat, and a matrix product."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, (1, 12, 12, 3), "image")
    y = tf.nn.conv2d(x, _variable("w1", 3, 3, 3, 8), 1, "SAME", name="conv1")
    y, _, _ = v1.nn.fused_batch_norm(
        y,
        _variable("gamma", 8, low=0.5, high=1.5),
        _variable("beta", 8),
        _variable("mean", 8),
        _variable("variance", 8, low=0.5, high=1.5),
        is_training=False,
    )
    y = tf.nn.relu(y)
    left = tf.nn.conv2d(y, _variable("w2", 1, 1, 8, 4), 1, "SAME") * _variable("factor", 4, low=0.5, high=1.5)
    right = tf.nn.depthwise_conv2d(y, _variable("w3", 3, 3, 8, 1), (1, 1, 1, 1), "SAME")
    right = v1.nn.batch_normalization(
        right, _variable("m", 8), _variable("v", 8, low=0.5, high=1.5), None, None, 1e-3
    )
    y = tf.reshape(tf.concat([tf.identity(left), right], 3), (1, -1))
    y = tf.linalg.matmul(y, _variable("w4", 12 * 12 * 12, 10), name="logits")
    return [tf.nn.softmax(y, name="softmax"), v1.check_numerics(y, "not finite", name="checked")]


def _tf1_loop() -> Any:
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, (2, 4), "x")
    w = _variable("w", 4, 4)
    again = lambda i, y: i < 5  # noqa: E731
    _, y = v1.while_loop(
        again, lambda i, y: (i + 1, tf.tanh(tf.linalg.matmul(y, w) + x)), (tf.constant(0), x)
    )
    return [tf.identity(y, name="y")]


def _tf1_choice() -> Any:
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, (2, 4), "x")
    positive = v1.placeholder(tf.bool, (), "positive")
    w = _variable("w", 4, 4)
    y = v1.cond(positive, lambda: tf.linalg.matmul(x, w), lambda: tf.nn.relu(x) - 1.0)
    return [tf.identity(y, name="y")]


def _tf1_dropout() -> Any:
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, (2, 16), "x")
    y = tf.nn.relu(tf.linalg.matmul(x, _variable("w", 16, 16)) + _variable("b", 16))
    y = v1.nn.dropout(y, rate=tf.constant(0.0))
    y = tf.linalg.matmul(y, _variable("w2", 16, 4))
    return [tf.nn.softmax(y, name="y")]


# --- TensorFlow 2 ---


def _tf2_loop(lowered: bool) -> Frozen:
    w = tf.Variable(np.random.default_rng(5).uniform(-0.5, 0.5, (4, 4)).astype(np.float32))

    def function(x: Any) -> Any:
        _, y = tf.while_loop(
            lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y @ w + x)), (tf.constant(0), x)
        )
        return y

    return freeze(function, {"x": ((2, 4), np.dtype(np.float32))}, lower_control_flow=lowered)


def _tf2_choice(lowered: bool) -> Frozen:
    w = tf.Variable(np.random.default_rng(5).uniform(-0.5, 0.5, (4, 4)).astype(np.float32))

    def function(x: Any, positive: Any) -> Any:
        return tf.cond(positive, lambda: x @ w, lambda: tf.nn.relu(x) - 1.0)

    specs = {"x": ((2, 4), np.dtype(np.float32)), "positive": ((), np.dtype(np.bool_))}
    return freeze(function, specs, lower_control_flow=lowered)


SMALL: dict[str, Callable[[], Frozen]] = {
    "tf1_norms": functools.cache(lambda: _tf1(_tf1_norms)),
    "tf1_loop": functools.cache(lambda: _tf1(_tf1_loop)),
    "tf1_choice": functools.cache(lambda: _tf1(_tf1_choice)),
    "tf1_dropout": functools.cache(lambda: _tf1(_tf1_dropout)),
    "tf2_loop": functools.cache(lambda: _tf2_loop(False)),
    "tf2_loop_lowered": functools.cache(lambda: _tf2_loop(True)),
    "tf2_choice": functools.cache(lambda: _tf2_choice(False)),
    "tf2_choice_lowered": functools.cache(lambda: _tf2_choice(True)),
}
"""Small graphs by name, each built on first use."""


@functools.cache
def zoo(name: str) -> Frozen:
    """A sample network of thinflow's own."""
    graph = build(name)
    specs = {v.name: _spec_of(v) for v in graph.inputs}
    return Frozen(to_message(graph), specs, tuple(v.name for v in graph.outputs))


def _spec_of(value: Any) -> Spec:
    spec = placeholder_spec(value.node)
    return tuple(1 if size is None else size for size in spec.shape), np.dtype(spec.dtype.numpy())


def get(name: str) -> Frozen:
    """A graph by name: small, Keras or `zoo:NAME`; `keras3:NAME` has its norms spelled out."""
    if name in SMALL:
        return SMALL[name]()
    if name.startswith("zoo:"):
        return zoo(name.removeprefix("zoo:"))
    return keras(name.removeprefix("keras3:"), fused_norms=not name.startswith("keras3:"))
