"""Means whose own grid does not hold what they are taken of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
SHAPE = (1, 4, 9, 9)


def test_the_input_of_a_pool_is_not_cut_to_the_range_of_its_output(tmp_path: Path) -> None:
    """LiteRT's integer pool has one grid: what it reads would be requantized to that of the means."""
    helper, kinds = onnx.helper, onnx.TensorProto
    numbers = {"a": np.float32(0.01), "b": np.float32(0.004), "zero": np.uint8(0)}
    numbers |= {"w": np.eye(4, dtype=np.int8)[:, :, None, None], "one": np.float32(1), "none": np.int8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "a", "zero"], ["codes"]),
        helper.make_node(
            "QLinearAveragePool",
            ["codes", "a", "zero", "b", "zero"],
            ["means"],
            domain="com.microsoft",
            kernel_shape=[3, 3],
            strides=[2, 2],
        ),
        helper.make_node("QLinearConv", ["means", "b", "zero", "w", "one", "none", "a", "zero"], ["sums"]),
        helper.make_node("DequantizeLinear", ["sums", "a", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "pool",
        [helper.make_tensor_value_info("x", kinds.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", kinds.FLOAT, (1, 4, 4, 4))],
        [onnx.numpy_helper.from_array(np.array(v), k) for k, v in numbers.items()],
    )
    sets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), tmp_path / "m.onnx")
    thinflow.convert(tmp_path / "m.onnx", tmp_path / "m.tflite")

    # A few loud pixels among quiet ones: means stay below 1.02, and pixels do not.
    rng = np.random.default_rng(0)
    x = np.where(rng.random(SHAPE) < 0.2, 2.5, 0.1).astype(np.float32)
    (expected,), (found,) = (
        thinflow.Session(tmp_path / name).run(None, {"x": x}) for name in ("m.onnx", "m.tflite")
    )
    assert expected.max() > 0.5
    np.testing.assert_allclose(found, expected, atol=0.0101)
