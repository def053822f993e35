"""Running a list of transforms: rollback, checks, comparison, and the ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.transforms.golden import parse_graph
from thinflow.errors import GraphError, ParameterError, TransformError, VerificationError
from thinflow.ir.graph import Graph
from thinflow.ir.text import graph_text
from thinflow.rewrite.rule import Trace, Transform
from thinflow.rewrite.runner import Result, Step, run
from thinflow.transforms import resolve

TEXT = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    a = Relu(x) {T=float}
    y = Neg(a) {T=float}
    inputs: x
    outputs: y
"""


@dataclass(frozen=True)
class Doing(Transform):
    """A transform made of a function."""

    name = "doing"

    what: Callable[[Graph, Trace], None]

    def apply(self, graph: Graph, trace: Trace) -> None:
        self.what(graph, trace)


def rename_a(graph: Graph, trace: Trace) -> None:
    trace.changed(graph.node("a"), "renamed")
    graph.rename(graph.node("a"), "b")


def drop_y(graph: Graph, trace: Trace) -> None:
    trace.changed(graph.node("y"), "dropped")
    graph.outputs = []
    graph.remove(graph.node("y"))


def make_cycle(graph: Graph, trace: Trace) -> None:
    trace.changed(graph.node("a"), "turned round")
    graph.node("a").set_input(0, graph.value("y"))


def rename_a_in_secret(graph: Graph, trace: Trace) -> None:
    graph.rename(graph.node("a"), "b")


def note_names(graph: Graph, trace: Trace) -> None:
    trace.changed(graph.node("y"), " ".join(node.name for node in graph))


def fail(graph: Graph, trace: Trace) -> None:
    rename_a(graph, trace)
    raise ParameterError("cannot do it", hint="try again")


def go(*whats: Callable[[Graph, Trace], None], ignore_errors: bool = False) -> tuple[Graph, Result]:
    graph = parse_graph(TEXT)
    return graph, run(graph, [Step(Doing(what), ignore_errors) for what in whats])


def test_the_argument_is_not_changed() -> None:
    graph, result = go(rename_a)
    assert graph_text(graph) == graph_text(parse_graph(TEXT))
    assert "b" in result.graph
    assert "a" not in result.graph


def test_no_steps() -> None:
    graph, result = go()
    assert result.graph is not graph
    assert graph_text(result.graph) == graph_text(graph)
    assert result.changes == 0


def test_an_edit_that_the_ledger_does_not_tell_did_not_happen() -> None:
    _, result = go(rename_a_in_secret, note_names)
    assert [entry.text for entry in result.steps[1].trace.changes] == ["x a y"]
    assert "a" in result.graph


def test_steps_that_find_nothing_share_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[Graph] = []
    clone = Graph.clone

    def counted(graph: Graph) -> Graph:
        copies.append(clone(graph))
        return copies[-1]

    monkeypatch.setattr(Graph, "clone", counted)
    nothing = [lambda graph, trace: None] * 5
    _, result = go(*nothing)
    assert len(copies) == 2  # of the argument, and for all steps
    copies.clear()
    _, result = go(*nothing, rename_a_in_secret, *nothing, rename_a, *nothing)
    assert len(copies) == 4  # another behind the secret, and another behind the change
    assert "b" in result.graph


def test_what_stays_with_a_node_that_is_gone_stays_with_nobody() -> None:
    def remove_a(graph: Graph, trace: Trace) -> None:
        graph.node("y").attrs["_class"] = (b"loc:@a", b"loc:@x", b"loc:@never")
        graph.node("y").set_inputs(graph.node("a").inputs)
        trace.changed(graph.node("a"), "removed")
        graph.remove(graph.node("a"))

    _, result = go(remove_a)
    assert result.graph.node("y").attrs["_class"] == (b"loc:@x", b"loc:@never")


def test_the_ledger() -> None:
    _, result = go(rename_a, lambda graph, trace: trace.leave(graph.node("y"), "why"))
    first, second = result.steps
    assert [(e.node, e.op, e.text) for e in first.trace.changes] == [("a", "Relu", "renamed")]
    assert [(e.node, e.op, e.text) for e in second.trace.left] == [("y", "Neg", "why")]
    assert first.nodes == (3, 3)
    assert (first.changes, second.changes, result.changes) == (1, 0, 1)
    assert first.error == ""
    assert first.seconds >= 0


def test_sizes_are_measured() -> None:
    graph = parse_graph(TEXT)
    result = run(graph, resolve("strip_unused_nodes"), size_of=lambda g: 10 * len(g))
    assert result.steps[0].size_bytes == (30, 30)
    graph.outputs = [graph.value("a")]
    result = run(graph, resolve("strip_unused_nodes remove_device"), size_of=lambda g: 10 * len(g))
    assert [s.size_bytes for s in result.steps] == [(30, 20), (20, 20)]
    assert [s.nodes for s in result.steps] == [(3, 2), (2, 2)]


@pytest.mark.parametrize("what", [fail, drop_y, make_cycle], ids=lambda f: f.__name__)
def test_a_failed_step_is_undone(what: Callable[[Graph, Trace], None]) -> None:
    graph, result = go(what, ignore_errors=True)
    assert graph_text(result.graph) == graph_text(graph)
    assert result.changes == 0
    assert result.steps[0].error


