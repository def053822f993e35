"""Conversions by TensorFlow's own converter: what became of the nodes, layer by layer, and signatures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from benchmarks.budgets.channels_first import operators
from thinflow.compare.diff.conversion import ConversionDiff

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.filterwarnings("ignore:Statistics for quantized inputs")
SIZE = (1, 16, 16, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel, and float and eight-bit files made of it."""
    keras, path = tf.keras, tmp_path_factory.mktemp("keras")
    image = keras.Input(SIZE[1:], name="image")
    y = keras.layers.Conv2D(8, 3, strides=2, padding="same")(image)
    y = keras.layers.ReLU(6.0)(keras.layers.BatchNormalization()(y))
    y = keras.layers.ReLU()(keras.layers.DepthwiseConv2D(3, padding="same")(y))
    y = keras.layers.Dense(5, activation="softmax")(keras.layers.GlobalAveragePooling2D()(y))
    keras.Model(image, y).export(str(path / "saved"))
    for kind in ("float", "int8", "dynamic"):
        (path / f"{kind}.tflite").write_bytes(converted(path / "saved", kind))
    return path


def converted(source: Path, kind: str) -> bytes:
    converter = tf.lite.TFLiteConverter.from_saved_model(str(source))
    if kind != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "int8":
        rng = np.random.default_rng(0)
        samples = [rng.uniform(-1, 1, SIZE).astype(np.float32) for _ in range(20)]
        converter.representative_dataset = lambda: ([x] for x in samples)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    found: bytes = converter.convert()
    return found


def test_a_saved_model_and_its_conversion(folder: Path) -> None:
    found = thinflow.diff(folder / "saved", folder / "float.tflite")
    assert isinstance(found, ConversionDiff)
    assert found.is_equal
    assert found.is_same_network
    kinds = dict(found.crossing.kinds)
    assert kinds["DepthwiseConv2dNative + BiasAdd + Relu", "DEPTHWISE_CONV_2D"] == 1
    assert ("MatMul + BiasAdd + Softmax", "FULLY_CONNECTED + SOFTMAX") in kinds
    assert len(found.layers) >= 4
    assert {w.layout for w in found.weights} >= {"transposed 1,2,3,0", ""}


def test_float_and_int8_with_codes_at_the_ends(folder: Path) -> None:
    found = thinflow.diff(folder / "float.tflite", folder / "int8.tflite", tolerance=0.1)
    assert isinstance(found, ConversionDiff)
    assert found.is_equal
    assert len(found.layers) == 5
    assert all(x.codes is not None and x.codes < 6 for x in found.layers)
    assert all(w.codes is not None and w.codes < 0.6 for w in found.weights)


@pytest.mark.parametrize("kind", ["int8", "dynamic", "float"])
def test_the_interpreter_agrees_with_litert(folder: Path, kind: str) -> None:
    path = folder / f"{kind}.tflite"
    one, other = thinflow.Session(path), thinflow.Session(path, "reference")
    (name,) = one.inputs
    rng = np.random.default_rng(2)
    codes = rng.integers(-128, 127, SIZE, np.int8)
    x = codes if kind == "int8" else rng.uniform(-1, 1, SIZE).astype(np.float32)
    (expected,), (found,) = one.run(None, {name: x}), other.run(None, {name: x})
    assert np.abs(found.astype(float) - expected).max() <= (2 if kind == "int8" else 1e-2)


class Coder(tf.Module):
    """encode: 4 numbers to 3. decode: 3 to 4."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([1, 4], tf.float32, name="x")])
    def encode(self, x: Any) -> Any:
        return {"code": tf.nn.relu(tf.matmul(x, self.w))}

    @tf.function(input_signature=[tf.TensorSpec([1, 3], tf.float32, name="code")])
    def decode(self, code: Any) -> Any:
        return {"out": tf.matmul(code, self.w, transpose_b=True)}


def test_two_signatures(tmp_path: Path) -> None:
    module = Coder()
    source = str(tmp_path / "saved")
    tf.saved_model.save(module, source, signatures={"encode": module.encode, "decode": module.decode})
    converter = tf.lite.TFLiteConverter.from_saved_model(source, signature_keys=["encode", "decode"])
    path = tmp_path / "m.tflite"
    path.write_bytes(converter.convert())
    x = np.float32([[1, -2, 3, 4]])
    expected = module.encode(x)["code"].numpy()
    for engine in ("auto", "reference"):
        found = thinflow.run(path, {"x": x}, ["code"], signature="encode", engine=engine)["code"]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    for key in ("encode", "decode"):
        assert thinflow.verify(source, path, signature=key).ok
        assert thinflow.diff(source, path, signature=key).is_equal


def test_loops_and_branches_in_the_interpreter(tmp_path: Path) -> None:
    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int32)])
    def steps(x: Any, n: Any) -> Any:
        _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 2.0), [tf.constant(0), x])
        return tf.cond(tf.reduce_sum(y) > 10.0, lambda: -y, lambda: y + 1.0)

    converter = tf.lite.TFLiteConverter.from_concrete_functions([steps.get_concrete_function()], steps)
    (tmp_path / "m.tflite").write_bytes(converter.convert())
    names = list(thinflow.Session(tmp_path / "m.tflite").inputs)
    for count in (0, 2, 4):
        x = np.float32([1, 0.5])
        feed = {n: x if "n" not in n.rpartition("_")[2] else np.int32(count) for n in names}
        for engine in ("auto", "reference"):
            (found,) = thinflow.run(tmp_path / "m.tflite", feed, engine=engine).values()
            np.testing.assert_allclose(found, steps(x, tf.constant(count)).numpy())


@pytest.mark.slow
def test_the_same_operators_by_four_roads(tmp_path: Path) -> None:
    """MobileNetV2 as a SavedModel, a Keras file, .onnx and .tflite."""
    pytest.importorskip("tf2onnx")
    model = tf.keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), classes=10)
    model.export(str(tmp_path / "saved"), verbose=False)
    model.save(tmp_path / "model.h5")
    (tmp_path / "model.tflite").write_bytes(converted(tmp_path / "saved", "float"))
    command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", str(tmp_path / "saved")]
    subprocess.run([*command, "--output", str(tmp_path / "model.onnx")], check=True, capture_output=True)
    counts = []
    for name in ("saved", "model.h5", "model.onnx", "model.tflite"):
        # The graph, not the path: a file of the wanted format would be copied.
        thinflow.convert(thinflow.load(tmp_path / name), tmp_path / "m.tflite", verify=False)
        counts.append(operators(tmp_path / "m.tflite"))
    assert counts[0] == counts[1] == counts[2] == counts[3]
    assert counts[0]["CONV_2D"] == 35
    assert counts[0]["MEAN"] == 1
    assert not {"TRANSPOSE", "RESHAPE", "MUL", "PAD"} & set(counts[0])
