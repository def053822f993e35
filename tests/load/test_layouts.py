"""Inputs and outputs with their channels elsewhere than in the file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.cli import main
from thinflow.errors import GraphError, ParameterError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.load.frozen import LAYOUT
from thinflow.typing import Array

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
SHAPE = (1, 3, 8, 6)


def picture() -> Array:
    return np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)


def moved(graph: Graph, x: Value, perm: tuple[int, ...], name: str) -> Value:
    numbers = graph.constant(np.array(perm, np.int32), f"{name}/perm")
    return graph.add("Transpose", [x, numbers], name, attrs={"T": FLOAT, "Tperm": INT32}).output()


def placeholder(graph: Graph, name: str, shape: tuple[int | None, ...]) -> Value:
    return graph.add("Placeholder", [], name, attrs={"dtype": FLOAT, "shape": ShapeAttr(shape)}).output()


def convolved(graph: Graph, x: Value, name: str, layout: str = "NHWC") -> Value:
    weights = np.random.default_rng(1).standard_normal((3, 3, 3, 4)).astype(np.float32)
    attrs = {"T": FLOAT, "strides": (1, 1, 1, 1), "padding": "SAME", "data_format": layout}
    return graph.add("Conv2D", [x, graph.constant(weights, f"{name}/w")], name, attrs=attrs).output()


def net(kind: str = "lifted") -> Graph:
    """y = conv(x * 2): of a lifted file, of TensorFlow with channels first, or of TensorFlow as usual."""
    graph = Graph()
    x = placeholder(graph, "x", (1, 8, 6, 3) if kind == "last" else SHAPE)
    double = graph.add("Mul", [x, graph.constant(np.float32(2))], "double", attrs={"T": FLOAT}).output()
    if kind == "lifted":
        y = moved(graph, convolved(graph, moved(graph, double, LAST, "there"), "conv"), FIRST, "y")
    else:
        y = convolved(graph, double, "y", "NCHW" if kind == "first" else "NHWC")
    graph.inputs, graph.outputs = [x], [y]
    return graph


def run(graph: Graph, x: Array) -> Array:
    (y,) = thinflow.Session(graph, engine="reference").run([graph.outputs[0].name], {"x": x})
    return np.asarray(y)


@pytest.mark.parametrize("kind", ["lifted", "first"])
def test_pictures_are_fed_channels_last(kind: str) -> None:
    before = net(kind)
    after = thinflow.load(before, input_layout="nhwc")
    assert [(v.name, v.shape) for v in after.inputs] == [("x", (1, 8, 6, 3))]
    assert [(v.name, v.shape) for v in after.outputs] == [("y", (1, 4, 8, 6))]
    x = picture()
    np.testing.assert_allclose(run(after, x.transpose(LAST)), run(before, x), rtol=1e-5, atol=1e-5)
    assert after.facts[LAYOUT] == "input 'x' is fed channels last, [1,8,6,3], where the file has [1,3,8,6]"


@pytest.mark.parametrize("kind", ["lifted", "first"])
def test_as_the_graph_computes_no_transpose_is_left(kind: str) -> None:
    after = thinflow.load(net(kind), input_layout="auto", output_layout="auto")
    assert (after.inputs[0].shape, after.outputs[0].shape) == ((1, 8, 6, 3), (1, 8, 6, 4))
    assert after.outputs[0].name == "y"
    x = picture()
    np.testing.assert_allclose(run(after, x.transpose(LAST)).transpose(FIRST), run(net(kind), x), rtol=1e-5,
                               atol=1e-5)  # fmt: skip
    result = thinflow.transform(after, "for_runtime(runtime=litert)", verify=False)
    assert Counter(n.op for n in result)["Transpose"] == 0


def test_channels_that_are_there_already_stay() -> None:
    for graph, layout in ((net("last"), "nhwc"), (net(), "nchw"), (net("last"), "auto")):
        after = thinflow.load(graph, input_layout=layout)
        assert after.inputs[0].shape == thinflow.load(graph).inputs[0].shape
        assert after.facts[LAYOUT].startswith("no input was moved: channels are there already")


def test_channels_first_by_choice() -> None:
    before, x = net("last"), picture()
    after = thinflow.load(before, input_layout="nchw", output_layout={"y": "nchw"})
    assert (after.inputs[0].shape, after.outputs[0].shape) == (SHAPE, (1, 4, 8, 6))
    np.testing.assert_allclose(run(after, x).transpose(LAST), run(before, x.transpose(LAST)), rtol=1e-5)


def test_where_nothing_shows_the_channels_only_names_move_them() -> None:
    graph = Graph()
    x = placeholder(graph, "x", SHAPE)
    graph.inputs, graph.outputs = [x], [graph.add("Relu", [x], "y", attrs={"T": FLOAT}).output()]
    assert thinflow.load(graph, input_layout="nhwc").inputs[0].shape == SHAPE
    after = thinflow.load(graph, input_layout="x=nhwc")
    assert after.inputs[0].shape == (1, 8, 6, 3)
    np.testing.assert_array_equal(run(after, picture().transpose(LAST)), run(graph, picture()))


def test_an_input_that_is_handed_out_comes_out_as_before() -> None:
    graph = net()
    graph.outputs = [graph.inputs[0], *graph.outputs]
    after = thinflow.load(graph, input_layout="x=nhwc")
    assert [v.shape for v in after.outputs] == [SHAPE, (1, 4, 8, 6)]


def test_several_outputs_of_a_node_stay() -> None:
    graph = net()
    axis = graph.constant(np.int32(1), "axis")
    split = graph.add("Split", [axis, graph.outputs[0]], "parts", attrs={"T": FLOAT, "num_split": 2})
    graph.outputs = [split.output(0), split.output(1)]
    after = thinflow.load(graph, output_layout="nhwc")
    assert [(v.name, v.shape) for v in after.outputs] == [("parts", (1, 2, 8, 6)), ("parts:1", (1, 2, 8, 6))]
    with pytest.raises(ParameterError, match="output 'parts:1' comes from a node with several outputs"):
        thinflow.load(graph, output_layout="parts:1=nhwc")


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="there is no layout 'nhcw'"):
        thinflow.load(net(), input_layout="nhcw")
    with pytest.raises(ParameterError, match="there is no layout 'hwc'"):
        thinflow.load(net(), output_layout={"y": "hwc"})
    with pytest.raises(GraphError, match="there is no input 'z' in the graph"):
        thinflow.load(net(), input_layout={"z": "nhwc"})
    graph = Graph()
    x = placeholder(graph, "x", (1, 4))
    graph.inputs, graph.outputs = [x], [graph.add("Relu", [x], "y", attrs={"T": FLOAT}).output()]
    with pytest.raises(ParameterError, match=r"input 'x' has no channels to move: its shape is \[1,4\]"):
        thinflow.load(graph, input_layout={"x": "nhwc"})


def test_convert_says_what_was_moved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(net(), tmp_path / "net.pb")
    target = tmp_path / "net.tflite"
    assert main(["convert", str(tmp_path / "net.pb"), str(target), "--input-layout", "x=nhwc"]) == 0
    assert (
        "input 'x' is fed channels last, [1,8,6,3], where the file has [1,3,8,6]" in capsys.readouterr().out
    )
    assert thinflow.load(target).inputs[0].shape == (1, 8, 6, 3)


def test_the_file_itself_is_fed_in_its_own_layout(tmp_path: Path) -> None:
    """All sizes alike: a layout guessed by shapes would feed the file the wrong way round."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, size = onnx.helper, [1, 4, 4, 4]
    weights = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype(np.float32)
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, size) for name in "xy"]
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    graph = helper.make_graph([node], "net", ends[:1], ends[1:], [onnx.numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "net.onnx")
    for options in ({"input_layout": "nhwc"}, {"output_layout": "nhwc"}, {"input_layout": "auto"}):
        made = thinflow.api.convert_verified(tmp_path / "net.onnx", tmp_path / "net.tflite", **options)
        assert "agrees with net.onnx itself in ONNX Runtime" in made.proof
        assert any("is fed channels last" in n or "is given channels last" in n for n in made.notes)
