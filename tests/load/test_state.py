"""Variables that a run changes: what it reads back is what it wrote, what it leaves is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.library import constant, graph_of, node
from tests.load.builders import (
    VALUES,
    V,
    meta_text,
    placeholder,
    product,
    reference,
    variable,
    write_model,
    write_values,
)
from thinflow.api import freeze_with_report, opening_notes
from thinflow.cli import main
from thinflow.errors import FormatError, UnsupportedOp
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT, INT64, RESOURCE
from thinflow.load.frozen import Frozen
from thinflow.load.state import is_write

X = np.float32([1, -1, 2])


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return write_values(tmp_path / "model-1", VALUES)


def frozen(prefix: Path, *nodes: str, handle: bool = True) -> Frozen:
    """The variable v, an input x and what is done to them; the output is y."""
    head = [placeholder("x", 3), variable("v", 3) if handle else reference("v", 3)]
    return freeze_with_report(graph_of([*head, *nodes]), ["y"], checkpoint=prefix)


def answer(given: Frozen) -> np.ndarray:
    return thinflow.run(given.graph, {"x": X}, ["y"], engine="reference")["y"]


def written(op: str, name: str, value: str, *waits: str, handle: bool = True) -> str:
    ends = {"dtype": FLOAT} if handle else {"T": FLOAT}
    return node(name, f"{op}VariableOp" if handle else op, "v", value, *waits, **ends)


def reading(name: str, *waits: str) -> str:
    return node(name, "ReadVariableOp", "v", *waits, dtype=FLOAT)


def test_what_was_written_is_read(prefix: Path) -> None:
    given = frozen(
        prefix, written("Assign", "set", "x"), reading("r", "^set"), node("y", "Neg", "r", T=FLOAT)
    )
    np.testing.assert_allclose(answer(given), -X)


@pytest.mark.parametrize(("op", "sign"), [("AssignAdd", 1), ("AssignSub", -1)])
def test_sums_begin_with_the_saved_value(prefix: Path, op: str, sign: int) -> None:
    nodes = [written(op, "one", "x"), written(op, "two", "x", "^one"), reading("r", "^two")]
    given = frozen(prefix, *nodes, node("y", "Neg", "r", T=FLOAT))
    np.testing.assert_allclose(answer(given), -(V + sign * 2 * X))


def test_each_read_has_its_time(prefix: Path) -> None:
    nodes = [
        reading("before"), written("Assign", "set", "x", "^before"), reading("after", "^set"),
        node("y", "Sub", "after", "before", T=FLOAT),
    ]  # fmt: skip
    given = frozen(prefix, *nodes)
    np.testing.assert_allclose(answer(given), X - V)
    assert given.state == ["v"]
    assert given.graph.facts["state"] in given.notes
    assert "keeps state from one run to the next in a variable, 'v'; here every run begins" in given.notes[-1]


def test_variables_of_old(prefix: Path) -> None:
    nodes = [
        constant("one", [1.0, 1.0, 1.0]), written("AssignAdd", "count", "one", handle=False),
        node("r", "Identity", "v", "^count", T=FLOAT), node("y", "Mul", "x", "r", T=FLOAT),
    ]  # fmt: skip
    np.testing.assert_allclose(answer(frozen(prefix, *nodes, handle=False)), X * (V + 1))


def test_a_gather_of_what_was_written(prefix: Path) -> None:
    index = node("i", "Const", dtype="type: DT_INT32", value="tensor { dtype: DT_INT32 int_val: 2 }")
    gather = node("y", "ResourceGather", "v", "i", "^set", dtype=FLOAT, Tindices="type: DT_INT32")
    assert answer(frozen(prefix, index, written("Assign", "set", "x"), gather)) == X[2]


def test_what_nobody_reads_is_no_state(prefix: Path) -> None:
    nodes = [written("Assign", "set", "x"), node("y", "Neg", "x", "^set", T=FLOAT)]
    given = frozen(prefix, *nodes)
    assert not given.state
    assert "state" not in given.graph.facts


def test_orders_that_are_not_known(prefix: Path) -> None:
    nodes = [written("Assign", "one", "x"), written("Assign", "two", "x"), reading("y", "^one", "^two")]
    with pytest.raises(UnsupportedOp, match="reads the variable 'v' after the run has changed it") as error:
        frozen(prefix, *nodes)
    assert "an input and an output of the model" in error.value.hint


def test_changes_of_other_kinds(prefix: Path) -> None:
    change = node("set", "ResourceScatterMul", "v", "i", "x", dtype=FLOAT, Tindices="type: DT_INT32")
    with pytest.raises(UnsupportedOp, match="changes the variable 'v' after the run has changed it"):
        frozen(prefix, placeholder("i", 3), change, reading("y", "^set"))


def test_changes_in_branches(prefix: Path) -> None:
    nodes = [
        node("p", "Placeholder", dtype="type: DT_BOOL", shape="shape {}"),
        node("side", "Switch", "v", "p", T="type: DT_RESOURCE"),
        node("set", "AssignVariableOp", "side:1", "x", dtype=FLOAT),
        reading("y", "^set"),
    ]
    with pytest.raises(UnsupportedOp, match="reads the variable 'v' after the run has changed it"):
        frozen(prefix, *nodes)


# --- what is told ---

ENDS = ({"x": "x:0"}, {"y": "y:0"})


def saved(folder: Path, **signatures: tuple[dict[str, str], dict[str, str]]) -> Path:
    """y = x @ w, and a variable v that each run adds to and that z shows."""
    nodes = [
        *product(), variable("v", 3), reading("old"), constant("one", [1.0, 1.0, 1.0]),
        written("AssignAdd", "count", "one", "^old"), node("z", "Identity", "old", "^count", T=FLOAT),
    ]  # fmt: skip
    return write_model(folder, meta_text(nodes, signatures=signatures), values=VALUES)


def test_which_signature_was_taken(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", serving_default=ENDS, other=({"x": "x:0"}, {"z": "z:0"}))
    note = "of 2 signatures 'serving_default' was taken; the others: --signature other"
    given = freeze_with_report(folder)
    assert note in given.notes
    assert opening_notes(thinflow.load(folder)) == [note]
    assert opening_notes(thinflow.load(folder, signature="serving_default")) == []


def test_a_signature_that_is_there_twice_is_one(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", serving_default=ENDS, serve=ENDS)
    assert opening_notes(thinflow.load(folder)) == []


def test_without_a_default_none_is_taken(tmp_path: Path) -> None:
    folder = saved(tmp_path / "m", one=ENDS, two=({"x": "x:0"}, {"z": "z:0"}))
    with pytest.raises(FormatError, match="the model has 2 signatures") as error:
        thinflow.load(folder)
    assert error.value.hint == "choose one with --signature: one, two"


def test_commands_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ({"x": "x:0"}, {"y": "y:0", "z": "z:0"})
    folder = str(saved(tmp_path / "m", serving_default=both, other=ENDS))
    told = ("keeps state from one run to the next in a variable, 'v'", "of 2 signatures 'serving_default'")
    pytest.importorskip("ai_edge_litert")
    for command in (
        ["inspect", folder],
        ["freeze", folder, "-o", str(tmp_path / "f.pb")],
        ["convert", folder, str(tmp_path / "c.pb")],
        ["convert", folder, str(tmp_path / "c.tflite")],
        ["optimize", folder, str(tmp_path / "out"), "--no-benchmark", "--samples", "2"],
    ):
        assert main(command) == 0
        said = capsys.readouterr().out
        assert all(text in said for text in told), (command, said)


# --- random numbers ---


def drawing(size: int) -> list[str]:
    """y is the state of a generator before it is moved on."""
    delta = node("delta", "Const", dtype="type: DT_UINT64", value="tensor { dtype: DT_UINT64 uint64_val: 4 }")
    alg = node("alg", "Const", dtype="type: DT_INT32", value="tensor { dtype: DT_INT32 int_val: 1 }")
    return [variable("v", size, dtype=INT64), delta, alg, node("y", "RngReadAndSkip", "v", "alg", "delta")]


def test_generators_begin_anew_in_every_run(tmp_path: Path) -> None:
    prefix = write_values(tmp_path / "model-1", {"v": np.array([7, 0, 9], np.int64)})
    given = freeze_with_report(graph_of(drawing(3)), ["y"], checkpoint=prefix)
    assert thinflow.run(given.graph, {}, ["y"], engine="reference")["y"].tolist() == [7, 0, 9]
    told = "the generator of random numbers in a variable, 'v' begins anew in every run"
    assert opening_notes(given.graph) == [told]


def test_generators_of_other_sizes(tmp_path: Path) -> None:
    prefix = write_values(tmp_path / "model-1", {"v": np.array([7, 0], np.int64)})
    with pytest.raises(UnsupportedOp, match="the size of its generator's state is not known"):
        freeze_with_report(graph_of(drawing(2)), ["y"], checkpoint=prefix)


def test_a_write_behind_an_identity_of_many_counts(prefix: Path) -> None:
    given = frozen(
        prefix,
        node("many", "IdentityN", "x", "v", T=(FLOAT, RESOURCE)),
        node("set", "AssignVariableOp", "many:1", "x", dtype=FLOAT),
        reading("r", "^set"),
        node("y", "Neg", "r", T=FLOAT),
    )
    np.testing.assert_allclose(answer(given), -X)


@pytest.mark.parametrize(
    ("op", "writes"),
    [
        *[(op, True) for op in ("AssignAdd", "ResourceApplyAdam", "SparseApplyFtrl", "ScatterNdUpdate")],
        *[(op, True) for op in ("ResourceCountUpTo", "SaveV2", "ResourceScatterNdSub", "StridedSliceAssign")],
        *[
            (op, False)
            for op in ("ScatterNd", "ScatterNdNonAliasingAdd", "TensorScatterUpdate", "ReadVariableOp")
        ],
    ],
)
def test_ops_that_write(op: str, writes: bool) -> None:
    assert is_write(Graph().add(op, name="n")) is writes
