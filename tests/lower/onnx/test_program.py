"""The program in memory and its file."""

from __future__ import annotations

import numpy as np
import pytest

import thinflow
from tests.loops import entered
from tests.lower.builders import conv_attrs, floats
from tests.lower.control_flow import counted_loop
from tests.lower.onnx.harness import Net, check_model
from thinflow.errors import GraphError, ParameterError, WriteError
from thinflow.ir.types import BOOL, FLOAT, INT64, QINT8, STRING, dtype
from thinflow.onnx import protos, writer
from thinflow.onnx.program import Operator, Program, Tensor, check_opset
from thinflow.wire.protos import parse


def read(content):
    return parse(protos.message("ModelProto"), content)


def example():
    x = Tensor("x", (None, 300), FLOAT)
    w = Tensor("w", (300, 4), FLOAT, floats(300, 4))
    y = Tensor("y", (None, 4), FLOAT)
    return Program([x], [y], [Operator("MatMul", [x, w], [y], origin="matmul")])


def test_the_file_says_what_the_program_is():
    model = read(writer.to_bytes(example()))
    assert (model.ir_version, model.producer_name) == (8, "thinflow")
    assert model.producer_version == thinflow.__version__
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 17)]
    (node,) = model.graph.node
    assert (node.op_type, node.name, list(node.input), list(node.output)) == (
        "MatMul",
        "matmul",
        ["x", "w"],
        ["y"],
    )
    (given,) = model.graph.input
    dims = given.type.tensor_type.shape.dim
    assert (dims[0].dim_param, dims[1].dim_value) == ("x_dim_0", 300)
    (weight,) = model.graph.initializer
    np.testing.assert_array_equal(np.frombuffer(weight.raw_data, np.float32).reshape(300, 4), floats(300, 4))
    check_model(writer.to_bytes(example()))


def test_ops_of_another_domain_name_it():
    program = example()
    (y,) = program.outputs
    program.operators.append(Operator("com.microsoft.Gelu", [y], [Tensor("z", (None, 4), FLOAT)]))
    model = read(writer.to_bytes(program))
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 17), ("com.microsoft", 1)]
    assert [(n.domain, n.op_type) for n in model.graph.node] == [("", "MatMul"), ("com.microsoft", "Gelu")]


def test_the_size_is_known_before_the_chunks_and_large_weights_are_not_copied():
    program = example()
    file = writer.write_program(program)
    chunks = list(file.chunks)
    assert file.size == sum(map(len, chunks))
    assert file.data_size == 0
    weights = program.operators[0].inputs[1].array()
    assert any(
        np.shares_memory(np.frombuffer(c, np.uint8), weights) for c in chunks if len(c) == weights.nbytes
    )


def test_weights_in_a_second_file(tmp_path):
    program = example()
    file = writer.write_program(program, beside="model.onnx.data")
    (tmp_path / "model.onnx").write_bytes(b"".join(file.chunks))
    data = b"".join(file.data_chunks)
    (tmp_path / "model.onnx.data").write_bytes(data)
    assert file.data_size == len(data) == 4800
    assert file.size < 400
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(
        session.run(None, {"x": floats(2, 300)})[0], floats(2, 300) @ floats(300, 4), rtol=1e-4, atol=1e-4
    )


def test_weights_start_on_a_page_of_the_second_file():
    x, y = Tensor("x", (300,), FLOAT), Tensor("y", (300,), FLOAT)
    inner = Tensor("inner", (300,), FLOAT)
    a, b = (Tensor(n, (300,), FLOAT, floats(300) + i) for i, n in enumerate("ab"))
    program = Program([x], [y], [Operator("Add", [x, a], [inner]), Operator("Add", [inner, b], [y])])
    file = writer.write_program(program, beside="data")
    model = read(b"".join(file.chunks))
    places = [{e.key: e.value for e in t.external_data} for t in model.graph.initializer]
    assert [p["offset"] for p in places] == ["0", "4096"]
    assert len(b"".join(file.data_chunks)) == file.data_size == 4096 + 1200


def test_too_many_weights_need_a_second_file():
    with pytest.raises(WriteError, match="do not fit a protobuf file") as caught:
        writer.write_program(example(), inline_limit=1000)
    assert caught.value.hint == "write the weights to a second file"
    assert writer.write_program(example(), beside="d", inline_limit=1000).data_size == 4800


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3), np.float32),
        np.float32(2),
        np.array([True]),
        np.arange(600, dtype=">i8").reshape(2, 300).T,
    ],
)
def test_odd_constants(array):
    element = dtype(array.dtype.newbyteorder("="))
    c = Tensor("c", array.shape, element, np.asarray(array))
    y = Tensor("y", array.shape, element)
    model = read(writer.to_bytes(Program([], [y], [Operator("Identity", [c], [y])])))
    (stored,) = model.graph.initializer
    assert tuple(stored.dims) == array.shape
    found = np.frombuffer(stored.raw_data, element.numpy()).reshape(array.shape)
    np.testing.assert_array_equal(found, array)


