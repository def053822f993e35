"""Patterns and the driver that rewrites what they find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tests.transforms.golden import parse_graph, trimmed
from thinflow.ir.graph import Graph, Value
from thinflow.ir.text import graph_text
from thinflow.ops.traits import Trait
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site, is_protected, sweep
from thinflow.rewrite.pattern import (
    Match,
    Miss,
    NodePattern,
    any_of,
    any_value,
    const,
    match,
    node,
    output_of,
    source_of,
)
from thinflow.rewrite.rule import Refuse, Trace

TEXT = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    w = Const() {value=float[2]{1,2}}
    i = Identity(w) {T=float}
    c = Conv(x, i)
    s = Const() {value=float[2]{3,4}}
    y = Mul(s, c) {T=float}
    z = Relu(y) {T=float}
    inputs: x
    outputs: z
"""


def found(pattern: NodePattern, head: str, text: str = TEXT) -> Match:
    result = match(pattern, parse_graph(text).node(head))
    assert isinstance(result, Match), result
    return result


def missed(pattern: NodePattern, head: str, text: str = TEXT) -> Miss:
    result = match(pattern, parse_graph(text).node(head))
    assert isinstance(result, Miss), result
    return result


def test_names_are_bound() -> None:
    m = found(node("Conv", any_value("x"), const("w"), name="conv"), "c")
    assert (m.x.name, m.w.name, m.conv.name, m.head.name) == ("x", "i", "c", "c")
    np.testing.assert_array_equal(m.array("w"), [1, 2])
    with pytest.raises(AttributeError, match="the pattern binds no 'nothing'"):
        _ = m.nothing


def test_alternatives() -> None:
    assert isinstance(match(node("Conv|Mul"), parse_graph(TEXT).node("y")), Match)
    assert isinstance(match(node("Conv|Mul"), parse_graph(TEXT).node("c")), Match)
    assert missed(node("Conv|Mul"), "z").reason == "'z' is Relu, not Conv or Mul"


def test_without_inputs_any_inputs_match() -> None:
    assert found(node("Mul"), "y").claimed[0].name == "y"


def test_the_number_of_inputs_counts() -> None:
    assert missed(node("Mul", any_value()), "y").reason == "'y' has 2 inputs, not 1"


def test_order_matters_unless_commutative() -> None:
    pattern = node("Conv", any_value("x"), const("w"), name="conv")
    assert isinstance(match(node("Mul", pattern, const("s")), parse_graph(TEXT).node("y")), Miss)
    m = found(node("Mul", pattern, const("s"), commutative=True), "y")
    assert (m.conv.name, m.s.name) == ("c", "s")
    assert [n.name for n in m.claimed] == ["y", "c"]


def test_the_furthest_try_is_the_near_miss() -> None:
    miss = missed(node("Mul", node("Conv", const(), const()), const(), commutative=True), "y")
    assert miss.depth == 2
    assert "node 'x' (Placeholder) is not a constant" in miss.reason


@pytest.mark.parametrize("op", ["Identity", "StopGradient", "GuaranteeConst", "DeepCopy"])
def test_pass_through_nodes_are_looked_through_and_claimed(op: str) -> None:
    text = TEXT.replace("y = Mul(s, c)", f"p = {op}(c) {{T=float}}\ny = Mul(s, p)")
    m = found(node("Mul", const("s"), node("Conv", name="conv")), "y", text)
    assert [n.name for n in m.claimed] == ["y", "p", "c"]
    graph = parse_graph(text)
    assert source_of(graph.value("p")) is graph.value("c")


def test_one_name_is_one_value() -> None:
    text = "a = P()\nb = P()\nc = Add(a, a)\nd = Add(a, b)\noutputs: c, d"
    assert found(node("Add", any_value("v"), any_value("v")), "c", text).v.name == "a"
    assert "would be both a and b" in missed(node("Add", any_value("v"), any_value("v")), "d", text).reason


def test_another_port_does_not_match() -> None:
    text = "a = P()\ns = Split(a)\ny = Relu(s:1)\noutputs: y"
    assert missed(node("Relu", node("Split")), "y", text).reason == "output 1 is read, not output 0"


def test_a_condition() -> None:
    pattern = node("Relu", where=lambda n: None if n.get("T") is None else "it has a type")
    assert missed(pattern, "z").reason == "it has a type"


def test_control_inputs_do_not_count() -> None:
    text = "a = P()\ne = NoOp()\ny = Relu(a, ^e)\noutputs: y"
    assert found(node("Relu", any_value("a")), "y", text).a.name == "a"


