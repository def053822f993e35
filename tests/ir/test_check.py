"""Structural rules, and the words for breaking them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.transforms.golden import parse_graph
from thinflow.errors import GraphError
from thinflow.formats import graphdef
from thinflow.ir.check import find_problems, interface_problems, require_valid
from thinflow.ir.graph import Graph, Node, Problem
from thinflow.wire import protos

TEXT = "x = Placeholder()\ns = Split(x)\na = Relu(s:1, ^x)\ny = Neg(a)\ninputs: x\noutputs: y"


def ports(node: Node) -> int | None:
    return {"Split": 2, "Relu": 1, "NoOp": 0}.get(node.op)


def duplicate(graph: Graph) -> None:
    graph.restore(Node("a", "Other"))


def illegal(graph: Graph) -> None:
    graph.node("a")._name = "white space"


def missing(graph: Graph) -> None:
    graph.node("a").set_input(0, graph.stand_in("gone").output(3))


def missing_control(graph: Graph) -> None:
    graph.node("a").add_control_input(graph.stand_in("gone"))


def bad_port(graph: Graph) -> None:
    graph.node("a").set_input(0, graph.value("s:2"))


def no_port(graph: Graph) -> None:
    graph.node("y").set_input(0, graph.add("NoOp", name="nothing"))


def cycle(graph: Graph) -> None:
    graph.node("s").set_input(0, graph.value("a"))


@pytest.mark.parametrize(
    ("breaking", "kind", "node", "words"),
    [
        (duplicate, "duplicate name", "a", "another node has the same name"),
        (illegal, "illegal name", "white space", "not legal in TensorFlow"),
        (missing, "missing input", "a", "input 0 refers to 'gone:3', which does not exist"),
        (missing_control, "missing input", "a", "control input '^gone' refers to a node that does not exist"),
        (bad_port, "port", "a", "input 0 reads port 2 of node 's' (Split), which has 2"),
        (no_port, "port", "y", "input 0 reads port 0 of node 'nothing' (NoOp), which has 0"),
        (cycle, "cycle", "a", "it is in a cycle: "),
    ],
)
def test_problems(breaking: Callable[[Graph], None], kind: str, node: str, words: str) -> None:
    graph = parse_graph(TEXT)
    assert find_problems(graph, ports) == []
    breaking(graph)
    (problem,) = find_problems(graph, ports)
    assert (problem.kind, problem.node) == (kind, node)
    assert words in problem.text
    assert str(problem).startswith(f"node '{node}': ")
    with pytest.raises(GraphError, match="the graph is not valid: node") as caught:
        require_valid(graph, ports)
    assert caught.value.hint
    require_valid(graph, ports, known=[problem])


def test_ports_of_unknown_ops_are_not_judged() -> None:
    graph = parse_graph("c = Custom()\ny = Relu(c:9)")
    assert find_problems(graph, ports) == []
    assert find_problems(parse_graph("s = Split()\ny = Relu(s:9)")) == []


def test_several_problems_are_counted() -> None:
    graph = parse_graph(TEXT)
    missing(graph)
    duplicate(graph)
    with pytest.raises(GraphError, match=r"\(and 1 more\)"):
        require_valid(graph)


def test_a_loop_is_no_cycle() -> None:
    text = "e = Enter()\nm = Merge(e, n)\nn = NextIteration(m)"
    assert find_problems(parse_graph(text)) == []


def test_data_behind_control_is_found_while_loading() -> None:
    message = protos.message("GraphDef")()
    message.node.add(name="a", op="A")
    message.node.add(name="b", op="B", input=["^a", "a"])
    graph = graphdef.from_bytes(protos.serialize(message))
    (problem,) = find_problems(graph)
    assert (problem.kind, problem.node) == ("order", "b")
    assert "data input 'a' stands after a control input" in problem.text


def test_requested_names() -> None:
    graph = parse_graph(TEXT)
    assert interface_problems(graph, ["x", "s:1"], ["y"]) == []
    problems = interface_problems(graph, ["p"], ["q:1"])
    assert [str(p) for p in problems] == [
        "node 'p': the input 'p' is gone",
        "node 'q:1': the output 'q:1' is gone",
    ]


def test_problems_are_equal_whatever_the_words() -> None:
    assert Problem("port", "a", "one") == Problem("port", "a", "two")
    assert Problem("port", "a", "one") != Problem("port", "b", "one")
