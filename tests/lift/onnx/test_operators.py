"""ONNX models in the interpreter: ONNX Runtime and the interpreter agree, op by op."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.cli import main
from thinflow.errors import UnsupportedOp
from thinflow.lift.rules import rules

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
helper, numpy_helper, TensorProto = onnx.helper, onnx.numpy_helper, onnx.TensorProto

RNG = np.random.default_rng(11)
X = RNG.standard_normal((1, 4, 6, 5)).astype(np.float32)
P = np.abs(X) + np.float32(0.1)
M = RNG.standard_normal((3, 4)).astype(np.float32)
WHOLE = RNG.integers(-9, 9, (3, 4), np.int64)
B = RNG.random((3, 4)) > 0.5
U = RNG.integers(0, 255, (1, 4, 6, 5), np.uint8)


def w(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def f(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def scalar(value: float, kind: Any = np.float32) -> np.ndarray:
    return np.array(value, kind)


def codes(kind: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(kind)
    return RNG.integers(info.min, info.max, shape, kind)


Case = tuple[str, list, list, dict]
"""Op, inputs that are fed, constants (None for an absent one), options."""
UNARY = (
    "Abs Atan Asinh Ceil Cos Cosh Erf Exp Floor Neg Relu Round Sigmoid Sign Sin Sinh Softplus "
    "Softsign Tan Tanh"
)
POSITIVE = {"Log": P, "Sqrt": P, "Reciprocal": P, "Acosh": P + 1}
SMALL = {"Acos": np.tanh(X), "Asin": np.tanh(X), "Atanh": np.tanh(X) * np.float32(0.9)}
CASES: dict[str, Case] = {
    **{op: (op, [X], [], {}) for op in UNARY.split()},
    **{op: (op, [x], [], {}) for op, x in (POSITIVE | SMALL).items()},
    **{op: (op, [M], [w(4)], {}) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean")},
    **{f"{op} three": (op, [M, M * 2], [w(4)], {}) for op in ("Max", "Min", "Sum", "Mean")},
    **{op: (op, [M], [w(3, 4)], {}) for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")},
    **{op: (op, [B], [~B], {}) for op in ("And", "Or", "Xor")},
    **{op: (op, [WHOLE], [WHOLE + 3], {}) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "BitwiseNot": ("BitwiseNot", [WHOLE], [], {}),
    "Not": ("Not", [B], [], {}),
    "Identity": ("Identity", [X], [], {}),
    "IsNaN": ("IsNaN", [f(1, np.nan, 2)], [], {}),
    "IsInf": ("IsInf", [f(1, np.inf, -np.inf)], [], {"detect_negative": 0}),
    "IsInf negative": ("IsInf", [f(1, np.inf, -np.inf)], [], {"detect_positive": 0}),
    "Div whole": ("Div", [WHOLE], [np.full((3, 4), 4, np.int64)], {}),
    "Mod": ("Mod", [WHOLE], [np.full((3, 4), 4, np.int64)], {}),
    "Mod fmod": ("Mod", [M], [np.full((3, 4), 0.7, np.float32)], {"fmod": 1}),
    "Pow": ("Pow", [P], [scalar(2, np.int64)], {}),
    "Clip": ("Clip", [X], [scalar(-0.5), scalar(0.7)], {}),
    "Clip above": ("Clip", [X], [None, scalar(0.7)], {}),
    "LeakyRelu": ("LeakyRelu", [X], [], {"alpha": 0.3}),
    "PRelu": ("PRelu", [X], [w(4, 1, 1)], {}),
    "Elu": ("Elu", [X], [], {"alpha": 0.7}),
    "Selu": ("Selu", [X], [], {}),
    "Celu": ("Celu", [X], [], {"alpha": 0.7}),
    "HardSigmoid": ("HardSigmoid", [X], [], {}),
    "HardSwish": ("HardSwish", [X], [], {}),
    "Mish": ("Mish", [X], [], {}),
    "ThresholdedRelu": ("ThresholdedRelu", [X], [], {"alpha": 0.4}),
    "Gelu": ("Gelu", [X], [], {}),
    "Gelu tanh": ("Gelu", [X], [], {"approximate": "tanh"}),
    "com.microsoft.Gelu": ("com.microsoft.Gelu", [X], [], {}),
    "Where": ("Where", [B], [w(3, 4), w(4)], {}),
    "Softmax": ("Softmax", [X], [], {"axis": 1}),
    "LogSoftmax": ("LogSoftmax", [X], [], {}),
    "Cast": ("Cast", [X * 5], [], {"to": TensorProto.INT32}),
    "CastLike": ("CastLike", [X * 5], [whole(1)], {}),
    "Dropout": ("Dropout", [X], [], {}),
    "MatMul": ("MatMul", [M], [w(4, 2)], {}),
    "MatMul batch": ("MatMul", [X], [w(5, 3)], {}),
    "MatMul vector": ("MatMul", [M], [w(4)], {}),
    "MatMul row": ("MatMul", [f(1, 2, 3)], [w(3, 4)], {}),
    "Gemm": ("Gemm", [M], [w(2, 4), w(2)], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    "Gemm a": ("Gemm", [M], [w(3, 2)], {"transA": 1}),
    "Einsum": ("Einsum", [M], [w(4, 2)], {"equation": "ij,jk->ki"}),
    **{f"Reduce{op}": (f"Reduce{op}", [P], [whole(1, -1)], {}) for op in
       ("Mean", "Sum", "Prod", "Max", "Min", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")},
    "ReduceSum flat": ("ReduceSum", [X], [], {"keepdims": 0}),
    "ReduceMean nothing": ("ReduceMean", [X], [], {"noop_with_empty_axes": 1}),
    "ReduceLogSumExp flat": ("ReduceLogSumExp", [X], [whole(2)], {"keepdims": 0}),
    "ArgMax": ("ArgMax", [X], [], {"axis": -1}),
    "ArgMin": ("ArgMin", [X], [], {"axis": 1, "keepdims": 0}),
    "BatchNormalization": ("BatchNormalization", [X], [w(4), w(4), w(4), np.abs(w(4)) + 1],
            {"epsilon": 1e-3}),
    "InstanceNormalization": ("InstanceNormalization", [X], [w(4), w(4)], {}),
    "LayerNormalization": ("LayerNormalization", [X], [w(6, 5), w(6, 5)], {"axis": 2}),
    "LpNormalization": ("LpNormalization", [X], [], {"axis": 1}),
    "LpNormalization one": ("LpNormalization", [X], [], {"axis": 1, "p": 1}),
    "Reshape": ("Reshape", [X], [whole(0, -1, 10)], {}),
    "Flatten": ("Flatten", [X], [], {"axis": 2}),
    "Flatten all": ("Flatten", [X], [], {"axis": 0}),
    "Transpose": ("Transpose", [X], [], {"perm": [0, 2, 3, 1]}),
    "Transpose back": ("Transpose", [X], [], {}),
    "Concat": ("Concat", [X], [w(1, 2, 6, 5), w(1, 1, 6, 5)], {"axis": 1}),
    "Concat of one": ("Concat", [X], [], {"axis": 1}),
    "Slice": ("Slice", [X], [whole(1, -3), whole(2**62, -1), whole(2, 3)], {}),
    "Slice back": ("Slice", [X], [whole(-1), whole(-(2**62)), whole(3), whole(-2)], {}),
    "Gather": ("Gather", [X], [np.int64([[0, -1], [2, 1]])], {"axis": 1}),
    "GatherElements": ("GatherElements", [M], [np.int64([[0, -1, 2, 1]])], {"axis": 0}),
    "GatherND": ("GatherND", [X], [np.int64([[0, 1], [0, -1]])], {}),
    "ScatterND": ("ScatterND", [M], [np.int64([[0], [2]]), w(2, 4)], {}),
    "Squeeze": ("Squeeze", [X], [whole(0)], {}),
    "Unsqueeze": ("Unsqueeze", [X], [whole(0, -1)], {}),
    "Expand": ("Expand", [X], [whole(2, 1, 1, 5)], {}),
    "Tile": ("Tile", [M], [whole(2, 3)], {}),
    "Pad": ("Pad", [M], [whole(1, 0, 0, 2), scalar(7)], {}),
    "Pad cut": ("Pad", [M], [whole(-1, 0, 0, 2)], {}),
    "Pad reflect": ("Pad", [M], [whole(1, 2, 0, 1)], {"mode": "reflect"}),
    "Pad edge": ("Pad", [M], [whole(1, 2, 0, 1)], {"mode": "edge"}),
    "Shape": ("Shape", [X], [], {}),
    "Shape part": ("Shape", [X], [], {"start": 1, "end": -1}),
    "Size": ("Size", [X], [], {}),
    "ConstantOfShape": ("ConstantOfShape", [whole(2, 3)], [], {"value": numpy_helper.from_array(whole(7))}),
    "ConstantOfShape zeros": ("ConstantOfShape", [whole(2, 3)], [], {}),
    "Range": ("Range", [scalar(1, np.int64)], [scalar(9, np.int64), scalar(2, np.int64)], {}),
    "OneHot": ("OneHot", [np.int64([0, -1, 2])], [scalar(4, np.int64), f(0.5, 2)], {}),
    "CumSum": ("CumSum", [M], [scalar(1, np.int64)], {"exclusive": 1, "reverse": 1}),
    "NonZero": ("NonZero", [B], [], {}),
    "Trilu": ("Trilu", [M], [scalar(1, np.int64)], {}),
    "Trilu lower": ("Trilu", [M], [], {"upper": 0}),
    "DepthToSpace": ("DepthToSpace", [X], [], {"blocksize": 2}),
    "DepthToSpace CRD": ("DepthToSpace", [X], [], {"blocksize": 2, "mode": "CRD"}),
    "SpaceToDepth": ("SpaceToDepth", [w(1, 2, 6, 4)], [], {"blocksize": 2}),
    "Conv": ("Conv", [X], [w(3, 4, 3, 3), w(3)], {"pads": [1, 0, 1, 2], "strides": [2, 1]}),
    "Conv dilated": ("Conv", [X], [w(3, 4, 2, 2)], {"dilations": [2, 3]}),
    "Conv same": ("Conv", [X], [w(3, 4, 2, 2)], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "Conv upper": ("Conv", [X], [w(3, 4, 2, 2)], {"auto_pad": "SAME_UPPER"}),
    "Conv depthwise": ("Conv", [X], [w(8, 1, 3, 3), w(8)], {"group": 4, "pads": [1, 1, 1, 1]}),
    "Conv groups": ("Conv", [X], [w(6, 2, 3, 3)], {"group": 2}),
    "Conv line": ("Conv", [w(2, 4, 9)], [w(3, 4, 3), w(3)], {"pads": [1, 1], "strides": [2]}),
    "Conv line depthwise": ("Conv", [w(2, 4, 9)], [w(4, 1, 3)], {"group": 4}),
    "Conv volume": ("Conv", [w(1, 2, 4, 5, 6)], [w(3, 2, 2, 2, 3)], {"pads": [1, 0, 0, 0, 0, 1]}),
    "ConvTranspose": ("ConvTranspose", [X], [w(4, 3, 3, 3), w(3)],
                      {"strides": [2, 2], "pads": [1, 0, 1, 1], "output_padding": [1, 0]}),
    "MaxPool": ("MaxPool", [X], [], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "MaxPool up": ("MaxPool", [X], [], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "MaxPool line": ("MaxPool", [w(2, 4, 9)], [], {"kernel_shape": [3]}),
    "AveragePool": ("AveragePool", [X], [], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]}),
    "AveragePool border": ("AveragePool", [X], [], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1],
            "count_include_pad": 1}),
    "GlobalAveragePool": ("GlobalAveragePool", [X], [], {}),
    "GlobalMaxPool": ("GlobalMaxPool", [X], [], {}),
    "LRN": ("LRN", [X], [], {"size": 3, "alpha": 0.01}),
    "Resize linear": ("Resize", [X], [None, f(1, 1, 2, 1.5)], {"mode": "linear"}),
    "Resize corners": ("Resize", [X], [None, None, whole(1, 4, 9, 3)],
                       {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    **{f"Resize nearest {m} {t}": ("Resize", [X], [None, f(1, 1, 2, 0.6)],
       {"nearest_mode": m, "coordinate_transformation_mode": t})
       for m in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
       for t in ("asymmetric", "half_pixel", "pytorch_half_pixel")},
    "QuantizeLinear": ("QuantizeLinear", [X], [scalar(0.02), scalar(3, np.int8)], {}),
    "QuantizeLinear axis": ("QuantizeLinear", [X], [f(0.02, 0.1, 0.3, 0.05), np.uint8([1, 2, 3, 4])],
            {"axis": 1}),
    "DequantizeLinear": ("DequantizeLinear", [U], [scalar(0.02), scalar(30, np.uint8)], {}),
    "DequantizeLinear axis": ("DequantizeLinear", [U], [f(0.1, 0.2, 0.3, 0.4), np.uint8([1, 2, 3, 4])],
            {"axis": 1}),
    "QLinearConv": ("QLinearConv", [U], [scalar(0.05), scalar(120, np.uint8), codes(np.int8, 3, 4, 3, 3),
                    f(0.01, 0.02, 0.03), np.int8([0, 0, 0]), scalar(0.9), scalar(128, np.uint8),
                    np.int32([100, -300, 50])], {"pads": [1, 1, 1, 1]}),
    "QLinearConv depthwise": ("QLinearConv", [U], [scalar(0.05), scalar(120, np.uint8), codes(np.int8,
            4, 1, 3, 3),
                    scalar(0.02), scalar(0, np.int8), scalar(0.4), scalar(128, np.uint8)], {"group": 4}),
    "QLinearMatMul": ("QLinearMatMul", [codes(np.uint8, 3, 4)], [scalar(0.05), scalar(120, np.uint8),
                      codes(np.uint8, 4, 2), scalar(0.02), scalar(130, np.uint8), scalar(0.1),
                              scalar(128, np.uint8)], {}),
    "ConvInteger": ("ConvInteger", [U], [codes(np.uint8, 3, 4, 3, 3), scalar(7, np.uint8), scalar(9,
            np.uint8)], {}),
    "MatMulInteger": ("MatMulInteger", [codes(np.uint8, 3, 4)], [codes(np.int8, 4, 2), scalar(7,
            np.uint8)], {}),
    **{f"com.microsoft.QLinear{op}": (f"com.microsoft.QLinear{op}", [U], [scalar(0.05), scalar(120, np.uint8),
       codes(np.uint8, 4, 1, 1), scalar(0.02), scalar(130, np.uint8), scalar(0.1), scalar(128, np.uint8)], {})
       for op in ("Add", "Mul")},
    "com.microsoft.QLinearSigmoid": ("com.microsoft.QLinearSigmoid", [U], [scalar(0.05), scalar(120,
            np.uint8),
       scalar(1 / 256), scalar(0, np.uint8)], {}),
    "com.microsoft.QLinearGlobalAveragePool": ("com.microsoft.QLinearGlobalAveragePool", [U],
       [scalar(0.05), scalar(120, np.uint8), scalar(0.04), scalar(110, np.uint8)], {}),
}  # fmt: skip
TWO = {"Split": ("Split", [X], [whole(1, 3)], {"axis": 1}), "TopK": ("TopK", [X], [whole(2)], {"axis": 2}),
       "DynamicQuantizeLinear": ("DynamicQuantizeLinear", [X], [], {})}  # fmt: skip


def model(op: str, fed: list, constants: list, options: dict, outputs: int = 1, opset: int = 20) -> bytes:
    domain, _, name = op.rpartition(".")
    names = [f"x{i}" for i in range(len(fed))]
    inits = [numpy_helper.from_array(a, f"c{i}") for i, a in enumerate(constants) if a is not None]
    operands = [*names, *("" if a is None else f"c{i}" for i, a in enumerate(constants))]
    ys = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(name, operands, ys, domain=domain, **options)
    graph = helper.make_graph(
        [node], "g", _infos(names, fed), [helper.make_empty_tensor_value_info(y) for y in ys], inits
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def _infos(names: list[str], arrays: list) -> list:
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
    return [
        helper.make_tensor_value_info(n, k, a.shape) for n, k, a in zip(names, kinds, arrays, strict=True)
    ]


def both(path: Path, feed: dict) -> list[tuple[np.ndarray, np.ndarray]]:
    one, other = (thinflow.run(path, feed, engine=e) for e in ("onnxruntime", "reference"))
    assert list(one) == [n.removesuffix(":0") for n in other]
    return list(zip(one.values(), other.values(), strict=True))


def agree(expected: np.ndarray, found: np.ndarray, steps: int) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if steps:
        assert np.abs(found.astype(int) - expected).max() <= steps
    else:
        np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-5)


ROUNDED = ("QLinear", "QuantizeLinear", "com.microsoft.QLinear", "DynamicQuantizeLinear")
"""Ops whose results are codes; they may be one code away."""


@pytest.mark.parametrize("case", [*CASES, *TWO])
def test_the_interpreter_and_onnxruntime_agree(case: str, tmp_path: Path) -> None:
    op, fed, constants, options = (CASES | TWO)[case]
    count = {"Split": 2, "TopK": 2, "DynamicQuantizeLinear": 3}.get(op, 1)
    (tmp_path / "m.onnx").write_bytes(model(op, fed, constants, options, count))
    for expected, found in both(tmp_path / "m.onnx", {f"x{i}": x for i, x in enumerate(fed)}):
        agree(expected, found, int(op.startswith(ROUNDED) and expected.dtype.kind in "iu"))


def test_every_rule_is_tried() -> None:
    tried = {op.rpartition(".")[2] for op, *_ in (CASES | TWO).values()}
    for file in Path(__file__).parent.glob("test_*.py"):
        tried |= set(re.findall(r'"[\w.]*?([A-Z]\w+)"', file.read_text("utf-8")))
    assert {op.rpartition(".")[2] for op in rules() if op.startswith("onnx.")} <= tried


OLD: dict[str, tuple[Case, int]] = {
    "Softmax over the rest": (("Softmax", [X], [], {"axis": 2}), 9),
    "Clip by options": (("Clip", [X], [], {"min": -0.5, "max": 0.5}), 9),
    "Slice by options": (("Slice", [X], [], {"starts": [1], "ends": [3], "axes": [2]}), 9),
    "Squeeze by options": (("Squeeze", [X], [], {"axes": [0]}), 11),
    "Unsqueeze by options": (("Unsqueeze", [X], [], {"axes": [0]}), 11),
    "ReduceSum by options": (("ReduceSum", [X], [], {"axes": [1]}), 11),
    "Pad by options": (("Pad", [M], [], {"pads": [1, 0, 0, 2], "value": 3.0}), 10),
    "Split evenly": (("Split", [X], [], {"axis": 1}), 11),
    "TopK by option": (("TopK", [X], [], {"k": 2, "axis": -1}), 9),
    "Upsample": (("Upsample", [X], [f(1, 1, 2, 3)], {"mode": "nearest"}), 9),
    "Resize of version 10": (("Resize", [X], [f(1, 1, 2, 2)], {"mode": "nearest"}), 10),
}


@pytest.mark.parametrize("case", OLD)
def test_older_versions_of_ops(case: str, tmp_path: Path) -> None:
    (op, fed, constants, options), version = OLD[case]
    count = 2 if op in {"Split", "TopK"} else 1
    (tmp_path / "m.onnx").write_bytes(model(op, fed, constants, options, count, version))
    for expected, found in both(tmp_path / "m.onnx", {"x0": fed[0]}):
        agree(expected, found, 0)


def graph_file(path: Path, nodes: list, inputs: dict, outputs: list[str], inits: dict) -> Path:
    graph = helper.make_graph(
        nodes, "g", _infos(list(inputs), list(inputs.values())),
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(a, n) for n, a in inits.items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())
    return path


def test_rows_of_infinities(tmp_path: Path) -> None:
    i = np.float32(np.inf)
    x = np.array([[-i, -i], [i, 1], [i, -i], [np.nan, 1], [1000, 1000]], np.float32)
    for keepdims in (0, 1):
        case = model("ReduceLogSumExp", [x], [whole(1)], {"keepdims": keepdims})
        (tmp_path / "m.onnx").write_bytes(case)
        for expected, found in both(tmp_path / "m.onnx", {"x0": x}):
            agree(expected, found, 0)
            assert found.ravel()[0] == -i


def test_a_range_of_nothing(tmp_path: Path) -> None:
    x = np.zeros((2, 3), np.float32)
    (tmp_path / "m.onnx").write_bytes(model("DynamicQuantizeLinear", [x], [], {}, 3))
    values = [found.tolist() for expected, found in both(tmp_path / "m.onnx", {"x0": x})
              if np.array_equal(expected, found)]  # fmt: skip
    assert values == [[[0, 0, 0]] * 2, 1, 0]


def test_the_version_of_onnx_itself_behind_that_of_another_domain(tmp_path: Path) -> None:
    """Softmax before version 13 goes over all axes from the named one on."""
    imports = [helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("", 9)]
    node = helper.make_node("Softmax", ["x"], ["y"], axis=2)
    graph = helper.make_graph([node], "g", _infos(["x"], [X]), [helper.make_empty_tensor_value_info("y")])
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    for expected, found in both(tmp_path / "m.onnx", {"x": X}):
        agree(expected, found, 0)


def test_a_quantized_join(tmp_path: Path) -> None:
    inits = {
        "s": scalar(0.1),
        "z": scalar(100, np.uint8),
        "sa": scalar(0.05),
        "za": scalar(120, np.uint8),
        "b": U,
    }
    node = helper.make_node(
        "QLinearConcat", ["s", "z", "x", "sa", "za", "b", "s", "z"], ["y"], domain="com.microsoft", axis=1
    )
    path = graph_file(tmp_path / "m.onnx", [node], {"x": U}, ["y"], inits)
    for expected, found in both(path, {"x": U}):
        agree(expected, found, 1)


def test_sizes_that_are_computed(tmp_path: Path) -> None:
    """What exporters write for x.view(x.size(0), -1)[:, :half]."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
        helper.make_node("Concat", ["batch", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["flat"]),
        helper.make_node("Shape", ["flat"], ["flat_shape"]),
        helper.make_node("Gather", ["flat_shape", "one"], ["width"], axis=0),
        helper.make_node("Div", ["width", "two"], ["half"]),
        helper.make_node("Slice", ["flat", "zero", "half", "one"], ["y"]),
    ]
    inits = {"zero": whole(0), "one": whole(1), "two": whole(2), "rest": whole(-1)}
    path = graph_file(tmp_path / "m.onnx", nodes, {"x": X}, ["y"], inits)
    for expected, found in both(path, {"x": X}):
        agree(expected, found, 0)


