"""Nodes without a scope in their names: they stand where all around them do."""

from __future__ import annotations

from tests.explorer.shown import Shown
from tests.library import graph_of, node
from thinflow.explorer.document import NodeKind
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT

X = node("x", "Placeholder", dtype=FLOAT)


def unary(name: str, *inputs: str) -> str:
    return node(name, "Relu", *inputs, T=FLOAT)


def scope_of(graph: Graph, name: str) -> str:
    shown = Shown(graph)
    names = [shown.strings[n] for n in shown.view.nodes.name]
    return shown.strings[shown.view.scopes.name[shown.view.nodes.scope[names.index(name)]]]


def test_between_two_nodes_of_a_scope() -> None:
    nodes = [X, unary("m/a", "x"), unary("Relu__1", "m/a"), unary("Relu__2", "Relu__1")]
    graph = graph_of([*nodes, unary("m/b", "Relu__2"), unary("m/c", "m/b")])
    assert {scope_of(graph, name) for name in ("Relu__1", "Relu__2")} == {"m"}


def test_between_two_scopes_of_a_scope() -> None:
    inner = [unary("m/a/p", "x"), unary("m/a/q", "m/a/p"), unary("t", "m/a/q"), unary("m/b/p", "t")]
    assert scope_of(graph_of([X, *inner, unary("m/b/q", "m/b/p")]), "t") == "m"


def test_between_scopes_or_beside_an_end_of_the_graph_it_stays() -> None:
    first = [unary("before", "x"), unary("m/a", "before"), unary("m/b", "m/a"), unary("between", "m/b")]
    graph = graph_of([X, *first, unary("n/a", "between"), unary("n/b", "n/a"), unary("last", "n/b")])
    assert {scope_of(graph, name) for name in ("before", "between", "last")} == {""}


def test_a_state_of_litert_stands_in_its_reader() -> None:
    graph = graph_of([X, node("state", "tfl.variable"), node("sum", "tfl.ADD", "x", "state")])
    shown = Shown(graph)
    assert shown.names(NodeKind.VARIABLE) == ["state"]
    assert {box.name for box in shown.built.fixed} == {"state"}


def test_weights_stay_in_their_layer_though_a_loss_reads_them_too() -> None:
    layer = [X, node("m/w", "VariableV2", dtype=FLOAT), node("m/w/read", "Identity", "m/w", T=FLOAT)]
    layer += [node("m/mul", "Mul", "x", "m/w/read", T=FLOAT), unary("m/relu", "m/mul")]
    graph = graph_of([*layer, node("loss/l2", "Mul", "m/w/read", "m/w/read", T=FLOAT)])
    graph.outputs = [graph.node("m/relu").output()]
    assert {scope_of(graph, name) for name in ("m/w", "m/w/read")} == {"m"}
    assert scope_of(graph, "loss/l2") == "not needed for the outputs"
