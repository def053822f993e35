"""The driver that rewrites what a pattern finds: what it refuses, keeps, hands over and cleans up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from tests.transforms.golden import parse_graph, trimmed
from thinflow.ir.check import find_problems
from thinflow.ir.graph import Graph, Value
from thinflow.ir.text import graph_text
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, any_value, const, many, node, optional
from thinflow.rewrite.rule import Refuse, Trace


@dataclass(frozen=True)
class FuseBias(Rewrite):
    """bias(conv(x, w), b) -> identity(fused(x, w, b)), two nodes in the place of two."""

    name = "fuse_bias"
    pattern: ClassVar = node(
        "Bias|Add",
        node("Conv", any_value("x"), const("w"), name="conv"),
        any_value("b"),
        commutative=True,
        name="bias",
    )

    def check(self, m: Match) -> None:
        if m.array("w").size > 2:
            raise Refuse(f"it has {m.array('w').size} weights, not 2")

    def build(self, m: Match, site: Site) -> Value:
        fused = site.add("Fused", m.x, m.w, m.b, name=f"{m.conv.name}/fused")
        return site.add("Identity", fused)


TEXT = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    w = Const() {value=float[2]{1,2}}
    c = Conv(x, w)
    b = Const() {value=float[2]{3,4}}
    y = Bias(c, b) @/gpu:0
    z = Relu(y)
    inputs: x
    outputs: z
"""


def rewrite(text: str, transform: Rewrite | None = None) -> tuple[Graph, Trace]:
    graph, trace = parse_graph(text), Trace()
    (transform or FuseBias()).run(graph, trace)
    assert not find_problems(graph)
    return graph, trace


def lines(graph: Graph) -> list[str]:
    return [line for line in trimmed(graph_text(graph)).splitlines() if ":" not in line.split()[0]]


def test_several_nodes_take_the_place_of_the_match() -> None:
    graph, trace = rewrite(TEXT)
    assert lines(graph) == [
        "x = Placeholder() {dtype=float, shape=shape[2]}",
        "w = Const() {value=float[2]{1,2}}",
        "b = Const() {value=float[2]{3,4}}",
        "c/fused = Fused(x, w, b)",
        "y = Identity(c/fused) @/gpu:0",
        "z = Relu(y)",
    ]
    assert [(e.node, e.op, e.text) for e in trace.changes] == [("y", "Bias", "replaced")]
    assert [n.name for n in graph if n.origin == "fuse_bias"] == ["c/fused", "y"]


def test_either_order_where_the_op_commutes() -> None:
    graph, _ = rewrite(TEXT.replace("Bias(c, b)", "Add(b, c)"))
    assert [v.name for v in graph.node("c/fused").inputs] == ["x", "w", "b"]


def test_pass_through_nodes_go_with_the_match() -> None:
    text = TEXT.replace("y = Bias(c, b)", "i = Identity(c)\n j = StopGradient(i)\n y = Bias(j, b)")
    graph, _ = rewrite(text)
    assert [n.name for n in graph] == ["x", "w", "b", "c/fused", "y", "z"]


def test_a_second_run_changes_nothing() -> None:
    graph, _ = rewrite(TEXT)
    before, trace = graph_text(graph), Trace()
    FuseBias().apply(graph, trace)
    assert (graph_text(graph), trace.changes) == (before, [])


@pytest.mark.parametrize(
    ("old", "new", "where", "reason"),
    [
        ("z = Relu(y)", "z = Sub(y, c)", "c", "'c' is also used by 'z'"),
        ("outputs: z", "outputs: z, c", "c", "'c' is asked for by name"),
        ("inputs: x", "inputs: x, c", "y", "'c' is an input of the graph"),
        ("inputs: x", "inputs: x, y", "y", "'y' is an input of the graph"),
        ("z = Relu(y)", "z = Sub(y, y:1)", "y", "output 1 of 'y' is used"),
        ("outputs: z", "outputs: z, y:2", "y", "output 2 of 'y' is used"),
        ("Bias(c, b)", "Bias(c:1, b)", "y", "output 1 is read, not output 0"),
        ("float[2]{1,2}", "float[3]{1,2,3}", "y", "it has 3 weights, not 2"),
        ("Conv(x, w)", "Conv(x, x)", "y", "node 'x' (Placeholder) is not a constant"),
        ("Conv(x, w)", "Conv(x)", "y", "'c' has 1 inputs, not 2"),
    ],
)
def test_refusals_and_near_misses(old: str, new: str, where: str, reason: str) -> None:
    text = TEXT.replace(old, new)
    graph, trace = rewrite(text)
    assert not trace.changes
    assert (where, reason) in [(e.node, e.text) for e in trace.left]
    assert graph_text(graph) == graph_text(parse_graph(text))