def test_branches(tmp_path: Path) -> None:
    def body(name: str, op: str) -> Any:
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4])
        return helper.make_graph([helper.make_node(op, ["x"], [name])], name, [], [out])

    nodes = [helper.make_node("If", ["p"], ["y"], then_branch=body("a", "Neg"), else_branch=body("b", "Abs"))]
    for given in (True, False):
        feed = {"p": np.array(given), "x": M}
        path = graph_file(tmp_path / "m.onnx", nodes, feed, ["y"], {})
        for expected, found in both(path, feed):
            agree(expected, found, 0)


def loop_body(scans: bool) -> Any:
    """out = s + step, goes on while out[0] < 5; gathers out."""
    i, p, s = (
        helper.make_tensor_value_info(n, k, d)
        for n, k, d in (
            ("i", TensorProto.INT64, []), ("p", TensorProto.BOOL, []), ("s", TensorProto.FLOAT, [2]),
        )
    )  # fmt: skip
    nodes = [
        helper.make_node("Add", ["s", "step"], ["out"]),
        helper.make_node("Gather", ["out", "zero"], ["first"]),
        helper.make_node("Less", ["first", "five"], ["q"]),
        helper.make_node("Identity", ["out"], ["kept"]),
    ]
    outs = [
        helper.make_tensor_value_info(n, k, d)
        for n, k, d in (
            ("q", TensorProto.BOOL, []), ("out", TensorProto.FLOAT, [2]), ("kept", TensorProto.FLOAT, [2]),
        )
    ]  # fmt: skip
    inits = [numpy_helper.from_array(scalar(0, np.int64), "zero"), numpy_helper.from_array(scalar(5), "five")]
    return helper.make_graph(nodes[: 3 + scans], "body", [i, p, s], outs[: 2 + scans], inits)


