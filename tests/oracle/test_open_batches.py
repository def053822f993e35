"""Files of models with an open batch answer as TensorFlow does for one sample and for three."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from thinflow.api.converting import convert_verified

Array = np.ndarray[Any, Any]
Function = Callable[[Any], Any]
layers = keras.layers


def _numbers(*shape: int) -> Array:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def classifier() -> Any:
    x = image = keras.Input((8, 8, 3))
    x = layers.Flatten()(layers.MaxPooling2D()(layers.Conv2D(4, 3, activation="relu")(x)))
    return keras.Model(image, layers.Dense(5, "softmax")(x))


def recurrent() -> Any:
    x = steps = keras.Input((6, 5))
    x = layers.GRU(6)(layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x))
    return keras.Model(steps, x)


def transformer() -> Any:
    x = words = keras.Input((6, 8))
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    return keras.Model(words, layers.Dense(4, "gelu")(x))


def segmentation() -> Any:
    x = image = keras.Input((8, 8, 3))
    low = layers.Conv2D(4, 3, 2, padding="same")(x)
    x = layers.Concatenate()([x, layers.Conv2DTranspose(4, 2, 2)(low), layers.UpSampling2D(2)(low)])
    return keras.Model(image, layers.Conv2D(2, 1)(x))


def log_mel(x: Any) -> Any:
    mel = tf.signal.linear_to_mel_weight_matrix(8, 65, 16000, 20.0, 4000.0)
    return tf.math.log(tf.tensordot(tf.abs(tf.signal.stft(x, 128, 64)), mel, 1) + 1e-3)


def vectorized(x: Any) -> Any:
    return tf.vectorized_map(lambda row: tf.nn.softmax(row) * tf.reduce_sum(row), x)


def mapped(x: Any) -> Any:
    return tf.map_fn(lambda row: tf.tanh(row) + tf.reduce_max(row), x)


def scanned(x: Any) -> Any:
    return tf.transpose(tf.scan(lambda a, row: a * 0.5 + row, tf.transpose(x, [1, 0, 2])), [1, 0, 2])


def tokens(x: Any) -> Any:
    """A learned row in front of each sample, and states of zeros, of as many rows as samples."""
    token, count = tf.constant(_numbers(1, 1, 4)), tf.shape(x)[0]
    made = tf.concat([tf.tile(token, [count, 1, 1]), tf.broadcast_to(token * 2, [count, 1, 4]), x], 1)
    return tf.concat([tf.reshape(made, [count, -1]), tf.zeros([count, 2]) + 1.0, tf.fill([count, 1], 2.5)], 1)


KERAS = {classifier: (8, 8, 3), recurrent: (6, 5), transformer: (6, 8), segmentation: (8, 8, 3)}
FUNCTIONS: dict[Function, tuple[int, ...]] = {
    log_mel: (512,), vectorized: (6,), mapped: (6,), scanned: (5, 4), tokens: (3, 4),
}  # fmt: skip
CASES = [(build, shape, True) for build, shape in KERAS.items()]
CASES += [(build, shape, False) for build, shape in FUNCTIONS.items()]


def _saved(build: Callable[..., Any], shape: tuple[int, ...], is_keras: bool, folder: Path) -> Function:
    """Write a SavedModel; what computes its answers."""
    keras.utils.set_random_seed(0)
    model = build() if is_keras else build
    if is_keras:
        model.export(str(folder), verbose=False)
        return lambda x: model(x, training=False).numpy()
    module = tf.Module()
    module.serve = tf.function(model, input_signature=[tf.TensorSpec((None, *shape), tf.float32, "x")])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})
    return lambda x: module.serve(x).numpy()


def _in_litert(path: Path, x: Array) -> Array:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path))
    (taken,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(taken["index"], x.shape, strict=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(taken["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def _in_onnxruntime(path: Path, x: Array) -> Array:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    return session.run(None, {session.get_inputs()[0].name: x})[0]


@pytest.mark.parametrize(("build", "shape", "is_keras"), CASES, ids=[c[0].__name__ for c in CASES])
def test_files_take_one_sample_and_three(
    build: Callable[..., Any], shape: tuple[int, ...], is_keras: bool, tmp_path: Path
) -> None:
    answer = _saved(build, shape, is_keras, tmp_path / "saved")
    runs = {"tflite": _in_litert, "onnx": _in_onnxruntime}
    if build is vectorized:
        del runs["onnx"]  # its batch is fixed there: the order of axes is computed
    for suffix, run in runs.items():
        made = convert_verified(tmp_path / "saved", tmp_path / f"m.{suffix}")
        assert not [n for n in made.notes if n.startswith("batch")], made.notes
        for count in (3, 1):
            x = _numbers(count, *shape)
            np.testing.assert_allclose(run(tmp_path / f"m.{suffix}", x), answer(x), rtol=1e-3, atol=1e-4)
