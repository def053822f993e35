"""LiteRT programs with variables, there and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lower.variables import summing
from tests.transforms.golden import parse_graph as graph
from thinflow.engines.session import Session
from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Graph
from thinflow.ir.interface import states_of
from thinflow.ir.types import BOOL, FLOAT, RESOURCE
from thinflow.lower.tflite.convert import lower_graph
from thinflow.lower.tflite.variables import with_variables
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

pytest.importorskip("ai_edge_litert")


def program() -> Program:
    made = summing()
    return with_variables(lower_graph(made, made.inputs, made.outputs).program, states_of(made))


def test_a_saved_graph_keeps_its_state(tmp_path: Path) -> None:
    thinflow.save(summing(), tmp_path / "m.tflite")
    for engine in ("litert", "reference"):
        session = Session(tmp_path / "m.tflite", engine)
        answers = [session.run(["y"], {"x": np.float32([1, 10])})[0].tolist() for _ in range(3)]
        assert answers == [[-2, -12], [-3, -22], [-4, -32]]


def test_files_with_variables_are_read_back() -> None:
    again = read_program(to_bytes(program()))
    assert list(again.signatures) == ["serving_default", "reset_state"]
    assert to_bytes(read_program(to_bytes(again))) == to_bytes(again)
    assert [s.name for s in again.subgraphs] == ["main", "start_state", "reset_state"]


def test_without_states_nothing_changes() -> None:
    whole = summing()
    plain = lower_graph(whole, whole.inputs, whole.outputs).program
    assert with_variables(plain, []) is plain


def test_a_state_that_is_not_computed() -> None:
    whole = summing()
    part = lower_graph(whole, whole.inputs, [whole.value("y")]).program
    with pytest.raises(UnsupportedOp, match="the state 'v' is not computed in the model that reads it"):
        with_variables(part, states_of(whole))


# --- what the interpreter refuses ---


def changed(made: Program, place: int, **operators: list[Operator]) -> Program:
    """A program with other operators in one of its subgraphs."""
    subgraphs = list(made.subgraphs)
    subgraphs[place] = replace(subgraphs[place], **operators)
    return replace(made, subgraphs=subgraphs)


def refused(made: Program, folder: Path) -> str:
    (folder / "m.tflite").write_bytes(to_bytes(made))
    with pytest.raises(UnsupportedOp) as error:
        Session(folder / "m.tflite", "reference")
    return error.value.problem


def test_variables_without_a_first_value(tmp_path: Path) -> None:
    made = changed(program(), 1, operators=[])
    assert refused(made, tmp_path) == "no constant is its variable's first value"


def test_a_start_that_does_more(tmp_path: Path) -> None:
    made = program()
    one = Tensor("one", (1,), FLOAT, np.float32([1]))
    start = made.subgraphs[1]
    made = changed(
        made, 1, operators=[*start.operators, Operator("NEG", [one], [Tensor("twice", (1,), FLOAT)])]
    )
    assert (
        refused(made, tmp_path)
        == "the subgraph that runs once has more to do than to fill variables: tfl.NEG"
    )


def test_variables_in_branches(tmp_path: Path) -> None:
    """y = read v, in a branch."""
    made = program()
    main = made.subgraphs[0]
    handle, value, y = (
        Tensor("h", (), RESOURCE),
        Tensor("value", (2,), FLOAT),
        Tensor("branched", (2,), FLOAT),
    )
    options = {"container": "", "shared_name": "v"}
    read = [Operator("VAR_HANDLE", [], [handle], options), Operator("READ_VARIABLE", [handle], [value])]
    true = Tensor("true", (), BOOL, np.array(True))
    numbers = {"then_subgraph_index": 3, "else_subgraph_index": 3}
    subgraphs = [
        Subgraph(main.inputs, [y], [*main.operators, Operator("IF", [true], [y], numbers)]),
        *made.subgraphs[1:],
        Subgraph([], [value], read, name="branch"),
    ]
    made = Program(subgraphs)
    assert "the order of reads and writes is not known" in refused(made, tmp_path)


# --- slices ---

SLICE = """
x = Placeholder() {{dtype=float, shape=shape[3,2]}}
i = Placeholder() {{dtype=int32, shape=shape[1]}}
value = Placeholder() {{dtype=float, shape=shape[{size}]}}
one = Const() {{dtype=int32, value=int32[1]{{1}}}}
end = AddV2(i, one) {{T=int32}}
strides = Const() {{dtype=int32, value=int32[1]{{{stride}}}}}
y = TensorStridedSliceUpdate(x, i, end, strides, value) {{T=float, Index=int32, shrink_axis_mask={shrink}}}
inputs: x, i, value
outputs: y
"""


def slicing(size: str = "2", stride: int = 1, shrink: int = 1) -> Graph:
    return graph(SLICE.format(size=size, stride=stride, shrink=shrink))


@pytest.mark.parametrize("place", [0, 2, -1])
def test_a_row_at_a_computed_place(place: int) -> None:
    feed = {
        "x": np.arange(6, dtype=np.float32).reshape(3, 2),
        "i": np.int32([place]),
        "value": np.float32([7, 8]),
    }
    wanted = feed["x"].copy()
    wanted[place] = [7, 8]
    session = Session(slicing(), "litert")
    np.testing.assert_array_equal(session.run(["y"], feed)[0], wanted)
    assert session.placement["y"] == "litert"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"shrink": 0, "size": "1,2"}, "its slice takes a part of an axis"),
        ({"stride": 2}, "its slice goes by other steps than 1"),
        ({"size": "1"}, "its value has to be broadcast"),
    ],
)
def test_slices_that_are_not_rows(options: dict[str, str], why: str) -> None:
    made = slicing(**options)  # type: ignore[arg-type]
    session = Session(made, "litert")
    feed = {"x": np.ones((3, 2), np.float32), "i": np.int32([1]), "value": np.float32([[7, 8]])}
    feed["value"] = np.ones([n or 1 for n in made.value("value").node.attrs["shape"].dims], np.float32)
    session.run(["y"], feed)
    assert why in session.reasons["y"]
