"""Models that keep state, in TensorFlow and in the .tflite files made of them: calls one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import thinflow
from thinflow.api import convert_verified
from thinflow.engines.session import Session

tf_keras = pytest.importorskip("tf_keras")
RNG = np.random.default_rng(5)
CALLS = 5


class Counting(tf.Module):
    """A counter, and an average that moves."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.mean = tf.Variable(3, dtype=tf.int32), tf.Variable(tf.ones([4]))

    @tf.function(input_signature=[tf.TensorSpec([4], tf.float32, name="x")])
    def __call__(self, x: Any) -> dict[str, Any]:
        before = self.mean * 1.0
        self.count.assign_add(1)
        self.mean.assign(0.9 * self.mean + 0.1 * x)
        return {"count": self.count * 1, "y": self.mean - before}


class Streaming(tf.Module):
    """A convolution over the last five frames."""

    def __init__(self) -> None:
        super().__init__()
        self.frames = tf.Variable(tf.zeros([1, 5, 4]))
        self.weights = tf.Variable(RNG.normal(size=(5, 4, 2)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([1, 4], tf.float32, name="x")])
    def __call__(self, x: Any) -> dict[str, Any]:
        self.frames.assign(tf.concat([self.frames[:, 1:], x[:, None]], 1))
        return {"y": tf.nn.conv1d(self.frames, self.weights, 1, "VALID")}


class Ring(tf.Module):
    """A buffer of three rows, written one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.place = tf.Variable(tf.zeros([3, 4])), tf.Variable(0)

    @tf.function(input_signature=[tf.TensorSpec([4], tf.float32, name="x")])
    def __call__(self, x: Any) -> dict[str, Any]:
        self.rows[self.place].assign(x)
        self.rows.scatter_nd_add([[self.place, 1]], [1.0])
        self.place.assign((self.place + 1) % 3)
        return {"y": tf.linalg.matvec(self.rows, [1.0, 2.0, 3.0, 4.0])}


class First(tf.Module):
    """Differences from call to call; the first is known by a flag. In double and int64 besides."""

    def __init__(self) -> None:
        super().__init__()
        self.is_first, self.last = tf.Variable(True), tf.Variable(tf.zeros([4]))
        self.steps, self.wide = tf.Variable(5, dtype=tf.int64), tf.Variable(np.float64(1.5))

    @tf.function(input_signature=[tf.TensorSpec([4], tf.float32, name="x")])
    def __call__(self, x: Any) -> dict[str, Any]:
        y = tf.where(self.is_first, x, x - self.last)
        self.last.assign(x)
        self.is_first.assign(False)
        self.steps.assign_add(2)
        self.wide.assign(self.wide * 2)
        return {"y": y * tf.cast(self.steps, tf.float32) + tf.cast(self.wide, tf.float32)}


MODULES: list[tuple[type[tf.Module], tuple[int, ...]]] = [
    (Counting, (4,)), (Streaming, (1, 4)), (Ring, (4,)), (First, (4,)),
]  # fmt: skip


def answers(folder: Path, feeds: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """What a SavedModel that was just loaded says in each call."""
    loaded = tf.saved_model.load(str(folder))
    run = loaded.signatures["serving_default"]
    (name,) = run.structured_input_signature[1]
    return [{k: v.numpy() for k, v in run(**{name: tf.constant(x)}).items()} for x in feeds]


def check(folder: Path, tmp_path: Path, shape: tuple[int, ...]) -> None:
    """The file, opened twice, and both engines' sessions say in each call what TensorFlow says."""
    feeds = [RNG.normal(size=shape).astype(np.float32) for _ in range(CALLS)]
    wanted = answers(folder, feeds)
    file = tmp_path / "m.tflite"
    made = convert_verified(folder, file)
    assert not made.is_part
    assert "which keep the state" in made.proof
    for model, engine in ((file, "litert"), (file, "litert"), (file, "reference"), (folder, "auto")):
        session = Session(model, engine)
        (name,) = session.inputs
        for _ in range(2):
            for x, expected in zip(feeds, wanted, strict=True):
                found = dict(zip(session.outputs, session.run(None, {name: x}), strict=True))
                for key, y in expected.items():
                    np.testing.assert_allclose(found[key], y, rtol=1e-5, atol=1e-5)
            session.restart()
    found = thinflow.verify(folder, file)
    assert found.ok
    assert found.runs >= 4


@pytest.mark.parametrize(("module", "shape"), MODULES, ids=[m.__name__ for m, _ in MODULES])
def test_modules(tmp_path: Path, module: type[tf.Module], shape: tuple[int, ...]) -> None:
    made = module()
    tf.saved_model.save(made, str(tmp_path / "m"))
    check(tmp_path / "m", tmp_path, shape)


def _keras_3(layer: Callable[[Any], Any], folder: Path) -> None:
    x = keras.Input(batch_shape=(2, 5, 4), name="x")
    keras.Model(x, keras.layers.Dense(2)(layer(keras.layers)(x))).export(str(folder), verbose=False)


def _keras_2(layer: Callable[[Any], Any], folder: Path) -> None:
    x = tf_keras.Input(batch_shape=(2, 5, 4), name="x")
    model = tf_keras.Model(x, tf_keras.layers.Dense(2)(layer(tf_keras.layers)(x)))
    tf.saved_model.save(model, str(folder))


@pytest.mark.parametrize("write", [_keras_2, _keras_3])
@pytest.mark.parametrize("cell", ["LSTM", "GRU", "SimpleRNN"])
@pytest.mark.parametrize("sequences", [False, True])
def test_recurrent_layers(tmp_path: Path, write: Callable[..., None], cell: str, sequences: bool) -> None:
    keras.utils.set_random_seed(2)
    write(lambda layers: getattr(layers, cell)(3, stateful=True, return_sequences=sequences), tmp_path / "m")
    check(tmp_path / "m", tmp_path, (2, 5, 4))


def test_what_tensorflows_converter_keeps(tmp_path: Path) -> None:
    """Its file keeps state in the same ops; the interpreter runs those as LiteRT does."""
    made = Counting()
    tf.saved_model.save(made, str(tmp_path / "m"))
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "m"))
    converter.experimental_enable_resource_variables = True
    (tmp_path / "theirs.tflite").write_bytes(converter.convert())
    found = thinflow.verify(tmp_path / "m", tmp_path / "theirs.tflite")
    assert found.ok
    assert "both keep state from call to call: 4 calls in a row were compared" in found.notes
    lifted = thinflow.verify(tmp_path / "theirs.tflite", tmp_path / "m")
    assert lifted.ok
    session = Session(tmp_path / "theirs.tflite", "reference")
    assert session.keeps_state
