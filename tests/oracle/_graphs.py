"""GraphDefs with what the scripts for frozen graphs look for, in files as people keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
PICTURES = np.random.default_rng(1).normal(size=(2, 8, 8, 3)).astype(np.float32)


def write_graphs(folder: Path) -> None:
    """`g` with batch norms, checks, switches and padding; `func` with a call; broken or odd kin of `g`."""
    message = _network()
    (folder / "g.pb").write_bytes(message.SerializeToString())
    (folder / "g.pbtxt").write_text(str(message))
    broken, twice, custom = (v1.GraphDef() for _ in range(3))
    for other in (broken, twice, custom):
        other.CopyFrom(message)
    broken.node[-1].input.append("absent")
    twice.node.add().CopyFrom(message.node[0])
    custom.node.add(name="my", op="MyOp")
    for name, other in (("broken", broken), ("twice", twice), ("custom", custom)):
        (folder / f"{name}.pb").write_bytes(other.SerializeToString())
    (folder / "func.pb").write_bytes(_calling().SerializeToString())
    (folder / "empty.pb").write_bytes(b"")


def _network() -> Any:
    random = np.random.default_rng(0)
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 8, 8, 3], name="x")
        v1.placeholder_with_default(False, [], name="keras_learning_phase")
        phase = v1.placeholder(tf.bool, [], name="phase_train")
        w = tf.constant(random.normal(size=(3, 3, 3, 4)).astype(np.float32), name="w")
        conv = tf.nn.conv2d(x, w, strides=1, padding="SAME", name="conv")
        four = [tf.constant(random.uniform(0.5, 2, 4).astype(np.float32)) for _ in range(4)]
        norm, _, _ = v1.nn.fused_batch_norm(conv, *four, is_training=False, name="bn")
        kept = tf.identity(tf.stop_gradient(tf.nn.relu(norm, name="relu"), name="stop"), name="ident")
        flat = tf.reshape(v1.where(phase, kept * 2.0, kept, name="sel"), [-1, 256], name="flat")
        w2 = tf.constant(random.normal(size=(256, 5)).astype(np.float32) / 16, name="w2")
        y = tf.matmul(flat, w2, name="mm")
        tf.nn.softmax(y, name="out")
        _, second = tf.split(y, [2, 3], axis=1, name="split")
        tf.nn.relu(second, name="z")
        v1.debugging.check_numerics(x, "x", name="check")
        codes = v1.placeholder(tf.uint8, [4], name="u")
        tf.add(tf.cast(codes, tf.float32), 1.0, name="u1")
        _padded(x, w)
        unknown = v1.placeholder(tf.float32, None, name="un")
        tf.identity(unknown * 2.0, name="cc")
        v1.accumulate_n([unknown, unknown], name="acc")
        return graph.as_graph_def()


def _padded(x: Any, w: Any) -> None:
    padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT", name="mp")
    tf.nn.conv2d(padded, w, strides=1, padding="VALID", name="pc")
    resized = v1.image.resize_bilinear(x, [16, 16], name="rs")
    tf.nn.conv2d(resized, w, strides=1, padding="VALID", name="rc")


def _calling() -> Any:
    function = tf.function(lambda t: tf.nn.relu(t) * 2).get_concrete_function(tf.TensorSpec([2]))
    with tf.Graph().as_default() as graph:
        t = v1.placeholder(tf.float32, [2], name="t")
        tf.identity(function(t), name="fo")
        return graph.as_graph_def()


def read_graph(path: Path) -> Any:
    """The GraphDef of a file, binary or text."""
    from google.protobuf import text_format

    content = path.read_bytes()
    if content.startswith(b"node {"):
        return text_format.Parse(content.decode(), v1.GraphDef())
    return v1.GraphDef.FromString(content)


def values_of(message: Any, outputs: list[str], feeds: dict[str, Any]) -> list[Any]:
    """What TensorFlow computes of a graph."""
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.import_graph_def(message, name="")
        fed = {f"{name}:0": array for name, array in feeds.items()}
        return list(session.run([f"{name}:0" for name in outputs], fed))
