"""Small models of the kinds people have, made by TensorFlow: all engines agree with it, all verbs work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import thinflow
from thinflow.cli import main

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
Builder = Callable[[Path], Feeds]
ENGINES = ("reference", "litert", "onnxruntime", "auto")
TOLERANCE = 1e-4
layers = keras.layers


def _numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def encoder_with_open_length(folder: Path) -> Feeds:
    """A transformer with masks, batch and length open; one table has two rows only."""
    ids, mask, kinds = (keras.Input((None,), dtype="int32", name=n) for n in ("ids", "mask", "kinds"))
    x = layers.Embedding(50, 16)(ids) + layers.Embedding(2, 16)(kinds)
    seen = layers.Lambda(lambda m: tf.cast(m, tf.bool)[:, None, :], output_shape=(1, None))(mask)
    attended = layers.MultiHeadAttention(4, 4)(x, x, attention_mask=seen)
    x = layers.LayerNormalization()(x + attended)
    x = layers.LayerNormalization()(x + layers.Dense(16)(layers.Dense(32, "gelu")(x)))
    outputs = {"sequence": x, "pooled": layers.Dense(8, "tanh")(x[:, 0])}
    keras.Model([ids, mask, kinds], outputs).export(str(folder), verbose=False)
    rows = np.array([[1, 49, 3, 7, 9], [4, 2, 0, 0, 0]], np.int32)
    return {"ids": rows, "mask": np.minimum(rows, 1), "kinds": rows % 2}


def padded_pool(folder: Path) -> Feeds:
    """ResNet v2's beginning: a border of zeros around negative numbers, then the maximum."""
    x = image = keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", bias_initializer=keras.initializers.Constant(-5.0))(x)
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(layers.BatchNormalization()(x + 4.0)))
    keras.Model(image, layers.Dense(4, "softmax")(x)).export(str(folder), verbose=False)
    return {"image": _numbers(2, 16, 16, 3)}


def detector(folder: Path) -> Feeds:
    """Boxes and scores by convolutions, then combined non-maximum suppression, which no runtime has."""
    x = image = keras.Input((16, 16, 3), name="image")
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu6")(x)
    corners = layers.Reshape((-1, 4))(layers.Conv2D(4, 3, padding="same", activation="sigmoid")(x))
    scores = layers.Reshape((-1, 3))(layers.Conv2D(3, 3, padding="same", activation="sigmoid")(x))

    def best(pair: Any) -> Any:
        return tuple(tf.image.combined_non_max_suppression(pair[0][:, :, None], pair[1], 5, 10, 0.5, 0.3))

    names = ("boxes", "scores", "classes", "count")
    found = dict(zip(names, layers.Lambda(best)([corners, scores]), strict=True))
    keras.Model(image, found).export(str(folder), verbose=False)
    return {"image": _numbers(2, 16, 16, 3)}


def towers(folder: Path) -> Feeds:
    """Text, numbers and ids in, three outputs out."""
    user, age = keras.Input((), dtype="string", name="user"), keras.Input((1,), name="age")
    history = keras.Input((5,), dtype="int64", name="history")
    known = layers.StringLookup(vocabulary=["ann", "bob"])(user)
    x = layers.Concatenate()(
        [layers.Embedding(3, 8)(known), layers.Normalization(mean=30.0, variance=9.0)(age)]
    )
    x = layers.UnitNormalization()(layers.Dense(8)(x))
    y = layers.GlobalAveragePooling1D()(layers.Embedding(30, 8, mask_zero=True)(history))
    y = layers.UnitNormalization()(layers.Dense(8)(y))
    model = keras.Model(
        {"user": user, "age": age, "history": history}, {"like": layers.Dot(1)([x, y]), "x": x}
    )
    model.export(str(folder), verbose=False)
    ids = np.array([[1, 2, 29, 0, 0], [5, 5, 0, 0, 0]], np.int64)
    return {"user": np.array([b"bob", b"eve"], object), "age": np.float32([[20], [44]]), "history": ids}


def sequence_to_sequence(folder: Path) -> Feeds:
    """Masked recurrent layers of open length that hand on their state, and attention."""
    first, second = (keras.Input((None,), dtype="int32", name=n) for n in ("source", "target"))
    embedded = layers.Embedding(20, 8, mask_zero=True)(first)
    seen, h, c = layers.LSTM(8, return_sequences=True, return_state=True)(embedded)
    y = layers.Embedding(20, 8, mask_zero=True)(second)
    y = layers.LSTM(8, return_sequences=True)(y, initial_state=[h, c])
    y = layers.Dense(20, "softmax")(layers.Concatenate()([y, layers.Attention()([y, seen])]))
    keras.Model([first, second], y).export(str(folder), verbose=False)
    return {"source": np.int32([[4, 5, 6, 0], [3, 0, 0, 0]]), "target": np.int32([[1, 5, 6], [1, 2, 0]])}


