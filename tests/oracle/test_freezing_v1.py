"""Models of TensorFlow 1: savers of both versions, partitions, averages, loops, SavedModels of sessions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import thinflow
from tests.checkpoints import write_checkpoint
from tests.oracle._freezing import assert_same, frozen_in_tensorflow
from thinflow.formats.checkpoint import open_checkpoint
from thinflow.ir.tensor import Tensor

v1 = tf.compat.v1
RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 4)).astype(np.float32)
Network = Callable[[Any, bool], Any]


def _variable(name: str, shape: list[int], resource: bool, **options: Any) -> Any:
    start = v1.initializers.random_normal(seed=len(name))
    return v1.get_variable(name, shape, initializer=start, use_resource=resource, **options)


def _dense(x: Any, resource: bool) -> Any:
    w, b = _variable("w", [4, 3], resource), _variable("b", [3], resource)
    return tf.nn.softmax(tf.matmul(x, w) + b)


def _partitioned(x: Any, resource: bool) -> Any:
    with v1.variable_scope("net", partitioner=v1.fixed_size_partitioner(3, axis=0)):
        w = _variable("w", [4, 5], resource)
        table = _variable("table", [7, 5], resource)
    rows = tf.nn.embedding_lookup(table, [1, 6, 3])
    return tf.matmul(tf.matmul(x, w), tf.transpose(rows))


def _loop(x: Any, resource: bool) -> Any:
    w, b = _variable("w", [4, 4], resource), _variable("b", [4], resource)

    def body(i: Any, y: Any) -> tuple[Any, Any]:
        return i + 1, tf.tanh(tf.matmul(y, w) + b)

    return tf.while_loop(lambda i, _: i < 3, body, [tf.constant(0), x])[1]


def _condition(x: Any, resource: bool) -> Any:
    w, b = _variable("w", [4, 4], resource), _variable("b", [4], resource)
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, w), lambda: x - b)


def _nested(x: Any, resource: bool) -> Any:
    """A condition in a loop, both of which read variables."""
    w, b = _variable("w", [4, 4], resource), _variable("b", [4], resource)

    def body(i: Any, y: Any) -> tuple[Any, Any]:
        return i + 1, tf.cond(i > 1, lambda: tf.tanh(tf.matmul(y, w)), lambda: y + b)

    return tf.while_loop(lambda i, _: i < 4, body, [tf.constant(0), x])[1]


def _recurrent(x: Any, resource: bool) -> Any:
    w, b = _variable("kernel", [6, 8], resource), _variable("bias", [8], resource)
    state = tf.zeros([2, 2]), tf.zeros([2, 2])
    steps = tf.TensorArray(tf.float32, 3).unstack(tf.stack([x, x * 2, x - 1]))
    found = tf.TensorArray(tf.float32, 3)

    def body(t: Any, c: Any, h: Any, out: Any) -> tuple[Any, ...]:
        i, j, f, o = tf.split(tf.matmul(tf.concat([steps.read(t), h], 1), w) + b, 4, 1)
        c = c * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
        return t + 1, c, h, out.write(t, h)

    done = tf.while_loop(lambda t, *_: t < 3, body, [tf.constant(0), *state, found])
    return done[3].stack()


def _gathered(x: Any, resource: bool) -> Any:
    table = _variable("table", [5, 4], resource)
    return x + tf.gather(table, [1, 4]) + tf.gather_nd(table, [[0], [2]])


NETWORKS: dict[str, Network] = {
    f.__name__.strip("_"): f
    for f in (_dense, _partitioned, _loop, _condition, _nested, _recurrent, _gathered)
}


@pytest.fixture(autouse=True)
def as_in_version_1() -> Any:
    """Variables that are references, and control flow of Enter and Switch."""
    was = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    yield
    if was:
        v1.enable_control_flow_v2()


def trained(network: Network, folder: Path, resource: bool, version: int) -> Any:
    """Build, initialise and save a network: graph.pb, model.ckpt-1 and its .meta. Returns its answer."""
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [2, 4], name="x")
        y = tf.identity(network(x, resource), name="y")
        loss = tf.reduce_sum(y)
        if network not in (_nested, _recurrent):
            v1.train.AdamOptimizer().minimize(loss, v1.train.get_or_create_global_step())
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver(write_version=version)
        saver.save(session, str(folder / "model.ckpt"), global_step=1)
        v1.train.write_graph(graph, str(folder), "graph.pb", as_text=False)
        return session.run(y, {x: X})


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("name", NETWORKS)
def test_savers(name: str, resource: bool, version: int, tmp_path: Path) -> None:
    expected = {"y": trained(NETWORKS[name], tmp_path, resource, version)}
    roads = {
        "meta": lambda: thinflow.freeze(tmp_path / "model.ckpt-1.meta", ["y"]),
        "graph": lambda: thinflow.freeze(
            tmp_path / "graph.pb", ["y"], checkpoint=f"{tmp_path}@latest", inputs=["x"]
        ),
    }
    for road, opened in roads.items():
        graph = opened()
        assert_same(thinflow.run(graph, {"x": X}, ["y"], engine="reference"), expected)
        thinflow.save(graph, tmp_path / f"{road}.pb")
        assert_same(frozen_in_tensorflow(tmp_path / f"{road}.pb", {"x": X}, {"y": "y"}), expected)
    assert [v.name for v in thinflow.load(tmp_path / "model.ckpt-1.meta").outputs] == ["y"]


def test_averages(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [2, 4], name="x")
        w = _variable("w", [4, 3], False)
        y = tf.matmul(x, w, name="y")
        average = tf.train.ExponentialMovingAverage(0.5)
        with tf.control_dependencies([v1.assign_add(w, tf.ones([4, 3]))]):
            step = average.apply([w])
        session.run(v1.global_variables_initializer())
        session.run(step)
        v1.train.Saver().save(session, str(tmp_path / "model"))
        plain, shadow = session.run([y, tf.matmul(x, average.average(w))], {x: X})
    for averages, expected in ((False, plain), (True, shadow)):
        frozen = thinflow.freeze(tmp_path / "model.meta", ["y"], averages=averages)
        assert_same(thinflow.run(frozen, {"x": X}, ["y"]), {"y": expected})


def test_a_saver_that_restores_averages(tmp_path: Path) -> None:
    """What the restore operations say counts, not the names."""
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        w = _variable("w", [4, 3], False)
        average = tf.train.ExponentialMovingAverage(0.5)
        with tf.control_dependencies([v1.assign_add(w, tf.ones([4, 3]))]):
            step = average.apply([w])
        session.run(v1.global_variables_initializer())
        session.run(step)
        v1.train.Saver().save(session, str(tmp_path / "trained"))
        shadow = session.run(average.average(w))
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 4], name="x")
        w = _variable("w", [4, 3], False)
        tf.matmul(x, w, name="y")
        v1.train.Saver({"w/ExponentialMovingAverage": w})
        v1.train.write_graph(graph, str(tmp_path), "graph.pb", as_text=False)
    frozen = thinflow.freeze(tmp_path / "graph.pb", ["y"], checkpoint=tmp_path / "trained")
    assert_same(thinflow.run(frozen, {"x": X}, ["y"]), {"y": X @ shadow})


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_a_saved_model_of_a_session(resource: bool, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("no\nyes\n")
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        word = v1.placeholder(tf.string, [None], name="word")
        y = _dense(x, resource)
        initializer = tf.lookup.TextFileInitializer(
            str(words), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER,
        )  # fmt: skip
        table = tf.lookup.StaticHashTable(initializer, -1)
        number = table.lookup(word)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        builder = v1.saved_model.Builder(str(tmp_path / "export"))
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def(
            {"image": info(x), "word": info(word)}, {"scores": info(y), "number": info(number)}, "predict"
        )
        builder.add_meta_graph_and_variables(
            session, ["serve", "cpu"], {"classify": signature},
            assets_collection=graph.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )  # fmt: skip
        builder.add_meta_graph(["train"], {"classify": signature})
        builder.save()
        feeds = {"image": X, "word": np.array([b"yes", b"what"], object)}
        values = session.run([number, y], {x: X, word: feeds["word"]})
        expected = dict(zip(("number", "scores"), values, strict=True))
    words.unlink()
    frozen = thinflow.load(tmp_path / "export", tags="cpu,serve", signature="classify")
    assert [v.name for v in frozen.inputs] == ["image", "word"]
    assert_same(thinflow.run(frozen, feeds, ["number", "scores"], engine="reference"), expected)
    thinflow.save(frozen, tmp_path / "frozen.pb")
    names = {name: name for name in expected}
    assert_same(frozen_in_tensorflow(tmp_path / "frozen.pb", feeds, names), expected)


def test_a_table_that_a_saver_keeps(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        keys = v1.placeholder(tf.int64, [None], name="keys")
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, -1.0, name="kept")
        y = tf.identity(table.lookup(keys), name="y")
        session.run(table.insert(tf.constant([3, 5], tf.int64), tf.constant([0.3, 0.5])))
        saver = v1.train.Saver([v1.get_variable("unused", [1]), *v1.get_collection("saveable_objects")])
        session.run(v1.global_variables_initializer())
        saver.save(session, str(tmp_path / "model"))
        feeds = {"keys": np.array([5, 4], np.int64)}
        expected = {"y": session.run(y, {keys: feeds["keys"]})}
    assert [str(v.name) for v in graph.get_operations() if "Table" in v.type]
    frozen = thinflow.freeze(tmp_path / "model.meta", ["y"])
    assert_same(thinflow.run(frozen, feeds, ["y"]), expected)


def test_a_table_in_a_meta_graph(tmp_path: Path) -> None:
    """What fills it is in a collection."""
    with tf.Graph().as_default(), v1.Session() as session:
        keys = v1.placeholder(tf.string, [None], name="keys")
        content = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
        y = tf.identity(tf.lookup.StaticHashTable(content, -1).lookup(keys), name="y")
        v1.get_variable("unused", [1])
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        v1.train.Saver().save(session, str(tmp_path / "model"))
        feeds = {"keys": np.array([b"b", b"c"], object)}
        expected = {"y": session.run(y, {keys: feeds["keys"]})}
    frozen = thinflow.freeze(tmp_path / "model.meta", ["y"])
    assert_same(thinflow.run(frozen, feeds, ["y"]), expected)


_NEW = [tf.dtypes.experimental.float8_e5m2, tf.dtypes.experimental.float8_e4m3fn]
_NEW += [tf.dtypes.experimental.int4, tf.dtypes.experimental.uint4]
KINDS = [
    *(tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8),
    *(tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.string, tf.qint8, tf.quint8),
    *(tf.qint16, tf.quint16, tf.qint32, *_NEW),
]


def _example(kind: Any) -> np.ndarray[Any, Any]:
    if kind == tf.string:
        return np.array([[b"", b"a"], [b"bc", b"\xff" * 300]], object)
    plain = {tf.qint8: "i1", tf.quint8: "u1", tf.qint16: "i2", tf.quint16: "u2", tf.qint32: "i4"}.get(kind)
    return np.array([[0, 1], [1, 3]]).astype(plain or kind.as_numpy_dtype)


def _read_raw(prefix: str, name: str, kind: Any) -> np.ndarray[Any, Any]:
    """What TensorFlow's restore operation reads, as plain numbers."""
    value = tf.raw_ops.RestoreV2(
        prefix=prefix, tensor_names=[name], shape_and_slices=[""], dtypes=[kind]
    )[0]  # fmt: skip
    return np.asarray(value.numpy())


