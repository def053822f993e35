"""Loops and branches between the words of TF1 and those of TF2: the numbers stay, at any depth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.library import constant, function, graph_of, node
from tests.loops import entered, while_loop
from tests.programs import Block, blocks, new_form, old_form
from tests.transforms.golden import parse_graph
from tests.transforms.support import apply, compute, reasons, step
from thinflow.control_flow.frames import schedule
from thinflow.errors import ThinflowError
from thinflow.formats import graphdef
from thinflow.interpreter import run_graph
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import BOOL, FLOAT, INT32

OLD = frozenset({"Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond"})
NEW = frozenset({"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"})


def ops(graph: Graph) -> set[str]:
    return {n.op for n in graph}


def saved(graph: Graph) -> Graph:
    """The graph, written and read again."""
    after = graphdef.from_bytes(graphdef.to_bytes(graph))
    after.inputs = [after.value(v.name) for v in graph.inputs]
    after.outputs = [after.value(v.name) for v in graph.outputs]
    return after


def check(block: Block, before: Graph, first: str, second: str, feeds: list[dict[str, np.ndarray]]) -> None:
    graph = before
    for pipeline in (first, second):
        graph, report = step(graph, pipeline)
        assert report.trace.left == [], block
        assert ops(graph).isdisjoint(OLD if pipeline.startswith("raise") else NEW)
        again = saved(graph)
        for feed in feeds:
            expected = compute(before, feed)
            for one in (graph, again):
                for a, b in zip(expected, compute(one, feed), strict=True):
                    np.testing.assert_array_equal(a, b)


@settings(max_examples=60, deadline=None)
@given(blocks(), st.integers(0, 3))
def test_any_program(block: Block, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(3).astype(np.float32)
    feeds = [{"x": x}, {"x": -x}]
    old, new = old_form(block), new_form(block)
    for feed in feeds:
        for a, b in zip(compute(old, feed), compute(new, feed), strict=True):
            np.testing.assert_array_equal(a, b)
    check(block, old, "raise_control_flow", "lower_control_flow", feeds)
    check(block, new, "lower_control_flow", "raise_control_flow", feeds)


@settings(max_examples=40, deadline=None)
@given(blocks(), st.integers(0, 3))
def test_identities_may_go_before_branches_are_raised(block: Block, seed: int) -> None:
    """Constants wait for an Identity behind a Switch, and only that tells on which side they are."""
    x = np.random.default_rng(seed).standard_normal(3).astype(np.float32)
    before = old_form(block)
    bare = apply(before, "remove_nodes(op=Identity)").graph
    raised, report = step(bare, "raise_control_flow")
    assert report.trace.left == [], block
    assert ops(raised).isdisjoint(OLD)
    for feed in ({"x": x}, {"x": -x}):
        for graph in (bare, raised):
            for a, b in zip(compute(before, feed), compute(graph, feed), strict=True):
                np.testing.assert_array_equal(a, b)


def placeholder(graph: Graph, shape: tuple[int, ...] = (2,)) -> Value:
    attrs = {"dtype": FLOAT, "shape": ShapeAttr(shape)}
    return graph.add("Placeholder", name="x", attrs=attrs).output()


def number(graph: Graph, value: int, name: str = "n") -> Value:
    return graph.constant(np.array(value, np.int32), name)


def counting(graph: Graph, name: str, limit: Value, x: Value, op: str = "Tanh") -> list[Value]:
    """A counter and x after as many turns."""
    one = number(graph, 1, "one")
    return while_loop(
        graph,
        name,
        [number(graph, 0, "zero"), x],
        lambda v: graph.add("Less", [v[0], entered(graph, name, limit)], f"{name}/Less").output(),
        lambda v: [
            graph.add("AddV2", [v[0], entered(graph, name, one)], f"{name}/Add", attrs={"T": INT32}).output(),
            graph.add(op, [v[1]], f"{name}/body", attrs={"T": FLOAT}).output(),
        ],
    )


def test_both_results_of_a_loop_keep_their_names() -> None:
    graph = Graph()
    x = placeholder(graph)
    count, y = counting(graph, "loop", number(graph, 3), x)
    graph.inputs, graph.outputs = [x], [y, count]
    after, report = step(graph, "raise_control_flow")
    assert [v.name for v in after.outputs] == [y.name, count.name]
    assert [n.op for n in after if n.name in (y.node.name, count.node.name)] == ["Identity"] * 2
    (entry,) = report.trace.changes
    assert (entry.node, entry.text) == ("loop/LoopCond", "is now in StatelessWhile 'loop'")


def test_tensor_arrays_stay_tensor_arrays() -> None:
    """They are in a state of their own, so that the loop is a While that may have effects."""
    graph = Graph()
    x = placeholder(graph)
    limit = number(graph, 3)
    array = graph.add("TensorArrayV3", [limit], "array", attrs={"dtype": FLOAT})
    handle = array.output()
    one = number(graph, 1, "one")
    _, flow = while_loop(
        graph,
        "loop",
        [number(graph, 0, "zero"), array.output(1)],
        lambda v: graph.add("Less", [v[0], entered(graph, "loop", limit)]).output(),
        lambda v: [
            graph.add("AddV2", [v[0], entered(graph, "loop", one)], attrs={"T": INT32}).output(),
            graph.add(
                "TensorArrayWriteV3",
                [entered(graph, "loop", handle), v[0], entered(graph, "loop", x), v[1]],
                attrs={"T": FLOAT},
            ).output(),
        ],
    )
    places = graph.constant(np.arange(3, dtype=np.int32), "places")
    y = graph.add("TensorArrayGatherV3", [handle, places, flow], "y", attrs={"dtype": FLOAT})
    graph.inputs, graph.outputs = [x], [y.output()]
    after, report = step(graph, "raise_control_flow")
    assert report.trace.left == []
    assert "While" in ops(after)
    feed = {"x": np.float32([1, 2])}
    assert compute(after, feed)[0].tolist() == [[1, 2]] * 3
    back, _ = step(after, "lower_control_flow")
    assert compute(saved(back), feed)[0].tolist() == [[1, 2]] * 3


def test_a_loop_that_was_cut_says_so() -> None:
    graph = parse_graph("x = Placeholder() {dtype=float}\ne = Enter(x) {T=float, frame_name=\"loop\"}\n"
                        "y = Exit(e) {T=float}\ninputs: x\noutputs: y")  # fmt: skip
    after, report = step(graph, "raise_control_flow")
    assert reasons(report) == {"e": "the loop 'loop' has no LoopCond"}
    assert ops(after) == ops(graph)


def test_branches_without_a_merge_stay() -> None:
    graph = parse_graph("""
        x = Placeholder() {dtype=float, shape=shape[]}
        p = Placeholder() {dtype=bool, shape=shape[]}
        s = Switch(x, p) {T=float}
        y = Neg(s) {T=float}
        inputs: x, p
        outputs: y
    """)
    _, report = step(graph, "raise_control_flow")
    assert reasons(report) == {"s": "no Merge joins its branches"}


def test_variables_by_reference_stay() -> None:
    graph = parse_graph("""
        v = VariableV2() {dtype=float, shape=shape[]}
        p = Placeholder() {dtype=bool, shape=shape[]}
        s = RefSwitch(v, p) {T=float}
        y = RefMerge(s, s:1) {N=2, T=float}
        inputs: p
        outputs: y
    """)
    _, report = step(graph, "raise_control_flow")
    assert reasons(report) == {"y": "'s' hands on a variable by reference; freeze the model first"}


def test_only_what_cannot_go_stays() -> None:
    """Of two loops one has something inside that is asked for."""
    graph = Graph()
    x = placeholder(graph)
    limit = number(graph, 2)
    first = counting(graph, "first", limit, x)[1]
    second = counting(graph, "second", limit, first)[1]
    graph.inputs = [x]
    graph.outputs = [second, graph.value("second/body")]
    after, report = step(graph, "raise_control_flow")
    assert reasons(report) == {"second/LoopCond": "'second/body', inside it, is asked for by name"}
    assert [s.name for s in schedule(after, after) if not hasattr(s, "op")] == ["second"]
    assert "StatelessWhile" in ops(after)


def test_what_is_inside_stays_with_what_is_around() -> None:
    graph = Graph()
    x = placeholder(graph)
    limit, one = number(graph, 2), number(graph, 1, "one")

    def body(v: list[Value]) -> list[Value]:
        before = set(graph)
        inner = counting(graph, "inner", number(graph, 2), v[1], "Neg")[1]
        for constant_ in (n for n in graph if n not in before and n.op == "Const"):
            constant_.add_control_input(v[0].node)
        merge = next(n for n in graph if n.name == "inner/Merge_1")
        told = graph.add("Cast", [merge.output(1)], attrs={"SrcT": INT32, "DstT": FLOAT}).output()
        leaving = graph.add("Switch", [told, graph.node("inner/LoopCond")], attrs={"T": FLOAT}).output()
        left = graph.add("Exit", [leaving]).output()
        sum_ = graph.add("AddV2", [inner, left], attrs={"T": FLOAT}).output()
        return [graph.add("AddV2", [v[0], entered(graph, "outer", one)], attrs={"T": INT32}).output(), sum_]

    start = [number(graph, 0, "zero"), x]
    y = while_loop(
        graph,
        "outer",
        start,
        lambda v: graph.add("Less", [v[0], entered(graph, "outer", limit)]).output(),
        body,
    )[1]
    graph.inputs, graph.outputs = [x], [y]
    after, report = step(graph, "raise_control_flow")
    assert reasons(report) == {
        "outer/LoopCond": "somebody reads in which iteration the loop is by its Merge",
    }
    assert len(after) == len(graph)


def test_what_is_too_deep_stays() -> None:
    graph = Graph()
    x = placeholder(graph)

    def nested(value: Value, depth: int) -> Value:
        if not depth:
            return graph.add("Neg", [value], attrs={"T": FLOAT}).output()

        def condition(v: list[Value]) -> Value:
            return graph.add("Less", [v[0], v[0]]).output()

        return while_loop(graph, f"l{depth}", [value], condition, lambda v: [nested(v[0], depth - 1)])[0]

    graph.inputs, graph.outputs = [x], [nested(x, 45)]
    _, report = step(graph, "raise_control_flow")
    assert reasons(report) == {"l45/LoopCond": "more than 40 loops and branches are inside each other"}


OLDER = """
    x = Placeholder() {dtype=float, shape=shape[]}
    p = Placeholder() {dtype=bool, shape=shape[]}
    y = PartitionedCall(p, x) {Tin=[bool,float], Tout=[float], f=@older}
    inputs: p, x
    outputs: y
    def older(p: bool, x: float)
    s = Switch(x, p) {T=float}
    n = Neg(s:1) {T=float}
    m = Merge(s, n) {N=2, T=float}
    return m effects m
