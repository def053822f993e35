"""Models as people had them from 2016 to 2020: from the training graph and its checkpoint to LiteRT and ONNX.

Each is built in a session, trained for a step where it can be, saved with a Saver, and run. thinflow then has
to guess what goes in and out, freeze, optimise and convert it; the numbers must be TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import thinflow
from thinflow.api.converting import convert_verified

v1 = tf.compat.v1


@dataclass
class Model:
    """What a graph computes.

    Attributes:
        feeds: placeholder (or what stands in for one) -> array, for inference.
        outputs: what is asked for.
        step: training operation and its feeds, run once before saving.
        switches: feeds that inference sets for good.
        guessed: whether thinflow finds inputs and outputs alone.
    """

    feeds: Mapping[Any, Any]
    outputs: Sequence[Any]
    step: tuple[Any, Mapping[Any, Any]] | None = None
    switches: Mapping[Any, Any] = field(default_factory=dict)
    guessed: bool = True


def _pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(size=shape).astype(np.float32)


def _weights(name: str, *shape: int) -> Any:
    scale = 1 / np.sqrt(np.prod(shape[:-1]))
    return v1.get_variable(name, shape, initializer=v1.random_normal_initializer(0, scale, seed=7))


def _dense(x: Any, units: int, name: str) -> Any:
    with v1.variable_scope(name):
        product = tf.matmul(x, _weights("weights", int(x.shape[-1]), units))
        return tf.nn.bias_add(product, _weights("biases", units))


def _conv(x: Any, units: int, name: str, stride: int = 1) -> Any:
    with v1.variable_scope(name):
        return v1.nn.conv2d(
            x, _weights("weights", 3, 3, int(x.shape[-1]), units), [1, stride, stride, 1], "SAME"
        )


def _norm(x: Any, training: Any, fused: bool) -> Any:
    """Batch norm of tf.contrib.layers with a placeholder: both modes, under tf.cond, and moving averages."""
    units = int(x.shape[-1])
    with v1.variable_scope("BatchNorm"):
        gamma, beta = (
            v1.get_variable(n, [units], initializer=v1.ones_initializer()) for n in ("gamma", "beta")
        )
        moving = [
            v1.get_variable(n, [units], initializer=v1.ones_initializer(), trainable=False)
            for n in ("moving_mean", "moving_variance")
        ]
        if fused:
            y, *now = v1.cond(
                training,
                lambda: list(v1.nn.fused_batch_norm(x, gamma, beta, is_training=True))[:3],
                lambda: list(v1.nn.fused_batch_norm(x, gamma, beta, *moving, is_training=False))[:3],
            )
        else:
            now = v1.cond(
                training, lambda: list(v1.nn.moments(x, [0, 1, 2])), lambda: [tf.identity(m) for m in moving]
            )
            y = tf.nn.batch_normalization(x, *now, beta, gamma, 1e-3)
        for old, new in zip(moving, now, strict=True):
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(old, (old - new) * 0.1))
    return y


def _train(loss: Any, optimizer: Any) -> Any:
    step = v1.train.get_or_create_global_step()
    with v1.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        operation = optimizer.minimize(loss, global_step=step)
    average = v1.train.ExponentialMovingAverage(0.99, step)
    with v1.control_dependencies([operation]):
        operation = average.apply(v1.trainable_variables())
    v1.summary.scalar("loss", loss)
    v1.summary.merge_all()
    return operation


def _classifier(fused: bool) -> Model:
    x = v1.placeholder(tf.float32, [None, 8, 8, 3], "input")
    training = v1.placeholder(tf.bool, name="is_training")
    keep = v1.placeholder(tf.float32, name="Placeholder_7")
    labels = v1.placeholder(tf.int64, [None], "labels")
    h = x
    for number in range(2):
        with v1.variable_scope(f"Net/Conv_{number}"):
            h = tf.nn.relu6(_norm(_conv(h, 4, "Conv", 2), training, fused))
    h = v1.nn.dropout(tf.reduce_mean(h, [1, 2]), keep_prob=keep)
    logits = _dense(h, 5, "Logits")
    answer = tf.nn.softmax(logits, name="Predictions")
    loss = tf.reduce_mean(v1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    step = _train(loss, v1.train.MomentumOptimizer(0.01, 0.9))
    learning = {x: _pixels(3, 8, 8, 3), training: True, keep: 0.5, labels: [0, 1, 2]}
    switches = {training: False, keep: 1.0}
    return Model({x: _pixels(1, 8, 8, 3)}, [answer], (step, learning), switches)


def _queue() -> Model:
    names = v1.train.string_input_producer(["nowhere.tfrecord"])
    _, record = v1.TFRecordReader().read(names)
    parsed = v1.parse_single_example(record, {"image": v1.FixedLenFeature([], tf.string)})
    image = tf.reshape(tf.cast(v1.decode_raw(parsed["image"], tf.uint8), tf.float32) / 255, [8, 8, 3])
    images = v1.train.shuffle_batch([image], 1, 10, 5, name="batch")
    h = tf.nn.relu(_conv(images, 4, "conv", 2))
    pooled = tf.nn.local_response_normalization(h, 2)
    return Model(
        {images: _pixels(1, 8, 8, 3)},
        [tf.nn.softmax(_dense(tf.reshape(pooled, [1, 64]), 3, "fc"), name="probs")],
    )


def _iterator() -> Model:
    data = tf.data.Dataset.from_tensor_slices((_pixels(6, 4), np.arange(6) % 3)).repeat().batch(2)
    features, labels = v1.data.make_one_shot_iterator(data).get_next()
    logits = _dense(tf.nn.elu(_dense(features, 6, "h")), 3, "out")
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    answer = tf.nn.softmax(logits, name="pred")
    return Model({features: _pixels(1, 4)}, [answer], (_train(loss, v1.train.AdagradOptimizer(0.1)), {}))


def _lstm() -> Model:
    """A hand-written dynamic_rnn whose last state is used: the outputs of all steps are left over."""
    x = v1.placeholder(tf.float32, [1, 5, 3], "seq")
    steps = tf.transpose(x, [1, 0, 2])
    kernel, bias = _weights("kernel", 7, 16), _weights("bias", 16)
    read, write = (tf.TensorArray(tf.float32, 5) for _ in range(2))
    read = read.unstack(steps)

    def body(t: Any, c: Any, h: Any, out: Any) -> tuple[Any, ...]:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([read.read(t), h], 1), kernel), bias)
        i, j, f, o = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(f + 1) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return t + 1, c, h, out.write(t, h)

    zero = tf.zeros([1, 4])
    _, _, h, out = v1.while_loop(lambda t, *_: t < 5, body, [0, zero, zero, write])
    tf.transpose(out.stack(), [1, 0, 2])
    answer = tf.nn.softmax(_dense(h, 3, "proj"), name="probs")
    loss = v1.losses.sparse_softmax_cross_entropy(np.array([1]), answer)
    step = _train(loss, v1.train.AdamOptimizer(0.01))
    return Model({x: _pixels(1, 5, 3)}, [answer], (step, {x: _pixels(1, 5, 3)}), guessed=False)


def _references_in_loops() -> Model:
    x = v1.placeholder(tf.float32, [1, 4], "x")
    w, b = _weights("w", 4, 4), _weights("b", 4)

    def body(i: Any, h: Any) -> tuple[Any, Any]:
        h = tf.tanh(tf.matmul(h, w) + b)
        return i + 1, v1.cond(tf.reduce_sum(h) > 0, lambda: h * b, lambda: h - w[0])

    _, h = v1.while_loop(lambda i, h: i < 4, body, [tf.constant(0), x])
    return Model({x: _pixels(1, 4)}, [tf.identity(h, "result")])


def _style() -> Model:
    x = v1.placeholder(tf.float32, [1, 8, 8, 3], "image")
    h = _conv(tf.pad(x, [[0, 0], [2, 2], [2, 2], [0, 0]], "REFLECT"), 4, "down", 2)
    mean, variance = v1.nn.moments(h, [1, 2], keepdims=True)
    h = tf.nn.relu((h - mean) * v1.rsqrt(variance + 1e-3))
    h = v1.nn.conv2d_transpose(h, _weights("up", 3, 3, 3, 4), [1, 12, 12, 3], [1, 2, 2, 1], "SAME")
    return Model({x: _pixels(1, 8, 8, 3)}, [tf.nn.tanh(h, name="stylized")])


def _partitions() -> Model:
    ids = v1.placeholder(tf.int64, [1, 3], "ids")
    with v1.variable_scope("emb", partitioner=v1.fixed_size_partitioner(3)):
        table = v1.get_variable("table", [11, 4], initializer=v1.random_normal_initializer(seed=1))
    rows = tf.reduce_sum(v1.nn.embedding_lookup(table, ids, partition_strategy="div"), 1)
    return Model({ids: np.array([[1, 5, 10]])}, [tf.nn.softmax(_dense(rows, 3, "o"), name="probs")])


MODELS: dict[str, Callable[[], Model]] = {
    "fused norm": lambda: _classifier(fused=True),
    "unfused norm": lambda: _classifier(fused=False),
    "queue": _queue,
    "iterator": _iterator,
    "lstm": _lstm,
    "references in loops": _references_in_loops,
    "style": _style,
    "partitions": _partitions,
}


@dataclass
class Saved:
    """A model on disk, with TensorFlow's numbers."""

    meta: str
    frozen: Path
    model: Model
    names: list[str]
    feeds: dict[str, np.ndarray]
    expected: list[np.ndarray]