def step_with_cache(folder: Path) -> Feeds:
    """One step of a decoder: a scalar says where in the cache the new key goes."""

    class Step(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(_numbers(8, 8))

        @tf.function(
            input_signature=[
                tf.TensorSpec([1, 1, 8], name="x"),
                tf.TensorSpec([1, 6, 8], name="cache"),
                tf.TensorSpec([], tf.int32, name="place"),
            ]
        )
        def __call__(self, x: Any, cache: Any, place: Any) -> dict[str, Any]:
            cache = tf.concat([cache[:, :place], x @ self.w, cache[:, place + 1 :]], 1)
            cache = tf.ensure_shape(cache, [1, 6, 8])
            near = tf.where(tf.range(6) <= place, x @ tf.transpose(cache, [0, 2, 1]), -1e9)
            return {"y": tf.nn.softmax(near) @ cache, "new": cache}

    step = Step()
    tf.saved_model.save(step, str(folder), signatures=step.__call__)
    return {"x": _numbers(1, 1, 8), "cache": _numbers(1, 6, 8, seed=1), "place": np.array(2, np.int32)}


def generator(folder: Path) -> Feeds:
    """A loop that looks words up in a variable until it has enough."""

    class Generator(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.w = tf.Variable(_numbers(20, 8)), tf.Variable(_numbers(8, 20, seed=1))

        @tf.function(input_signature=[tf.TensorSpec([1, None], tf.int32, name="prompt")])
        def __call__(self, prompt: Any) -> dict[str, Any]:
            def turn(count: Any, words: Any) -> tuple[Any, Any]:
                score = tf.reduce_mean(tf.gather(self.table, words), 1) @ self.w
                new = tf.argmax(score, -1, output_type=tf.int32)[:, None]
                return count + 1, tf.concat([words, new], 1)

            grows = [tf.TensorShape([]), tf.TensorShape([1, None])]
            _, words = tf.while_loop(lambda n, _: n < 4, turn, [0, prompt], shape_invariants=grows)
            return {"words": words}

    made = Generator()
    tf.saved_model.save(made, str(folder), signatures=made.__call__)
    return {"prompt": np.int32([[3, 5, 2]])}


BUILDERS: tuple[Builder, ...] = (
    encoder_with_open_length,
    padded_pool,
    detector,
    towers,
    sequence_to_sequence,
    step_with_cache,
    generator,
)


@pytest.fixture(scope="module", params=BUILDERS, ids=lambda b: b.__name__)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Feeds, Any]:
    """A SavedModel, what to feed it, and the same loaded by TensorFlow, which forgets variables otherwise."""
    keras.utils.set_random_seed(1)
    folder = tmp_path_factory.mktemp("zoo") / "saved"
    feeds = request.param(folder)
    return folder, feeds, tf.saved_model.load(str(folder))


def _expected(loaded: Any, feeds: Feeds) -> Feeds:
    found = loaded.signatures["serving_default"](**{name: tf.constant(x) for name, x in feeds.items()})
    return {name: y.numpy() for name, y in found.items()}


def _compare(actual: Array, expected: Array) -> None:
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    assert np.abs(actual - expected).max(initial=0) <= TOLERANCE * np.abs(expected).max(initial=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_outputs(made: tuple[Path, Feeds, Any], engine: str) -> None:
    if engine == "onnxruntime":
        pytest.importorskip(engine)
    folder, feeds, loaded = made
    expected = _expected(loaded, feeds)
    session = thinflow.Session(thinflow.load(folder), engine=engine)
    for actual, wanted in zip(session.run(list(expected), feeds), expected.values(), strict=True):
        _compare(actual, wanted)


def test_frozen_by_tensorflow(made: tuple[Path, Feeds, Any], tmp_path: Path) -> None:
    _, feeds, loaded = made
    if "user" in feeds:
        pytest.skip("TensorFlow leaves the table outside")
    frozen = convert_variables_to_constants_v2(loaded.signatures["serving_default"], lower_control_flow=False)
    (tmp_path / "frozen.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    graph = thinflow.load(tmp_path / "frozen.pb")
    assert {v.name for v in graph.inputs} == set(feeds)
    assert {v.name for v in graph.outputs} == {t.name.removesuffix(":0") for t in frozen.outputs}
    session = thinflow.Session(graph)
    expected = _expected(loaded, feeds)
    actual = session.run([t.name for t in frozen.outputs], feeds)
    for y, name in zip(actual, sorted(expected), strict=True):
        _compare(y, expected[name])


@pytest.mark.parametrize("suffix", ["tflite", "onnx", "pb"])
def test_converted(
    made: tuple[Path, Feeds, Any], suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written agrees, also where it holds a part only; what cannot be written says what may help."""
    if suffix == "onnx":
        pytest.importorskip("onnxruntime")
    folder, target = made[0], tmp_path / f"model.{suffix}"
    code = main(["convert", str(folder), str(target)])
    said = capsys.readouterr()
    if code:
        assert suffix == "tflite"
        assert "hint: " in said.err
        return
    assert main(["verify", str(folder), str(target)]) == 0, capsys.readouterr().out
    assert "the graphs agree" in capsys.readouterr().out


def test_optimized(made: tuple[Path, Feeds, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(made[0]), str(tmp_path / "out"), "--no-benchmark"]) == 0
    said = capsys.readouterr().out
    assert "bug" not in said
    assert (tmp_path / "out" / "report.json").exists()