def test_what_does_not_even_begin_to_match_is_not_mentioned() -> None:
    _, trace = rewrite(TEXT.replace("Conv(x, w)", "Other(x, w)"))
    assert not trace.left


def test_a_fed_constant_is_no_constant() -> None:
    _, trace = rewrite(TEXT.replace("inputs: x", "inputs: x, w"))
    assert [e.text for e in trace.left] == ["node 'w' (Const) is not a constant"]
    text = TEXT.replace("c = Conv(x, w)", "i = Identity(w)\n c = Conv(x, i)")
    _, trace = rewrite(text.replace("inputs: x", "inputs: x, i"))
    assert [e.text for e in trace.left] == ["node 'i' (Identity) is not a constant"]


def test_protected_heads_keep_name_and_place_among_the_outputs() -> None:
    graph, _ = rewrite(TEXT.replace("outputs: z", "outputs: y, z"))
    assert [(v.name, v.node.op) for v in graph.outputs] == [("y", "Identity"), ("z", "Relu")]


def test_control_edges_of_the_whole_match() -> None:
    text = """
        x = Placeholder()
        before = NoOp()
        first = NoOp()
        w = Const() {value=float[2]{1,2}}
        c = Conv(x, w, ^before)
        after = NoOp(^c)
        y = Bias(c, x, ^first, ^after)
        last = NoOp(^y)
        outputs: y, last
    """
    graph, _ = rewrite(text)
    waits = {n.name: [c.name for c in n.control_inputs] for n in graph}
    assert waits["after"] == ["x", "before"]
    assert waits["y"] == ["first", "after", "before"]
    assert waits["last"] == ["y"]


def test_names_of_ones_own_do_not_clash() -> None:
    graph, _ = rewrite(TEXT.replace("z = Relu(y)", "c/fused = Abs(y)\n z = Relu(c/fused)"))
    assert [n.name for n in graph] == ["x", "w", "b", "c/fused_1", "y", "c/fused", "z"]


def test_annotations_lose_nodes_that_are_gone() -> None:
    graph, _ = rewrite(TEXT.replace("z = Relu(y)", 'z = Relu(y) {_class=["loc:@c"]}'))
    assert "_class" not in graph.node("z").attrs


@dataclass(frozen=True)
class Double(Rewrite):
    """neg(neg(x)) -> x."""

    name = "double"
    pattern: ClassVar = node("Neg", node("Neg", any_value("x")))

    def build(self, m: Match, site: Site) -> Value:
        value: Value = m.x
        return value


def chain(length: int, outputs: str) -> str:
    nodes = [f"n{i} = Neg({f'n{i - 1}' if i else 'x'})" for i in range(length)]
    return "\n".join(["x = Placeholder()", *nodes, f"y = Relu(n{length - 1})", f"outputs: {outputs}"])


@pytest.mark.parametrize(("length", "left"), [(2, 0), (3, 1), (5000, 0), (5001, 1)])
def test_until_nothing_is_found(length: int, left: int) -> None:
    graph, trace = rewrite(chain(length, "y"), Double())
    assert sum(n.op == "Neg" for n in graph) == left
    assert len(trace.changes) == length // 2


def test_a_value_that_exists_cannot_take_a_name() -> None:
    _, trace = rewrite(chain(2, "y, n1"), Double())
    assert [e.text for e in trace.left] == ["'n1' is asked for by name"]


@dataclass(frozen=True)
class Unwrap(Rewrite):
    """scale(sum(xs..., axis), [factor]) -> all(axis, xs..., factor); others may need the sum."""

    name = "unwrap"
    pattern: ClassVar = node(
        "Scale",
        node("Sum", many("values"), any_value("axis"), boundary=True, where=lambda n: n.get("why_not")),
        optional(const("factor")),
    )

    def build(self, m: Match, site: Site) -> Value:
        given = () if m.get("factor") is None else (m.factor,)
        return site.add("All", m.axis, *m.values, *given)


