"""Regions: as large as can be, in an order that can run, nothing lost."""

from __future__ import annotations

import random

from tests.transforms.golden import parse_graph
from thinflow.engines.partition import Region, partition
from thinflow.ir.graph import Graph
from thinflow.ir.order import execution_order

DIAMOND = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
c = Const() {dtype=float, value=float[]{2}}
a = Relu(x) {T=float}
odd = Mystery(a) {T=float}
b = Neg(a) {T=float}
y = Add(odd, b) {T=float}
z = Mul(y, c) {T=float}
inputs: x
outputs: z
"""


def cut(graph: Graph, refused: set[str], small: int = 0) -> list[Region]:
    return partition(
        [n for n in execution_order(graph) if n.output() not in graph.inputs],
        graph.inputs,
        graph.outputs,
        {graph.node(n): "because" for n in refused},
        lambda nodes: len(nodes) > small,
    )


def shape(regions: list[Region]) -> list[tuple[bool, set[str]]]:
    return [(r.on_engine, {n.name for n in r.nodes}) for r in regions]


def check(graph: Graph, regions: list[Region]) -> None:
    """Every region finds its inputs made, which also means that no region depends on a later one."""
    made = set(graph.inputs)
    for region in regions:
        inside = set(region.nodes)
        assert set(region.inputs) <= made
        for node in region.nodes:
            for value in node.inputs:
                assert value in region.inputs or value.node in inside or value.node.tensor is not None
        made |= set(region.outputs)
    assert set(graph.outputs) <= made
    nodes = [n for r in regions for n in r.nodes]
    assert len(nodes) == len(set(nodes))


def test_one_region_when_nothing_is_refused() -> None:
    graph = parse_graph(DIAMOND)
    regions = cut(graph, set())
    assert shape(regions) == [(True, {"a", "odd", "b", "y", "z"})]
    assert [v.name for v in regions[0].inputs] == ["x"]
    assert [v.name for v in regions[0].outputs] == ["z"]
    check(graph, regions)


def test_a_refused_node_in_the_middle() -> None:
    graph = parse_graph(DIAMOND)
    regions = cut(graph, {"odd"})
    assert shape(regions) == [(True, {"a", "b"}), (False, {"odd"}), (True, {"y", "z"})]
    first, middle, last = regions
    assert {v.name for v in first.outputs} == {"a", "b"}
    assert [v.name for v in middle.inputs] == ["a"]
    assert {v.name for v in last.inputs} == {"odd", "b"}
    check(graph, regions)


def test_independent_refusals_share_a_region() -> None:
    graph = parse_graph(
        """
        x = Placeholder() {dtype=float, shape=shape[4]}
        a = Mystery(x)
        b = Mystery(x)
        y = Add(a, b) {T=float}
        inputs: x
        outputs: y
        """
    )
    assert [names for on_engine, names in shape(cut(graph, {"a", "b"})) if on_engine] == [{"y"}]


def test_small_regions_are_not_worth_it() -> None:
    graph = parse_graph(DIAMOND)
    regions = cut(graph, {"odd"}, small=10)
    assert not any(r.on_engine for r in regions)
    check(graph, regions)


def test_everything_refused() -> None:
    graph = parse_graph(DIAMOND)
    regions = cut(graph, {"a", "odd", "b", "y", "z"})
    assert not any(r.on_engine for r in regions)
    check(graph, regions)


def test_random_graphs_stay_runnable() -> None:
    dice = random.Random(3)
    for _ in range(60):
        lines = ["x = Placeholder() {dtype=float, shape=shape[4]}"]
        names = ["x"]
        for number in range(dice.randrange(2, 25)):
            first, second = dice.choice(names), dice.choice(names)
            control = f", ^{dice.choice(names)}" if dice.random() < 0.1 else ""
            lines.append(f"n{number} = Add({first}, {second}{control}) {{T=float}}")
            names.append(f"n{number}")
        outputs = ", ".join(dict.fromkeys([names[-1], dice.choice(names[1:])]))
        graph = parse_graph("\n".join([*lines, "inputs: x", f"outputs: {outputs}"]))
        check(graph, cut(graph, {n for n in names[1:] if dice.random() < 0.3}, small=dice.randrange(3)))
