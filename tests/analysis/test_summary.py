"""The report of summarize_graph, line by line, and the data behind `inspect`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.analysis.summary import structure_lines, summarize, tensor_text
from thinflow.errors import FeedError
from thinflow.ir.brief import short_number
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import STRING, dtype

TOY = """
image = Placeholder() {dtype=float, shape=shape[?,8,8,3]}
w = Const() {dtype=float, value=float[3,3,3,4]{range}}
b = Const() {dtype=float, value=float[4]{1,2,3,4}}
init = NoOp()
conv = Conv2D(image, w, ^init) {T=float, strides=[1,1,1,1], padding="SAME"} @/cpu:0
bias = BiasAdd(conv, b) {T=float} @/gpu:0
prob = Softmax(bias) {T=float}
inputs: image
outputs: prob
"""


def test_exact_text() -> None:
    graph = parse_graph(TOY)
    graph.path = "toy.pb"
    assert str(summarize(graph)).split("\n") == [
        "Found 1 possible inputs: (name=image, type=float(1), shape=[?,8,8,3]) ",
        "No variables spotted.",
        "Found 1 possible outputs: (name=prob, op=Softmax) ",
        "Found 112 (112) const parameters, 0 (0) variable parameters, and 1 control_edges",
        "1 nodes assigned to device '/cpu:0'",
        "1 nodes assigned to device '/gpu:0'",
        "Op types used: 2 Const, 1 BiasAdd, 1 Conv2D, 1 NoOp, 1 Placeholder, 1 Softmax",
        "To use with tensorflow/tools/benchmark:benchmark_model try these arguments:",
        "bazel run tensorflow/tools/benchmark:benchmark_model -- --graph=toy.pb --show_flops "
        "--input_layer=image --input_layer_type=float --input_layer_shape=-1,8,8,3 --output_layer=prob",
    ]


def test_text_of_inputs_variables_and_nothing() -> None:
    graph = parse_graph(
        """
        a = Placeholder() {dtype=int32}
        s = Placeholder() {dtype=string, shape=shape?}
        v = VariableV2() {dtype=float, shape=shape[2]}
        y = Add(v, a)
        outputs: y
        """
    )
    first, second, third, *_ = str(summarize(graph)).split("\n")
    assert first == (
        "Found 2 possible inputs: (name=a, type=int32(3), shape=None) "
        "(name=s, type=string(7), shape=<unknown>) "
    )
    assert second == "Found 1 variables: (name=v, type=float(1), shape=[2]) "
    assert third == "Found 1 possible outputs: (name=y, op=Add) "
    empty = parse_graph("n = NoOp()")
    assert str(summarize(empty)).split("\n")[:3] == [
        "No inputs spotted.",
        "No variables spotted.",
        "No outputs spotted.",
    ]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (4253864, "4.25M"), (999999, "1000.00k"), (10**9, "1.00B"), (10**15, "1E+15")],
)
def test_short_numbers(number: int, text: str) -> None:
    assert short_number(number) == text


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.float32(1.5), "float shape: [] values: 1.5"),
        (np.array([1, 2, 3], np.int32), "int32 shape: [3] values: 1 2 3"),
        (np.array([1, 2, 3, 4], np.int32), "int32 shape: [4] values: 1 2 3..."),
        (np.array([[1, 2], [3, 4]], np.float32), "float shape: [2,2] values: [1 2][3...]..."),
        (np.zeros((1, 2, 2), np.float32), "float shape: [1,2,2] values: [[0 0][0...]]..."),
        (np.zeros((2, 3), np.float32), "float shape: [2,3] values: [0 0 0]..."),
        (np.zeros((3, 1, 2), np.float32), "float shape: [3,1,2] values: [[0 0]][[0...]]..."),
        (np.array([[1], [2]], np.int64), "int64 shape: [2,1] values: [1][2]"),
        (np.zeros((0, 2), np.float32), "float shape: [0,2] values: "),
        (np.array([True, False]), "bool shape: [2] values: 1 0"),
        (np.float32(0.1), "float shape: [] values: 0.100000001"),
    ],
)
def test_values_of_constants(array: np.ndarray, text: str) -> None:
    tensor = Tensor.from_array(array, dtype(array.dtype))
    assert tensor_text(tensor) == f"Tensor<type: {text}>"


def test_strings_are_bare() -> None:
    assert tensor_text(Tensor.from_array(b"hello", STRING)) == "Tensor<type: string shape: [] values: hello>"


def test_structure() -> None:
    lines = structure_lines(parse_graph(TOY))
    assert "b (Const): [], value=Tensor<type: float shape: [4] values: 1 2 3...>" in lines
    assert "conv (Conv2D): [image, w, ^init]" in lines
    assert lines.index("prob (Softmax): [bias]") > lines.index("bias (BiasAdd): [conv, b]")


def test_broken_references_are_listed() -> None:
    from thinflow.formats import graphdef

    graph = graphdef.from_text('node { name: "y" op: "Relu" input: "gone" }')
    assert "Invalid input gone for node y" in str(summarize(graph))


def test_shapes_change_cost_and_unknown_names_are_refused() -> None:
    summary = summarize(parse_graph(TOY))
    larger = summarize(parse_graph(TOY), {"image": (2, 8, 8, 3)})
    assert larger.cost.total.flops == 2 * summary.cost.total.flops
    assert larger.peak is not None
    with pytest.raises(FeedError, match="'imag' is not an input\nhint: did you mean 'image'"):
        summarize(parse_graph(TOY), {"imag": (1,)})


def test_findings() -> None:
    summary = summarize(parse_graph(TOY.replace("BiasAdd(conv, b)", "Mystery(conv)")))
    assert summary.unknown_ops == {"Mystery": 1}
    assert summary.ops["Const"] == 2
    assert summary.parameters.count == 112
    assert summary.parameters.largest[0][:3] == ("w", "float", "[3,3,3,4]")
    assert summary.file_bytes == 0
    assert summary.problems == []
