"""ONNX Runtime's own quantized ops: the interpreter agrees, with codes as in the file and with grids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow

ort = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
RNG = np.random.default_rng(21)
MS = "com.microsoft"


def codes(*shape: int, kind: str = "uint8") -> np.ndarray:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max + 1, shape).astype(kind)


def f(*numbers: float) -> np.ndarray:
    return np.array(numbers if len(numbers) > 1 else numbers[0], np.float32)


def z(number: int, kind: str = "uint8") -> np.ndarray:
    return np.array(number, kind)


X = codes(1, 4, 6, 6)
W = codes(5, 8, kind="int8")
Case = tuple[str, list, list, dict[str, Any], int]
"""Op, what is fed, constants (None for an absent one), options, whether results are codes."""
CASES: dict[str, Case] = {
    "leaky": ("QLinearLeakyRelu", [X], [f(0.1), z(120), f(0.09), z(100)], {"alpha": 0.3}, 1),
    "softmax": ("QLinearSoftmax", [codes(3, 7)], [f(0.05), z(9), f(1 / 256), z(0)],
                {"axis": -1, "opset": 13}, 1),
    "old softmax": ("QLinearSoftmax", [codes(2, 3, 4)], [f(0.05), z(9), f(1 / 256), z(0)],
                    {"axis": 1, "opset": 11}, 1),
    "average": ("QLinearAveragePool", [X], [f(0.1), z(120), f(0.1), z(120)],
                {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 1),
    "where": ("QLinearWhere", [np.array([True, False, True, True]), codes(3, 4)],
              [f(0.1), z(7), codes(4), f(0.3), z(30), f(0.2), z(20)], {}, 1),
    "gemm": ("QGemm", [codes(3, 8)], [f(0.02), z(100), W.T.copy(), f(0.03), z(0, "int8"),
             RNG.integers(-900, 900, 5).astype(np.int32), f(0.5), z(128)], {}, 1),
    "gemm turned around, by unit": (
        "QGemm", [codes(3, 8, kind="int8")],
        [f(0.02), z(-7, "int8"), W, f(*np.linspace(0.01, 0.05, 5)), np.zeros(5, np.int8),
         RNG.integers(-900, 900, 5).astype(np.int32), f(0.4), z(-3, "int8")], {"transB": 1}, 1),
    "gemm of floats": ("QGemm", [codes(3, 8)], [f(0.02), z(100), W.T.copy(), f(0.03), z(0, "int8")],
                       {"alpha": 0.5}, 0),
    "to float": ("MatMulIntegerToFloat", [codes(3, 8)],
                 [W.T.copy(), f(0.02), f(0.03), z(3), z(0, "int8"), f(*range(5))], {}, 0),
    "dynamic": ("DynamicQuantizeMatMul", [RNG.standard_normal((3, 8)).astype(np.float32)],
                [W.T.copy(), f(0.03), z(0, "int8"), f(*range(5))], {}, 0),
    "a sum without the last zero point": (
        "QLinearAdd", [codes(3, 8, kind="int8")],
        [f(0.05), z(9, "int8"), codes(8, kind="int8"), f(0.04), z(-3, "int8"), f(0.1)], {}, 1),
    "sixteen bits": ("QuantizeLinear", [RNG.standard_normal((3, 8)).astype(np.float32)],
                     [f(3e-4), z(0, "int16")], {}, 1),
    "sixteen bits back": ("DequantizeLinear", [codes(3, 8, kind="int16")], [f(3e-4), z(5, "int16")], {}, 0),
}  # fmt: skip


def file(path: Path, op: str, fed: list, constants: list, options: dict) -> Path:
    names = [f"x{n}" for n in range(len(fed))]
    inits = {f"c{n}": a for n, a in enumerate(constants) if a is not None}
    operands = [*names, *("" if a is None else f"c{n}" for n, a in enumerate(constants))]
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in fed]
    graph = helper.make_graph(
        [helper.make_node(op, operands, ["y"], domain=MS, **options)], "g",
        [helper.make_tensor_value_info(n, k, a.shape) for n, k, a in zip(names, kinds, fed, strict=True)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in inits.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())
    return path


@pytest.mark.parametrize("case", CASES)
def test_the_interpreter_and_onnxruntime_agree(case: str, tmp_path: Path) -> None:
    op, fed, constants, options, gives_codes = CASES[case]
    path = file(tmp_path / "m.onnx", op, fed, constants, options)
    feed = {f"x{n}": x for n, x in enumerate(fed)}
    (expected,) = ort.InferenceSession(str(path)).run(None, feed)
    # As the file says, and as a graph to work on.
    for model in (path, thinflow.load(path)):
        (found,) = thinflow.run(model, feed, engine="reference").values()
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if gives_codes:
            assert np.abs(found.astype(int) - expected).max() <= 1
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_a_mean_of_codes(tmp_path: Path) -> None:
    # ONNX Runtime has no kernel for it any more.
    path = file(
        tmp_path / "m.onnx", "QLinearReduceMean", [X], [f(0.1), z(120), f(0.1), z(120)],
        {"axes": [2, 3], "keepdims": 0},
    )  # fmt: skip
    (found,) = thinflow.run(path, {"x0": X}, engine="reference").values()
    assert np.abs(found - X.mean(axis=(2, 3))).max() <= 0.51


def test_codes_are_moved_as_numbers(tmp_path: Path) -> None:
    """What moves codes in a file moves the numbers behind them, so that no code is left inside."""
    nodes = [
        helper.make_node("QLinearSigmoid", ["x", "s", "z", "t", "o"], ["a"], domain=MS),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2]),
        helper.make_node("Pad", ["b", "pads", "o"], ["filled"]),
        helper.make_node("Pad", ["filled", "pads"], ["p"]),
        helper.make_node("Transpose", ["p"], ["c"], perm=[0, 2, 3, 1]),
        helper.make_node("QLinearAdd", ["c", "t", "o", "c", "t", "o", "s", "z"], ["y"], domain=MS),
    ]
    inits = {
        "s": f(0.05),
        "z": z(100),
        "t": f(1 / 256),
        "o": z(9),
        "pads": np.int64([0, 0, 1, 0, 0, 0, 0, 2]),
    }
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 2, X.shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(a, n) for n, a in inits.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())
    kept = thinflow.load(path)
    assert sum(n.op == "Round" for n in kept) == 1
    (expected,) = ort.InferenceSession(str(path)).run(None, {"x": X})
    (found,) = thinflow.run(kept, {"x": X}, engine="reference").values()
    assert np.abs(found.astype(int) - expected).max() <= 1
