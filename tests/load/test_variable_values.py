"""Variables that no checkpoint holds, and what the graph's own initialisers give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.library import constant, graph_of, node
from tests.load.builders import W, placeholder, product, read, reference, variable, write_values
from thinflow.api import freeze_with_report
from thinflow.errors import FormatError, GraphError
from thinflow.ir.types import FLOAT, INT32

X = np.array([[1, -1]], np.float32)


def assign(target: str, value: str, op: str = "AssignVariableOp") -> str:
    return node(f"{target}/Assign", op, target, value, **{"dtype" if op != "Assign" else "T": FLOAT})


def biased(*initial: str, bias: str = "") -> list[str]:
    """y = x @ w + b, and what initialises b."""
    nodes = [*product("p"), bias or variable("b", 3)]
    nodes += [read("rb", "b") if not bias else node("rb", "Identity", "b", T=FLOAT)]
    return [*nodes, node("y", "AddV2", "p", "rb", T=FLOAT), *initial]


CONSTANT = [constant("start", np.float32([1, 2, 3])), assign("b", "start")]
INIT = node("init", "NoOp", "^b/Assign")


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return write_values(tmp_path / "m", {"w": W})


def answer(graph: thinflow.Graph) -> np.ndarray:
    return thinflow.run(graph, {graph.inputs[0].name: X}, ["y"], engine="reference")["y"]


@pytest.mark.parametrize("name", ["init", "init:0", "^init", "b/Assign"])
def test_an_initialiser_fills_what_the_checkpoint_lacks(name: str, prefix: Path) -> None:
    frozen = freeze_with_report(
        graph_of(biased(*CONSTANT, INIT)), ["y"], checkpoint=prefix, initializers=[name]
    )
    np.testing.assert_array_equal(answer(frozen.graph), X @ W + [1, 2, 3])
    assert frozen.variables["b"].told_by == "the initialisers"
    assert frozen.notes == ["1 variable not in a checkpoint, initialised: 'b'"]
    assert frozen.missing == []


def test_without_one_it_is_missing(prefix: Path) -> None:
    with pytest.raises(FormatError, match="no value for 1 variable: 'b'"):
        freeze_with_report(graph_of(biased(*CONSTANT, INIT)), ["y"], checkpoint=prefix)


def test_references(prefix: Path) -> None:
    initial = [constant("start", np.float32([1, 2, 3])), assign("b", "start", "Assign")]
    graph = graph_of(biased(*initial, bias=reference("b", 3)))
    frozen = freeze_with_report(graph, ["y"], checkpoint=prefix, initializers=["b/Assign"])
    np.testing.assert_array_equal(answer(frozen.graph), X @ W + [1, 2, 3])


def test_what_the_checkpoint_holds_is_not_overwritten(prefix: Path) -> None:
    zeros = [constant("zeros", np.zeros((2, 3), np.float32)), assign("w", "zeros")]
    init = node("init", "NoOp", "^b/Assign", "^w/Assign")
    graph = graph_of(biased(*CONSTANT, *zeros, init))
    frozen = freeze_with_report(graph, ["y"], checkpoint=prefix, initializers=["init"])
    np.testing.assert_array_equal(answer(frozen.graph), X @ W + [1, 2, 3])
    assert "1 variable as in the checkpoint, not initialised: 'w'" in frozen.notes


def test_an_initialiser_that_reads_other_variables(prefix: Path) -> None:
    """b starts as c * 2, c as the first row of w, which the checkpoint holds."""
    initial = [
        variable("c", 3),
        read("again", "w"),
        constant("zero", np.int32(0)),
        node("row", "GatherV2", "again", "zero", "zero", Tparams=FLOAT, Tindices=INT32, Taxis=INT32),
        assign("c", "row"),
        read("rc", "c"),
        constant("two", np.float32(2)),
        node("twice", "Mul", "rc", "two", T=FLOAT),
        assign("b", "twice"),
        node("init", "NoOp", "^b/Assign", "^c/Assign"),
    ]
    frozen = freeze_with_report(graph_of(biased(*initial)), ["y"], checkpoint=prefix, initializers=["init"])
    np.testing.assert_array_equal(answer(frozen.graph), X @ W + W[0] * 2)
    assert "c" not in frozen.graph


def random(**seeds: int) -> list[str]:
    draw = node("draw", "RandomStandardNormal", "three", T=INT32, dtype=FLOAT, **seeds)
    return [constant("three", np.int32([3])), draw, assign("b", "draw")]


def test_random_numbers_are_told(prefix: Path) -> None:
    graph = graph_of(biased(*random()))
    frozen = freeze_with_report(graph, ["y"], checkpoint=prefix, initializers=["b/Assign"])
    assert "1 variable of RANDOM numbers, other ones each time: 'b'" in frozen.notes
    other = freeze_with_report(graph, ["y"], checkpoint=prefix, initializers=["b/Assign"])
    assert np.any(answer(frozen.graph) != answer(other.graph))


def test_seeded_numbers_are_those_of_the_seed(prefix: Path) -> None:
    graph = graph_of(biased(*random(seed=1, seed2=2)))
    both = [freeze_with_report(graph, ["y"], checkpoint=prefix, initializers=["b/Assign"]) for _ in "ab"]
    np.testing.assert_array_equal(*(answer(frozen.graph) for frozen in both))
    assert not any("RANDOM" in note for note in both[0].notes)


def test_initialisers_in_place_of_a_checkpoint() -> None:
    start = [constant("zeros", np.ones((2, 3), np.float32)), assign("w", "zeros")]
    graph = graph_of([*product(), *start])
    frozen = freeze_with_report(graph, ["y"], initializers=["w/Assign"])
    np.testing.assert_array_equal(answer(frozen.graph), X @ np.ones((2, 3)))


def test_one_that_cannot_be_computed_leaves_the_variable_missing(prefix: Path) -> None:
    fed = [placeholder("start", 3), assign("b", "start")]
    with pytest.raises(FormatError, match="no value for 1 variable: 'b'"):
        freeze_with_report(graph_of(biased(*fed)), ["y"], checkpoint=prefix, initializers=["b/Assign"])


def test_one_that_is_not_there(prefix: Path) -> None:
    with pytest.raises(GraphError, match="there is no node named 'inti'") as error:
        freeze_with_report(graph_of(biased(*CONSTANT, INIT)), ["y"], checkpoint=prefix, initializers=["inti"])
    assert "init" in error.value.hint
