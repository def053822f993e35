"""State that is kept: an input and an output for each variable that runs change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.library import constant, node
from tests.load.builders import V, placeholder, variable
from tests.states import CALLS, assign, read, stateful, sums
from thinflow.api import opening_notes
from thinflow.errors import ParameterError, UnsupportedOp
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, INT32


def answers(graph: Graph) -> list[np.ndarray]:
    """Of all calls, by handing the state on by hand."""
    (state,) = graph.states
    held, found = state.start.numpy(), []
    for x in CALLS:
        result = thinflow.run(graph, {"x": x, state.input: held}, ["y", state.output], engine="reference")
        found.append(result["y"])
        held = result[state.output]
    return found


def test_a_state_is_an_input_and_an_output(tmp_path: Path) -> None:
    graph = thinflow.load(stateful(tmp_path / "m"), state="keep")
    (state,) = graph.states
    assert (state.name, state.input, state.output) == ("v", "v", "v/next")
    np.testing.assert_array_equal(state.start.numpy(), V)
    assert [v.name for v in graph.inputs] == ["x", "v"]
    assert [v.name for v in graph.outputs] == ["y", "v/next"]
    np.testing.assert_allclose(answers(graph), sums())
    assert graph.clone().states == graph.states


def test_transforms_keep_the_state(tmp_path: Path) -> None:
    graph = thinflow.load(stateful(tmp_path / "m"), state="keep")
    small = thinflow.transform(graph, "strip_unused_nodes remove_nodes(op=Identity) fold_constants")
    assert len(small) < len(graph)
    np.testing.assert_allclose(answers(small), sums())


def test_state_as_inputs_is_the_callers(tmp_path: Path) -> None:
    graph = thinflow.load(stateful(tmp_path / "m"), state="inputs")
    assert not graph.states
    assert [v.name for v in graph.inputs] == ["x", "v"]


def test_by_default_every_run_begins_anew(tmp_path: Path) -> None:
    graph = thinflow.load(stateful(tmp_path / "m"))
    assert not graph.states
    assert [v.name for v in graph.inputs] == ["x"]
    assert "convert the model to .tflite, which keeps state" in opening_notes(graph)[0]


def test_named_outputs_leave_what_they_wait_for(tmp_path: Path) -> None:
    folder = stateful(tmp_path / "m")
    graph = thinflow.load(folder, state="keep", inputs=["x"], outputs=["new"])
    assert [v.name for v in graph.outputs] == ["new", "v/next"]
    assert not thinflow.load(folder, state="keep", inputs=["x"], outputs=["sum"]).states  # nothing is written


def test_other_words(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="state cannot be 'forget'") as error:
        thinflow.load(stateful(tmp_path / "m"), state="forget")
    assert error.value.hint == "choose one of auto, keep, freeze, inputs"


def unordered() -> list[str]:
    """Two writes in no order, and y reads before both."""
    return [
        placeholder("x", 3), variable("v", 3), read("old"), assign("one", "x", "^old"),
        node("twice", "AddV2", "x", "x", T=FLOAT), assign("two", "twice", "^old"),
        node("y", "Identity", "old", "^one", "^two", T=FLOAT),
    ]  # fmt: skip


def test_what_cannot_be_followed_is_frozen_and_told(tmp_path: Path) -> None:
    folder = stateful(tmp_path / "m", unordered())
    with pytest.raises(UnsupportedOp, match="the variable 'v' after the run has changed it"):
        thinflow.load(folder, state="keep")
    graph = thinflow.load(folder, state="auto")
    assert not graph.states
    assert "(it cannot be kept: it reads the variable 'v'" in opening_notes(graph)[0]


def test_what_is_left_in_another_variable_counts(tmp_path: Path) -> None:
    """v is read by y, w only by what becomes of v."""
    nodes = [
        placeholder("x", 3), variable("v", 3), variable("w", 3), read("old"),
        node("was", "ReadVariableOp", "w", dtype=FLOAT),
        node("more", "AddV2", "was", "x", T=FLOAT),
        node("keep", "AssignVariableOp", "w", "more", "^was", dtype=FLOAT),
        assign("set", "was", "^old"), node("y", "Identity", "old", "^set", "^keep", T=FLOAT),
    ]  # fmt: skip
    graph = thinflow.load(stateful(tmp_path / "m", nodes), state="keep")
    assert sorted(s.name for s in graph.states) == ["v", "w"]


INDEX = node("i", "Const", dtype="type: DT_INT32", value="tensor { dtype: DT_INT32 int_val: 2 }")


def changed(change: str, *more: str) -> list[str]:
    nodes = [placeholder("x", 3), variable("v", 3), INDEX, *more, read("old"), change, read("new", "^set")]
    return [*nodes, node("y", "Neg", "new", T=FLOAT)]


@pytest.mark.parametrize(("op", "place"), [("Update", -7.0), ("Add", 23.0), ("Sub", 37.0)])
def test_rows_that_are_written(tmp_path: Path, op: str, place: float) -> None:
    scatter = node(
        "set", f"ResourceScatter{op}", "v", "i", "seven", "^old", dtype=FLOAT, Tindices="type: DT_INT32"
    )
    graph = thinflow.load(stateful(tmp_path / "m", changed(scatter, constant("seven", -7.0))), state="keep")
    y = thinflow.Session(graph, "reference").run(["y"], {"x": CALLS[0]})[0]
    np.testing.assert_allclose(y, -np.float32([10, 20, place]))


def test_a_slice_that_is_written(tmp_path: Path) -> None:
    one = "tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: %d }"
    places = (("b", 1), ("e", 2), ("s", 1))
    bounds = [node(n, "Const", dtype="type: DT_INT32", value=one % k) for n, k in places]
    change = node(
        "set", "ResourceStridedSliceAssign", "v", "b", "e", "s", "seven", "^old", T=FLOAT, Index=INT32,
        begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=1,
    )  # fmt: skip
    graph = thinflow.load(
        stateful(tmp_path / "m", changed(change, *bounds, constant("seven", 7.0))), state="keep"
    )
    y = thinflow.Session(graph, "reference").run(["y"], {"x": CALLS[0]})[0]
    np.testing.assert_allclose(y, -np.float32([10, 7, 30]))