@pytest.mark.parametrize(
    ("inputs", "scale", "expected"),
    [
        ("a, b, c", "s", ["c", "a", "b"]),
        ("a, b, c", "s, k", ["c", "a", "b", "k"]),
        ("c", "s", ["c"]),
    ],
)
def test_optional_and_many_inputs(inputs: str, scale: str, expected: list[str]) -> None:
    head = f"a = P()\nb = P()\nc = P()\nk = Const() {{value=float[]{{2}}}}\ns = Sum({inputs})\n"
    graph, _ = rewrite(f"{head}y = Scale({scale})\noutputs: y, a, b, c, k", Unwrap())
    assert [v.name for v in graph.node("y").inputs] == expected
    assert "s" not in graph


def test_a_boundary_is_not_part_of_the_match() -> None:
    graph, _ = rewrite("a = P()\ns = Sum(a, a)\ny = Scale(s)\nz = Scale(s)\noutputs: y, z, s", Unwrap())
    assert [n.op for n in graph] == ["P", "Sum", "All", "All"]


def test_numbers_of_inputs_and_conditions_that_do_not_fit() -> None:
    head = "a = P()\ns = Sum(a)"
    for inputs in ("", "s, a, a"):
        _, trace = rewrite(f"{head}\ny = Scale({inputs})\noutputs: y, s", Unwrap())
        assert not trace.changes
    _, trace = rewrite(f'{head} {{why_not="it is special"}}\ny = Scale(s)\noutputs: y', Unwrap())
    assert [e.text for e in trace.left] == ["it is special"]
    _, trace = rewrite("s = Sum()\ny = Scale(s)\noutputs: y", Unwrap())
    assert [e.text for e in trace.left] == ["'s' has 0 inputs, not at least 1"]


class EditInPlace(Rewrite):
    """Flip every Relu that reads a Bias, which has to read what was there before the first match."""

    name = "edit_in_place"
    outputs = 0
    until_fixpoint = False
    pattern: ClassVar = node("Relu", node("Bias", name="bias", boundary=True), name="relu")

    def prepare(self, graph: Graph, trace: Trace) -> Mapping[str, object]:
        return {"count": len(graph)}

    def check(self, m: Match) -> None:
        if m.bias.device != "/gpu:0":
            raise Refuse("it runs elsewhere")
        m.bind("op", f"Relu{m.count}")

    def describe(self, m: Match) -> str:
        return f"is {m.op} now"

    def build(self, m: Match, site: Site) -> None:
        m.relu.op = m.op
        m.relu.set_inputs([m.bias.inputs[0]])


def test_a_head_that_is_edited_stays_and_what_only_it_read_goes() -> None:
    graph, trace = rewrite(TEXT, EditInPlace())
    assert lines(graph)[-1] == "z = Relu6(c)"
    assert "y" not in graph
    assert [(e.node, e.op, e.text) for e in trace.changes] == [("z", "Relu", "is Relu6 now")]
    graph, trace = rewrite(TEXT.replace(" @/gpu:0", ""), EditInPlace())
    assert [(e.node, e.text) for e in trace.left] == [("z", "it runs elsewhere")]


class BothOutputs(Rewrite):
    name = "both_outputs"
    outputs = 2
    pattern: ClassVar = node("Pair", any_value("a"), any_value("b"))

    def build(self, m: Match, site: Site) -> Sequence[Value]:
        return m.b, m.a


def test_several_outputs_are_replaced_and_others_must_not_be_read() -> None:
    text = """
        x = Placeholder() {dtype=float, shape=shape[2]}
        y = Placeholder() {dtype=float, shape=shape[2]}
        p = Pair(x, y)
        z = Sub(p, p:1)
        inputs: x, y
        outputs: z
    """
    graph, _ = rewrite(text, BothOutputs())
    assert lines(graph)[-1] == "z = Sub(y, x)"
    graph, trace = rewrite(text.replace("p:1", "p:2"), BothOutputs())
    assert [e.text for e in trace.left] == ["output 2 of 'p' is used"]


class QuietFuse(FuseBias):
    near_misses = False
    in_file_order = True


def test_near_misses_may_be_of_no_interest() -> None:
    text = TEXT.replace("w = Const() {value=float[2]{1,2}}", "w = Abs(x)")
    assert [e.node for e in rewrite(text)[1].left] == ["y"]
    assert not rewrite(text, QuietFuse())[1].left
    assert rewrite(TEXT, QuietFuse())[1].changes


def test_refusals_told_before_are_kept() -> None:
    graph, trace = parse_graph(TEXT.replace("float[2]{1,2}", "float[3]{1,2,3}")), Trace()
    trace.leave(graph.node("z"), "something else")
    FuseBias().apply(graph, trace)
    assert [e.text for e in trace.left] == ["something else", "it has 3 weights, not 2"]
