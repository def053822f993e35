"""Ends of a changed graph are found by name, else by place."""

from __future__ import annotations

import pytest

from tests.transforms.golden import parse_graph
from thinflow.errors import GraphError
from thinflow.ir.graph import Graph
from thinflow.ir.interface import counterparts

TEXT = """
a = Placeholder() {dtype=float, shape=shape[1]}
b = Placeholder() {dtype=float, shape=shape[1]}
y = Sub(a, b) {T=float}
inputs: a, b
outputs: y
"""


def ends(graph: Graph, names: list[str]) -> list[str]:
    return [v.name for v in counterparts(parse_graph(TEXT).inputs, [graph.value(n) for n in names], graph)]


def test_names_come_first() -> None:
    assert ends(parse_graph(TEXT), ["b", "a"]) == ["a", "b"]
    assert ends(parse_graph(TEXT), ["y", "b", "a"]) == ["a", "b"]


def test_places_come_second() -> None:
    graph = parse_graph(TEXT)
    graph.rename(graph.node("a"), "x")
    assert ends(graph, ["x", "b"]) == ["x", "b"]
    assert ends(graph, ["b", "x"]) == ["b", "x"]


def test_what_left_the_list_is_looked_for() -> None:
    graph = parse_graph(TEXT)
    assert ends(graph, ["b"]) == ["a", "b"]
    graph.rename(graph.node("a"), "x")
    with pytest.raises(GraphError, match="no node named 'a'"):
        ends(graph, ["b"])