def test_after_a_failed_step_the_next_goes_on() -> None:
    graph = parse_graph(TEXT)
    result = run(graph, [Step(Doing(fail), ignore_errors=True), Step(Doing(rename_a))])
    assert "b" in result.graph
    assert [bool(s.error) for s in result.steps] == [True, False]


def test_an_error_names_the_step_and_those_before_it() -> None:
    graph = parse_graph(TEXT)
    with pytest.raises(TransformError) as caught:
        run(graph, [*resolve("remove_device round_weights"), Step(Doing(fail))])
    assert "transform 'doing' (after remove_device, round_weights)" in caught.value.where
    assert "cannot do it" in caught.value.problem
    assert caught.value.hint == "try again"


def test_a_broken_result_is_an_error() -> None:
    with pytest.raises(TransformError, match=r"it left an invalid graph: .*cycle"):
        go(make_cycle)
    with pytest.raises(TransformError, match="the output 'y' is gone"):
        go(drop_y)


def test_what_is_not_told_is_not_looked_at() -> None:
    def break_in_secret(graph: Graph, trace: Trace) -> None:
        graph.node("a").set_input(0, graph.value("y"))

    graph, result = go(break_in_secret)
    assert graph_text(result.graph) == graph_text(graph)
    assert not result.steps[0].error


def test_renaming_an_output_is_an_error_unless_it_is_the_point() -> None:
    def rename_y(graph: Graph, trace: Trace) -> None:
        trace.changed(graph.node("y"), "renamed")
        graph.rename(graph.node("y"), "z")

    with pytest.raises(TransformError, match="the output 'y' is gone"):
        go(rename_y)
    result = run(parse_graph(TEXT), resolve("rename_node(old_node_name=y, new_node_name=z)"))
    assert [v.name for v in result.graph.outputs] == ["z"]


def test_a_broken_graph_is_refused() -> None:
    graph = parse_graph(TEXT)
    graph.node("a").set_input(0, graph.stand_in("nowhere").output())
    with pytest.raises(GraphError, match=r"the graph is broken: .*'nowhere', which does not exist") as caught:
        run(graph, [])
    assert "inspect" in caught.value.hint


def test_an_old_blemish_is_no_reason_to_stop() -> None:
    graph = parse_graph(TEXT)
    graph.node("a")._name = "white space"  # as a file may have it
    result = run(graph, resolve("remove_device"))
    assert result.steps[0].error == ""


@dataclass
class Comparing:
    """A comparer that gives a fixed answer."""

    difference: float | None = 0.0
    error: str = ""
    calls: int = 0

    def compare(self, before: Graph, after: Graph, transform: Transform) -> float | None:
        assert before is not after
        assert transform.name == "doing"
        self.calls += 1
        if self.error:
            raise VerificationError(self.error, hint="look")
        return self.difference


def test_changed_graphs_are_compared() -> None:
    comparer = Comparing(difference=0.25)
    result = run(parse_graph(TEXT), [Step(Doing(rename_a)), *resolve("remove_device")], comparer=comparer)
    assert [s.difference for s in result.steps] == [0.25, None]
    assert comparer.calls == 1, "an unchanged graph needs no comparison"


def test_other_numbers_are_an_error() -> None:
    with pytest.raises(VerificationError) as caught:
        run(parse_graph(TEXT), [Step(Doing(rename_a))], comparer=Comparing(error="they differ"))
    assert "transform 'doing'" in caught.value.where


def test_other_numbers_may_be_ignored_and_are_undone() -> None:
    graph = parse_graph(TEXT)
    result = run(graph, [Step(Doing(rename_a), ignore_errors=True)], comparer=Comparing(error="they differ"))
    assert graph_text(result.graph) == graph_text(graph)
    assert "they differ" in result.steps[0].error


def test_progress_counts_to_the_end() -> None:
    told: list[tuple[int, int, str]] = []
    run(parse_graph(TEXT), resolve("remove_device round_weights"), progress=lambda *a: told.append(a))
    assert told == [(0, 2, "remove_device"), (1, 2, "round_weights"), (2, 2, "done")]


def test_a_bug_in_a_transform_is_not_hidden() -> None:
    def crash(graph: Graph, trace: Trace) -> None:
        del graph, trace
        raise ZeroDivisionError

    with pytest.raises(TransformError, match="it raised ZeroDivisionError") as caught:
        go(crash, ignore_errors=False)
    cause = caught.value.__cause__
    assert isinstance(cause, TransformError)
    assert isinstance(cause.__cause__, ZeroDivisionError)


def test_reasons_are_counted() -> None:
    graph = parse_graph(TEXT)
    trace = Trace()
    trace.leave(graph.node("x"), "rare")
    for name in ("a", "y", "y"):
        trace.leave(graph.node(name), "often")
    assert trace.reasons() == [("often", 2, "a"), ("rare", 1, "x")]
    trace.forget_left()
    assert trace.left == []
    trace.leave(graph.node("x"), "rare")
    assert len(trace.left) == 1
