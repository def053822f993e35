"""Orders in which nodes can run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.golden import parse_graph
from thinflow.errors import GraphError
from thinflow.ir.graph import Graph
from thinflow.ir.order import ancestors, execution_order, find_cycle, match_order, runnable

SCRAMBLED = "add = Add(a, b)\na = C()\nb = C()\nc = C()\nm = Mul(b, c)\nz = Add(add, m)\np = P()"
LOOP = """
    next = NextIteration(body)
    enter = Enter(x)
    x = C()
    merge = Merge(enter, next)
    switch = Switch(merge, cond)
    cond = LoopCond(merge)
    body = Add(switch:1, switch:1)
    exit = Exit(switch)
"""


def names(graph: Graph, **options: bool) -> str:
    return " ".join(n.name for n in execution_order(graph, **options))


def test_the_order_of_the_original_tool() -> None:
    assert " ".join(n.name for n in match_order(parse_graph(SCRAMBLED))) == "p c b m a add z"


def test_stable_takes_the_first_of_the_file() -> None:
    assert names(parse_graph(SCRAMBLED), stable=True) == "a b add c m z p"
    in_order = parse_graph("a = A()\nb = A()\nc = A(a)\nd = A()\ne = A(c, ^d)")
    assert names(in_order, stable=True) == "a b c d e"


@pytest.mark.parametrize("order", [execution_order, match_order])
def test_each_node_stands_behind_its_inputs(order: object) -> None:
    graph = parse_graph("y = R(a, b:1, ^c)\nc = C(b)\na = A(b)\nb = B()")
    found = [n.name for n in order(graph)]  # type: ignore[operator]
    assert found.index("b") < min(found.index("a"), found.index("c"))
    assert found[-1] == "y"


@pytest.mark.parametrize("order", [execution_order, match_order])
def test_a_loop_sorts(order: object) -> None:
    found = [n.name for n in order(parse_graph(LOOP))]  # type: ignore[operator]
    assert len(found) == 8
    assert found.index("merge") < found.index("switch") < found.index("body") < found.index("next")


def test_a_merge_of_two_branches_runs_behind_both() -> None:
    graph = parse_graph("m = Merge(a, b)\nb = B()\na = A()\ny = R(m)")
    assert names(graph).split()[:2] == ["a", "b"]
    # The original tool lets it go after one.
    assert [n.name for n in match_order(graph)] == ["a", "m", "y", "b"]


@pytest.mark.parametrize(
    "text", ["a = A(b)\nb = A(a)", "a = A(a)", "a = A(^b)\nb = A(a)", "m = Merge(b, x)\nx = X()\nb = B(m)"]
)
def test_a_cycle(text: str) -> None:
    graph = parse_graph(text)
    with pytest.raises(GraphError, match="nodes in a cycle") as caught:
        execution_order(graph)
    assert caught.value.hint
    cycle = find_cycle(graph)
    assert cycle
    for node, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        assert node in [v.node for v in following.inputs] or node in following.control_inputs


def test_no_cycle() -> None:
    assert find_cycle(parse_graph(LOOP)) == []
    assert find_cycle(parse_graph(SCRAMBLED)) == []
    assert find_cycle(Graph()) == []


def test_behind_a_cycle() -> None:
    graph = parse_graph("a = A(b)\nb = A(a)\nc = A(b)\nd = A()")
    assert {n.name for n in set(graph) - set(runnable(graph))} == {"a", "b", "c"}
    assert {n.name for n in find_cycle(graph)} == {"a", "b"}


def test_a_missing_input() -> None:
    graph = parse_graph("a = A()\nb = B(a)")
    graph.node("a").set_inputs([graph.stand_in("gone").output()])
    with pytest.raises(GraphError, match=r"node 'a' .*Unknown input node 'gone'"):
        execution_order(graph)
    assert find_cycle(graph) == []
    assert {n.name for n in set(graph) - set(runnable(graph))} == {"a", "b"}


def test_ancestors() -> None:
    graph = parse_graph("a = A()\nb = B(a)\nc = C(b, ^d)\nd = D(a)\ne = E(c)")
    assert {n.name for n in ancestors([graph.node("c")])} == {"a", "b", "c", "d"}
    assert {n.name for n in ancestors([graph.node("c")], control=False)} == {"a", "b", "c"}
    assert {n.name for n in ancestors([graph.node("c")], stop=frozenset({graph.node("b")}))} == {
        "a",
        "b",
        "c",
        "d",
    }
    stop = frozenset({graph.node("b"), graph.node("d")})
    assert {n.name for n in ancestors([graph.node("c")], stop=stop)} == {"b", "c", "d"}


def test_long_chains() -> None:
    graph = Graph()
    value = graph.add("A").output()
    for _ in range(20_000):
        value = graph.add("R", [value]).output()
    assert len(execution_order(graph)) == 20_001
    assert len(ancestors([value.node])) == 20_001
    graph.find("A").set_inputs([value])  # type: ignore[union-attr]
    assert len(find_cycle(graph)) == 20_001


@given(st.data(), st.integers(1, 12))
def test_random_graphs(data: st.DataObject, size: int) -> None:
    graph = Graph()
    nodes = []
    for index in range(size):
        sources = data.draw(st.lists(st.sampled_from(nodes), max_size=3)) if nodes else []
        waits = data.draw(st.lists(st.sampled_from(nodes), max_size=2)) if nodes else []
        nodes.append(graph.add("Op", sources, f"n{index}", control_inputs=waits))
    graph.reorder(data.draw(st.permutations(nodes)))
    for order in (execution_order(graph), execution_order(graph, stable=True), match_order(graph)):
        position = {node: i for i, node in enumerate(order)}
        assert len(position) == size
        for node in nodes:
            for needed in (*(v.node for v in node.inputs), *node.control_inputs):
                assert position[needed] < position[node]
    again = execution_order(graph, stable=True)
    graph.reorder(again)
    assert execution_order(graph, stable=True) == again