def test_tensorflow_reads_our_checkpoints(tmp_path: Path) -> None:
    values = {kind.name: _example(kind) for kind in KINDS if not kind.is_quantized}
    values["empty"], values["scalar"] = np.zeros((0, 3), np.float32), np.float32(3)
    tensors = {name: Tensor.from_array(value) for name, value in values.items()}
    write_checkpoint(tmp_path / "ours", tensors)
    kinds = {kind.name: kind for kind in KINDS} | {"empty": tf.float32, "scalar": tf.float32}
    for name, value in values.items():
        found = _read_raw(str(tmp_path / "ours"), name, kinds[name])
        assert found.shape == np.shape(value), name
        assert found.tolist() == np.asarray(value).tolist(), name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_we_read_tensorflows_checkpoints(kind: Any, tmp_path: Path) -> None:
    value = _example(kind)
    if kind.is_quantized:
        tensor = tf.bitcast(tf.constant(value), kind)
    else:
        tensor = tf.constant(value.tolist(), kind) if kind == tf.string else tf.constant(value, kind)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "theirs"), tensor_names=["x"], shape_and_slices=[""], tensors=[tensor]
    )
    found = open_checkpoint(tmp_path / "theirs")["x"]
    assert found.dtype.number == kind.as_datatype_enum
    assert found.numpy().tolist() == value.tolist()