"""


@pytest.mark.parametrize("p", [True, False])
def test_inside_functions_if_asked(p: bool) -> None:
    graph = parse_graph("\n".join(line.strip() for line in OLDER.strip().splitlines()))
    same, report = step(graph, "raise_control_flow")
    assert report.changes == 0
    assert "functions=true" in report.trace.notes[0]
    assert same.functions["older"].graph.node("m").op == "Merge"
    after, report = step(graph, "raise_control_flow(functions=true)")
    assert [e.node for e in report.trace.changes] == ["older/m"]
    assert ops(after.functions["older"].graph) == {"_Arg", "StatelessIf", "Identity"}
    assert run_graph(saved(after), {"p": np.array(p), "x": np.float32(5)}, ["y"])[0] == (-5 if p else 5)


IF = {"Tcond": BOOL, "Tin": (FLOAT,), "Tout": (FLOAT,)}
SAME = function("same", {"a": FLOAT}, [], {"r": "a"})
CALLS = function(
    "calls",
    {"a": FLOAT},
    [node("c", "PartitionedCall", "a", f="@two", Tin=(FLOAT,), Tout=(FLOAT,))],
    {"r": "c:output:0"},
)
TWO = function("two", {"a": FLOAT}, [constant("k", 2.0)], {"r": "k:output:0"})
CHOOSES = function(
    "chooses",
    {"p": BOOL, "a": FLOAT},
    [node("i", "StatelessIf", "p", "a", then_branch="@calls", else_branch="@same", **IF)],
    {"r": "i:output:0"},
)


@pytest.mark.parametrize("p", [True, False])
def test_calls_around_and_inside_are_inlined(p: bool) -> None:
    """A constant in a function that a branch calls must not be there when the branch does not run."""
    attrs = {"f": "@chooses", "Tin": (BOOL, FLOAT), "Tout": (FLOAT,)}
    inputs = [node("p", "Placeholder", dtype=BOOL), node("x", "Placeholder", dtype=FLOAT)]
    graph = graph_of([*inputs, node("y", "PartitionedCall", "p", "x", **attrs)], [SAME, CALLS, TWO, CHOOSES])
    graph.inputs, graph.outputs = [graph.value("p"), graph.value("x")], [graph.value("y")]
    after, report = step(graph, "lower_control_flow")
    assert report.trace.left == []
    assert not after.functions
    assert ops(after).isdisjoint(NEW | {"PartitionedCall"})
    assert run_graph(saved(after), {"p": np.array(p), "x": np.float32(5)}, ["y"])[0] == (2 if p else 5)


def test_the_library_can_stay() -> None:
    nodes = [node("p", "Placeholder", dtype=BOOL), node("x", "Placeholder", dtype=FLOAT)]
    nodes.append(node("y", "StatelessIf", "p", "x", then_branch="@two", else_branch="@same", **IF))
    graph = graph_of(nodes, [SAME, TWO])
    graph.inputs, graph.outputs = [graph.value("p"), graph.value("x")], [graph.value("y")]
    assert sorted(step(graph, "lower_control_flow(prune_library=false)")[0].functions) == ["same", "two"]
    after, report = step(graph, "lower_control_flow")
    assert not after.functions
    assert report.trace.notes == ["2 functions that nothing calls were dropped, 0 are left"]


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        ("@lost", "there is no function 'lost'"),
        ("@chooses", "'chooses' takes 2 values and gives 1, not 1 and 1"),
    ],
)
def test_a_function_that_does_not_fit_is_told(then: str, reason: str) -> None:
    nodes = [node("p", "Placeholder", dtype=BOOL), node("x", "Placeholder", dtype=FLOAT)]
    nodes.append(node("y", "StatelessIf", "p", "x", then_branch=then, else_branch="@same", **IF))
    graph = graph_of(nodes, [SAME, CALLS, TWO, CHOOSES])
    graph.inputs, graph.outputs = [graph.value("p"), graph.value("x")], [graph.value("y")]
    after, report = step(graph, "lower_control_flow")
    assert reasons(report) == {"y": reason}
    assert ops(after) == {"Placeholder", "StatelessIf"}


def test_several_results_of_which_a_later_one_is_asked_for() -> None:
    pair = function("pair", {"a": FLOAT}, [constant("k", 2.0)], {"r": "a", "s": "k:output:0"})
    nodes = [node("p", "Placeholder", dtype=BOOL), node("x", "Placeholder", dtype=FLOAT)]
    attrs = {**IF, "Tout": (FLOAT, FLOAT)}
    nodes.append(node("y", "StatelessIf", "p", "x", then_branch="@pair", else_branch="@pair", **attrs))
    graph = graph_of(nodes, [pair])
    graph.inputs, graph.outputs = [graph.value("p"), graph.value("x")], [graph.value("y:1")]
    after, _ = step(graph, "lower_control_flow")
    assert after.node("y").op == "IdentityN"
    assert run_graph(after, {"p": np.array(True), "x": np.float32(5)}, ["y", "y:1"]) == [5, 2]


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 7])
def test_case_takes_the_last_branch_for_numbers_it_does_not_have(index: int) -> None:
    graph = parse_graph("""
        i = Placeholder() {dtype=int32, shape=shape[]}
        x = Placeholder() {dtype=float, shape=shape[]}
        y = StatelessCase(i, x) {Tin=[float], Tout=[float], branches=[@same,@neg,@double]}
        inputs: i, x
        outputs: y
        def same(x: float)
        return x
        def neg(x: float)
        n = Neg(x) {T=float}
        return n
        def double(x: float)
        d = Add(x, x) {T=float}
        return d
    """.replace("        ", "").strip())  # fmt: skip
    feed = {"i": np.array(index, np.int32), "x": np.float32(3)}
    for pipeline in ("lower_control_flow", "lower_control_flow raise_control_flow"):
        after = graph
        for name in pipeline.split():
            after, report = step(after, name)
            assert report.trace.left == []
        assert compute(after, feed) == compute(graph, feed)


def test_for_is_left_and_many_branches_are() -> None:
    graph = parse_graph("""
        i = Placeholder() {dtype=int32, shape=shape[]}
        x = Placeholder() {dtype=float, shape=shape[]}
        f = For(i, i, i, x) {T=[float], body=@body}
        y = StatelessCase(i, x) {Tin=[float], Tout=[float], branches=[]}
        inputs: i, x
        outputs: y, f
    """)
    _, report = step(graph, "lower_control_flow")
    assert reasons(report) == {
        "f": "For has no form in TensorFlow 1",
        "y": "it has 0 branches, not 1 to 100",
    }


@settings(max_examples=60, deadline=None)
@given(blocks(), st.data())
def test_damaged_graphs_are_refused_or_raised_whole(block: Block, data: st.DataObject) -> None:
    """Inputs that lead somewhere else: told as an error of ours, or as a refusal."""
    for graph, pipeline in (
        (old_form(block), "raise_control_flow"),
        (new_form(block), "lower_control_flow"),
    ):
        nodes = [n for n in graph if n.inputs]
        for _ in range(data.draw(st.integers(1, 3))):
            node_ = data.draw(st.sampled_from(nodes))
            other = data.draw(st.sampled_from(list(graph)))
            node_.set_input(data.draw(st.integers(0, len(node_.inputs) - 1)), other.output())
        hint = ""
        try:
            step(graph, pipeline)
        except ThinflowError as error:
            hint = error.hint
        assert "please report" not in hint


def test_only_what_was_raised_is_lowered_if_asked() -> None:
    graph = parse_graph("""
        x = Placeholder() {dtype=float, shape=shape[]}
        p = Placeholder() {dtype=bool, shape=shape[]}
        c/x = Switch(x, p) {T=float}
        c/neg = Neg(c/x) {T=float}
        c/Merge = Merge(c/neg, c/x:1) {N=2, T=float}
        call = StatelessIf(p, c/Merge) {Tin=[float], Tout=[float], then_branch=@same, else_branch=@same}
        inputs: x, p
        outputs: call
        def same(x: float)
        return x
    """.replace("        ", "").strip())  # fmt: skip
    assert step(graph, "lower_control_flow(raised=true)")[1].changes == 0
    after = apply(graph, "raise_control_flow lower_control_flow(raised=true)").graph
    assert sorted(n.op for n in after if n.op in OLD | NEW) == ["Merge", "StatelessIf", "Switch"]
    assert list(after.functions) == ["same"]
    for p in (True, False):
        feed = {"x": np.float32(3), "p": np.array(p)}
        assert compute(after, feed) == compute(graph, feed)
