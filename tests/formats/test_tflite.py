"""Reading .tflite files as graphs: what is in them, what is refused, what is written back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow import formats
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import FormatError, GraphError, ParameterError, UnsupportedOp
from thinflow.formats import tflite
from thinflow.formats._tflite_graph import _function_names
from thinflow.formats.foreign import is_as_read
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.check import find_problems
from thinflow.ir.function import ARGUMENT
from thinflow.ir.graph import Graph
from thinflow.ir.types import BOOL, FLOAT, INT32, dtype
from thinflow.tflite.model import Operator, Program, Quantization, Signature, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes
from thinflow.wire.flatbuffer import Scalar, Vector, encode

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,2]{1,2,3,4,5,6,7,8}}
y = MatMul(x, w) {T=float}
r = Relu(y) {T=float}
s = Softmax(r) {T=float}
inputs: x
outputs: s
"""


def value(name: str, *shape: int | None, element=FLOAT, **more) -> Tensor:
    return Tensor(name, shape, element, **more)


def constant(name: str, data, **more) -> Tensor:
    data = np.asarray(data)
    return Tensor(name, data.shape, dtype(data.dtype), data, **more)


def graph_of(*subgraphs: Subgraph, signature: str | None = None, **more) -> Graph:
    return tflite.from_bytes(to_bytes(Program(list(subgraphs), **more)), signature=signature)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.tflite")
    return tmp_path / "m.tflite"


def test_a_converted_model(path: Path) -> None:
    graph = formats.load(path)
    assert graph.vocabulary == "tflite"
    assert [(v.name, str(v.spec)) for v in graph.inputs] == [("x", "float[1,4]")]
    assert [(v.name, str(v.spec)) for v in graph.outputs] == [("s", "float[1,2]")]
    assert [n.op for n in graph if n.op.startswith("tfl.")] == ["tfl.FULLY_CONNECTED", "tfl.SOFTMAX"]
    fully = graph.node("r")
    assert fully.get("fused_activation_function") == "RELU"
    assert fully.inputs[0].name == "x"
    weights = fully.inputs[1].node.tensor
    assert weights is not None
    assert weights.numpy().tolist() == [[1, 3, 5, 7], [2, 4, 6, 8]]
    assert find_problems(graph) == []


def test_weights_are_views_of_the_file(path: Path) -> None:
    tensor = formats.load(path).node("r").inputs[1].node.tensor
    assert tensor is not None
    base = tensor.numpy()
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert not isinstance(base, np.ndarray)
    assert not tensor.numpy().flags.writeable


def test_shapes_come_from_the_file_and_an_open_batch_follows_the_input() -> None:
    x = value("x", None, 4)
    y = value("y", None, 4)
    graph = graph_of(Subgraph([x], [y], [Operator("TANH", [x], [y])]))
    infer_shapes(graph)
    assert str(graph.outputs[0].spec) == "float[?,4]"
    infer_shapes(graph, {graph.inputs[0]: graph.inputs[0].spec.with_shape((7, 4))})
    assert str(graph.outputs[0].spec) == "float[7,4]"


def test_quantization_and_absent_inputs_are_attributes() -> None:
    q = Quantization(np.float32([0.5]), np.int64([-3]))
    per_channel = Quantization(np.float32([0.5, 0.25]), np.int64([0, 0]), 0)
    x = value("x", 1, 4, element=dtype("int8"), quantization=q)
    y = value("y", 1, 2, element=dtype("int8"), quantization=q)
    w = constant("w", np.ones((2, 4), np.int8), quantization=per_channel)
    step = Operator("FULLY_CONNECTED", [x, w, None], [y], {"fused_activation_function": "RELU6"})
    graph = graph_of(Subgraph([x], [y], [step]))
    node = graph.node("y")
    assert (node.get("quantization_scale"), node.get("quantization_zero_point")) == ((0.5,), (-3,))
    assert node.get("absent_inputs") == (2,)
    assert len(node.inputs) == 2
    assert graph.node("w").get("quantization_scale") == (0.5, 0.25)
    assert graph.node("w").get("quantization_axis") == 0
    assert graph.node("x").get("quantization_scale") == (0.5,)


