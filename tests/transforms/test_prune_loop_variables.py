"""Pruning what calls pass and give for nothing: random programs, what has to stay, and what comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs import Block, blocks, new_form, old_form
from tests.transforms.golden import parse_graph
from tests.transforms.support import apply, compute, reasons, step
from thinflow.errors import ThinflowError
from thinflow.formats import graphdef
from thinflow.ir.function import reachable
from thinflow.ir.graph import Graph


def saved(graph: Graph) -> Graph:
    """The graph, written and read again."""
    after = graphdef.from_bytes(graphdef.to_bytes(graph))
    after.inputs = [after.value(v.name) for v in graph.inputs]
    after.outputs = [after.value(v.name) for v in graph.outputs]
    return after


def variables(graph: Graph) -> int:
    """How many values all loops, branches and calls of a graph take, those in its functions included."""
    bodies = [graph, *(graph.functions[name].graph for name in reachable(graph))]
    return sum(len(n.inputs) for body in bodies for n in body if n.op.startswith("Stateless"))


@settings(max_examples=60, deadline=None)
@given(blocks(), st.integers(0, 3))
def test_any_program_computes_the_same(block: Block, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(3).astype(np.float32)
    graph = new_form(block)
    after, report = step(graph, "prune_loop_variables")
    again, second = step(after, "prune_loop_variables")
    assert second.changes == 0
    assert report.trace.left == []
    assert variables(after) <= variables(graph)
    for feed in ({"x": x}, {"x": -x}):
        expected = compute(graph, feed)
        for one in (after, again, saved(after)):
            for a, b in zip(expected, compute(one, feed), strict=True):
                np.testing.assert_array_equal(a, b)


@settings(max_examples=40, deadline=None)
@given(blocks(), st.sampled_from(["float", "eight_bit", "smallest"]))
def test_pipelines_give_frames_back(block: Block, name: str) -> None:
    """A graph without functions stays one, and one with functions keeps them."""
    x = np.random.default_rng(1).standard_normal(3).astype(np.float32)
    for graph in (old_form(block), new_form(block)):
        after = apply(graph, name).graph
        ops = {n.op for n in after}
        if graph.functions:
            assert ops.isdisjoint({"Enter", "Merge"})
        else:
            assert not after.functions
            assert not any(op.startswith("Stateless") for op in ops)
        if name == "float":
            assert len(apply(after, name).graph) <= len(after)
        for feed in ({"x": x}, {"x": -x}):
            for a, b in zip(compute(graph, feed), compute(saved(after), feed), strict=True):
                np.testing.assert_allclose(a, b, atol=0.05 if name != "float" else 1e-6, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(blocks(), st.data())
def test_damaged_graphs_are_told_or_stay(block: Block, data: st.DataObject) -> None:
    graph = new_form(block)
    bodies = [graph, *(graph.functions[name].graph for name in sorted(reachable(graph)))]
    nodes = [(body, n) for body in bodies for n in body if n.inputs]
    for _ in range(data.draw(st.integers(1, 3))):
        body, node = data.draw(st.sampled_from(nodes))
        other = data.draw(st.sampled_from(list(body)))
        node.set_input(data.draw(st.integers(0, len(node.inputs) - 1)), other.output())
    hint = ""
    try:
        step(graph, "prune_loop_variables")
    except ThinflowError as error:
        hint = error.hint
    assert "please report" not in hint


LOOP = """
x = Placeholder() {dtype=float, shape=shape[]}
start = Const() {value=int32[]{0}}
loop = StatelessWhile(start, x, x) {T=%s, body=@turn, cond=@more}
y = Neg(loop:1) {T=float}
inputs: x
outputs: y
def more(i: int32, a: float, b: float)
limit = Const() {value=int32[]{3}}
less = Less(i, limit) {T=int32}
return less
def turn(i: int32, a: float, b: float)
one = Const() {value=int32[]{1}}
next = AddV2(i, one) {T=int32}
n = Tanh(a) {T=float}
m = Neg(b) {T=float}
return next, n, %s
"""


@pytest.mark.parametrize(
    ("types", "last", "reason"),
    [
        ("[int32,float]", "m", "its attribute T does not list 3 types"),
        ("[int32,float,float]", "m, m", "its body gives 4 values, not 3"),
    ],
)
def test_what_does_not_fit_stays(types: str, last: str, reason: str) -> None:
    after, report = step(parse_graph(LOOP.strip() % (types, last)), "prune_loop_variables")
    assert reasons(report) == {"loop": reason}
    assert len(after.node("loop").inputs) == 3


def test_calls_without_an_end_and_lost_functions_stay() -> None:
    graph = parse_graph(
        """x = Placeholder() {dtype=float, shape=shape[]}
a = PartitionedCall(x) {Tin=[float], Tout=[float,float], f=@again}
b = PartitionedCall(x) {Tin=[float], Tout=[float,float], f=@lost}
c = StatelessCase(x, x) {Tin=[float], Tout=[float], branches=[]}
d = StatelessCase(x, x) {Tin=[float], Tout=[float], branches=[@again,@same]}
y = AddN(a, b, c, d) {N=4, T=float}
inputs: x
outputs: y
def again(x: float)
c = PartitionedCall(x) {Tin=[float], Tout=[float,float], f=@again}
return c, c:1
def same(x: float)
return x"""
    )
    _, report = step(graph, "prune_loop_variables")
    assert report.changes == 0
    endless = "'again' calls itself, or a function that does"
    assert reasons(report) == {
        "a": endless,
        "b": "there is no function 'lost'",
        "c": endless,  # the one in `again`
        "d": endless,
    } | {"c": reasons(report)["c"]}
    assert {e.text for e in report.trace.left if e.node == "c"} == {"it has no branches", endless}


def test_frames_inside_a_function_are_looked_through() -> None:
    """What a frame hands round counts as needed, by the turns before it, too."""
    graph = parse_graph(
        """x = Placeholder() {dtype=float, shape=shape[]}
y = PartitionedCall(x, x, x) {Tin=[float,float,float], Tout=[float,float], f=@framed}
z = Neg(y) {T=float}
inputs: x
outputs: z
def framed(a: float, b: float, c: float)
e = Enter(a) {T=float, frame_name="loop"}
limit = Enter(b) {T=float, frame_name="loop", is_constant=true}
m = Merge(e, n) {N=2, T=float}
less = Less(m, limit) {T=float}
going = LoopCond(less)
s = Switch(m, going) {T=float}
two = Add(s:1, s:1) {T=float}
n = NextIteration(two) {T=float}
out = Exit(s) {T=float}
other = Neg(c) {T=float}
return out, other"""
    )
    after, report = step(graph, "prune_loop_variables")
    assert [len(n.inputs) for n in after if n.op == "PartitionedCall"] == [2]
    assert report.trace.changes[0].text == "loses 1 of 2 results and 1 of 3 inputs, which nothing needs"
    feed = {"x": np.float32(3)}
    assert compute(after, feed) == compute(graph, feed)
