"""ONNX's activations in TensorFlow's spelling: right by ONNX Runtime, and few operators in LiteRT."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow import formats
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph
from thinflow.lift.graphs import lift

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper

SHAPE = (2, 6, 5, 4)
Step = tuple[str, list[str], dict[str, Any]]


def file(path: Path, steps: list[Step], constants: dict[str, np.ndarray], opset: int, shape: tuple) -> Path:
    """A model whose step n makes "s{n}", of "x" and constants; the last is its output."""
    nodes = [helper.make_node(op, xs, [f"s{n}"], **options) for n, (op, xs, options) in enumerate(steps)]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_empty_tensor_value_info(f"s{len(steps) - 1}")],
        [numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    path.write_bytes(made.SerializeToString())
    return path


def lifted(path: Path) -> Graph:
    graph = formats.load(path)
    infer_shapes(graph)
    made = lift(graph)
    infer_shapes(made)
    return made


def checked(path: Path, scale: float = 3.0, shape: tuple[int, ...] = SHAPE) -> tuple[Counter, Counter]:
    """Ops of the lifted graph, and operators of its .tflite; its answers are those of ONNX Runtime."""
    import onnxruntime

    x = (np.random.default_rng(5).standard_normal(shape) * scale).astype(np.float32)
    x.flat[:3] = 0, 60, -60
    (expected,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": x})
    made = lifted(path)
    for engine in ("reference", "litert"):
        (found,) = thinflow.run(made, {"x": x}, engine=engine).values()
        np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-5)
    thinflow.save(made, path.with_suffix(".tflite"))
    written = formats.load(path.with_suffix(".tflite"))
    return _ops(made), Counter({op.removeprefix("tfl."): n for op, n in _ops(written).items()})


def _ops(graph: Graph) -> Counter:
    return Counter(n.op for n in graph if n.op not in {"Const", "Placeholder"})


BIG = float(np.finfo(np.float32).max)
SINGLE: dict[str, tuple[str, dict, list, int, str, str]] = {
    "relu6": ("Clip", {}, [0, 6], 13, "Relu6", "RELU6"),
    "relu6 by options": ("Clip", {"min": 0.0, "max": 6.0}, [], 9, "Relu6", "RELU6"),
    "relu": ("Clip", {}, [0], 13, "Relu", "RELU"),
    "relu up to the type's limit": ("Clip", {"min": 0.0, "max": BIG}, [], 9, "Relu", "RELU"),
    "another clip": ("Clip", {}, [-1, 6], 13, "Maximum Minimum", "MAXIMUM MINIMUM"),
    "a clip from below": ("Clip", {}, [1], 13, "Maximum", "MAXIMUM"),
    "leaky": ("LeakyRelu", {"alpha": 0.3}, [], 13, "LeakyRelu", "LEAKY_RELU"),
    "one slope": ("PRelu", {}, [[0.2]], 13, "LeakyRelu", "LEAKY_RELU"),
    "one steep slope": ("PRelu", {}, [[1.7]], 13, "Relu Relu Neg Mul AddV2", "PRELU"),
    "a slope per channel": (
        "PRelu", {}, [np.linspace(-1, 2, 4)], 13, "Relu Relu Neg Mul AddV2", "PRELU"),
    "elu": ("Elu", {}, [], 13, "Elu", "ELU"),
    "stretched elu": (
        "Elu", {"alpha": 0.3}, [], 13, "Elu Mul Greater SelectV2", "ELU MUL GREATER SELECT_V2"),
    "celu": ("Celu", {}, [], 13, "Elu", "ELU"),
    "soft celu": ("Celu", {"alpha": 1.7}, [], 13, "Minimum RealDiv Elu Mul Relu AddV2",
                  "MINIMUM MUL ELU MUL RELU ADD"),
    "hard swish": ("HardSwish", {}, [], 14, "AddV2 Relu6 Mul Mul", "HARD_SWISH"),
    "gelu": ("Gelu", {}, [], 20, "Mul Erf AddV2 Mul Mul", "GELU"),
    "gelu by tanh": (
        "Gelu", {"approximate": "tanh"}, [], 20,
        "Square Mul Mul AddV2 Mul Tanh AddV2 Mul Mul", "GELU"),
    "softmax": ("Softmax", {}, [], 13, "Softmax", "SOFTMAX"),
    "logarithm": ("LogSoftmax", {"axis": 3}, [], 13, "LogSoftmax", "LOG_SOFTMAX"),
    "softmax of channels": (
        "Softmax", {"axis": 1}, [], 13, "Transpose Softmax Transpose", "TRANSPOSE SOFTMAX TRANSPOSE"),
    "flat softmax": ("Softmax", {"axis": -2}, [], 11, "Reshape Softmax Reshape", "RESHAPE SOFTMAX RESHAPE"),
    "affine": ("Affine", {"alpha": 0.5, "beta": 2.0}, [], 9, "Mul AddV2", "MUL ADD"),
    "scale": ("Scale", {"scale": 0.5}, [], 9, "Mul", "MUL"),
    "image scaler": (
        "ImageScaler", {"scale": 0.5, "bias": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}, [], 9, "Mul AddV2", "MUL ADD"),
    "scaled tanh": ("ScaledTanh", {"alpha": 0.5, "beta": 2.0}, [], 9, "Mul Tanh Mul", "MUL TANH MUL"),
    "parametric softplus": ("ParametricSoftplus", {"alpha": 0.5, "beta": 2.0}, [], 9, "Mul Softplus Mul",
                            "MUL RELU ABS NEG EXP ADD LOG LESS SELECT_V2 ADD MUL"),
    "crop": ("Crop", {"border": [1, 2, 0, 1]}, [], 9, "StridedSlice", "STRIDED_SLICE"),
    "crop to a size": (
        "Crop", {"border": [1, 2, 0, 1], "scale": [2, 3]}, [], 9, "StridedSlice", "STRIDED_SLICE"),
    "sigmoid": ("Sigmoid", {}, [], 13, "Sigmoid", "LOGISTIC"),
}  # fmt: skip


@pytest.mark.parametrize("case", SINGLE)
def test_single_ops(case: str, tmp_path: Path) -> None:
    op, options, constants, opset, ops, operators = SINGLE[case]
    named = {f"c{n}": np.asarray(a) for n, a in enumerate(constants)}
    path = file(tmp_path / "m.onnx", [(op, ["x", *named], options)], named, opset, SHAPE)
    assert checked(path) == (Counter(ops.split()), Counter(operators.split()))


@pytest.mark.parametrize("seed", range(12))
def test_softmax_of_any_axis_and_version(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 6))
    shape = tuple(int(n) for n in rng.integers(2, 5, count))
    axis, opset = int(rng.integers(-count, count)), int(rng.choice([9, 11, 12, 13, 18]))
    op = str(rng.choice(["Softmax", "LogSoftmax"]))
    path = file(tmp_path / "m.onnx", [(op, ["x"], {"axis": axis})], {}, opset, shape)
    ops, _ = checked(path, 3.0, shape)
    assert ops[op] == 1


@pytest.mark.parametrize("seed", range(8))
def test_random_slopes_and_gates(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    alpha, beta = (float(n) for n in rng.uniform(0.1, 2.5, 2))
    for op, options in (
        ("Elu", {"alpha": alpha}), ("Selu", {"alpha": alpha, "gamma": beta}), ("Selu", {}),
        ("Celu", {"alpha": alpha}), ("HardSigmoid", {"alpha": alpha, "beta": beta}),
        ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}), ("ThresholdedRelu", {"alpha": alpha}),
        ("Mish", {}), ("Softplus", {}),
    ):  # fmt: skip
        checked(file(tmp_path / "m.onnx", [(op, ["x"], options)], {}, 18, SHAPE))


HALF, ONE, ROOT, LINE = ({n: np.float32(v)} for n, v in
                         (("h", 0.5), ("one", 1), ("r", np.sqrt(2)), ("k", 0.7978845608)))  # fmt: skip
CHAINS: dict[str, tuple[list[Step], dict, str]] = {
    "swish": ([("Sigmoid", ["x"], {}), ("Mul", ["x", "s0"], {})], {}, "LOGISTIC MUL"),
    "hard swish of a hard sigmoid": (
        [("HardSigmoid", ["x"], {"alpha": 1 / 6, "beta": 0.5}), ("Mul", ["x", "s0"], {})], {}, "HARD_SWISH"),
    "hard swish of a clip": (
        [("Add", ["x", "three"], {}), ("Clip", ["s0", "zero", "six"], {}), ("Mul", ["x", "s1"], {}),
         ("Div", ["s2", "six"], {})],
        {"three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)}, "HARD_SWISH"),
    "gelu of erf": (
        [("Div", ["x", "r"], {}), ("Erf", ["s0"], {}), ("Add", ["s1", "one"], {}), ("Mul", ["x", "s2"], {}),
         ("Mul", ["s3", "h"], {})], HALF | ONE | ROOT, "GELU"),
    "gelu of a power": (
        [("Pow", ["x", "three"], {}), ("Mul", ["s0", "c"], {}), ("Add", ["x", "s1"], {}),
         ("Mul", ["s2", "k"], {}), ("Tanh", ["s3"], {}), ("Add", ["s4", "one"], {}), ("Mul", ["x", "h"], {}),
         ("Mul", ["s6", "s5"], {})],
        HALF | ONE | LINE | {"three": np.float32(3), "c": np.float32(0.044715)}, "GELU"),
    "gelu of products": (
        [("Mul", ["x", "x"], {}), ("Mul", ["s0", "c"], {}), ("Add", ["s1", "one"], {}),
         ("Mul", ["x", "k"], {}), ("Mul", ["s3", "s2"], {}), ("Tanh", ["s4"], {}), ("Add", ["s5", "one"], {}),
         ("Mul", ["x", "h"], {}), ("Mul", ["s7", "s6"], {})],
        HALF | ONE | LINE | {"c": np.float32(0.044715)}, "GELU"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHAINS)
def test_chains_of_exporters(case: str, tmp_path: Path) -> None:
    steps, constants, operators = CHAINS[case]
    path = file(tmp_path / "m.onnx", steps, constants, 14, SHAPE)
    assert checked(path)[1] == Counter(operators.split())


@pytest.mark.parametrize("factor", [0.05, 0.044715])
def test_another_polynomial_is_no_gelu(factor: float, tmp_path: Path) -> None:
    steps, constants, _ = CHAINS["gelu of a power"]
    path = file(tmp_path / "m.onnx", steps, {**constants, "c": np.float32(factor)}, 14, SHAPE)
    assert checked(path)[1]["GELU"] == (factor == 0.044715)


def test_the_newest_swish(tmp_path: Path) -> None:
    path = file(tmp_path / "m.onnx", [("Swish", ["x"], {"alpha": 1.5})], {}, 24, SHAPE)
    assert checked(path)[1] == Counter(["MUL", "LOGISTIC", "MUL"])


def test_a_computed_bound_is_kept(tmp_path: Path) -> None:
    path = file(
        tmp_path / "m.onnx", [("ReduceMax", ["x"], {"keepdims": 0}), ("Clip", ["x", "low", "s0"], {})],
        {"low": np.float32(0)}, 13, SHAPE,
    )  # fmt: skip
    assert checked(path)[0]["Minimum"] == 1


@pytest.mark.parametrize(("axis", "joined"), [(1, 1), (-1, 4), (2, -3)])
def test_what_is_stacked_is_packed(axis: int, joined: int, tmp_path: Path) -> None:
    steps: list[Step] = [
        ("Neg", ["x"], {}), ("Unsqueeze", ["x", "axes"], {}), ("Unsqueeze", ["s0", "axes"], {}),
        ("Concat", ["s1", "s2"], {"axis": joined}),
    ]  # fmt: skip
    path = file(tmp_path / "m.onnx", steps, {}, 13, SHAPE)
    made = onnx.load(path)
    made.graph.initializer.append(numpy_helper.from_array(np.array([axis]), "axes"))
    onnx.save(made, path)
    ops, operators = checked(path)
    assert ops["Pack"] == 1
    assert operators == Counter(["NEG", "PACK"])


@pytest.mark.parametrize(
    ("op", "options", "said"),
    [
        ("ScaledTanh", {"alpha": 0.5}, "its option 'beta' is missing"),
        ("Crop", {"border": [1, 2]}, r"it cuts borders \[1, 2\] off"),
    ],
)
def test_options_that_are_missing(op: str, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match=said):
        lifted(file(tmp_path / "m.onnx", [(op, ["x"], options)], {}, 9, SHAPE))