def loop() -> list[Subgraph]:
    n, end = value("n", element=INT32), value("end", element=INT32)
    a, b, c = value("a", element=INT32), value("b", element=BOOL), value("c", element=INT32)
    d = value("d", element=INT32)
    one, ten = constant("one", np.int32(1)), constant("ten", np.int32(10))
    options = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    return [
        Subgraph([n], [end], [Operator("WHILE", [n], [end], options)]),
        Subgraph([a], [b], [Operator("LESS", [a, ten], [b])], name="cond"),
        Subgraph([c], [d], [Operator("ADD", [c, one], [d])], name="body"),
    ]


def test_subgraphs_are_functions() -> None:
    graph = graph_of(*loop())
    node = graph.node("end")
    assert node.attrs["body_subgraph_index"] == FunctionAttr("body")
    assert list(graph.functions) == ["cond", "body"]
    body = graph.functions["body"]
    assert [v.node.op for v in body.inputs] == [ARGUMENT]
    assert [v.node.op for v in body.outputs] == ["tfl.ADD"]
    assert body.input_types == [INT32]
    assert find_problems(body.graph) == []


def test_signatures_choose_a_subgraph_and_give_names() -> None:
    x, y, u, v = value("x", 2), value("y", 2), value("u", 2), value("v", 2)
    graphs = [
        Subgraph([x], [y], [Operator("TANH", [x], [y])]),
        Subgraph([u], [v], [Operator("LOGISTIC", [u], [v])], name="other"),
    ]
    signatures = {"a": Signature({"in": x}, {"out": y}), "b": Signature({"in": u}, {"out": v})}
    first = graph_of(*graphs, signatures=signatures)
    assert first.value("out").name == "y"
    second = graph_of(*graphs, signatures=signatures, signature="b")
    assert second.value("out").node.op == "tfl.LOGISTIC"
    assert second.facts["signatures"] == "a, b"
    # One that only changes variables: inputs alone say where it is.
    writes = {**signatures, "b": Signature({"in": u}, {})}
    assert "tfl.LOGISTIC" in [n.op for n in graph_of(*graphs, signatures=writes, signature="b")]
    with pytest.raises(GraphError, match="is run from its file, and this one has none"):
        thinflow.Session(second)
    (y,) = thinflow.Session(second, "reference").run(["out"], {"in": np.float32([0, 0])})
    assert y.tolist() == [0.5, 0.5]
    with pytest.raises(GraphError, match="the model has no signature 'c'") as caught:
        graph_of(*graphs, signatures=signatures, signature="c")
    assert caught.value.hint


def test_names_that_are_no_node_names() -> None:
    x = value("serving_default_x:0", 2)
    first, second = value("part:0", 1), value("part:1", 1)
    y = value("model/relu/Relu;model/bias", 1)
    z = value("StatefulPartitionedCall:1", 1)
    axis = constant("", np.int32(0))
    steps = [
        Operator("SPLIT", [axis, x], [first, second], {"num_splits": 2}),
        Operator("RELU", [first], [y]),
        Operator("RELU", [second], [z]),
    ]
    graph = graph_of(Subgraph([x], [y, z], steps))
    assert [v.name for v in graph.inputs] == ["serving_default_x"]
    assert [v.name for v in graph.outputs] == ["model/relu/Relu", "StatefulPartitionedCall_1"]
    assert graph.value("model/relu/Relu;model/bias") is graph.outputs[0]
    assert graph.value("StatefulPartitionedCall:1") is graph.outputs[1]
    assert graph.value("part:1").port == 1


def test_an_output_keeps_its_name_whoever_else_has_it() -> None:
    x, y = value("x", 2), value("y", 2)
    twin = constant("y", np.float32([1, 2]))
    graph = graph_of(Subgraph([x], [y], [Operator("ADD", [x, twin], [y])]))
    assert graph.outputs[0].name == "y"
    assert graph.node("y").inputs[1].node.name == "y_1"


def test_custom_ops_keep_their_options() -> None:
    x, y = value("x", 2), value("y", 2)
    step = Operator("CUSTOM", [x], [y], custom_code="MyOp", custom_options=b"\1\2")
    graph = graph_of(Subgraph([x], [y], [step]))
    assert graph.node("y").op == "tfl.custom.MyOp"
    assert graph.node("y").attrs["custom_options"] == b"\1\2"
    assert thinflow.summarize(graph).unknown_ops == {"tfl.custom.MyOp": 1}


