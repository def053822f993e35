"""Names of nodes: legal ones, free ones, and those that a damaged file gives twice."""

from __future__ import annotations

import pytest

from thinflow.errors import GraphError
from thinflow.ir.graph import Graph, Node
from thinflow.ir.names import parse_value_name, require_legal


@pytest.mark.parametrize(("text", "expected"), [("a", ("a", 0)), ("a:0", ("a", 0)), ("a:12", ("a", 12))])
def test_value_names(text: str, expected: tuple[str, int]) -> None:
    assert parse_value_name(text) == expected


@pytest.mark.parametrize("text", ["a:x", "a:-1", "a:"])
def test_bad_value_names(text: str) -> None:
    with pytest.raises(GraphError):
        parse_value_name(text)


def test_names_are_made_unique() -> None:
    graph = Graph()
    assert [graph.add("Op", name="a").name for _ in range(3)] == ["a", "a_1", "a_2"]
    assert graph.add("Op").name == "Op"
    assert graph.unique_name("b") == "b"


def test_duplicate_names() -> None:
    graph = Graph()
    first, second = Node("a", "A"), Node("a", "B")
    graph.restore(first)
    graph.restore(second)
    assert graph.duplicates == ["a"]
    assert graph.find("a") is second
    graph.remove(second)
    assert graph.find("a") is first
    assert graph.duplicates == []


def test_names_made_from_those_of_a_strange_file() -> None:
    graph = Graph()
    graph.restore(Node("größe?", "NoOp"))
    assert graph.add("NoOp", name="größe?_new").name == "gr__e__new"
    assert graph.add("NoOp", name="größe?_new").name == "gr__e__new_1"
    assert graph.add("NoOp", name="_^").name == "n__"


def test_a_replacement_of_a_duplicate_leaves_the_other_findable() -> None:
    graph = Graph()
    first, second = Node("a", "A"), Node("a", "B")
    graph.restore(first)
    graph.restore(second)
    new = graph.add("C")
    graph.replace(second, new)
    assert graph.find("a") is new
    assert graph.duplicates == ["a"]
    graph.remove(new)
    assert graph.find("a") is first


@pytest.mark.parametrize("name", ["", "a b", "^a", "_a"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(GraphError, match="is not a legal node name") as caught:
        require_legal(name)
    assert caught.value.hint == "use letters, digits and _ . / -"


def test_a_copy_has_the_twins_under_the_same_names() -> None:
    graph = Graph()
    for op in "AB":
        graph.restore(Node("a", op))
    graph.add("C", name="c")
    copy = graph.clone()
    assert [node.op for node in copy] == ["A", "B", "C"]
    assert copy.find("a") is list(copy)[1]
    assert copy.duplicates == ["a"]
    copy.remove(*list(copy)[1:])
    assert copy.node("a").op == "A"
    assert graph.node("a").op == "B"
