"""Recurrent Keras networks, spectra and suppression: the files that are written, in their own runtimes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import thinflow

layers = keras.layers
NETWORKS: dict[str, tuple[Callable[[], list[Any]], str]] = {
    "lstm": (lambda: [layers.LSTM(8), layers.Dense(3)], "LSTM"),
    "gru": (lambda: [layers.GRU(8, return_sequences=True)], "GRU"),
    "gru_reset_before": (lambda: [layers.GRU(8, reset_after=False)], "GRU"),
    "rnn": (lambda: [layers.SimpleRNN(8, activation="relu")], "RNN"),
    "hard": (lambda: [layers.LSTM(8, recurrent_activation="hard_sigmoid")], "LSTM"),
    "masked": (lambda: [layers.Masking(), layers.GRU(8, return_sequences=True)], "GRU"),
    "both": (lambda: [layers.Masking(), layers.Bidirectional(layers.LSTM(8, return_sequences=True))], "LSTM"),
    "cells": (lambda: [layers.RNN([layers.LSTMCell(8), layers.GRUCell(5)])], "GRU"),
}


def exported(folder: Path, make: Callable[[], list[Any]], steps: int | None) -> Any:
    """A model with random biases, written as a SavedModel."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((steps, 4)), *make()])
    for weight in model.weights:
        weight.assign(np.random.default_rng(1).uniform(-0.5, 0.5, weight.shape))
    model.export(str(folder), verbose=False)
    return model


def run_onnx(path: Path, x: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """The only output of an .onnx file, and its ops."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    return found, [n.op_type for n in onnx.load(str(path)).graph.node]


@pytest.mark.parametrize("steps", [7, None])
@pytest.mark.parametrize("name", NETWORKS)
def test_recurrent_networks_use_the_ops_of_onnx(name: str, steps: int | None, tmp_path: Path) -> None:
    make, wanted = NETWORKS[name]
    model = exported(tmp_path / "saved", make, steps)
    thinflow.save(thinflow.load(tmp_path / "saved"), tmp_path / "model.onnx")
    for batch in (1, 3):
        x = np.random.default_rng(batch).standard_normal((batch, 7, 4)).astype(np.float32)
        x[0, 2] = x[-1, 5:] = 0  # holes for those that mask
        found, codes = run_onnx(tmp_path / "model.onnx", x)
        assert wanted in codes
        assert "Loop" not in codes
        np.testing.assert_allclose(found, model(x).numpy(), atol=2e-6)


class _Spectrum(tf.Module):  # type: ignore[misc]
    @tf.function(input_signature=[tf.TensorSpec([None, 20], tf.float32, "x")])
    def __call__(self, x: Any) -> dict[str, Any]:
        spectrum = tf.signal.rfft(x) * tf.constant(np.exp(1j * np.arange(11)), tf.complex64)
        return {"y": tf.signal.irfft(spectrum, [20]), "size": tf.abs(spectrum), "dct": tf.signal.dct(x)}


class _Suppression(tf.Module):  # type: ignore[misc]
    @tf.function(
        input_signature=[tf.TensorSpec([12, 4], tf.float32, "x"), tf.TensorSpec([12], tf.float32, "scores")]
    )
    def __call__(self, x: Any, scores: Any) -> dict[str, Any]:
        corners = tf.concat([x[:, :2], x[:, :2] + 0.2 + 0.3 * x[:, 2:]], 1)
        kept, score = tf.image.non_max_suppression_with_scores(
            corners, scores, 8, iou_threshold=0.5, score_threshold=0.1, soft_nms_sigma=0.4
        )
        best = tf.image.combined_non_max_suppression(
            corners[None, :, None], tf.stack([scores, 1 - scores], -1)[None], 4, 6, 0.4, 0.3
        )
        return {"kept": kept, "score": score, "boxes": best[0], "scores_of_all": best[1], "classes": best[2]}


@pytest.mark.parametrize("module", [_Spectrum, _Suppression])
def test_whole_tflite_files(module: Callable[[], Any], tmp_path: Path) -> None:
    made = module()
    tf.saved_model.save(made, str(tmp_path / "saved"), signatures={"serving_default": made.__call__})
    thinflow.save(thinflow.load(tmp_path / "saved"), tmp_path / "model.tflite")
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(
        str(tmp_path / "model.tflite")
    )
    runner = interpreter.get_signature_runner("serving_default")
    for seed in range(3):
        random = np.random.default_rng(seed)
        specs = made.__call__.input_signature
        feeds = {s.name: random.random([n or 1 for n in s.shape.as_list()]).astype(np.float32) for s in specs}
        expected, found = made(*map(tf.constant, feeds.values())), runner(**feeds)
        assert sorted(found) == sorted(expected)
        for name, y in expected.items():
            np.testing.assert_allclose(found[name], y.numpy(), atol=2e-5)