def test_every_kind_of_constant() -> None:
    words = np.empty(2, object)
    words[:] = [b"a", b"bc"]
    tensors = [
        Tensor("s", (2,), dtype("string"), words),
        constant("h", np.float16([1.5])),
        constant("flag", np.array(True)),
        Tensor("four", (3,), dtype("int4"), np.array([-8, 7, 1]).astype(dtype("int4").numpy())),
        constant("none", np.zeros((0, 3), np.float32)),
    ]
    ins = [value("x", 1)]
    outs = [value(f"y{i}", 1) for i in range(len(tensors))]
    steps = [Operator("ADD", [ins[0], t], [o]) for t, o in zip(tensors, outs, strict=True)]
    graph = graph_of(Subgraph(ins, outs, steps))
    found = {n.name: n.tensor.numpy().tolist() for n in graph if n.tensor is not None}
    assert found["s"] == [b"a", b"bc"]
    assert found["h"] == [1.5]
    assert found["flag"] is True
    assert [int(n) for n in found["four"]] == [-8, 7, 1]
    assert graph.node("none").tensor.shape == (0, 3)


def external(name: str, *, group: str = "weights.bin", offset: int = 4, length: int = 8) -> bytes:
    """A model with one constant whose elements are in another file: y = x + w."""
    tensor = {0: Vector("i32", (2,)), 3: "x"}
    weights = {0: Vector("i32", (2,)), 3: name, 10: Scalar("u32", 7)}
    add = {1: Vector("i32", (0, 1)), 2: Vector("i32", (2,))}
    subgraph = {
        0: [tensor, weights, {0: Vector("i32", (2,)), 3: "y"}],
        1: Vector("i32", (0,)),
        2: Vector("i32", (2,)),
        3: [add],
    }
    place = {0: Scalar("u32", 7), 2: Scalar("u64", offset), 3: Scalar("u64", length)}
    model = {0: Scalar("u32", 3), 1: [{}], 2: [subgraph], 4: [{}], 8: [{0: group}], 9: [place]}
    return b"".join(encode(model, b"TFL3")[1])


def test_weights_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(external("w"))
    (tmp_path / "weights.bin").write_bytes(bytes(4) + np.float32([3, 4]).tobytes())
    tensor = formats.load(tmp_path / "m.tflite").node("w").tensor
    assert tensor is not None
    assert tensor.numpy().tolist() == [3, 4]


def test_a_copy_takes_the_other_file_along(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(external("w"))
    (tmp_path / "weights.bin").write_bytes(bytes(4) + np.float32([3, 4]).tobytes())
    (tmp_path / "out").mkdir()
    formats.save(formats.load(tmp_path / "m.tflite"), tmp_path / "out" / "n.tflite")
    tensor = formats.load(tmp_path / "out" / "n.tflite").node("w").tensor
    assert tensor is not None
    assert tensor.numpy().tolist() == [3, 4]


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ("../weights.bin", "outside of its folder"),
        ("/etc/passwd", "outside of its folder"),
        ("C:\\weights.bin", "outside of its folder"),
        ("nothing.bin", "which is missing"),
        ("link.bin", "is a link out of the folder"),
    ],
)
def test_weights_are_not_looked_for_elsewhere(tmp_path: Path, group: str, problem: str) -> None:
    home = tmp_path / "model"
    home.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(64))
    (home / "link.bin").symlink_to(tmp_path / "weights.bin")
    (home / "m.tflite").write_bytes(external("w", group=group))
    with pytest.raises(FormatError, match=problem) as caught:
        formats.load(home / "m.tflite")
    assert "m.tflite" in caught.value.where
    assert caught.value.hint


def test_another_file_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(external("w", offset=2**63))
    (tmp_path / "weights.bin").write_bytes(bytes(64))
    with pytest.raises(FormatError, match=r"run past the end of 'weights.bin'"):
        formats.load(tmp_path / "m.tflite")


def test_a_file_larger_than_its_flatbuffer() -> None:
    x, y = value("x", 40, 50), value("y", 40, 50)
    w = constant("w", np.arange(2000, dtype=np.float32).reshape(40, 50))
    program = Program([Subgraph([x], [y], [Operator("ADD", [x, w], [y])])])
    graph = tflite.from_bytes(to_bytes(program, inline_limit=0))
    assert graph.node("w").tensor.numpy()[39, 49] == 1999


