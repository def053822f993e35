"""The graph and its edits: an index of uses that cannot go stale, and edits that happen entirely or not at
all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.transforms.golden import parse_graph
from thinflow.errors import GraphError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Node
from thinflow.ir.text import graph_text
from thinflow.ir.types import FLOAT

TEXT = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    s = Split(x)
    a = Relu(s, ^x)
    b = Add(a, s:1)
    c = Add(b, b, ^a, ^s)
    inputs: x
    outputs: c, s:1
"""


def uses_by_hand(graph: Graph) -> dict[tuple[str, int], list[tuple[str, int]]]:
    """(producer, port) -> (reader, input index), found by walking all inputs."""
    uses: dict[tuple[str, int], list[tuple[str, int]]] = {}
    for node in graph:
        for index, value in enumerate(node.inputs):
            uses.setdefault((value.node.name, value.port), []).append((node.name, index))
    return uses


def check_index(graph: Graph) -> None:
    """Everything the graph keeps twice agrees with what its inputs say."""
    by_hand = uses_by_hand(graph)
    for node in graph:
        assert graph.find(node.name) is node
        assert node.graph is graph
        for value in node.outputs:
            indexed = sorted((use.node.name, use.index) for use in value.uses)
            assert indexed == sorted(by_hand.get((node.name, value.port), []))
        waiters = [n.name for n in graph if node in n.control_inputs]
        assert sorted(n.name for n in node.control_outputs) == sorted(waiters)
        readers = {n.name for n in graph if node in [v.node for v in n.inputs] or node in n.control_inputs}
        assert {n.name for n in node.readers} == readers
        assert node.is_used == bool(readers)
        wanted = [v.node for v in (*graph.inputs, *graph.outputs)]
        assert node.is_protected == (node in wanted)
    assert len(list(graph)) == len(graph)
    assert len({n.name for n in graph}) == len(graph)
    for values in (graph.inputs, graph.outputs):
        assert all(v.node.graph is graph for v in values)


