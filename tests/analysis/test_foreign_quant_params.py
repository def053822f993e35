"""What the integers of tensors in .tflite and .onnx files stand for."""

from __future__ import annotations

import numpy as np
import pytest

from thinflow.analysis.foreign_quant_params import TensorParams, params_of, step_of
from thinflow.formats import tflite
from thinflow.ir.graph import Graph
from thinflow.ir.types import INT8, INT32, TensorSpec
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes


def test_of_a_tensor_and_per_channel() -> None:
    q = Quantization(np.float32([0.5]), np.int64([3]))
    axis = Quantization(np.float32([0.5, 0.25]), np.int64([0, 0]), 1)
    x, y = Tensor("x", (3, 2), INT8, quantization=q), Tensor("y", (3, 2), INT8, quantization=q)
    w = Tensor("w", (3, 2), INT8, np.int8([[1, 2], [3, 4], [5, 6]]), quantization=axis)
    plain = Tensor("n", (3, 2), INT32)
    steps = [Operator("ADD", [x, w], [y])]
    graph = tflite.from_bytes(to_bytes(Program([Subgraph([x, plain], [y], steps)])))
    assert params_of(graph.value("x")) == TensorParams((0.5,), (3,))
    assert params_of(graph.value("y")) == TensorParams((0.5,), (3,))
    assert params_of(graph.value("n")) is None
    found = params_of(graph.value("w"))
    assert found is not None
    assert found.is_per_channel
    assert found.real(np.int8([[1, 2], [3, 4], [5, 6]])).tolist() == [[0.5, 0.5], [1.5, 1], [2.5, 1.5]]


@pytest.mark.parametrize("op", ["MaxPool", "Reshape", "Transpose"])
def test_ops_that_keep_codes_keep_the_grid(op: str) -> None:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={}).output()
    scale, zero = graph.constant(np.array(0.5, np.float32), "s"), graph.constant(np.array(7, np.uint8), "z")
    codes = graph.add("onnx.QuantizeLinear", [x, scale, zero], "q").output()
    moved = graph.add(f"onnx.{op}", [codes], "m").output()
    assert params_of(moved) == TensorParams((0.5,), (7,))
    assert params_of(graph.add("onnx.Softmax", [codes], "n").output()) is None
    assert params_of(graph.add("onnx.QuantizeLinear", [x, x, zero], "p").output()) is None


def test_a_scale_of_nothing_is_no_grid() -> None:
    graph = Graph()
    node = graph.add(
        "tfl.RELU", name="y", attrs={"quantization_scale": (0.0,), "quantization_zero_point": (0,)}
    )
    assert params_of(node.output()) is None


def test_constants_of_onnx_have_the_grid_that_reads_them() -> None:
    graph = Graph()
    w = graph.constant(np.int8([[1, 2], [3, 4]]), "w")
    scale, zero = graph.constant(np.float32([0.5, 2]), "s"), graph.constant(np.int8([0, 1]), "z")
    real = graph.add("onnx.DequantizeLinear", [w, scale, zero], "d", attrs={"axis": 0}).output()
    w.spec = TensorSpec(INT8, (2, 2))
    found = params_of(w)
    assert found == TensorParams((0.5, 2.0), (0, 1), 0)
    assert found.real(np.int8([[1, 2], [3, 4]])).tolist() == [[0.5, 1], [4, 6]]
    assert step_of(real) == 2
    assert step_of(graph.add("onnx.Relu", [real], "r").output()) == 0


def test_absent_inputs_shift_no_places() -> None:
    """QLinearAdd(a, a scale, no zero point, b, b scale, no zero point, scale, zero point)."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={}).output()
    other, scale = graph.constant(np.float32(2), "o"), graph.constant(np.float32(0.5), "s")
    zero = graph.constant(np.uint8(7), "z")
    inputs, absent = [x, other, x, other, scale, zero], {"absent_inputs": (2, 5)}
    total = graph.add("onnx.com.microsoft.QLinearAdd", inputs, "y", attrs=absent).output()
    assert params_of(total) == TensorParams((0.5,), (7,))


def test_nonsense_is_no_grid() -> None:
    graph = Graph()
    attrs = {"quantization_scale": (0.5, 0.25), "quantization_zero_point": (0, 0), "quantization_axis": 3}
    node = graph.add("tfl.RELU", name="y", attrs=attrs)
    node.output().spec = TensorSpec(INT8, (2, 2))
    assert params_of(node.output()) is None
    node.attrs["quantization_axis"] = 1
    assert params_of(node.output()) is not None
    node.attrs["quantization_scale"] = (0.5, float("inf"))
    assert params_of(node.output()) is None
