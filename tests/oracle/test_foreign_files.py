"""Files that TensorFlow's own converter writes, read as graphs: structure, weights, numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.ir.check import find_problems

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.filterwarnings("ignore:Statistics for quantized inputs")


def converted(path: Path, kind: str) -> Any:
    """A small network as a .tflite file; returns the Keras model."""
    keras = tf.keras
    model = keras.Sequential(
        [
            keras.Input((12, 12, 3), batch_size=1),
            keras.layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
            keras.layers.DepthwiseConv2D(3, activation="relu6"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(5, activation="softmax"),
        ]
    )
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if kind != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if kind == "int8":
        rng = np.random.default_rng(0)
        converter.representative_dataset = lambda: (
            [rng.random((1, 12, 12, 3), np.float32)] for _ in range(8)
        )
    path.write_bytes(converter.convert())
    return model


@pytest.mark.parametrize(
    ("kind", "precision"),
    [("float32", "float32"), ("float16", "float32 with float16 weights"), ("int8", "int8")],
)
def test_a_network(tmp_path: Path, kind: str, precision: str) -> None:
    path = tmp_path / "m.tflite"
    model = converted(path, kind)
    graph = thinflow.load(path, lift=False)
    assert find_problems(graph) == []
    summary = thinflow.summarize(graph)
    assert summary.precision == precision
    assert summary.cost.total.macs == 6 * 6 * 4 * 27 + 4 * 4 * 4 * 9 + 4 * 5
    assert graph.facts["signatures"] == "serving_default"
    x = np.random.default_rng(1).random((1, 12, 12, 3)).astype(np.float32)
    expected = model(x).numpy()
    (found,) = thinflow.Session(graph).run(None, {graph.inputs[0].name: x})
    assert np.abs(found - expected).max() < (0.02 if kind == "int8" else 2e-3)
    if kind != "int8":
        (again,) = thinflow.Session(path, "reference").run(None, {graph.inputs[0].name: x})
        assert np.abs(again - expected).max() < 2e-3


def test_control_flow(tmp_path: Path) -> None:
    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32)])
    def double(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), [tf.constant(0), x])[1]

    converter = tf.lite.TFLiteConverter.from_concrete_functions([double.get_concrete_function()])
    (tmp_path / "m.tflite").write_bytes(converter.convert())
    graph = thinflow.load(tmp_path / "m.tflite", lift=False)
    (loop,) = [n for n in graph if n.op == "tfl.WHILE"]
    assert loop.attrs["body_subgraph_index"].name in graph.functions  # type: ignore[union-attr]
    for function in graph.functions.values():
        assert find_problems(function.graph) == []
    (y,) = thinflow.Session(graph).run(None, {graph.inputs[0].name: np.float32([1, 3])})
    assert y.tolist() == [8, 24]
