"""Variables of .tflite files in graphs to work on: kept, frozen, or handed on by the caller."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.load.builders import V
from tests.states import CALLS, stateful, sums
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, RESOURCE, dtype
from thinflow.tflite.model import Operator, Program, Quantization, Signature, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes
from thinflow.transforms.quantized.grids import make_ends_float

pytest.importorskip("ai_edge_litert")


@pytest.fixture
def streaming(tmp_path: Path) -> str:
    """A file that sums what it is fed: VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE."""
    thinflow.convert(stateful(tmp_path / "saved"), tmp_path / "sum.tflite", state="keep")
    return str(tmp_path / "sum.tflite")


def ops(graph: thinflow.Graph) -> set[str]:
    return {n.op for n in graph}


def test_state_is_kept(streaming: str, tmp_path: Path) -> None:
    graph = thinflow.load(streaming, state="keep")
    assert [(s.name, s.input, s.output) for s in graph.states] == [("v", "v", "v/next")]
    assert [v.name for v in graph.inputs] == ["x", "v"]
    assert [v.name for v in graph.outputs] == ["y", "v/next"]
    assert "keeps state from one run to the next in a variable, 'v'" in graph.facts["state"]
    assert not any("Variable" in op for op in ops(graph))
    session = thinflow.Session(graph, "reference")
    for x, expected in zip(CALLS, sums(), strict=True):
        np.testing.assert_allclose(session.run(["y"], {"x": x})[0], expected, rtol=1e-6)


def test_state_is_kept_for_outputs_that_are_named(streaming: str) -> None:
    # The file has one handle to read the variable by, and another to write it.
    graph = thinflow.load(streaming, outputs=["y"], state="keep")
    assert [s.name for s in graph.states] == ["v"]
    session = thinflow.Session(graph, "reference")
    for x, expected in zip(CALLS, sums(), strict=True):
        np.testing.assert_allclose(session.run(["y"], {"x": x})[0], expected, rtol=1e-6)


def test_it_goes_out_as_a_file_that_keeps_it(streaming: str, tmp_path: Path) -> None:
    graph = thinflow.load(streaming, state="keep")
    thinflow.convert(thinflow.transform(graph, "remove_device"), tmp_path / "again.tflite")
    for engine in ("litert", "reference"):
        session = thinflow.Session(tmp_path / "again.tflite", engine)
        for x, expected in zip(CALLS, sums(), strict=True):
            np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-6)


@pytest.mark.parametrize("state", [None, "freeze"])
def test_state_is_frozen(state: str | None, streaming: str, tmp_path: Path) -> None:
    graph = thinflow.load(streaming, state=state)
    assert [v.name for v in graph.inputs] == ["x"]
    assert "every run begins with the values that were saved" in graph.facts["state"]
    session = thinflow.Session(graph, "reference")
    for x in CALLS:
        np.testing.assert_allclose(session.run(["y"], {"x": x})[0], -(V + x), rtol=1e-6)


def test_state_is_handed_on(streaming: str, tmp_path: Path) -> None:
    graph = thinflow.load(streaming, state="inputs")
    assert not graph.states
    assert [v.name for v in graph.outputs] == ["y", "v/next"]
    thinflow.convert(streaming, tmp_path / "sum.onnx", state="inputs")
    for session in (thinflow.Session(graph, "reference"), thinflow.Session(tmp_path / "sum.onnx")):
        held = V
        for x, expected in zip(CALLS, sums(), strict=True):
            y, held = session.run(None, {"x": x, "v": held})
            np.testing.assert_allclose(y, expected, rtol=1e-6)


def with_order(path: Path, *steps: str) -> str:
    """A file that reads and writes a variable in this order; each write stores what was read plus x."""
    x = Tensor("x", (3,), FLOAT)
    operators = [Operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})]
    handle = Tensor("handle", (), RESOURCE)
    operators.append(Operator("VAR_HANDLE", [], [handle], {"container": "", "shared_name": "a b"}))
    given: list[Tensor] = []
    for n, step in enumerate(steps):
        if step == "read":
            given.append(Tensor(f"r{n}", (3,), FLOAT))
            operators.append(Operator("READ_VARIABLE", [handle], [given[-1]]))
        else:
            total = Tensor(f"t{n}", (3,), FLOAT)
            operators.append(Operator("ADD", [given[-1] if given else x, x], [total]))
            operators.append(Operator("ASSIGN_VARIABLE", [handle, total], []))
    inner = Tensor("inner", (), RESOURCE)
    first = Tensor("first", (3,), FLOAT, V)
    start = [
        Operator("VAR_HANDLE", [], [inner], {"container": "", "shared_name": "a b"}),
        Operator("ASSIGN_VARIABLE", [inner, first], []),
    ]
    program = Program(
        [Subgraph([x], given, operators), Subgraph([], [], start, name="start")],
        signatures={"serving_default": Signature({"x": x}, {f"y{n}": t for n, t in enumerate(given)})},
    )
    path.write_bytes(to_bytes(program))
    return str(path)


@pytest.mark.parametrize(
    "steps",
    [
        ("read", "write", "read", "write"),
        ("read", "write", "write", "read", "read"),
        ("write", "read", "write"),
        ("read", "read", "write"),
    ],
)
def test_the_order_of_the_file_holds(steps: tuple[str, ...], tmp_path: Path) -> None:
    path = with_order(tmp_path / "m.tflite", *steps)
    file = thinflow.Session(path, "litert")
    kept = thinflow.Session(thinflow.load(path, state="keep"), "reference")
    thinflow.convert(path, tmp_path / "again.tflite", shapes={"x": (3,)})
    again = thinflow.Session(tmp_path / "again.tflite", "litert")
    count = steps.count("read")
    for x in CALLS:
        expected = file.run(None, {"x": x})
        for session in (kept, again):
            found = session.run(None, {"x": x})[:count]
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_variable_that_nothing_writes_is_a_constant(tmp_path: Path) -> None:
    graph = thinflow.load(with_order(tmp_path / "m.tflite", "read"), state="keep")
    assert not graph.states
    assert "state" not in graph.facts
    (y,) = thinflow.Session(graph, "reference").run(None, {"x": CALLS[0]})
    np.testing.assert_array_equal(y, V)


def test_state_of_a_subgraph_is_told(tmp_path: Path) -> None:
    """A state inside of a called subgraph: frozen for who asks, refused where it is to be kept."""
    x, y = Tensor("x", (1, 3), FLOAT), Tensor("y", (1, 3), FLOAT)
    a, b = Tensor("a", (1, 3), FLOAT), Tensor("b", (1, 3), FLOAT)
    weights = [Tensor(f"w{n}", (3, 3), FLOAT, np.eye(3, dtype=np.float32)) for n in range(2)]
    bias = Tensor("bias", (3,), FLOAT, np.zeros(3, np.float32))
    held = Tensor("held", (1, 3), FLOAT, is_variable=True)
    step = Operator("RNN", [a, *weights, bias, held], [b], {"fused_activation_function": "NONE"})
    own = Tensor("own", (1, 3), FLOAT, is_variable=True)
    z = Tensor("z", (1, 3), FLOAT)
    outer = Operator("RNN", [y, *weights, bias, own], [z], {"fused_activation_function": "NONE"})
    call = Operator("STABLEHLO_COMPOSITE", [x], [y], {
        "name": "c", "decomposition_subgraph_index": 1, "composite_attributes": (),
    })  # fmt: skip
    inner = Subgraph([a], [b], [step], name="inner")
    (tmp_path / "m.tflite").write_bytes(to_bytes(Program([Subgraph([x], [z], [call, outer]), inner])))
    with pytest.raises(UnsupportedOp, match="the subgraph 'inner' has a variable of its own"):
        thinflow.load(tmp_path / "m.tflite", state="keep")
    graph = thinflow.load(tmp_path / "m.tflite", state="auto")
    assert "it cannot be kept: the subgraph 'inner' has a variable" in graph.facts["state"]


def test_what_writes_to_a_variable_is_needed(streaming: str) -> None:
    assert not thinflow.lint(streaming, select=["TF104", "TF203"]).findings


def summing() -> bytes:
    """y = relu(v + x), v = v + x in codes of a scale of 0.5 whose zero is 3; v is a 10 to begin with."""
    grid = Quantization(np.float32([0.5]), np.int64([3]))
    x, value, total, y = (
        Tensor(name, (1, 4), dtype("int8"), None, grid) for name in ("x", "value", "total", "y")
    )
    first = Tensor("first", (1, 4), dtype("int8"), np.full((1, 4), 10, np.int8), grid)
    inner, outer = (Tensor(name, (), RESOURCE, None, None) for name in ("inner", "outer"))
    options = {"container": "", "shared_name": "sum/states"}
    block = Subgraph([x], [y])
    block.operators += [
        Operator("CALL_ONCE", [], [], {"init_subgraph_index": 1}),
        Operator("VAR_HANDLE", [], [outer], options),
        Operator("READ_VARIABLE", [outer], [value]),
        Operator("ADD", [value, x], [total], {"fused_activation_function": "NONE"}),
        Operator("RELU", [total], [y]),
        Operator("ASSIGN_VARIABLE", [outer, total], []),
    ]
    begin = [Operator("VAR_HANDLE", [], [inner], options), Operator("ASSIGN_VARIABLE", [inner, first], [])]
    return to_bytes(Program([block, Subgraph([], [], begin)]))


def test_state_in_codes_becomes_real_with_what_is_fed(tmp_path: Path) -> None:
    path = tmp_path / "sum.tflite"
    path.write_bytes(summing())
    graph = thinflow.load(path, state="keep")
    ends = make_ends_float(graph)
    assert (ends.inputs, ends.outputs) == ({"x": "int8"}, {"y": "int8"})
    (state,) = graph.states
    np.testing.assert_array_equal(state.start.numpy(), np.full((1, 4), 3.5, np.float32))
    assert [v.dtype for v in (*graph.inputs, *graph.outputs)] == [FLOAT] * 4
    session, x = thinflow.Session(graph, "reference"), np.float32([[0, 1, -1.5, -8]])
    for total in (3.5 + x, 3.5 + 2 * x):
        np.testing.assert_array_equal(session.run(["y"], {"x": x})[0], np.maximum(total, 0))
