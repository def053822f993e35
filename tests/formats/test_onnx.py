"""Reading .onnx files as graphs, made with the onnx package as exporters do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import formats
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import FormatError, GraphError, WriteError
from thinflow.formats import onnx as reader
from thinflow.ir.attrs import FunctionAttr, PlaceholderAttr
from thinflow.ir.check import find_problems
from thinflow.ir.graph import Graph

onnx = pytest.importorskip("onnx")
helper, numpy_helper, T = onnx.helper, onnx.numpy_helper, onnx.TensorProto


def info(name: str, *shape: int | str | None, kind: int = T.FLOAT):
    return helper.make_tensor_value_info(name, kind, list(shape))


def tensor(name: str, data) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(data), name)


def model(nodes, inputs, outputs, constants=(), **more) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(constants))
    options = {
        "opset_imports": [helper.make_opsetid("", 17)],
        "producer_name": "exporter",
        "ir_version": 8,
    } | more
    return helper.make_model(graph, **options)


def read(made: onnx.ModelProto) -> Graph:
    return reader.from_bytes(made.SerializeToString())


W = np.arange(3 * 2 * 3 * 3, dtype=np.float32).reshape(3, 2, 3, 3)


def conv_model() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["/conv/Conv_output_0"], "/conv/Conv", kernel_shape=[3, 3]),
        helper.make_node("Relu", ["/conv/Conv_output_0"], ["y"], "relu"),
    ]
    return model(nodes, [info("x", "batch", 2, 8, 8)], [info("y", "batch", 3, 6, 6)], [tensor("w", W)])


def test_an_exported_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(conv_model().SerializeToString())
    graph = formats.load(tmp_path / "m.onnx")
    assert graph.vocabulary == "onnx"
    assert [(v.name, str(v.spec)) for v in graph.inputs] == [("x", "float[?,2,8,8]")]
    assert [n.op for n in graph] == ["Const", "Placeholder", "onnx.Conv", "onnx.Relu"]
    conv = graph.outputs[0].node.inputs[0].node
    assert conv.name == "conv/Conv_output_0"
    assert graph.value("/conv/Conv_output_0").node is conv
    assert conv.get("kernel_shape") == (3, 3)
    assert conv.inputs[1].node.tensor.numpy().tolist() == W.tolist()
    assert graph.facts["producer"] == "exporter"
    assert graph.facts["opset"] == "17"
    assert find_problems(graph) == []


def test_shapes_that_the_file_does_not_state() -> None:
    graph = read(conv_model())
    infer_shapes(graph, {graph.inputs[0]: graph.inputs[0].spec.with_shape((4, 2, 8, 8))})
    assert str(graph.node("conv/Conv_output_0").output().spec) == "float[4,3,6,6]"
    assert str(graph.outputs[0].spec) == "float[4,3,6,6]"


def test_large_weights_are_views_of_the_file(tmp_path: Path) -> None:
    big = np.arange(4096, dtype=np.float32)
    nodes = [helper.make_node("Add", ["x", "big"], ["y"])]
    made = model(nodes, [info("x", 4096)], [info("y", 4096)], [tensor("small", W), tensor("big", big)])
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    found = formats.load(tmp_path / "m.onnx").node("big").tensor
    base = found.numpy()
    assert base.tolist() == big.tolist()
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert not isinstance(base, np.ndarray | bytes)


def test_a_file_of_more_than_2_gib(tmp_path: Path) -> None:
    """As large a hole as a sparse file may have stands for the weights: nobody reads them."""
    from thinflow.wire.fields import encode_varint, field_header

    size = 3 << 30
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], [info("x", 1)], [info("y", size // 4)])
    header = onnx.TensorProto(name="w", data_type=T.FLOAT, dims=[size // 4]).SerializeToString()
    header += field_header(9, 2) + encode_varint(size)
    frame = field_header(5, 2) + encode_varint(len(header) + size) + header
    graph = made.graph.SerializeToString()
    made.ClearField("graph")
    lead = made.SerializeToString() + field_header(7, 2) + encode_varint(len(graph) + len(frame) + size)
    with (tmp_path / "m.onnx").open("wb") as file:
        file.write(lead + graph + frame)
        file.truncate(len(lead) + len(graph) + len(frame) + size)
    found = formats.load(tmp_path / "m.onnx").node("w").tensor
    assert found.shape == (size // 4,)
    assert found.numpy()[-1] == 0


EVERY_TYPE = {
    "float": np.float32([1.5, -2]),
    "double": np.float64([1.5, -2]),
    "half": np.float16([1.5, -2]),
    "uint8": np.uint8([1, 255]),
    "int8": np.int8([1, -128]),
    "uint16": np.uint16([1, 65535]),
    "int16": np.int16([1, -32768]),
    "int32": np.int32([1, -(2**31)]),
    "int64": np.int64([1, -(2**63)]),
    "uint32": np.uint32([1, 2**32 - 1]),
    "uint64": np.uint64([1, 2**64 - 1]),
    "bool": np.array([True, False]),
    "complex64": np.complex64([1 + 2j, 3]),
    "complex128": np.complex128([1 + 2j, 3]),
}


@pytest.mark.parametrize("name", EVERY_TYPE)
@pytest.mark.parametrize("raw", [True, False])
def test_every_element_type_both_ways_of_storing(name: str, raw: bool) -> None:
    data = EVERY_TYPE[name]
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    content = data.tobytes() if raw else data.flatten().tolist()
    stored = helper.make_tensor("c", kind, data.shape, content, raw=raw)
    made = model([helper.make_node("Identity", ["c"], ["y"])], [], [info("y", 2, kind=kind)], [stored])
    found = read(made).node("c").tensor
    assert found.dtype.name == name
    assert found.numpy().tolist() == data.tolist()


def test_strings_and_narrow_types() -> None:
    texts = helper.make_tensor("t", T.STRING, [2], [b"a", b"bc"])
    four = helper.make_tensor("f", T.INT4, [3], np.uint8([0x78, 0x01]).tobytes(), raw=True)
    brain = helper.make_tensor("b", T.BFLOAT16, [2], np.uint16([0x3F80, 0xC000]).tobytes(), raw=True)
    nodes = [helper.make_node("Identity", [n], [f"y{n}"]) for n in "tfb"]
    kinds = {"t": T.STRING, "f": T.INT4, "b": T.BFLOAT16}
    graph = read(model(nodes, [], [info(f"y{n}", 2, kind=k) for n, k in kinds.items()], [texts, four, brain]))
    assert graph.node("t").tensor.numpy().tolist() == [b"a", b"bc"]
    assert [int(n) for n in graph.node("f").tensor.numpy()] == [-8, 7, 1]
    assert graph.node("b").tensor.numpy().astype(float).tolist() == [1, -2]


def test_constant_nodes_and_absent_inputs() -> None:
    nodes = [
        helper.make_node("Constant", [], ["six"], value_float=6.0),
        helper.make_node("Constant", [], ["axes"], value_ints=[1, 2]),
        helper.make_node("Constant", [], ["t"], value=tensor("", np.float32([1, 2]))),
        helper.make_node("Clip", ["x", "", "six"], ["y"]),
    ]
    graph = read(model(nodes, [info("x", 2)], [info("y", 2), info("t", 2), info("axes", 2, kind=T.INT64)]))
    assert graph.node("six").tensor.numpy() == np.float32(6)
    assert graph.node("axes").tensor.numpy().tolist() == [1, 2]
    assert graph.node("y").get("absent_inputs") == (1,)
    assert [v.name for v in graph.node("y").inputs] == ["x", "six"]


def test_bodies_read_what_is_outside_of_them() -> None:
    then = helper.make_graph([helper.make_node("Add", ["x", "x"], ["a"])], "then", [], [info("a", 2)])
    other = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["b"])], "else", [], [info("b", 2)])
    nodes = [helper.make_node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)]
    constants = [tensor("w", np.float32([3, 4]))]
    graph = read(model(nodes, [info("c", kind=T.BOOL), info("x", 2)], [info("y", 2)], constants))
    node = graph.node("y")
    assert [v.name for v in node.inputs] == ["c", "x", "w"]
    assert node.get("captures") == 2
    assert node.attrs["else_branch"] == FunctionAttr("choice_else_branch")
    body = graph.functions["choice_else_branch"]
    assert [v.name for v in body.inputs] == ["x", "w"]
    assert body.outputs[0].node.op == "onnx.Mul"
    assert find_problems(body.graph) == []


def test_functions_of_the_model_are_in_the_library() -> None:
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    function = helper.make_function(
        "my", "Soft", ["a"], ["b"], [leaky], [helper.make_opsetid("", 17)], ["slope"]
    )
    nodes = [helper.make_node("Soft", ["x"], ["y"], domain="my", slope=0.5)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    made = model(nodes, [info("x", 2)], [info("y", 2)], opset_imports=opsets, functions=[function])
    graph = read(made)
    assert graph.node("y").op == "onnx.my.Soft"
    assert graph.functions["onnx.my.Soft"].outputs[0].node.attrs["alpha"] == PlaceholderAttr("slope")
    assert thinflow.summarize(graph).unknown_ops == {}


def test_nodes_in_any_order() -> None:
    then = helper.make_graph([helper.make_node("Neg", ["b"], ["t"])], "then", [], [info("t", 2)])
    nodes = [
        helper.make_node("Add", ["i", "b"], ["y"]),
        helper.make_node("If", ["c"], ["i"], then_branch=then, else_branch=then),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Abs", ["x"], ["a"]),
    ]
    graph = read(model(nodes, [info("x", 2), info("c", kind=T.BOOL)], [info("y", 2)]))
    assert [n.op for n in graph][-4:] == ["onnx.Abs", "onnx.Relu", "onnx.If", "onnx.Add"]
    nodes[3].input[0] = "y"
    with pytest.raises(FormatError, match="is read and nothing writes it"):
        read(model(nodes, [info("c", kind=T.BOOL)], [info("y", 2)]))


def test_ops_of_other_domains_are_carried_through() -> None:
    nodes = [helper.make_node("FusedThing", ["x"], ["y"], domain="com.microsoft", speed=3, names=[b"a"])]
    graph = read(model(nodes, [info("x", 2)], [info("y", 2)]))
    assert graph.node("y").op == "onnx.com.microsoft.FusedThing"
    assert graph.node("y").attrs["speed"] == 3
    assert thinflow.summarize(graph).unknown_ops == {"onnx.com.microsoft.FusedThing": 1}


def external_model(location: str, **more: int | str) -> bytes:
    made = model([helper.make_node("Add", ["x", "w"], ["y"])], [info("x", 2)], [info("y", 2)])
    w = made.graph.initializer.add(name="w", dims=[2], data_type=T.FLOAT, data_location=T.EXTERNAL)
    for key, text in ({"location": location} | more).items():
        w.external_data.add(key=key, value=str(text))
    return made.SerializeToString()


def test_weights_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(bytes(16) + np.float32([5, 6]).tobytes())
    (tmp_path / "m.onnx").write_bytes(external_model("w.data", offset=16, length=8))
    assert formats.load(tmp_path / "m.onnx").node("w").tensor.numpy().tolist() == [5, 6]


def test_a_copy_takes_the_other_file_along(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "w.data").write_bytes(np.float32([5, 6]).tobytes())
    (tmp_path / "m.onnx").write_bytes(external_model("in/w.data"))
    out = tmp_path / "out"
    out.mkdir()
    size = thinflow.convert_verified(tmp_path / "m.onnx", out / "n.onnx").size_bytes
    assert size == (tmp_path / "m.onnx").stat().st_size + 8
    assert formats.load(out / "n.onnx").node("w").tensor.numpy().tolist() == [5, 6]
    # The same again is no loss, another model's weights would be.
    formats.save(formats.load(tmp_path / "m.onnx"), out / "n.onnx")
    (out / "in" / "w.data").write_bytes(bytes(8))
    with pytest.raises(WriteError, match="another file is where its weights go") as caught:
        formats.save(formats.load(tmp_path / "m.onnx"), out / "n.onnx")
    assert caught.value.hint
    # Beside the first model its weights are there already.
    formats.save(formats.load(tmp_path / "m.onnx"), tmp_path / "n.onnx")
    assert formats.load(tmp_path / "n.onnx").node("w").tensor.numpy().tolist() == [5, 6]


@pytest.mark.parametrize(
    ("location", "more", "problem"),
    [
        ("../w.data", {}, "outside of its folder"),
        ("/w.data", {}, "outside of its folder"),
        ("sub/../../w.data", {}, "outside of its folder"),
        ("", {}, "outside of its folder"),
        ("nothing", {}, "which is missing"),
        ("link", {}, "is a link out of the folder"),
        ("w.data", {"offset": 60, "length": 8}, "run past the end"),
        ("w.data", {"offset": -1}, "is no position"),
        ("w.data", {"offset": "9" * 30}, "is no position"),
        ("w.data", {"length": 4}, "needs 8 bytes, the file holds 4"),
    ],
)
def test_weights_in_other_files_are_checked(tmp_path: Path, location: str, more: dict, problem: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for folder in (home, tmp_path):
        (folder / "w.data").write_bytes(bytes(64))
    (home / "link").symlink_to(tmp_path / "w.data")
    (home / "m.onnx").write_bytes(external_model(location, **more))
    with pytest.raises(FormatError, match=problem) as caught:
        formats.load(home / "m.onnx")
    assert caught.value.where == f"{home / 'm.onnx'}, tensor 'w'"
    assert caught.value.hint


BROKEN = {
    "nothing writes": (
        lambda g: g.node[1].input.__setitem__(0, "gone"),
        "'gone' is read and nothing writes it",
    ),
    "written twice": (lambda g: g.node[1].output.__setitem__(0, "x"), "'x' is written twice"),
    "no such output": (
        lambda g: setattr(g.output[0], "name", "gone"),
        "'gone' is read and nothing writes it",
    ),
    "negative size": (lambda g: g.initializer[0].dims.__setitem__(0, -1), "makes no sense"),
    "huge size": (lambda g: g.initializer[0].dims.__setitem__(0, 2**60), "makes no sense"),
    "too few elements": (lambda g: g.initializer[0].dims.__setitem__(0, 99), "the file holds 216"),
    "no type": (lambda g: setattr(g.initializer[0], "data_type", 0), "its element type is undefined"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_graphs(tmp_path: Path, what: str) -> None:
    damage, problem = BROKEN[what]
    made = conv_model()
    damage(made.graph)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    with pytest.raises(FormatError, match=problem) as caught:
        formats.load(tmp_path / "m.onnx")
    assert "an ONNX model that cannot be read" in caught.value.problem


def test_deep_nesting_ends_in_an_error() -> None:
    body = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "b", [], [info("y", 2)])
    for _ in range(25):
        node = helper.make_node(
            "If", ["c"], ["y"], then_branch=body, else_branch=helper.make_graph([], "e", [], [])
        )
        body = helper.make_graph([node], "b", [], [info("y", 2)])
    made = model([], [info("c", kind=T.BOOL), info("x", 2)], [info("y", 2)])
    made.graph.node.extend(body.node)
    with pytest.raises(FormatError, match="nested too deeply"):
        read(made)


def test_saving_copies_and_running_uses_the_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "m.onnx").write_bytes(conv_model().SerializeToString())
    graph = thinflow.load(tmp_path / "m.onnx", lift=False)
    thinflow.save(graph, tmp_path / "copy.onnx")
    assert (tmp_path / "copy.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
    x = np.ones((1, 2, 8, 8), np.float32)
    (y,) = thinflow.Session(graph).run(None, {"x": x})
    assert y.shape == (1, 3, 6, 6)
    assert y[0, :, 0, 0].tolist() == W.sum((1, 2, 3)).tolist()
    graph.node("y").attrs["more"] = 1
    with pytest.raises(GraphError, match="changed since it was read"):
        formats.save(graph, tmp_path / "copy.onnx")
