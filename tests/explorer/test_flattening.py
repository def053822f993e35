"""Calls, branches and loops laid flat; broken graphs."""

from __future__ import annotations

import json

import pytest

from tests.explorer.shown import Shown
from tests.library import constant, function, graph_of, node
from tests.transforms.golden import parse_graph
from thinflow.explorer import flattening
from thinflow.explorer.document import NodeKind, ScopeKind
from thinflow.ir.graph import Graph
from thinflow.ir.types import BOOL, FLOAT

RELU = function("f", {"a": FLOAT}, [node("r", "Relu", "a", T=FLOAT)], {"y": "r:activations:0"})
NEG = function("g", {"a": FLOAT}, [node("n", "Neg", "a", T=FLOAT)], {"y": "n:y:0"})
NESTED = function(
    "h",
    {"a": FLOAT},
    [node("c", "PartitionedCall", "a", f="@f", Tin=(FLOAT,), Tout=(FLOAT,))],
    {"y": "c:output:0"},
)
X = node("x", "Placeholder", dtype=FLOAT)


def call(name: str, called: str, *inputs: str) -> str:
    return node(name, "PartitionedCall", *inputs, f=f"@{called}", Tin=(FLOAT,), Tout=(FLOAT,))


def test_a_call_vanishes_into_its_scope() -> None:
    shown = Shown(graph_of([X, call("net/c", "f", "x"), node("z", "Neg", "net/c", T=FLOAT)], [RELU]))
    assert ("x", "net/c/r") in shown.edges()
    assert ("net/c/r", "z") in shown.edges()
    assert not any(name == "net/c" for edge in shown.edges() for name in edge)
    assert ScopeKind.FUNCTION in shown.view.scopes.kind


def test_calls_in_calls() -> None:
    shown = Shown(graph_of([X, call("c", "h", "x")], [RELU, NESTED]))
    assert ("x", "c/c/r") in shown.edges()


def test_branches_stand_beside_their_box() -> None:
    branches = node(
        "if", "StatelessIf", "p", "x",
        then_branch="@f", else_branch="@g", Tcond=BOOL, Tin=(FLOAT,), Tout=(FLOAT,),
    )  # fmt: skip
    shown = Shown(graph_of([X, node("p", "Placeholder", dtype=BOOL), branches], [RELU, NEG]))
    assert shown.names(NodeKind.CALL) == ["if"]
    inner = {"if/then_branch/r", "if/else_branch/n"}
    assert {(("x", name)) for name in inner} | {(name, "if") for name in inner} <= shown.edges()
    assert ("p", "if") in shown.edges()
    (place,) = shown.view.nodes.bodies
    bodies = [shown.strings[shown.view.scopes.name[scope]] for scope in shown.view.nodes.bodies[place]]
    assert sorted(bodies) == ["if else_branch", "if then_branch"]


def test_shapes_reach_into_bodies() -> None:
    x = node("x", "Placeholder", dtype=FLOAT, shape="shape { dim { size: 2 } dim { size: 3 } }")
    shown = Shown(graph_of([x, call("c", "f", "x")], [RELU]))
    place = shown.built.places["c/r"]
    assert [shown.strings[t] for t in shown.view.nodes.outputs[place]] == ["float", "2,3"]


def test_a_function_that_calls_itself_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flattening, "MOST_DEPTH", 4)
    endless = function("f", {"a": FLOAT}, [call("c", "f", "a")], {"y": "c:output:0"})
    shown = Shown(graph_of([X, call("c", "f", "x")], [endless]))
    assert shown.built.flat.notes == ["calls inside calls are shown as boxes: there are too many of them"]
    assert "c/c/c/c/c" in shown.built.places


def test_a_cycle_is_drawn() -> None:
    graph = parse_graph("a = Relu(b) {T=float}\nb = Neg(a) {T=float}\n")
    assert Shown(graph).edges() >= {("a", "b"), ("b", "a")}


def test_a_missing_node_has_a_box() -> None:
    graph = graph_of([node("y", "Relu", "lost", T=FLOAT)])
    shown = Shown(graph)
    assert ("lost", "y") in shown.edges()
    place = shown.built.places["lost"]
    assert "has none of that name" in " ".join(shown.strings[t] for t in shown.view.nodes.attributes[place])


def test_an_empty_graph() -> None:
    shown = Shown(Graph())
    assert shown.view.nodes.name == []
    assert shown.view.scopes.parent == [-1]


def test_outputs_have_boxes_and_what_none_needs_a_scope() -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float}\ny = Relu(x) {T=float}\nsave/z = Neg(x) {T=float}\noutputs: y\n"
    )
    shown = Shown(graph)
    assert shown.names(NodeKind.OUTPUT) == ["y (output)"]
    assert shown.scope_names() == ["not needed for the outputs"]


def test_weights_alone_are_seen() -> None:
    shown = Shown(graph_of([constant("a/w", [1.0, 2.0]), constant("a/b", [0.5])]))
    assert shown.names(NodeKind.OP) == ["a/w", "a/b"]
    assert len(shown.view.constants) == 2


@pytest.mark.parametrize(
    "name", ["</script><b>", "a\"b'c", "tab\tand\nline", "\u202eabc", "a//b", "/", "é;b"]
)
def test_any_name_is_kept(name: str) -> None:
    written = json.dumps(name, ensure_ascii=False)[1:-1]
    graph = graph_of([X, node(written, "Relu", "x", T=FLOAT)])
    assert name in Shown(graph).built.places
