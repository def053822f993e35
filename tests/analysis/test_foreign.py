"""Shapes, costs and kinds of numbers of LiteRT's and ONNX's ops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow import formats
from thinflow.analysis import foreign
from thinflow.analysis.precision import precision
from thinflow.formats import tflite
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.tensor import Tensor as Constant
from thinflow.ir.types import FLOAT, INT8, DType, TensorSpec, dtype
from thinflow.ops.registry import Cost
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

NETWORK = """
x = Placeholder() {dtype=float, shape=shape[1,8,8,2]}
w = Const() {dtype=float, value=float[3,3,2,4]{W}}
b = Const() {dtype=float, value=float[4]{1,2,3,4}}
d = Const() {dtype=float, value=float[3,3,4,1]{D}}
m = Const() {dtype=float, value=float[64,3]{M}}
s = Const() {dtype=int32, value=int32[2]{1,64}}
c = Conv2D(x, w) {T=float, strides=[1,1,1,1], padding="SAME"}
a = BiasAdd(c, b) {T=float}
r = Relu(a) {T=float}
e = DepthwiseConv2dNative(r, d) {T=float, strides=[1,1,1,1], padding="SAME"}
p = MaxPool(e) {T=float, ksize=[1,2,2,1], strides=[1,2,2,1], padding="VALID"}
f = Reshape(p, s) {T=float, Tshape=int32}
y = MatMul(f, m) {T=float}
inputs: x
outputs: y
"""
for _letter, _count in (("W", 72), ("D", 36), ("M", 192)):
    NETWORK = NETWORK.replace(f"{{{_letter}}}", "{" + ",".join(["0.5"] * _count) + "}")


@pytest.mark.parametrize("suffix", [".tflite", ".onnx"])
def test_a_conversion_costs_what_its_source_costs(tmp_path: Path, suffix: str) -> None:
    source = parse_graph(NETWORK)
    thinflow.save(source, tmp_path / f"m{suffix}")
    before = thinflow.summarize(source)
    after = thinflow.summarize(tmp_path / f"m{suffix}")
    assert before.cost.total.macs == 64 * 4 * 18 + 64 * 4 * 9 + 64 * 3
    assert after.cost.total.macs == before.cost.total.macs
    assert after.cost.unknown == {}
    assert after.parameters.count >= 72 + 4 + 36 + 192
    assert after.peak is not None
    assert after.peak.complete


def test_bias_and_activation_count_once_per_element(tmp_path: Path) -> None:
    thinflow.save(parse_graph(NETWORK), tmp_path / "m.tflite")
    cost = thinflow.summarize(tmp_path / "m.tflite").cost.by_node
    assert cost["r"] == Cost(2 * 64 * 4 * 18 + 2 * 64 * 4, 64 * 4 * 18)
    assert cost["p"] == Cost(16 * 4 * 4)


def node(op: str, inputs: list[tuple[int, ...] | Constant], output: tuple[int | None, ...] | None, **attrs):
    """A node with inputs of these sizes, or constants."""
    graph = Graph()
    values: list[Value] = []
    for item in inputs:
        if isinstance(item, Constant):
            value = graph.constant(item)
            value.spec = TensorSpec(item.dtype, item.shape, tuple(item.numpy().ravel().tolist()))
        else:
            value = graph.add("Placeholder", attrs={"dtype": FLOAT, "shape": ShapeAttr(item)}).output()
            value.spec = TensorSpec(FLOAT, item)
        values.append(value)
    said = {"_output_shapes": (ShapeAttr(output),), "_output_types": (FLOAT,)}
    return graph.add(op, values, attrs={**said, **attrs})


def ints(*values: int) -> Constant:
    return Constant.from_array(np.int64(values))


COSTS = {
    "tfl.TRANSPOSE_CONV": ([(4,), (5, 3, 3, 2), (1, 4, 4, 2)], (1, 8, 8, 5), 32 * 45),
    "tfl.FULLY_CONNECTED": ([(2, 7), (3, 7)], (2, 3), 42),
    "tfl.BATCH_MATMUL": ([(5, 2, 7), (5, 7, 3)], (5, 2, 3), 210),
    "tfl.CONV_3D": ([(1, 4, 4, 4, 2), (2, 2, 2, 2, 3)], (1, 3, 3, 3, 3), 81 * 16),
    "onnx.Gemm": ([(2, 7), (7, 3)], (2, 3), 42),
    "onnx.MatMul": ([(5, 2, 7), (7, 3)], (5, 2, 3), 210),
    "onnx.Conv": ([(1, 4, 8, 8), (6, 2, 3, 3)], (1, 6, 6, 6), 216 * 18),
    "onnx.ConvTranspose": ([(1, 2, 4, 4), (2, 5, 3, 3)], (1, 5, 6, 6), 32 * 45),
    "onnx.LSTM": ([(10, 1, 4), (1, 12, 4), (1, 12, 3)], (10, 1, 1, 3), 10 * (48 + 36)),
}


@pytest.mark.parametrize("op", COSTS)
def test_multiply_adds(op: str) -> None:
    inputs, output, macs = COSTS[op]
    made = node(op, inputs, output)
    found = foreign.cost(made, foreign.stated(made), [v.spec for v in made.inputs])
    assert found is not None
    assert found.macs == macs
    assert foreign.cost(made, foreign.stated(made), [TensorSpec(FLOAT)] * len(inputs)) is None


SHAPES: list[tuple[str, list, dict, tuple[int | None, ...]]] = [
    ("Conv", [(1, 2, 9, 9), (4, 2, 3, 3)], {"strides": (2, 2), "pads": (1, 1, 1, 1)}, (1, 4, 5, 5)),
    ("Conv", [(1, 2, 9, 9), (4, 2, 3, 3)], {"auto_pad": b"SAME_UPPER", "strides": (2, 2)}, (1, 4, 5, 5)),
    ("Conv", [(1, 2, 9, 9), (4, 2, 3, 3)], {"dilations": (2, 2)}, (1, 4, 5, 5)),
    ("MaxPool", [(1, 2, 9, 9)], {"kernel_shape": (2, 2), "strides": (2, 2)}, (1, 2, 4, 4)),
    ("MaxPool", [(1, 2, 9, 9)], {"kernel_shape": (2, 2), "strides": (2, 2), "ceil_mode": 1}, (1, 2, 5, 5)),
    # ONNX Runtime 1.32 gives these sizes: no window begins in the padding behind the input.
    (
        "MaxPool",
        [(1, 1, 4)],
        {"kernel_shape": (2,), "strides": (3,), "ceil_mode": 1, "pads": (0, 1)},
        (1, 1, 2),
    ),
    (
        "MaxPool",
        [(1, 1, 2)],
        {"kernel_shape": (2,), "strides": (3,), "ceil_mode": 1, "pads": (1, 1)},
        (1, 1, 1),
    ),
    ("ConvTranspose", [(1, 2, 4, 4), (2, 5, 3, 3)], {"strides": (2, 2)}, (1, 5, 9, 9)),
    ("GlobalAveragePool", [(1, 2, 9, 9)], {}, (1, 2, 1, 1)),
    ("Add", [(4, 1, 3), (5, 1)], {}, (4, 5, 3)),
    ("Gemm", [(2, 7), (3, 7)], {"transB": 1}, (2, 3)),
    ("MatMul", [(5, 2, 7), (7, 3)], {}, (5, 2, 3)),
    ("MatMul", [(7,), (7, 3)], {}, (3,)),
    ("Flatten", [(2, 3, 4)], {}, (2, 12)),
    ("Reshape", [(2, 3, 4), ints(0, -1)], {}, (2, 12)),
    ("Transpose", [(2, 3, 4)], {"perm": (2, 0, 1)}, (4, 2, 3)),
    ("Concat", [(2, 3), (2, 4)], {"axis": -1}, (2, 7)),
    ("Squeeze", [(1, 3, 1)], {}, (3,)),
    ("Squeeze", [(1, 3, 1), ints(0)], {}, (3, 1)),
    ("Unsqueeze", [(3,), ints(0, 2)], {}, (1, 3, 1)),
    ("Pad", [(2, 3), ints(0, 1, 0, 2)], {}, (2, 6)),
    ("ReduceMean", [(2, 3, 4)], {"axes": (1, 2), "keepdims": 0}, (2,)),
    ("ReduceSum", [(2, 3, 4), ints(-1)], {}, (2, 3, 1)),
    ("ReduceSum", [(2, 3), ints()], {}, (1, 1)),
    ("ReduceSum", [(2, 3), ints()], {"noop_with_empty_axes": 1}, (2, 3)),
    ("ReduceMax", [(2, 3)], {"noop_with_empty_axes": 1}, (2, 3)),
    ("ReduceMax", [(2, 3)], {"noop_with_empty_axes": 0}, (1, 1)),
    ("ArgMax", [(2, 3)], {"axis": 1, "keepdims": 0}, (2,)),
    ("Gather", [(5, 3), (2, 2)], {}, (2, 2, 3)),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "shape"), SHAPES)
def test_onnx_shapes(op: str, inputs: list, attrs: dict, shape: tuple[int, ...]) -> None:
    made = node(f"onnx.{op}", inputs, None, **attrs)
    assert foreign.infer(made, [v.spec for v in made.inputs])[0].shape == shape


def test_a_dot_product_costs_by_the_axes_it_sums_over() -> None:
    x, y, z = Tensor("x", (3, 2, 5, 7), FLOAT), Tensor("y", (2, 7, 3), FLOAT), Tensor("z", (2, 5), FLOAT)
    axes = {"lhs_batching_dimensions": (1,), "rhs_batching_dimensions": (0,)}
    axes |= {"lhs_contracting_dimensions": (3, 0), "rhs_contracting_dimensions": (1, 2)}
    program = Program([Subgraph([x, y], [z], [Operator("STABLEHLO_DOT_GENERAL", [x, y], [z], axes)])])
    summary = thinflow.summarize(tflite.from_bytes(to_bytes(program)))
    assert summary.cost.total.macs == 2 * 5 * 7 * 3


def test_sizes_that_do_not_fit_give_no_error() -> None:
    made = node("onnx.Conv", [(1, 2), (4, 2, 3, 3)], None)
    assert foreign.infer(made, [v.spec for v in made.inputs])[0].shape is None


def conv(x: DType, w: DType, *, through: bool = False) -> Graph:
    """A CONV_2D on such numbers."""
    q = Quantization(np.float32([0.5]), np.int64([0]))
    a = Tensor("x", (1, 4, 4, 1), x, quantization=q if x is not FLOAT else None)
    data = np.ones((1, 1, 1, 1), w.numpy())
    weights = Tensor("w", (1, 1, 1, 1), w, data, quantization=q if w is INT8 else None)
    y = Tensor("y", (1, 4, 4, 1), x, quantization=q if x is not FLOAT else None)
    steps = []
    if through:
        wide = Tensor("wide", (1, 1, 1, 1), FLOAT)
        steps, weights = [Operator("DEQUANTIZE", [weights], [wide])], wide
    options = {"stride_w": 1, "stride_h": 1}
    bias = Tensor(
        "b",
        (1,),
        FLOAT if x is FLOAT else dtype("int32"),
        np.zeros(1, np.float32 if x is FLOAT else np.int32),
    )
    steps.append(Operator("CONV_2D", [a, weights, bias], [y], options))
    return tflite.from_bytes(to_bytes(Program([Subgraph([a], [y], steps)])))


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (conv(FLOAT, FLOAT), "float32"),
        (conv(INT8, INT8), "int8"),
        (conv(dtype("int16"), INT8), "int16 with int8 weights"),
        (conv(FLOAT, INT8), "float32 with int8 weights (dynamic range)"),
        (conv(FLOAT, dtype("half"), through=True), "float32 with float16 weights"),
    ],
)
def test_kinds_of_numbers(graph: Graph, words: str) -> None:
    assert precision(graph) == words


def test_the_interface_is_the_file_s(tmp_path: Path) -> None:
    thinflow.save(parse_graph(NETWORK), tmp_path / "m.tflite")
    summary = thinflow.summarize(formats.load(tmp_path / "m.tflite"))
    assert [str(c) for c in summary.interface.inputs] == ["x: an input of float[1,8,8,2]"]
    assert [str(c) for c in summary.interface.outputs] == ["y: an output of float[1,3]"]
