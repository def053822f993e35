"""Scopes: readable at every level, found by structure where names say nothing, the same every time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.explorer.shown import Shown
from thinflow import zoo
from thinflow.explorer.blocks import MOST_MEMBERS
from thinflow.explorer.document import NodeKind, ScopeKind
from thinflow.explorer.start import MOST_SEEN
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT


def flat(graph: Graph) -> Graph:
    """The graph with names that say nothing."""
    for number, node in enumerate(list(graph)):
        graph.rename(node, f"t{number}")
    return graph


def placeholder(graph: Graph, name: str) -> Value:
    return graph.add("Placeholder", name=name, attrs={"dtype": FLOAT, "shape": ShapeAttr((4, 8))}).output()


def transformer(layers: int = 6) -> Graph:
    """Attention with a mask that every layer reads, two residuals and a norm in each layer; flat names."""
    graph = Graph()
    x, mask = placeholder(graph, "x"), placeholder(graph, "mask")
    for _ in range(layers):
        q, k, v = (graph.add("MatMul", [x, weight(graph)]).output() for _ in range(3))
        scores = graph.add("BatchMatMulV2", [q, k]).output()
        masked = graph.add("AddV2", [scores, mask]).output()
        read = graph.add("BatchMatMulV2", [graph.add("Softmax", [masked]).output(), v]).output()
        x = graph.add("AddV2", [x, graph.add("MatMul", [read, weight(graph)]).output()]).output()
        mean = graph.add("Mean", [x]).output()
        x = graph.add("Rsqrt", [graph.add("Sub", [x, mean]).output()]).output()
        wide = graph.add("Relu", [graph.add("MatMul", [x, weight(graph)]).output()]).output()
        x = graph.add("AddV2", [x, graph.add("MatMul", [wide, weight(graph)]).output()]).output()
    graph.inputs, graph.outputs = [graph.value("x"), mask], [x]
    return graph


def weight(graph: Graph) -> Value:
    import numpy as np

    return graph.constant(np.ones((8, 8), np.float32), graph.unique_name("w"))


def lstm(steps: int = 40) -> Graph:
    """An unrolled recurrent cell, a scope for each step beside each other."""
    graph = Graph()
    x = h = placeholder(graph, "x")
    for step in range(steps):
        name = f"rnn/cell_{step}"
        z = graph.add("MatMul", [h, weight(graph)], f"{name}/MatMul").output()
        i, f = (graph.add("Sigmoid", [z], f"{name}/{gate}").output() for gate in ("i", "f"))
        h = graph.add("Mul", [i, graph.add("AddV2", [f, x], f"{name}/add").output()], f"{name}/h").output()
    graph.inputs, graph.outputs = [x], [h]
    return graph


MODELS: dict[str, Callable[[], Graph]] = {
    "mobilenet": lambda: zoo.build("mobilenet_v1"),
    "flat mobilenet": lambda: flat(zoo.build("mobilenet_v1")),
    "flat mobilenet v2": lambda: flat(zoo.build("mobilenet_v2")),
    "resnet": lambda: zoo.build("resnet_v2_50"),
    "flat resnet": lambda: flat(zoo.build("resnet_v2_50")),
    "transformer": transformer,
    "lstm": lstm,
}


@pytest.mark.parametrize("name", MODELS)
def test_every_scope_can_be_taken_in(name: str) -> None:
    shown = Shown(MODELS[name]())
    scopes = shown.view.scopes
    for scope, kind in enumerate(scopes.kind):
        # Copies of one structure are alike, however many: there is nothing else to group them by.
        assert kind is ScopeKind.REPEATED or shown.seen_in(scope) <= MOST_MEMBERS, scope
    assert scopes.parent[0] == -1
    assert all(parent < scope for scope, parent in enumerate(scopes.parent))


@pytest.mark.parametrize("name", MODELS)
def test_the_first_picture_is_a_readable_whole(name: str) -> None:
    shown = Shown(MODELS[name]())
    opened = {0, *shown.view.start}
    assert all(shown.view.scopes.parent[scope] in opened for scope in shown.view.start)
    seen = sum(shown.seen_in(scope) for scope in opened) - len(shown.view.start)
    ends = sum(box.kind in (NodeKind.INPUT, NodeKind.OUTPUT) for box in shown.built.boxes)
    assert 3 <= seen <= max(MOST_SEEN, MOST_MEMBERS + ends)


def test_a_full_scope_around_everything_is_open() -> None:
    graph = Graph()
    x = placeholder(graph, "x")
    y = x
    for number in range(MOST_MEMBERS):
        y = graph.add("Relu" if number % 7 else "Tanh", [y], f"net/n{number}").output()
    graph.inputs, graph.outputs = [x], [y]
    assert Shown(graph).view.start == [1]


def scopes_of_three(count: int) -> Graph:
    graph = Graph()
    x = y = placeholder(graph, "x")
    for number in range(3 * count):
        op = ("Relu", "Tanh", "Sigmoid", "Exp")[(number + number // 5) % 4]
        y = graph.add(op, [y], f"part{number // 3}/n{number}").output()
    graph.inputs, graph.outputs = [x], [y]
    return graph


def test_all_scopes_of_a_small_graph_are_open_and_few_of_a_large_one() -> None:
    small, large = (Shown(scopes_of_three(count)).view for count in (10, 14))
    assert sorted(small.start) == list(range(1, len(small.scopes.name)))
    assert len(small.start) == 10
    assert large.start == []


@pytest.mark.parametrize("name", ["flat mobilenet", "transformer"])
def test_it_is_the_same_every_time(name: str) -> None:
    first, second = (Shown(MODELS[name]()) for _ in range(2))
    assert first.view.data() == second.view.data()
    assert first.strings == second.strings


def repeated(shown: Shown) -> list[tuple[int, int]]:
    """How often a structure stands in a row, and how many nodes one has."""
    scopes, found = shown.view.scopes, []
    for scope, kind in enumerate(scopes.kind):
        if kind is ScopeKind.REPEATED:
            inside = shown.view.scopes.parent.index(scope) if scope in scopes.parent else 0
            found.append((scopes.repeats[scope], shown.seen_in(inside) if inside else 1))
    return found


def test_layers_of_a_transformer_are_one_box() -> None:
    assert repeated(Shown(transformer(6))) == [(6, 16)]


def test_steps_of_an_unrolled_cell_are_one_box() -> None:
    # The first step reads its input where the others read what came before, and is built alike all the same.
    assert [count for count, _ in repeated(Shown(lstm(40)))] == [40]


def test_depthwise_layers_repeat() -> None:
    # Thirteen: a depthwise convolution, a norm, an activation, a convolution, a norm, an activation.
    assert (13, 6) in repeated(Shown(flat(zoo.build("mobilenet_v1"))))