@dataclass(frozen=True)
class FoldScale(Rewrite):
    """conv(x, w) * s -> conv(x, w * s)."""

    name = "fold_scale"
    pattern: ClassVar = node(
        "Mul", const("s"), node("Conv", any_value("x"), const("w"), name="conv"), commutative=True
    )

    def check(self, m: Match) -> None:
        if m.array("s").shape != m.array("w").shape:
            raise Refuse("the shapes differ", m.head)

    def build(self, m: Match, site: Site) -> Value:
        scaled = site.constant(m.array("w") * m.array("s"), f"{m.w.node.name}/scaled")
        return site.add("Conv", m.x, scaled)

    def describe(self, m: Match) -> str:
        return f"folded into '{m.conv.name}'"


def rewrite(text: str) -> tuple[Graph, Trace]:
    graph, trace = parse_graph(text), Trace()
    FoldScale().apply(graph, trace)
    return graph, trace


def test_a_rewrite() -> None:
    graph, trace = rewrite(TEXT.replace("Mul(s, c)", "Mul(s, c, ^x)"))
    expected = """
        x = Placeholder() {dtype=float, shape=shape[2]}
        i/scaled = Const() {value=float[2]{3,8}}
        y = Conv(x, i/scaled, ^x)
        z = Relu(y) {T=float}
        inputs: x
        outputs: z
    """
    assert trimmed(graph_text(graph)) == trimmed(expected.strip())
    assert [(e.node, e.text) for e in trace.changes] == [("y", "folded into 'c'")]
    assert {n.origin for n in graph} == {"", "fold_scale"}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("z = Relu(y)", "z = Sub(y, c)", "'c' is also used by 'z'"),
        ("outputs: z", "outputs: z, c", "'c' is asked for by name"),
        ("float[2]{3,4}", "float[1]{3}", "the shapes differ"),
        ("z = Relu(y)", "z = Sub(y, y:1)", "output 1 of 'y' is used"),
    ],
)
def test_refusals(old: str, new: str, reason: str) -> None:
    graph, trace = rewrite(TEXT.replace(old, new))
    assert not trace.changes
    assert [e.text for e in trace.left] == [reason]
    assert trimmed(graph_text(graph)) == trimmed(graph_text(parse_graph(TEXT.replace(old, new))))


def test_rewriting_goes_on_until_nothing_is_found() -> None:
    text = TEXT.replace(
        "z = Relu(y) {T=float}", "t = Const() {value=float[2]{10,10}}\nz = Mul(y, t) {T=float}"
    )
    graph, trace = rewrite(text)
    assert len(trace.changes) == 2
    assert [n.op for n in graph] == ["Placeholder", "Const", "Conv"]
    np.testing.assert_array_equal(graph.node("z").inputs[1].node.tensor.numpy(), [30, 80])  # type: ignore[union-attr]


def test_an_output_keeps_its_name() -> None:
    graph, _ = rewrite(TEXT.replace("outputs: z", "outputs: y"))
    assert [(v.name, v.node.op) for v in graph.outputs] == [("y", "Conv")]


def test_sweep_removes_what_became_useless() -> None:
    graph = parse_graph("x = Placeholder()\na = A(x)\nb = B(a, ^a)\nc = C(a)\ny = D(x)\noutputs: y")
    assert sweep(graph, [graph.node("b")]) == 1
    assert "a" in graph
    assert sweep(graph, [graph.node("c"), graph.node("y")]) == 2
    assert [n.name for n in graph] == ["x", "y"]


def test_protection() -> None:
    graph = parse_graph(TEXT)
    assert [n.name for n in graph if is_protected(graph, n)] == ["x", "z"]


def test_one_of_several_patterns() -> None:
    either = any_of(node("Add", any_value("a")), node("Relu", any_of(node("Mul", name="m"), node("Conv"))))
    assert found(either, "z").m.name == "y"
    assert either.accepts("Add")
    assert not either.accepts("Mul")
    assert isinstance(match(either, parse_graph(TEXT).node("y")), Miss)


def test_a_certain_output_of_a_node() -> None:
    text = TEXT.replace("y = Mul(s, c)", "p = Pair(c)\n    y = Mul(p, p:1)")
    pattern = node("Mul", node("Pair", name="pair"), output_of("pair", 1))
    assert found(pattern, "y", text).pair.name == "p"
    assert "'p' is read where 'p:1' should be" in missed(pattern, "y", text.replace("p:1", "p")).reason


def test_a_trait_stands_for_all_ops_that_have_it() -> None:
    pattern = node(Trait.COMMUTATIVE, "Const", any_value("x"), name="product")
    assert found(pattern, "y").product.op == "Mul"
    assert {"Add", "Mul"} <= pattern.ops
    assert missed(pattern, "z").reason.startswith("'z' is Relu, not ")
