"""Files of Keras 1, and of the first versions of TensorFlow 2, as they wrote them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.keras.written import functional, layer, node, sequential, source, write_h5

RNG = np.random.default_rng(3)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def run(path: Path, *inputs: np.ndarray) -> np.ndarray:
    session = thinflow.Session(thinflow.load(path), engine="reference")
    (y,) = session.run(list(session.outputs), dict(zip(session.inputs, inputs, strict=True)))
    result: np.ndarray = y
    return result


def old(folder: Path, config: dict[str, Any], **weights: list[np.ndarray]) -> Path:
    return write_h5(folder / "old.h5", config, weights, version="1.2.2")


def one(folder: Path, kind: str, x: np.ndarray, *weights: np.ndarray, **options: Any) -> np.ndarray:
    """What a layer of Keras 1 gives."""
    path = old(folder, sequential(source(*x.shape[1:]), layer(kind, "l", **options)), l=list(weights))
    return run(path, x)


def new(folder: Path, kind: str, x: np.ndarray, *weights: np.ndarray, **options: Any) -> np.ndarray:
    """What a layer of Keras 2 gives."""
    config = sequential(source(*x.shape[1:]), layer(kind, "l", **options))
    return run(write_h5(folder / "new.h5", config, {"l": list(weights)}), x)


@pytest.mark.parametrize("order", ["tf", "th"])
def test_convolution(tmp_path: Path, order: str) -> None:
    x, kernel, bias = normal(2, 6, 7, 3), normal(3, 2, 3, 4), normal(4)
    wanted = new(
        *(tmp_path, "Conv2D", x, kernel, bias),
        filters=4,
        kernel_size=[3, 2],
        strides=[2, 1],
        padding="same",
        activation="relu",
    )
    options = {"nb_filter": 4, "nb_row": 3, "nb_col": 2, "subsample": [2, 1], "border_mode": "same"}
    options |= {"dim_ordering": order, "activation": "relu", "bias": True, "init": "uniform"}
    if order == "th":
        x, kernel, wanted = (
            x.transpose(0, 3, 1, 2),
            kernel.transpose(3, 2, 0, 1),
            wanted.transpose(0, 3, 1, 2),
        )
    got = one(tmp_path, "Convolution2D", x, kernel, bias, **options)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_convolution_of_lines(tmp_path: Path) -> None:
    x, kernel, bias = normal(2, 8, 3), normal(3, 3, 4), normal(4)
    wanted = new(tmp_path, "Conv1D", x, kernel, bias, filters=4, kernel_size=3)
    options = {"nb_filter": 4, "filter_length": 3, "subsample_length": 1, "border_mode": "valid"}
    got = one(tmp_path, "Convolution1D", x, kernel[:, None], bias, **options)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_deconvolution(tmp_path: Path) -> None:
    x, kernel, bias = normal(2, 4, 4, 3), normal(3, 3, 5, 3), normal(5)
    wanted = new(tmp_path, "Conv2DTranspose", x, kernel, bias, filters=5, kernel_size=3, strides=2)
    options = {"nb_filter": 5, "nb_row": 3, "nb_col": 3, "subsample": [2, 2], "dim_ordering": "tf"}
    swapped = kernel.swapaxes(2, 3)
    got = one(tmp_path, "Deconvolution2D", x, swapped, bias, output_shape=[None, 9, 9, 5], **options)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(thinflow.UnsupportedOp, match=r"its output has the shape \[None, 10, 10, 5\]"):
        one(tmp_path, "Deconvolution2D", x, swapped, bias, output_shape=[None, 10, 10, 5], **options)


def test_highway(tmp_path: Path) -> None:
    x, w, v, b, d = normal(2, 4), normal(4, 4), normal(4, 4), normal(4), normal(4)
    gate = 1 / (1 + np.exp(-(x @ v + d)))
    wanted = np.tanh(x @ w + b) * gate + x * (1 - gate)
    got = one(tmp_path, "Highway", x, w, v, b, d, activation="tanh", bias=True, transform_bias=-2)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_maxout(tmp_path: Path) -> None:
    x, w, b = normal(2, 4), normal(3, 4, 5), normal(3, 5)
    wanted = (np.einsum("bi,fio->bfo", x, w) + b).max(axis=1)
    got = one(tmp_path, "MaxoutDense", x, w, b, output_dim=5, nb_feature=3, bias=True)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def cudnn_weights(gates: int, kernel: np.ndarray, recurrent: np.ndarray) -> list[np.ndarray]:
    """Kernels of LSTM or GRU as Keras's `_convert_rnn_weights` writes them for cuDNN."""
    inputs = [k.T.reshape(k.shape) for k in np.split(kernel, gates, 1)]
    return [np.concatenate(inputs, 1), np.concatenate([k.T for k in np.split(recurrent, gates, 1)], 1)]


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_recurrent_layers_of_cudnn(tmp_path: Path, kind: str, gates: int) -> None:
    """Their gates are sigmoids, which their configs do not say."""
    x, kernel, recurrent = normal(2, 4, 3), normal(3, gates * 5), normal(5, gates * 5)
    biases = normal(2, gates * 5)
    stated = {"activation": "tanh", "recurrent_activation": "sigmoid", "reset_after": True}
    own = biases.sum(0) if kind == "LSTM" else biases
    wanted = new(tmp_path, kind, x, kernel, recurrent, own, units=5, **stated)
    weights = [*cudnn_weights(gates, kernel, recurrent), biases.reshape(-1)]
    got = new(tmp_path, f"CuDNN{kind}", x, *weights, units=5)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mul", "concat", "ave", "max", "dot"])