def test_attributes():
    x, y = Tensor("x", (2,), FLOAT), Tensor("y", (2,), FLOAT)
    value = Tensor("", (1,), INT64, np.array([7]))
    options = {"a": 0, "b": 1.5, "c": "s", "d": (1, 2), "e": (0.5, 1.0), "f": value, "g": None, "h": True}
    model = read(writer.to_bytes(Program([x], [y], [Operator("Custom", [x, None, None], [y], options)])))
    (node,) = model.graph.node
    found = {a.name: a for a in node.attribute}
    assert list(node.input) == ["x"]
    assert set(found) == set("abcdefh")
    assert [found[k].type for k in "abcdef"] == [2, 1, 3, 7, 6, 4]
    assert found["a"].HasField("i")
    assert (found["b"].f, found["c"].s, list(found["d"].ints)) == (1.5, b"s", [1, 2])
    assert found["h"].i == 1


@pytest.mark.parametrize(
    ("operators", "problem"),
    [
        (lambda x, y: [Operator("Relu", [y], [y])], "reads 'y' before"),
        (lambda x, y: [Operator("Relu", [x], [y]), Operator("Relu", [x], [y])], "already has a value"),
        (lambda x, y: [], "nothing writes the output"),
        (lambda x, y: [Operator("Relu", [x], [y]), Operator("Relu", [x], [Tensor("x", None, FLOAT)])],
         "are named 'x'"),
        (lambda x, y: [Operator("Relu", [x], [y]), Operator("Cast", [x], [Tensor("q", None, QINT8)])],
         "no type qint8"),
    ],
)  # fmt: skip
def test_broken_programs(operators, problem):
    x, y = Tensor("x", (2,), FLOAT), Tensor("y", (2,), FLOAT)
    with pytest.raises(GraphError, match=problem):
        Program([x], [y], operators(x, y)).validate()


def test_opsets():
    assert check_opset(21) == 21
    with pytest.raises(ParameterError, match="opset 16 cannot be written") as caught:
        check_opset(16)
    assert "17 to 21" in caught.value.hint


def test_names_survive():
    net = Net()
    x = net.feed(floats(1, 4, 4, 3), "image")
    y = net.op("Conv2D", x, floats(3, 3, 3, 4), name="scope/conv", **conv_attrs())
    lowered = net.lower(y, x, y)
    assert list(lowered.inputs) == ["image"]
    assert list(lowered.outputs) == ["scope/conv", "image"]
    assert {t.name for t in lowered.program.outputs} == {"scope/conv", "image"}
    assert {o.origin for o in lowered.program.operators if o.code == "Conv"} == {"scope/conv"}
    net.check(y, x)


def test_constants_and_shared_values_as_outputs():
    net = Net()
    x = net.feed(floats(2, 3))
    c = net.const(floats(2), "constant")
    same = net.op("Identity", net.op("Neg", x), name="same")
    net.check(c, same, same.node.inputs[0], net.op("Reshape", x, np.int32([3, 2])))


def test_bodies_name_what_they_read_outside():
    """A Loop in the file has its own inputs only; its body reads outer values by their names."""
    net = Net()
    x, k = net.feed(floats(3), "x"), net.feed(floats(3) / 2, "k")
    factor = entered(net.graph, "loop", k)
    y = counted_loop(net, "loop", x, lambda v, i: net.op("Mul", v, factor))
    model = read(writer.to_bytes(net.lower(y).program))
    node = next(n for n in model.graph.node if n.op_type == "Loop")
    body = node.attribute[0].g
    assert len(node.input) == 4  # no number of turns, whether to turn, the counter, x
    assert (node.input[0], node.input[3]) == ("", "x")
    assert len(body.input) == 4
    assert "k" in {name for inner in body.node for name in inner.input}
    names = [o for n in (*model.graph.node, *body.node) for o in n.output] + [i.name for i in body.input]
    assert len(names) == len(set(names))