def test_what_reads_nothing_written_is_refused() -> None:
    x, y, z = value("x", 2), value("y", 2), value("z", 2)
    good = Program([Subgraph([x], [y], [Operator("ADD", [x, z], [y])])])
    good.subgraphs[0].inputs.append(z)
    raw = bytearray(to_bytes(good))
    assert tflite.from_bytes(bytes(raw))
    at = raw.find(np.int32([2, 0, 1]).tobytes())  # the subgraph's inputs: two tensors, 0 and 1
    assert at > 0
    raw[at : at + 4] = np.int32(1).tobytes()
    with pytest.raises(FormatError, match="'z' is read before anything writes it"):
        tflite.from_bytes(bytes(raw))


@pytest.mark.parametrize(
    ("code", "device"),
    [("ethos-u", "an Ethos-U, by Vela"), ("DISPATCH_OP", "the NPU of a phone, by LiteRT's compiler")],
)
def test_a_network_compiled_for_an_accelerator_opens_and_is_told(
    tmp_path: Path, code: str, device: str
) -> None:
    """Such an operator names memory to work in, which nothing has written."""
    x, y, scratch = value("x", 2), value("y", 2), value("scratch", 64)
    block = Subgraph([x, scratch], [y], [Operator("CUSTOM", [x, scratch], [y], custom_code=code)])
    raw = bytearray(to_bytes(Program([block])))
    at = raw.find(np.int32([2, 0, 1]).tobytes())  # the subgraph's inputs: only the first is one
    raw[at : at + 4] = np.int32(1).tobytes()
    path = tmp_path / "vela.tflite"
    path.write_bytes(raw)
    assert [n.op for n in formats.load(path)].count(f"tfl.custom.{code}") == 1
    with pytest.raises(UnsupportedOp, match=f"'y'.* it was compiled for {device}") as caught:
        thinflow.load(path)
    assert "take the .tflite file that it was made from" in caught.value.hint
    with pytest.raises(UnsupportedOp, match=f"it was compiled for {device}"):
        thinflow.convert(path, tmp_path / "net.c")


def test_saving_copies_the_file(path: Path, tmp_path: Path) -> None:
    graph = formats.load(path)
    thinflow.save(graph, tmp_path / "copy.tflite")
    assert (tmp_path / "copy.tflite").read_bytes() == path.read_bytes()
    thinflow.save(graph.clone(), tmp_path / "copy.tflite")


def test_a_changed_graph_is_neither_copied_nor_run(path: Path, tmp_path: Path) -> None:
    graph = formats.load(path)
    graph.node("s").attrs["beta"] = 2.0
    assert not is_as_read(graph)
    with pytest.raises(GraphError, match="changed since it was read"):
        formats.save(graph, tmp_path / "copy.tflite")
    with pytest.raises(GraphError, match="no longer what its file holds"):
        thinflow.Session(graph)
    other = formats.load(path)
    other.rename(other.node("r"), "q")
    assert not is_as_read(other)
    # What is written is the changed graph, in TensorFlow's ops; it is not what its file computes.
    thinflow.save(graph, tmp_path / "changed.tflite")
    assert not thinflow.verify(path, tmp_path / "changed.tflite").ok
    assert thinflow.load(graph).source is None


@pytest.mark.parametrize("name", ["m.pb", "m.onnx", "m.pbtxt"])
def test_other_formats_are_written_in_tensorflows_ops(path: Path, tmp_path: Path, name: str) -> None:
    graph = formats.load(path)
    with pytest.raises(ParameterError, match=r"a LiteRT \(.tflite\) model cannot become") as caught:
        formats.save(graph, tmp_path / name)
    assert "lift=False" in caught.value.hint
    thinflow.save(graph, tmp_path / name)
    assert graph.vocabulary == "tflite"
    assert thinflow.verify(path, tmp_path / name).ok


def test_a_graph_runs_from_its_file(path: Path) -> None:
    x = np.float32([[1, -1, 2, 0]])
    graph = thinflow.load(path, lift=False)
    session = thinflow.Session(graph)
    assert session.engine == "litert"
    (y,) = session.run(None, {"x": x})
    expected = thinflow.run(parse_graph(TEXT), {"x": x}, engine="reference")["s"]
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    assert thinflow.verify(parse_graph(TEXT), graph).ok


def test_half_a_file_names_itself(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError, match=r"a LiteRT \(.tflite\) model that cannot be read") as caught:
        formats.load(path)
    assert str(path) in caught.value.where


def test_every_subgraph_has_a_name_of_its_own() -> None:
    names = ["main", "a", "a_3", "a", "", "a"]
    assert _function_names(Program([Subgraph([], [], [], name=name) for name in names])) == [
        *("main", "a", "a_3", "a_3_3", "subgraph_4", "a_5")
    ]
