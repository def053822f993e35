"""Embedding bags, ragged rows, counted numbers and tables of text become whole files.

Each file is run by its own runtime, at a batch of one and of three and with rows without any value, and gives
TensorFlow's answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from thinflow.api.converting import convert_verified

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]

IDS = tf.TensorSpec([None, 4], tf.int32, "ids")
ROWS = tf.TensorSpec([None, 4, 3], tf.float32, "x")
TEXT = tf.TensorSpec([None], tf.string, "text")
NUMBERS = tf.TensorSpec([None, 2], tf.int64, "n")
TABLE = np.random.default_rng(0).normal(0, 1, (9, 3)).astype(np.float32)
ID_FEEDS = [
    {"ids": np.array(ids, np.int32)}
    for ids in ([[3, 0, 1, 8]], [[0, 0, 0, 0]], [[1, 1, 0, 2], [0, 0, 0, 0], [0, 5, 0, 5]], [[0] * 4] * 3)
]
_DRAWN = np.random.default_rng(1).normal(0, 1, (3, 4, 3)).astype(np.float32)
ROW_FEEDS = [{"x": _DRAWN[:1]}, {"x": _DRAWN}]


def _sparse(ids: Any) -> Any:
    return tf.sparse.from_dense(tf.cast(ids, tf.int64))


def _bag(combiner: str) -> Callable[[Any], Any]:
    return lambda ids: tf.nn.safe_embedding_lookup_sparse(TABLE, _sparse(ids), combiner=combiner)


def _weighted(ids: Any) -> Any:
    sparse = _sparse(ids)
    weights = tf.SparseTensor(sparse.indices, tf.cast(sparse.values, tf.float32) / 4.0, sparse.dense_shape)
    return tf.nn.safe_embedding_lookup_sparse(TABLE, sparse, weights, combiner="mean")


def _missing_is_minus_one(ids: Any) -> Any:
    """As feature columns take a dense column: -1 stands for nothing."""
    ids = tf.cast(ids, tf.int64) - 1
    places = tf.where(ids != -1)
    sparse = tf.SparseTensor(places, tf.gather_nd(ids, places), tf.shape(ids, tf.int64))
    return tf.nn.safe_embedding_lookup_sparse(TABLE, sparse, default_id=2)


def _bags_of_bags(ids: Any) -> Any:
    """Three axes, of which the first two become one; and back."""
    return tf.nn.safe_embedding_lookup_sparse(TABLE, _sparse(tf.reshape(ids, [-1, 2, 2])), combiner="sum")


def _filled(ids: Any) -> Any:
    filled, empty = tf.sparse.fill_empty_rows(_sparse(ids), 7)
    return {"dense": tf.sparse.to_dense(filled), "empty": empty}


def _reshaped(ids: Any) -> Any:
    return tf.sparse.to_dense(tf.sparse.reshape(_sparse(ids), [-1, 2])) + 1


def _ragged(ids: Any) -> Any:
    return tf.RaggedTensor.from_tensor(ids, padding=0)


def _ragged_forms(ids: Any) -> Any:
    rows = _ragged(ids)
    return {
        "dense": rows.to_tensor(-1, shape=[None, 5]),
        "cut": rows.to_tensor(shape=[None, 2]) + 1,
        "lengths": rows.row_lengths(),
        "sum": tf.reduce_sum(rows, 1),
        "chosen": tf.gather(rows, tf.zeros_like(ids[:, 0])).to_tensor(shape=[None, 4]) + 1,
        "sparse": tf.sparse.to_dense(rows.to_sparse()) + 1,
    }


def _sparse_matrix(ids: Any) -> Any:
    """A sparse matrix of floats, in no order at first."""
    sparse = _sparse(ids)
    turned = tf.SparseTensor(
        sparse.indices[::-1], tf.cast(sparse.values[::-1], tf.float32), sparse.dense_shape
    )
    matrix = tf.sparse.reorder(turned)
    return {
        "product": tf.sparse.sparse_dense_matmul(matrix, TABLE[:4]),
        "sum": tf.sparse.reduce_sum(matrix, 1),
        "all": tf.sparse.reduce_sum(matrix, keepdims=True),
        "dense": tf.sparse.to_dense(matrix) + 1,
    }


def _counted_sparse(ids: Any) -> Any:
    sparse = _sparse(ids)
    return tf.raw_ops.SparseBincount(
        indices=sparse.indices, values=sparse.values, dense_shape=sparse.dense_shape,
        size=tf.constant(9, tf.int64), weights=tf.zeros([0], tf.float32), binary_output=False,
    )  # fmt: skip


def _rows_of_lengths(x: Any) -> Any:
    lengths = tf.cast(tf.reduce_sum(tf.cast(x[:, :, 0] > 0, tf.int32), 1), tf.int64)
    rows = tf.RaggedTensor.from_tensor(x, lengths=lengths)
    return {"y": tf.reduce_sum(rows.to_tensor(shape=[None, 4, 3]) @ TABLE[:3], 1)}


def _masked(x: Any) -> Any:
    rows = tf.ragged.boolean_mask(x, x[:, :, 0] > 0)
    return tf.reduce_sum(rows.to_tensor(9.0, shape=[None, 4, 3]), 1)


def _counted(ids: Any) -> Any:
    return {
        "each": tf.math.bincount(ids, minlength=9, maxlength=9, axis=-1),
        "there": tf.math.bincount(ids, minlength=9, maxlength=9, axis=-1, binary_output=True),
        "all": tf.math.bincount(ids, minlength=9, maxlength=9, dtype=tf.float32),
    }


MODELS: dict[str, tuple[tf.TensorSpec, Callable[[Any], Any], list[Feeds]]] = {
    **{f"bag_{how}": (IDS, _bag(how), ID_FEEDS) for how in ("sum", "mean", "sqrtn")},
    "bag_weighted": (IDS, _weighted, ID_FEEDS),
    "bag_of_what_is_not_missing": (IDS, _missing_is_minus_one, ID_FEEDS),
    "bags_of_bags": (IDS, _bags_of_bags, ID_FEEDS),
    "filled_rows": (IDS, _filled, ID_FEEDS),
    "reshaped": (IDS, _reshaped, ID_FEEDS),
    "ragged_forms": (IDS, _ragged_forms, ID_FEEDS[:1] + ID_FEEDS[2:3]),
    "rows_of_lengths": (ROWS, _rows_of_lengths, ROW_FEEDS),
    "masked_rows": (ROWS, _masked, ROW_FEEDS),
    "counted": (IDS, _counted, ID_FEEDS),
    "counted_sparse": (IDS, _counted_sparse, ID_FEEDS),
    "sparse_matrix": (IDS, _sparse_matrix, ID_FEEDS),
}


def _texts(*values: bytes) -> Array:
    return np.array(values, object)


TEXT_FEEDS = [{"text": _texts(b"two")}, {"text": _texts(b"one", b"", "dr\u00e9i".encode())}]
NUMBER_FEEDS = [{"n": np.array([[5, 6]])}, {"n": np.array([[5, 2**40], [-7, 2], [2, 2**33 + 5]])}]
WORDS = ["one", "two", "dr\u00e9i"]


def _table(keys: Any, values: Any, default: Any) -> Any:
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)


TABLES: dict[str, tuple[tf.TensorSpec, Callable[[], Any], list[Feeds]]] = {
    "text_to_int64": (TEXT, lambda: _table(WORDS, tf.constant([2, 0, 1], tf.int64), 3), TEXT_FEEDS),
    "text_to_int32": (TEXT, lambda: _table(WORDS, tf.constant([2, 0, 1]), -1), TEXT_FEEDS),
    "text_to_float": (TEXT, lambda: _table(WORDS, tf.constant([0.5, 2, 1]), -1.5), TEXT_FEEDS),
    "int64_to_text": (
        NUMBERS,
        lambda: _table(tf.constant([5, 2, -7], tf.int64), tf.constant(WORDS), "?"),
        NUMBER_FEEDS,
    ),
    "int64_to_int64": (
        NUMBERS,
        lambda: _table(tf.constant([5, 2, 2**40], tf.int64), tf.constant([1, 2**50, 3], tf.int64), -1),
        NUMBER_FEEDS,
    ),
}


def _run_litert(path: Path, feeds: Mapping[str, Array]) -> Feeds:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path))
    for detail in interpreter.get_input_details():
        interpreter.resize_tensor_input(detail["index"], feeds[detail["name"]].shape, strict=True)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], feeds[detail["name"]])
    interpreter.invoke()
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


def _run_onnx(path: Path, feeds: Mapping[str, Array]) -> Feeds:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    given = {n: _mapped(bytes.decode, a) if a.dtype.kind == "O" else a for n, a in feeds.items()}
    found = dict(zip(names, session.run(names, given), strict=True))
    return {n: _mapped(str.encode, y) if y.dtype.kind == "O" else y for n, y in found.items()}


def _mapped(change: Callable[[Any], Any], x: Array) -> Array:
    return np.array([change(t) for t in x.ravel()], object).reshape(x.shape)


def _check(folder: Path, batches: list[Feeds]) -> None:
    """Both files of a SavedModel hold all of it, and give its answers."""
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    for suffix, run in ((".tflite", _run_litert), (".onnx", _run_onnx)):
        made = convert_verified(folder, folder / f"m{suffix}")
        assert made.coverage is not None
        assert made.coverage.kind == "whole", made.notes
        for feeds in batches:
            found = run(Path(made.path), feeds)
            for name, wanted in signature(**{n: tf.constant(a) for n, a in feeds.items()}).items():
                wanted, y = wanted.numpy(), found[name]
                assert y.shape == wanted.shape, (suffix, name)
                assert y.dtype == wanted.dtype
                if wanted.dtype.kind == "f":
                    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
                else:
                    np.testing.assert_array_equal(y, wanted, err_msg=f"{suffix} {name}")


def _saved(folder: Path, spec: tf.TensorSpec, call: Callable[[Any], Any], *kept: Any) -> Path:
    module = tf.Module()
    module.kept = kept

    @tf.function(input_signature=[spec])
    def serve(x: Any) -> Any:
        y = call(x)
        return y if isinstance(y, dict) else {"y": y}

    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve})
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_places_that_numbers_decide(name: str, tmp_path: Path) -> None:
    spec, call, batches = MODELS[name]
    _check(_saved(tmp_path / "saved", spec, call), batches)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, tmp_path: Path) -> None:
    spec, make, batches = TABLES[name]
    table = make()
    _check(_saved(tmp_path / "saved", spec, table.lookup, table), batches)


def _lookups(k: Any) -> Any:
    text, number = k.Input((1,), dtype="string", name="text"), k.Input((2,), dtype="int64", name="n")
    a = k.layers.StringLookup(vocabulary=WORDS, output_mode="one_hot")(text)
    b = k.layers.IntegerLookup(vocabulary=[5, 2, 9], output_mode="multi_hot")(number)
    return k.Model([text, number], k.layers.Dense(3)(k.layers.Concatenate()([a, b])))


def _buckets(k: Any) -> Any:
    x = k.Input((2,), name="x")
    a = k.layers.Discretization([-0.5, 0.0, 0.5], output_mode="count")(x)
    b = k.layers.Discretization([-0.5, 0.0, 0.5], output_mode="multi_hot")(x)
    return k.Model(x, k.layers.Dense(3)(k.layers.Concatenate()([a, b])))


@pytest.mark.slow
@pytest.mark.parametrize("generation", ["export of Keras 3", "save of Keras 2"])
@pytest.mark.parametrize("make", [_lookups, _buckets])
def test_keras(make: Callable[[Any], Any], generation: str, tmp_path: Path) -> None:
    is_newer = generation == "export of Keras 3"
    model = make(keras if is_newer else tf_keras)
    folder = tmp_path / "saved"
    if is_newer:
        model.export(str(folder), verbose=False)
    else:
        model.save(str(folder), save_format="tf")
    if make is _buckets:
        _check(folder, [{"x": x[:, 0, :2]} for x in (_DRAWN[:1], _DRAWN)])
        return
    texts = [_texts(b"two"), _texts(b"none", b"one", b"")]
    numbers = [np.array([[5, 6]]), np.array([[2, 2], [9, 1], [-1, 2**35]])]
    _check(folder, [{"text": t[:, None], "n": n} for t, n in zip(texts, numbers, strict=True)])