@pytest.mark.parametrize("limit", [0, 3, 9])
@pytest.mark.parametrize("scans", [False, True])
def test_loops(tmp_path: Path, limit: int, scans: bool) -> None:
    outputs = ["y", "all"] if scans else ["y"]
    nodes = [helper.make_node("Loop", ["m", "go", "x"], outputs, body=loop_body(scans))]
    feed = {"m": scalar(limit, np.int64), "x": f(0, 1), "step": f(1, 10)}
    path = graph_file(tmp_path / "m.onnx", nodes, feed, outputs, {"go": np.array(True)})
    for expected, found in both(path, feed):
        agree(expected, found, 0)


def test_what_cannot_be_said_names_the_node_and_the_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.onnx").write_bytes(model("ImageDecoder", [M], [], {}))
    with pytest.raises(UnsupportedOp, match=r"node 'y0' \(onnx.ImageDecoder\).*no counterpart") as caught:
        thinflow.run(tmp_path / "m.onnx", {"x0": M}, engine="reference")
    assert caught.value.hint.endswith("engine='onnxruntime'")
    assert main(["run", str(tmp_path / "m.onnx"), "--engine", "reference"]) == 1
    assert "onnxruntime" in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("scales", [(1.5, 0.7), (0.6, 2.3), (0.6, 0.26), (2, 1.2)])
def test_corners_aligned_in_sizes_with_fractions(mode: str, scales: tuple, tmp_path: Path) -> None:
    """By ONNX's own definition, which counts with the fraction; ONNX Runtime leaves it out."""
    from onnx.reference import ReferenceEvaluator

    options = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    (tmp_path / "m.onnx").write_bytes(model("Resize", [X], [None, f(1, 1, *scales)], options))
    graph = thinflow.load(tmp_path / "m.onnx", lift=False)
    (name,) = (v.name for v in graph.inputs)
    (found,) = thinflow.Session(graph, engine="reference").run([v.name for v in graph.outputs], {name: X})
    (wanted,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {name.removesuffix(":0"): X})
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