@pytest.fixture(scope="module", params=MODELS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    folder = tmp_path_factory.mktemp("tf1")
    was = v1.resource_variables_enabled(), v1.control_flow_v2_enabled()
    v1.disable_resource_variables()
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph, v1.Session() as session:
            model = MODELS[request.param]()
            session.run(v1.global_variables_initializer())
            if model.step is not None:
                session.run(model.step[0], dict(model.step[1]))
            expected = session.run(list(model.outputs), {**model.feeds, **model.switches})
            prefix = v1.train.Saver(v1.global_variables()).save(session, str(folder / "model.ckpt"), 1)
            names = [o.op.name for o in model.outputs]
            content = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
            (folder / "frozen.pb").write_bytes(content.SerializeToString())
            feeds = {k.name: np.asarray(v) for k, v in model.feeds.items()}
    finally:
        if was[0]:
            v1.enable_resource_variables()
        if was[1]:
            v1.enable_control_flow_v2()
    return Saved(f"{prefix}.meta", folder / "frozen.pb", model, names, feeds, expected)


def _check(found: Sequence[np.ndarray], saved: Saved, tolerance: float = 1e-4) -> None:
    for ours, theirs in zip(found, saved.expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * float(np.abs(theirs).max()))


def test_inputs_and_outputs_are_guessed(saved: Saved) -> None:
    guess = thinflow.summarize(saved.meta).interface
    inputs = {v.name for v in guess.chosen_inputs} - {s.op.name for s in saved.model.switches}
    assert inputs == {name.removesuffix(":0") for name in saved.feeds}
    outputs = [v.name for v in guess.chosen_outputs]
    assert outputs == saved.names if saved.model.guessed else outputs[: len(saved.names)] == saved.names


def test_freezing_gives_the_same_numbers(saved: Saved, tmp_path: Path) -> None:
    from thinflow.load.graphs import load_for_inference

    inputs = [name.removesuffix(":0") for name in saved.feeds]
    for source in (saved.meta, saved.frozen):
        graph, _ = load_for_inference(source, inputs=inputs, outputs=saved.names)
        _check(thinflow.Session(graph, engine="reference").run(saved.names, saved.feeds), saved)


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_converting_gives_the_same_numbers(saved: Saved, tmp_path: Path, suffix: str) -> None:
    if suffix == "onnx":
        pytest.importorskip("onnxruntime")
    path = tmp_path / f"m.{suffix}"
    inputs = [name.removesuffix(":0") for name in saved.feeds]
    convert_verified(saved.frozen, path, inputs=inputs, outputs=saved.names)
    session = thinflow.Session(path)
    if set(session.outputs) != set(saved.names) or set(session.inputs) != set(inputs):
        pytest.skip(f"holds a part only: {session.inputs} to {session.outputs}")
    _check(session.run(saved.names, saved.feeds), saved, 1e-3)


def test_the_optimised_graph_runs_in_tensorflow(saved: Saved, tmp_path: Path) -> None:
    inputs = [name.removesuffix(":0") for name in saved.feeds]
    report = thinflow.optimize(
        saved.frozen, tmp_path, inputs=inputs, outputs=saved.names, measure=False, samples=4
    )
    content = report.files["fp32_pb"].read_bytes()
    with tf.Graph().as_default(), v1.Session() as session:
        v1.import_graph_def(v1.GraphDef.FromString(content), name="")
        found = session.run([f"{name}:0" for name in saved.names], saved.feeds)
    _check(found, saved)