def test_large_constants_of_bodies_are_written_once_and_may_be_outside(tmp_path):
    net = Net()
    x = net.feed(floats(2, 20))
    w = entered(net.graph, "loop", net.const(floats(20, 20) / 20, "w"))
    y = counted_loop(net, "loop", x, lambda v, i: net.op("MatMul", v, w))
    program = net.lower(y).program
    file = writer.write_program(program, beside="m.data")
    (tmp_path / "m.onnx").write_bytes(b"".join(file.chunks))
    (tmp_path / "m.data").write_bytes(b"".join(file.data_chunks))
    assert file.data_size == 1600
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": floats(2, 20)})[0], net.reference(y)[0], rtol=1e-4)


def test_broken_bodies_are_found():
    x, y = Tensor("x", (), BOOL), Tensor("y", (2,), FLOAT)
    inner = Program([], [Tensor("z", (2,), FLOAT)], [], name="then")
    program = Program([x], [y], [Operator("If", [x], [y], bodies={"then_branch": inner})])
    with pytest.raises(GraphError, match="nothing writes the output 'z'"):
        program.validate()


def test_strings_are_stored_with_the_nodes():
    words = np.array([b"a", "ä".encode()] * 400, object)
    c, y = Tensor("c", words.shape, STRING, words), Tensor("y", words.shape, STRING)
    (stored,) = read(writer.to_bytes(Program([], [y], [Operator("Identity", [c], [y])]))).graph.initializer
    assert list(stored.string_data) == words.tolist()


def test_equal_constants_are_stored_once(tmp_path):
    """Large and small ones, in the file or beside it; other signs of zero and outputs stay apart."""
    large = floats(300, 300)
    x, y = Tensor("x", (2, 300), FLOAT), Tensor("y", (2, 300), FLOAT)
    hidden = [Tensor(f"h{i}", (2, 300), FLOAT) for i in range(4)]
    one, zero = np.float32([1]), np.float32([0])
    program = Program(
        [x],
        [y, kept := Tensor("kept", (1,), FLOAT, one.copy())],
        [
            Operator("MatMul", [x, Tensor("w", large.shape, FLOAT, large)], [hidden[0]]),
            Operator("MatMul", [hidden[0], Tensor("v", large.shape, FLOAT, large.T.copy().T)], [hidden[1]]),
            Operator("Add", [hidden[1], Tensor("a", (1,), FLOAT, one)], [hidden[2]]),
            Operator("Add", [hidden[2], Tensor("b", (1,), FLOAT, one.copy())], [hidden[3]]),
            Operator("Add", [hidden[3], Tensor("p", (1,), FLOAT, zero)], [t := Tensor("t", (2, 300), FLOAT)]),
            Operator("Add", [t, Tensor("n", (1,), FLOAT, -zero)], [y]),
        ],
    )
    stored = [i.name for i in read(writer.to_bytes(program)).graph.initializer]
    assert sorted(stored) == ["a", "kept", "n", "p", "w"]
    assert kept.name in stored
    file = writer.write_program(program, beside="m.onnx.data")
    assert file.data_size == large.nbytes
    (tmp_path / "m.onnx").write_bytes(b"".join(file.chunks))
    (tmp_path / "m.onnx.data").write_bytes(b"".join(file.data_chunks))
    check_model(writer.to_bytes(program))
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    expected = floats(2, 300) @ large @ large + 2
    np.testing.assert_allclose(session.run(["y"], {"x": floats(2, 300)})[0], expected, rtol=1e-3, atol=1e-3)


def test_equal_constants_of_bodies_stay_where_they_are_read():
    p, x, y = Tensor("p", (), BOOL), Tensor("x", (2,), FLOAT), Tensor("y", (2,), FLOAT)

    def body(name):
        inner, out = Tensor(f"{name}_x", (2,), FLOAT), Tensor(f"{name}_y", (2,), FLOAT)
        made = [Tensor(f"{name}_{i}", (1,), FLOAT, np.float32([3])) for i in range(2)]
        middle = Tensor(f"{name}_m", (2,), FLOAT)
        steps = [Operator("Add", [inner, made[0]], [middle]), Operator("Mul", [middle, made[1]], [out])]
        return Program([inner], [out], steps, name=name)

    bodies = {"then_branch": body("then"), "else_branch": body("else")}
    program = Program([p, x], [y], [Operator("If", [p, x], [y], bodies=bodies, captured=1)])
    model = read(writer.to_bytes(program))
    graphs = [a.g for a in model.graph.node[0].attribute]
    assert [[i.name for i in g.initializer] for g in graphs] == [["then_0"], ["else_0"]]
    check_model(writer.to_bytes(program))
