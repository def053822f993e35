"""Loops and branches of TF1 graphs as steps, and as functions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loops import while_loop
from tests.transforms.golden import parse_graph
from thinflow.control_flow.frames import Loop
from thinflow.control_flow.functionalize import branch_functions, loop_functions
from thinflow.control_flow.steps import Branching, all_steps, nodes_of, reads, steps_of
from thinflow.errors import UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Node
from thinflow.ir.types import BOOL

BRANCH = """
    x = Placeholder() {dtype=float, shape=shape[]}
    p = Placeholder() {dtype=bool, shape=shape[]}
    s = Switch(x, p) {T=float}
    n = Neg(s:1) {T=float}
    say = Print(s:1, n) {T=float, U=[float]}
    y = Merge(s, n, ^say) {N=2, T=float}
    inputs: x, p
    outputs: y
"""


def branching_of(text: str) -> Branching:
    (found,) = [s for s in all_steps(parse_graph(text)) if isinstance(s, Branching)]
    return found


def test_a_branching_is_one_step() -> None:
    graph = parse_graph(BRANCH)
    steps = all_steps(graph)
    (found,) = [s for s in steps if isinstance(s, Branching)]
    assert {n.name for n in nodes_of(found)} == {"s", "n", "say", "y"}
    assert {s.name for s in steps if isinstance(s, Node)} == {"x", "p"}
    assert [v.name for v in reads(found)] == ["p", "x"]
    assert found.problem == ""
    assert [m.name for m in found.merges] == ["y"]


def test_only_what_is_needed_is_ordered() -> None:
    graph = parse_graph(BRANCH)
    graph.add("Neg", [graph.node("x")], "unused")
    steps = steps_of(graph, graph.outputs, graph.inputs)
    assert [type(s) for s in steps] == [Branching]


def test_branches_as_functions() -> None:
    """A Switch is what it reads, and what a Merge waits for runs in its branch."""
    found = branching_of(BRANCH)
    found.predicate.spec = found.predicate.spec.__class__(BOOL, ())
    arguments, (no, yes) = branch_functions(found)
    assert [v.name for v in arguments] == ["x"]
    assert no.outputs == no.inputs
    assert [n.name for n in yes.control_outputs] == ["say"]
    assert no.control_outputs == []
    assert Plan(yes.graph, yes.outputs, yes.inputs).run({yes.inputs[0]: np.float32(3)}) == [-3]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("y = Merge(s, n, ^say) {N=2, T=float}", "y = Neg(n) {T=float}", "no Merge joins its branches"),
        ("outputs: y", "outputs: y, n", "'n', on one branch only, is read outside"),
        (
            "outputs: y",
            "z = Cast(y:1) {SrcT=int32, DstT=float}\noutputs: z",
            "somebody reads which branch was taken",
        ),
    ],
)
def test_what_cannot_be_told_apart(old: str, new: str, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        branch_functions(branching_of(BRANCH.replace(old, new)))


def counting() -> Loop:
    graph = Graph()
    zero, three, one = (graph.constant(np.array(n, np.int32), f"n{n}") for n in (0, 3, 1))
    while_loop(
        graph,
        "loop",
        [zero],
        lambda v: graph.add("Less", [v[0], three]).output(),
        lambda v: [graph.add("Add", [v[0], one]).output()],
    )
    (loop,) = [s for s in all_steps(graph) if isinstance(s, Loop)]
    return loop


def test_a_loop_as_functions() -> None:
    functions = loop_functions(counting())
    assert [v.name for v in functions.arguments] == ["n0", "n3", "n1"]

    def run(function: object, *values: int) -> list[object]:
        plan = Plan(function.graph, function.outputs, function.inputs)  # type: ignore[attr-defined]
        return [x.tolist() for x in plan.compute([np.array(v, np.int32) for v in values])]

    assert run(functions.condition, 2, 3, 1) == [True]
    assert run(functions.condition, 3, 3, 1) == [False]
    assert run(functions.body, 2, 3, 1) == [3, 3, 1]
    assert run(functions.ending, 3, 3, 1) == [3]


def test_what_a_turn_waits_for_runs_in_it() -> None:
    loop = counting()
    graph = loop.condition.graph
    assert graph is not None
    say = graph.add("Print", [graph.node("loop/Identity"), graph.node("Add")], "say")
    loop.next_iterations[0].add_control_input(say)
    (again,) = [s for s in all_steps(graph) if isinstance(s, Loop)]
    functions = loop_functions(again)
    assert [n.name for n in functions.body.control_outputs] == ["say"]
    assert not functions.condition.control_outputs


def test_a_damaged_loop_is_told() -> None:
    text = 'x = Placeholder() {dtype=float}\ne = Enter(x) {T=float, frame_name="loop"}\ny = Exit(e) {T=float}'
    with pytest.raises(UnsupportedOp, match="the loop 'loop' has no LoopCond"):
        all_steps(parse_graph(f"{text}\ninputs: x\noutputs: y"))