def test_merge(tmp_path: Path, mode: str) -> None:
    x, y = normal(2, 4), normal(2, 4)
    join = layer("Merge", "m", mode=mode, mode_type="raw", concat_axis=-1, dot_axes=[1, 1], arguments={})
    join["config"] |= {"output_shape_type": "raw", "output_mask_type": "raw", "output_shape": None}
    layers = [node(source(4, name="x")), node(source(4, name="y")), node(join, ["x", 0, 0], ["y", 0, 0])]
    config = functional(layers, [["x", 0, 0], ["y", 0, 0]], [["m", 0, 0]])
    wanted = {
        "sum": x + y,
        "mul": x * y,
        "concat": np.concatenate([x, y], -1),
        "ave": (x + y) / 2,
        "max": np.maximum(x, y),
        "dot": (x * y).sum(1, keepdims=True),
    }
    np.testing.assert_allclose(run(old(tmp_path, config), x, y), wanted[mode], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        ("Merge", {"mode": "cos"}, "merges in a way that later versions of Keras do not have"),
        ("Merge", {"mode": "4wAA", "mode_type": "lambda"}, "Python's bytecode"),
        ("BatchNormalization", {"mode": 1}, r"its input's own mean \(mode 1\)"),
        ("Convolution2D", {"border_mode": "full"}, "border_mode 'full' is not known"),
    ],
)
def test_ways_that_are_gone(tmp_path: Path, kind: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(thinflow.UnsupportedOp, match=problem):
        one(tmp_path, kind, normal(2, 4), **options)


def test_models_as_lists(tmp_path: Path) -> None:
    """Keras before 2.2.3 wrote the layers of a Sequential without its name."""
    config = {"class_name": "Sequential", "config": [source(2), layer("Activation", activation="relu")]}
    got = run(write_h5(tmp_path / "net.h5", config), np.array([[1, -1]], np.float32))
    assert got.tolist() == [[1, 0]]


# --- ops as layers ------------------------------------------------------------------------------------------


def op_file(folder: Path, op: str, attrs: dict[str, Any], constants: Any) -> Path:
    stored = {"name": op, "op": op, "input": ["x"], "attr": attrs}
    made = layer("TensorFlowOpLayer", "op", node_def=stored, constants=constants)
    layers = [node(source(4, name="x")), node(made, ["x", 0, 0])]
    return write_h5(folder / "net.h5", functional(layers, [["x", 0, 0]], [["op", 0, 0]]), version="2.3.0-tf")


FLOAT = {"T": {"type": "DT_FLOAT"}}


def test_ops_with_constants(tmp_path: Path) -> None:
    x = normal(2, 4)
    np.testing.assert_allclose(run(op_file(tmp_path, "Mul", FLOAT, {"1": 0.5}), x), x / 2)
    np.testing.assert_allclose(run(op_file(tmp_path, "Sub", FLOAT, {"0": 1}), x), 1 - x)
    attrs = {**FLOAT, "Tidx": {"type": "DT_INT32"}, "keep_dims": {"b": True}}
    np.testing.assert_allclose(
        run(op_file(tmp_path, "Sum", attrs, {"1": [1]}), x), x.sum(1, keepdims=True), 1e-5
    )
    attrs = {**FLOAT, "data_format": {"s": base64.b64encode(b"NHWC").decode()}}
    bias = [1.0, 2.0, 3.0, 4.0]
    np.testing.assert_allclose(
        run(op_file(tmp_path, "BiasAdd", attrs, {"1": bias}), x), x + np.array(bias, x.dtype), 1e-6
    )


@pytest.mark.parametrize(
    ("op", "attrs", "constants", "problem"),
    [
        ("ReadFile", {}, {}, "more than a function of its operands"),
        ("RandomUniform", {}, {}, "more than a function of its operands"),
        ("Nonsense", {}, {}, "does not know the op Nonsense"),
        ("Mul", {"T": {"func": {}}}, {}, r"an attribute of its node \(func\) is not known"),
        ("Mul", {"T": 3}, {}, "an attribute of its node has no value"),
        ("Mul", FLOAT, {"7": 1.0}, "operand 7 is a constant, of 1"),
        ("Mul", FLOAT, {"1": [1, 2, 3]}, r"shapes \[\?,4\] and \[3\] do not broadcast"),
    ],
)
def test_ops_that_are_refused(
    tmp_path: Path, op: str, attrs: dict[str, Any], constants: Any, problem: str
) -> None:
    with pytest.raises(thinflow.ThinflowError, match=problem):
        thinflow.load(op_file(tmp_path, op, attrs, constants))
