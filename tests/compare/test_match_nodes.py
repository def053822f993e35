"""Matching nodes of two graphs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.compare.match_nodes import match_nodes
from thinflow.ir.graph import Graph
from thinflow.zoo import build

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,4]{2 x 16}}
v = Const() {dtype=float, value=float[4,4]{3 x 16}}
a = MatMul(x, w) {T=float}
b = Relu(a) {T=float}
c = MatMul(b, v) {T=float}
d = Relu(c) {T=float}
y = Add(b, d) {T=float}
inputs: x
outputs: y
"""


def names(a: Graph, b: Graph) -> dict[str, str]:
    return {x.name: y.name for x, y in match_nodes(a, b).pairs.items()}


def renamed(text: str = TEXT) -> Graph:
    graph = parse_graph(text)
    for number, node in enumerate(list(graph)):
        graph.rename(node, f"n{number}")
    return graph


EXPECTED = {"x": "n0", "w": "n1", "v": "n2", "a": "n3", "b": "n4", "c": "n5", "d": "n6", "y": "n7"}


def test_names_do_not_matter() -> None:
    assert names(parse_graph(TEXT), renamed()) == EXPECTED


def test_a_changed_weight_is_paired_from_below() -> None:
    other = renamed(TEXT.replace("{2 x 16}", "{5 x 16}"))
    assert names(parse_graph(TEXT), other) == EXPECTED
    match = match_nodes(parse_graph(TEXT), other)
    assert {n.name for n in match.equal} == {"x", "v"}


def test_what_was_taken_out_has_no_twin() -> None:
    other = renamed(TEXT.replace("d = Relu(c) {T=float}\n", "").replace("(b, d)", "(b, c)"))
    expected = {k: v for k, v in EXPECTED.items() if k not in {"d", "y"}} | {"y": "n6"}
    assert names(parse_graph(TEXT), other) == expected


def test_another_op_in_the_same_place() -> None:
    other = renamed(TEXT.replace("b = Relu(a)", "b = Elu(a)"))
    assert names(parse_graph(TEXT), other) == EXPECTED


def test_namesakes_win_over_equal_structure() -> None:
    chain = "x = Placeholder() {dtype=float, shape=shape[1]}\n"
    chain += "".join(f"r{i} = Relu({f'r{i - 1}' if i else 'x'})\n" for i in range(6))
    other = chain.replace("r2 = Relu(r1)\n", "").replace("Relu(r2)", "Relu(r1)")
    ends = "inputs: x\noutputs: r5\n"
    found = names(parse_graph(chain + ends), parse_graph(other + ends))
    assert found == {n: n for n in ("x", "r0", "r1", "r3", "r4", "r5")}


@pytest.mark.parametrize("seed", range(3))
def test_a_whole_network_under_other_names_in_another_order(seed: int) -> None:
    graph = build("digits")
    other = graph.clone()
    random = np.random.default_rng(seed)
    expected = {}
    for number, node in enumerate(list(other)):
        expected[node.name] = f"n{number}"
        other.rename(node, f"n{number}")
    nodes = list(other)
    other.reorder([nodes[i] for i in random.permutation(len(nodes))])
    found = names(graph, other)
    bare = {n.name for n in graph if n.op == "NoOp" and not n.control_inputs}  # one is like the other
    assert {k: v for k, v in found.items() if k not in bare} == {
        k: v for k, v in expected.items() if k not in bare
    }


def test_loops_and_missing_inputs_do_no_harm() -> None:
    text = """
    e = Enter(k) {T=float, frame_name="f"}
    k = Const() {dtype=float, value=float[]{1}}
    m = Merge(e, n) {T=float, N=2}
    n = NextIteration(m) {T=float}
    outputs: m
    """
    assert len(names(parse_graph(text), parse_graph(text))) == 4