class GraphEdits(RuleBasedStateMachine):
    """Random edits against a model: a dict from node name to its input and control input names."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self.model: dict[str, tuple[list[tuple[str, int]], list[str]]] = {}
        self.count = 0

    def node(self, data: st.DataObject) -> Node:
        return self.graph.node(data.draw(st.sampled_from(sorted(self.model))))

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        known = sorted(self.model)
        pairs = st.tuples(st.sampled_from(known), st.integers(0, 2)) if known else st.nothing()
        inputs = data.draw(st.lists(pairs, max_size=3)) if known else []
        controls = data.draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
        before = data.draw(st.none() | st.sampled_from(known)) if known else None
        self.count += 1
        node = self.graph.add(
            "Op",
            [self.graph.node(n).output(p) for n, p in inputs],
            f"n{self.count}",
            control_inputs=[self.graph.node(n) for n in controls],
            before=self.graph.node(before) if before else None,
        )
        self.model[node.name] = (inputs, controls)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def set_input(self, data: st.DataObject) -> None:
        node, producer = self.node(data), self.node(data)
        inputs = self.model[node.name][0]
        if inputs:
            index, port = data.draw(st.integers(0, len(inputs) - 1)), data.draw(st.integers(0, 2))
            node.set_input(index, producer.output(port))
            inputs[index] = (producer.name, port)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def set_inputs(self, data: st.DataObject) -> None:
        node = self.node(data)
        pairs = data.draw(
            st.lists(st.tuples(st.sampled_from(sorted(self.model)), st.integers(0, 2)), max_size=3)
        )
        node.set_inputs([self.graph.node(n).output(p) for n, p in pairs])
        self.model[node.name][0][:] = pairs

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def change_controls(self, data: st.DataObject) -> None:
        node, other = self.node(data), self.node(data)
        controls = self.model[node.name][1]
        if node is other:
            return  # waiting for oneself is no graph
        if other.name in controls:
            node.remove_control_input(other)
            controls.remove(other.name)
        else:
            node.add_control_input(other)
            controls.append(other.name)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        node = self.node(data)
        old, new = node.name, data.draw(st.sampled_from(["p", "q", *sorted(self.model)]))
        if new in self.model and new != old:
            with pytest.raises(GraphError, match="cannot be renamed"):
                self.graph.rename(node, new)
            return
        self.graph.rename(node, new)
        self.rename_in_model(old, new)

    def rename_in_model(self, old: str, new: str) -> None:
        self.model = {
            new if name == old else name: (
                [(new if n == old else n, p) for n, p in inputs],
                [new if n == old else n for n in controls],
            )
            for name, (inputs, controls) in self.model.items()
        }

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        names = data.draw(st.lists(st.sampled_from(sorted(self.model)), max_size=3, unique=True))
        going = set(names)
        stays = any(
            name not in going and (going & {n for n, _ in inputs} or going & set(controls))
            for name, (inputs, controls) in self.model.items()
        )
        protected = any(self.graph.node(name).is_protected for name in names)
        nodes = [self.graph.node(name) for name in names]
        if stays or protected:
            with pytest.raises(GraphError, match="cannot go"):
                self.graph.remove(*nodes)
            return
        self.graph.remove(*nodes)
        self.model = {name: entry for name, entry in self.model.items() if name not in going}

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def replace_uses(self, data: st.DataObject) -> None:
        old, new = self.node(data), self.node(data)
        old.output(1).replace_uses(new.output())
        for inputs, _ in self.model.values():
            inputs[:] = [(new.name, 0) if pair == (old.name, 1) else pair for pair in inputs]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        old = self.node(data)
        if any(n == old.name for n, _ in self.model[old.name][0]) or old.name in self.model[old.name][1]:
            return
        inputs = data.draw(
            st.lists(st.tuples(st.sampled_from(sorted(self.model)), st.integers(0, 2)), max_size=2)
        )
        inputs = [(n, p) for n, p in inputs if n != old.name]
        self.count += 1
        new = self.graph.add("New", [self.graph.node(n).output(p) for n, p in inputs], f"n{self.count}")
        position = [n.name for n in self.graph].index(old.name)
        self.graph.replace(old, new)
        assert old.graph is None
        assert [n.name for n in self.graph].index(new.name) == position
        self.model[new.name] = (inputs, self.model[new.name][1])

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def declare(self, data: st.DataObject) -> None:
        self.graph.outputs = [self.node(data).output()]
        self.graph.inputs = []

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        node, mark = self.node(data), self.node(data)
        self.graph.move_before(node, mark)
        order = [n.name for n in self.graph]
        assert node is mark or order.index(node.name) + 1 == order.index(mark.name)

    @invariant()
    def agrees(self) -> None:
        check_index(self.graph)
        found = {
            n.name: ([(v.node.name, v.port) for v in n.inputs], [c.name for c in n.control_inputs])
            for n in self.graph
        }
        assert found == self.model

    @invariant()
    def clone_is_equal_and_apart(self) -> None:
        twin = self.graph.clone()
        assert graph_text(twin) == graph_text(self.graph)
        check_index(twin)
        assert not {id(n) for n in twin} & {id(n) for n in self.graph}


TestGraphEdits = GraphEdits.TestCase
TestGraphEdits.settings = settings(max_examples=40, stateful_step_count=20)


def unchanged(action: Callable[[Graph], object], problem: str, text: str = TEXT) -> None:
    """The action fails with the problem and leaves the graph as it was."""
    graph = parse_graph(text)
    before = graph_text(graph)
    with pytest.raises(GraphError, match=problem):
        action(graph)
    assert graph_text(graph) == before
    check_index(graph)


def test_reading() -> None:
    graph = parse_graph(TEXT)
    assert len(graph) == 5
    assert "s" in graph
    assert "s:1" not in graph
    assert graph.node("s") in graph
    assert [v.name for v in graph.node("b").inputs] == ["a", "s:1"]
    assert [n.name for n in graph.node("c").control_inputs] == ["a", "s"]
    assert [(u.node.name, u.index) for u in graph.value("b").uses] == [("c", 0), ("c", 1)]
    assert [n.name for n in graph.value("b").readers] == ["c"]
    assert [v.port for v in graph.node("s").outputs] == [0, 1]
    assert graph.value("s:1").is_graph_output
    assert not graph.value("s").is_graph_output
    assert graph.value("x").is_graph_input
    assert repr(graph.value("s:1")) == "Value(s:1)"
    assert graph.node("s").where == "node 's' (Split)"
    check_index(graph)


def test_a_missing_name_offers_the_nearest() -> None:
    graph = parse_graph("conv1 = A()\nconv2 = A()")
    with pytest.raises(GraphError, match="there is no node named 'conv'") as caught:
        graph.node("conv")
    assert "conv1" in caught.value.hint


def test_attributes_become_plain() -> None:
    node = Graph().add(
        "Op", attrs={"s": "text", "l": [1, 2], "n": np.float32(0.5), "shape": ShapeAttr((1, None))}
    )  # type: ignore[dict-item]
    assert node.attrs == {"s": b"text", "l": (1, 2), "n": 0.5, "shape": ShapeAttr((1, None))}
    assert node.get("s") == "text"
    assert node.get("shape") == (1, None)
    assert node.get("absent", 7) == 7


def test_constants() -> None:
    graph = Graph()
    value = graph.constant(np.float32([1, 2]), "w")
    assert value.node.attrs["dtype"] is FLOAT
    assert value.node.tensor is not None
    np.testing.assert_array_equal(value.node.tensor.numpy(), [1, 2])


def test_editing_while_walking() -> None:
    graph = parse_graph("a = A()\nb = A()\nc = A()")
    seen = []
    for node in graph:
        seen.append(node.name)
        if node.name == "a":
            graph.remove(graph.node("b"))
            graph.add("A", name="d")
    assert seen == ["a", "c"]


def test_removal_is_all_or_nothing() -> None:
    unchanged(lambda g: g.remove(g.node("b")), "'b' cannot go: 'c' still uses it")
    unchanged(lambda g: g.remove(g.node("c")), "it is an input or output")
    unchanged(lambda g: g.remove(g.node("b"), g.node("a")), "cannot go")
    graph = parse_graph(TEXT)
    node = graph.node("b")
    graph.node("c").set_inputs([])
    graph.remove(node)
    unchanged(lambda g: g.remove(node), "not in this graph")


def test_bad_edits_change_nothing() -> None:
    other = parse_graph("o = A()").node("o")
    unchanged(lambda g: g.node("a").set_input(0, other), "belongs to another graph")
    unchanged(lambda g: g.node("a").set_input(1, g.value("x")), "there is no input 1, only 1 inputs")
    unchanged(lambda g: g.node("c").set_inputs([g.value("a"), other]), "belongs to another graph")
    unchanged(lambda g: g.node("c").set_control_inputs([g.node("a"), other]), "belongs to another graph")
    unchanged(lambda g: g.add("A", [other]), "belongs to another graph")
    unchanged(lambda g: g.add("A", name="white space"), "not a legal node name")
    unchanged(lambda g: g.rename(g.node("a"), "b"), "there is already a node 'b'")
    unchanged(lambda g: g.rename(g.node("a"), "-"), "not a legal node name")
    unchanged(lambda g: g.reorder([g.node("a")]), "every node of the graph exactly once")
    unchanged(lambda g: g.node("a").output(-1), "not a port number")
    unchanged(lambda g: setattr(g, "outputs", [other.output()]), "not in this graph")


def test_replacing() -> None:
    graph = parse_graph(TEXT)
    new = graph.add("Relu6", [graph.value("s")], "fresh")
    graph.replace(graph.node("a"), new)
    assert new.name == "a"
    assert [n.name for n in graph] == ["x", "s", "a", "b", "c"]
    assert graph.node("b").inputs[0].node is new
    assert [n.name for n in graph.node("c").control_inputs] == ["a", "s"]
    assert [n.name for n in new.control_inputs] == ["x"]
    check_index(graph)


def test_replacing_an_output_with_other_ports() -> None:
    graph = parse_graph(TEXT)
    new = graph.add("Half", [graph.value("x")], "fresh")
    graph.replace(graph.node("s"), new, {1: new.output(), 0: new.output(3)})
    assert [v.name for v in graph.outputs] == ["c", "s"]
    assert [v.name for v in graph.node("a").inputs] == ["s:3"]
    check_index(graph)


def test_a_replacement_that_cannot_be() -> None:
    def with_reader(graph: Graph) -> None:
        graph.replace(graph.node("b"), graph.node("c"))

    unchanged(with_reader, "it has a name of its own to keep")
    unchanged(lambda g: g.replace(g.node("b"), g.node("b")), "cannot take the place")
    unchanged(
        lambda g: g.replace(g.node("s"), g.node("a")), "reads 's', which it is to replace|does not provide"
    )


def test_bypassing() -> None:
    graph = parse_graph(TEXT)
    graph.bypass(graph.node("a"), {0: graph.value("s")})
    assert [v.name for v in graph.node("b").inputs] == ["s", "s:1"]
    assert {n.name for n in graph.node("b").control_inputs} == {"x"}
    assert {n.name for n in graph.node("c").control_inputs} == {"s", "x"}
    check_index(graph)
    unchanged(lambda g: g.bypass(g.node("c"), {0: g.value("b")}), "input or output of the graph")
    unchanged(lambda g: g.bypass(g.node("a"), {}), "nothing is given to read instead")


def test_bypassing_without_control() -> None:
    graph = parse_graph(TEXT)
    graph.bypass(graph.node("a"), {0: graph.value("s")}, keep_control=False)
    assert graph.node("b").control_inputs == ()
    assert [n.name for n in graph.node("c").control_inputs] == ["s"]


def test_replacing_uses_but_some() -> None:
    graph = parse_graph("a = A()\nb = A()\nc = R(a, a)\nd = R(a)")
    assert graph.value("a").replace_uses(graph.value("b"), keep=[graph.node("d")]) == 2
    assert [v.name for v in graph.node("c").inputs] == ["b", "b"]
    assert [v.name for v in graph.node("d").inputs] == ["a"]


def test_reordering() -> None:
    graph = parse_graph(TEXT)
    nodes = list(graph)
    graph.reorder(nodes[::-1])
    assert [n.name for n in graph] == ["c", "b", "a", "s", "x"]
    graph.move_before(graph.node("x"), graph.node("c"))
    assert [n.name for n in graph] == ["x", "c", "b", "a", "s"]
    check_index(graph)


def test_stand_ins() -> None:
    graph = parse_graph("a = A()")
    graph.node("a").set_inputs([graph.stand_in("nowhere").output(2)])
    assert list(graph.missing) == ["nowhere"]
    assert graph.stand_in("nowhere").is_missing
    assert graph.unique_name("nowhere") == "nowhere_1"
    twin = graph.clone()
    assert [v.name for v in twin.node("a").inputs] == ["nowhere:2"]
    assert twin.missing["nowhere"] is not graph.missing["nowhere"]


def test_a_clone_is_independent() -> None:
    graph = parse_graph(TEXT)
    twin = copy.deepcopy(graph)
    twin.node("a").attrs["new"] = 1
    twin.rename(twin.node("b"), "renamed")
    twin.node("c").set_control_inputs([])
    assert graph_text(graph) == graph_text(parse_graph(TEXT))
    check_index(twin)


def test_long_chains_and_many_readers() -> None:
    graph = Graph()
    value = graph.add("A").output()
    for _ in range(5000):
        value = graph.add("Identity", [value]).output()
    graph.outputs = [value]
    assert len(graph.clone()) == 5001
    hub = graph.add("Hub").output()
    for _ in range(5000):
        graph.add("Reader", [hub])
    assert hub.replace_uses(value) == 5000
    assert not hub.uses


def test_uses_come_and_go_one_by_one() -> None:
    graph = Graph()
    x, y = graph.add("X", name="x").output(), graph.add("X", name="y").output()
    assert not x.is_used
    assert x.uses == () == x.readers
    a = graph.add("A", [x], "a")
    assert [(u.node, u.index) for u in x.uses] == [(a, 0)]
    b = graph.add("B", [x, x], "b")
    assert [(u.node.name, u.index) for u in x.uses] == [("a", 0), ("b", 0), ("b", 1)]
    assert x.readers == (a, b)
    a.set_input(0, y)
    b.set_inputs([y, x])
    assert [(u.node.name, u.index) for u in x.uses] == [("b", 1)]
    b.set_inputs([])
    assert not x.is_used
    a.set_input(0, x)
    assert x.readers == (a,)
    assert not y.is_used
    check_index(graph)


def test_ports_in_any_order() -> None:
    node = Graph().add("Split", name="s")
    second = node.output(2)
    assert node.outputs == (second,)
    first = node.output()
    assert node.outputs == (first, second)
    assert node.output(2) is second
    assert node.output(1).port == 1
    assert [v.port for v in node.outputs] == [0, 1, 2]
    with pytest.raises(GraphError, match="-1 is not a port number"):
        node.output(-1)


def test_grafting() -> None:
    """Op and attributes come along, edges do not; what is changed later is changed here only."""
    source, graph = parse_graph(TEXT), Graph()
    taken = graph.add("NoOp", name="in/b")
    b = source.node("b")
    b.attrs["k"] = 1
    twin = graph.graft(b, "in/b", device="/cpu:0", before=taken)
    assert (twin.name, twin.op, twin.device, twin.inputs) == ("in/b_1", "Add", "/cpu:0", ())
    assert [n.name for n in graph] == ["in/b_1", "in/b"]
    twin.attrs["k"] = 2
    assert b.attrs["k"] == 1
    with pytest.raises(GraphError, match="is not a legal node name"):
        graph.graft(b, "a b")
    assert len(graph) == 2
    check_index(graph)
