"""Exports of layer norms, attention, recurrent layers, channels first and other floats become whole files.

Each file is run by its own runtime, at a batch of one and of three, and gives TensorFlow's answers.
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

import thinflow
from thinflow.api.converting import convert_verified

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
Build = Callable[[Any], Any]
"""A model of one generation of Keras, given that module."""

PICTURE, STEPS, OPEN, WORDS = (9, 9, 3), (7, 6), (None, 6), (7,)


def _chain(shape: tuple[int | None, ...], make: Callable[[Any], list[Any]], kind: str = "float32") -> Build:
    def build(k: Any) -> Any:
        x = y = k.Input(shape, dtype=kind, name="x")
        for layer in make(k.layers):
            y = layer(y)
        return k.Model(x, y)

    return build


def _attention(shape: tuple[int | None, ...], **options: Any) -> Build:
    def build(k: Any) -> Any:
        x = k.Input(shape, name="x")
        y = k.layers.LayerNormalization()(x + k.layers.MultiHeadAttention(2, 4)(x, x, **options))
        z = k.layers.Dense(6)(k.layers.Dense(12, activation="gelu")(y))
        return k.Model(x, k.layers.LayerNormalization()(y + z))

    return build


def _channels_first(k: Any) -> Any:
    layers, first = k.layers, {"data_format": "channels_first"}
    x = k.Input((3, 12, 12), name="x")
    y = layers.Conv2D(8, 3, padding="same", strides=2, **first)(x)
    y = layers.ReLU()(layers.BatchNormalization(axis=1)(y))
    y = layers.Add()([y, layers.DepthwiseConv2D(3, padding="same", **first)(y)])
    y = layers.Conv2DTranspose(4, 3, strides=2, **first)(layers.MaxPooling2D(2, **first)(y))
    y = layers.AveragePooling2D(2, **first)(layers.ZeroPadding2D(1, **first)(y))
    return k.Model(x, layers.Dense(3)(layers.Flatten(**first)(y)))


MODELS: dict[str, Build] = {
    "layer_norm_rank2": _chain((6,), lambda L: [L.Dense(8), L.LayerNormalization(), L.Dense(4)]),
    "layer_norm_rank3": _chain(STEPS, lambda L: [L.LayerNormalization(epsilon=1e-5), L.Dense(4)]),
    "layer_norm_rank4": _chain(PICTURE, lambda L: [L.Conv2D(8, 3), L.LayerNormalization()]),
    "layer_norm_of_axes": _chain(PICTURE, lambda L: [L.LayerNormalization(axis=[1, 2, 3]), L.Flatten()]),
    "layer_norm_open": _chain(OPEN, lambda L: [L.Dense(8), L.LayerNormalization()]),
    "group_norm": _chain(PICTURE, lambda L: [L.Conv2D(8, 3), L.GroupNormalization(4)]),
    "attention": _attention(STEPS),
    "attention_open": _attention(OPEN),
    "attention_causal": _attention(STEPS, use_causal_mask=True),
    "attention_open_causal": _attention(OPEN, use_causal_mask=True),
    "lstm": _chain(STEPS, lambda L: [L.LSTM(8), L.Dense(4)]),
    "lstm_open": _chain(OPEN, lambda L: [L.LSTM(8), L.Dense(4)]),
    "lstm_stacked": _chain(STEPS, lambda L: [L.LSTM(8, return_sequences=True), L.LSTM(5)]),
    "gru_open": _chain(OPEN, lambda L: [L.GRU(8, return_sequences=True), L.Dense(4)]),
    "gru_reset_before": _chain(STEPS, lambda L: [L.GRU(8, reset_after=False)]),
    "cells": _chain(STEPS, lambda L: [L.RNN([L.LSTMCell(8), L.GRUCell(6)])]),
    "bidirectional": _chain(
        STEPS,
        lambda L: [
            L.Bidirectional(L.LSTM(8, return_sequences=True)),
            L.Bidirectional(L.GRU(4, return_sequences=True)),
            L.SimpleRNN(3),
        ],
    ),
    "masked": _chain(
        (None,),
        lambda L: [L.Embedding(20, 6, mask_zero=True), L.Bidirectional(L.LSTM(8)), L.Dense(4)],
        "int32",
    ),
    "convlstm": _chain(
        (5, 8, 8, 2), lambda L: [L.ConvLSTM2D(4, 3, padding="same"), L.GlobalAveragePooling2D()]
    ),
    "channels_first": _channels_first,
    "float64": _chain(
        (6,), lambda L: [L.Dense(8, "relu", dtype="float64"), L.Dense(4, dtype="float64")], "float64"
    ),
    "mixed_float16": _chain(
        PICTURE,
        lambda L: [
            L.Conv2D(8, 3, dtype="mixed_float16"),
            L.BatchNormalization(dtype="mixed_float16"),
            L.GlobalAveragePooling2D(dtype="mixed_float16"),
            L.Dense(4, dtype="float32"),
        ],
    ),
    "mixed_bfloat16": _chain(
        PICTURE,
        lambda L: [
            L.Conv2D(8, 3, dtype="mixed_bfloat16"),
            L.GlobalAveragePooling2D(dtype="mixed_bfloat16"),
            L.Dense(4, dtype="float32"),
        ],
    ),
}


def _seeded(model: Any) -> Any:
    for number, variable in enumerate(model.weights):
        array = np.asarray(variable.numpy())
        if array.dtype.kind == "f" and array.size > 1:
            drawn = np.random.default_rng(number).standard_normal(array.shape) * 0.3
            variable.assign(
                (np.abs(drawn) + 0.5 if "variance" in variable.name else drawn).astype(array.dtype)
            )
    return model


def _feed(model: Any, batch: int) -> Array:
    (x,) = model.inputs
    shape = (batch, *(5 if n is None else n for n in x.shape[1:]))
    rng = np.random.default_rng(batch)
    if "int" in str(x.dtype):
        return rng.integers(0, 20, shape).astype(np.int32)
    kind = np.dtype(x.dtype if isinstance(x.dtype, str) else x.dtype.as_numpy_dtype)
    return rng.standard_normal(shape).astype(kind)


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
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def _check(folder: Path, batches: list[Feeds], tolerance: float) -> None:
    """Both files of a SavedModel hold all of it, and give its answers."""
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    for suffix, run in ((".tflite", _run_litert), (".onnx", _run_onnx)):
        made = convert_verified(folder, folder / f"m{suffix}")
        assert made.coverage is not None
        assert made.coverage.kind == "whole", made.notes
        for feeds in batches:
            found = run(Path(made.path), feeds)
            for name, wanted in signature(**{n: tf.constant(a) for n, a in feeds.items()}).items():
                wanted = wanted.numpy()
                assert found[name].shape == wanted.shape
                assert found[name].dtype == wanted.dtype
                assert np.abs(found[name] - wanted).max() <= tolerance * np.abs(wanted).max(), (suffix, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("generation", ["export of Keras 3", "save of Keras 2"])
def test_keras(name: str, generation: str, tmp_path: Path) -> None:
    is_newer = generation == "export of Keras 3"
    model = _seeded(MODELS[name](keras if is_newer else tf_keras))
    folder = tmp_path / "saved"
    if is_newer:
        model.export(str(folder), verbose=False)
    else:
        model.save(str(folder), save_format="tf")
    batches = [{"x": _feed(model, n)} for n in (1, 3)]
    _check(folder, batches, 2e-2 if "float16" in name else 1e-5)


@pytest.mark.slow
def test_a_causal_decoder_with_rotary_positions(tmp_path: Path) -> None:
    """A tf.Module whose batch and length are open, with a table of embeddings that gives the logits, too."""
    rng = np.random.default_rng(0)
    table, weights = (tf.Variable(rng.normal(0, 0.4, s).astype(np.float32)) for s in ((30, 8), (8, 24)))

    def turned(x: Any, cos: Any, sin: Any) -> Any:
        even, odd = x[..., 0::2], x[..., 1::2]
        return tf.reshape(tf.stack([even * cos - odd * sin, even * sin + odd * cos], -1), tf.shape(x))

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "ids")])
    def logits(ids: Any) -> Any:
        x = tf.nn.embedding_lookup(table, ids)
        batch, length = tf.shape(x)[0], tf.shape(x)[1]
        each = tf.split(tf.einsum("bnd,de->bne", x, weights), 3, -1)
        q, k, v = (tf.transpose(tf.reshape(t, [batch, length, 2, 4]), [0, 2, 1, 3]) for t in each)
        angles = tf.cast(tf.range(length), tf.float32)[:, None] * tf.constant([[1.0, 0.1]])
        q, k = (turned(t, tf.cos(angles), tf.sin(angles)) for t in (q, k))
        seen = tf.linalg.band_part(tf.ones([length, length]), -1, 0)
        scores = tf.where(seen > 0, tf.einsum("bhqd,bhkd->bhqk", q, k) * 0.5, -1e9)
        y = tf.einsum("bhqk,bhkd->bqhd", tf.nn.softmax(scores), v)
        x = x + tf.nn.gelu(tf.reshape(y, [batch, length, 8]))
        return {"logits": tf.einsum("bnd,vd->bnv", x, table)}

    module = tf.Module()
    module.table, module.weights = table, weights
    folder = tmp_path / "saved"
    tf.saved_model.save(module, str(folder), signatures={"serving_default": logits})
    batches = [{"ids": rng.integers(0, 30, (n, 9)).astype(np.int32)} for n in (1, 3)]
    _check(folder, batches, 1e-5)


@pytest.mark.slow
def test_lookups_in_parts_of_a_table(tmp_path: Path) -> None:
    parts = [tf.Variable(np.arange(20, dtype=np.float32).reshape(5, 4) + 100 * n) for n in range(3)]

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.int32, "ids")])
    def rows(ids: Any) -> Any:
        lookup = tf.compat.v1.nn.embedding_lookup
        return {w: lookup(parts, ids, partition_strategy=w) for w in ("div", "mod")}

    module = tf.Module()
    module.parts = parts
    folder = tmp_path / "saved"
    tf.saved_model.save(module, str(folder), signatures={"serving_default": rows})
    rng = np.random.default_rng(0)
    _check(folder, [{"ids": rng.integers(0, 15, (n, 6)).astype(np.int32)} for n in (1, 3)], 0)


def test_thinflow_itself_agrees(tmp_path: Path) -> None:
    """The interpreter on a layer norm of Keras 2, which is a batch norm in training mode."""
    model = _seeded(MODELS["layer_norm_rank3"](tf_keras))
    model.save(str(tmp_path / "saved"), save_format="tf")
    x = _feed(model, 3)
    (y,) = thinflow.Session(tmp_path / "saved").run(None, {"x": x})
    np.testing.assert_allclose(y, model(x).numpy(), rtol=1e-4, atol=1e-5)
