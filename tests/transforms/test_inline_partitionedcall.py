"""Function bodies in the place of calls."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from tests.library import constant, function, graph_of, node
from tests.transforms.support import apply
from thinflow.errors import TransformError
from thinflow.formats import graphdef
from thinflow.interpreter import run_graph
from thinflow.ir.graph import Graph
from thinflow.ir.text import node_text
from thinflow.ir.types import BOOL, FLOAT, INT32, DType
from thinflow.rewrite.runner import StepReport
from thinflow.transforms.flow import inline_partitionedcall

AFFINE = function(
    "affine",
    {"x": FLOAT, "b": FLOAT},
    [
        constant("two", 2.0),
        node("twice", "Mul", "x", "two:output:0", T=FLOAT),
        node("sum", "AddV2", "twice:z:0", "b", T=FLOAT),
        node("out", "Identity", "sum:z:0", T=FLOAT),
    ],
    {"y": "out:output:0"},
)
BEST = function(
    "best",
    {"x": FLOAT},
    [constant("k", 2), node("top", "TopKV2", "x", "k:output:0", T=FLOAT)],
    {"where": "top:indices:0", "what": "top:values:0"},
)
SWAP = function("swap", {"a": FLOAT, "b": FLOAT}, [], {"c": "b", "d": "a"})


def call(
    name: str, target: str, *inputs: str, op: str = "PartitionedCall", out: tuple[DType, ...] = (FLOAT,)
) -> str:
    return node(name, op, *inputs, f=f"func {{ name: '{target}' }}", Tin=(FLOAT,), Tout=out)


def model(
    nodes: Iterable[str], functions: Iterable[str], outputs: Iterable[str], inputs: Iterable[str] = ("x",)
) -> Graph:
    x = [node(name, "Placeholder", dtype=FLOAT) for name in inputs]
    graph = graph_of([*x, *nodes], functions)
    graph.inputs = [graph.value(name) for name in inputs]
    graph.outputs = [graph.value(name) for name in outputs]
    return graph


def inline(graph: Graph, options: str = "") -> tuple[Graph, StepReport]:
    """The graph without calls; its outputs are the same as before, and a second run changes nothing."""
    result = apply(graph, f"inline_partitionedcall{options}")
    loaded = graphdef.from_bytes(graphdef.to_bytes(result.graph))
    assert [n.name for n in loaded] == [n.name for n in result.graph]
    assert sorted(loaded.functions) == sorted(result.graph.functions)
    rng = np.random.default_rng(0)
    feeds = {v.name: rng.standard_normal(4).astype(np.float32) for v in graph.inputs}
    names = [v.name for v in graph.outputs]
    for a, b in zip(run_graph(graph, feeds, names), run_graph(result.graph, feeds, names), strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    assert apply(result.graph, f"inline_partitionedcall{options}").changes == 0
    return result.graph, result.steps[0]


def lines(graph: Graph) -> list[str]:
    return [node_text(n).partition(" {")[0] for n in graph]


def reasons(report: StepReport) -> list[str]:
    return [e.text for e in report.trace.left]


def test_a_body_takes_the_place_of_the_call() -> None:
    nodes = [
        constant("b", [1.0, 2.0, 3.0, 4.0]),
        node("before", "Neg", "x", T=FLOAT),
        call("c", "affine", "before", "b"),
        node("after", "Relu", "c", T=FLOAT),
        node("y", "Neg", "after:0", T=FLOAT),
    ]
    graph, report = inline(model(nodes, [AFFINE], ["y"]))
    assert lines(graph)[3:] == [
        "c/two = Const()",
        "c/twice = Mul(before, c/two)",
        "c/sum = AddV2(c/twice, b)",
        "c/out = Identity(c/sum)",
        "after = Relu(c/out)",
        "y = Neg(after)",
    ]
    assert len(graph) == 9
    assert [e.text for e in report.trace.changes] == ["replaced by the body of 'affine'"]
    assert not graph.functions
    assert report.trace.notes == ["1 functions that nothing calls were dropped, 0 are left"]


def test_results_by_the_name_of_the_output() -> None:
    nodes = [
        call("c", "best", "x", out=(INT32, FLOAT)),
        node("where", "Neg", "c", T=INT32),
        node("what", "Neg", "c:1", T=FLOAT),
    ]
    graph, _ = inline(model(nodes, [BEST], ["where", "what"]))
    assert lines(graph)[-2:] == ["where = Neg(c/top:1)", "what = Neg(c/top)"]


def test_arguments_that_are_results() -> None:
    nodes = [
        call("c", "swap", "x", "y", out=(FLOAT, FLOAT)),
        node("d", "Sub", "c", "c:1", T=FLOAT),
        node("n", "NoOp", "^c"),
        node("e", "Neg", "d", "^n", T=FLOAT),
    ]
    graph, _ = inline(model(nodes, [SWAP], ["e"], inputs=("x", "y")))
    assert lines(graph)[2:] == ["d = Sub(y, x)", "n = NoOp(^y, ^x)", "e = Neg(d, ^n)"]


def test_a_call_that_is_asked_for_keeps_its_name() -> None:
    nodes = [
        call("c", "affine", "x", "x"),
        call("d", "best", "x", out=(INT32, FLOAT)),
        node("z", "Neg", "d:1", T=FLOAT),
    ]
    graph, _ = inline(model(nodes, [AFFINE, BEST], ["c", "d:1", "z"]))
    assert node_text(graph.node("c")) == "c = Identity(c/out) {T=float}"
    assert node_text(graph.node("d")) == "d = IdentityN(d/top:1, d/top) {T=[int32,float]}"
    assert node_text(graph.node("z")).startswith("z = Neg(d:1)")


def test_calls_inside_calls_and_by_name() -> None:
    outer = function(
        "outer",
        {"x": FLOAT},
        [
            call("inner", "affine", "x", "x"),
            node("named", "affine", "inner:y:0", "x"),
            node("twin", "affine", "x", "x"),
        ],
        {"y": "named:y:0", "z": "twin:y:0"},
    )
    nodes = [
        call("a", "outer", "x", op="StatefulPartitionedCall", out=(FLOAT, FLOAT)),
        node("y", "Sub", "a", "a:1", T=FLOAT),
    ]
    graph, report = inline(model(nodes, [AFFINE, outer], ["y"]))
    assert "a/inner/two" in graph
    assert "a/named/sum" in graph
    assert [e.node for e in report.trace.changes] == ["a", "a/inner", "a/named", "a/twin"]
    assert len(graph) == 2 + 3 * 4


def test_control_edges_in_on_and_onto_the_call() -> None:
    body = [
        constant("one", 1.0, "^early"),
        node("early", "NoOp", "^x"),
        node("sum", "AddV2", "x", "one:output:0", "^early", T=FLOAT),
    ]
    waits = function("waits", {"x": FLOAT}, body, {"y": "sum:z:0"})
    nodes = [
        node("first", "NoOp"),
        call("c", "waits", "x", "^first"),
        node("later", "NoOp", "^c"),
        node("y", "Neg", "x", "^later", T=FLOAT),
        node("z", "Neg", "c", T=FLOAT),
    ]
    graph, _ = inline(model(nodes, [waits], ["y", "z"]))
    assert lines(graph)[2:6] == [
        "c/one = Const(^c/early)",
        "c/early = NoOp(^x)",
        "c/sum = AddV2(x, c/one, ^c/early, ^first)",
        "later = NoOp(^first, ^c/sum)",
    ]


def test_a_waiting_call_that_hands_its_argument_on() -> None:
    nodes = [
        node("first", "NoOp"),
        call("c", "swap", "x", "y", "^first", out=(FLOAT, FLOAT)),
        node("d", "Sub", "c", "c:1", T=FLOAT),
    ]
    graph, _ = inline(model(nodes, [SWAP], ["d"], inputs=("x", "y")))
    assert lines(graph)[3:] == ["c = IdentityN(y, x, ^first)", "d = Sub(c, c:1)"]


PRINTS = function(
    "prints",
    {"x": FLOAT},
    [node("say", "Print", "x", "x", T=FLOAT, U=(FLOAT,)), node("y", "Neg", "x", T=FLOAT)],
    {"r": "y:y:0"},
    "control_ret { key: 'c' value: 'say' }",
)


def test_effects_still_happen_in_every_call() -> None:
    nodes = [call("c", "prints", "x", op="StatefulPartitionedCall"), node("z", "Neg", "c", T=FLOAT)]
    graph, _ = inline(model(nodes, [PRINTS], ["z"]))
    assert lines(graph)[1:] == [
        "c/say = Print(x, x)", "c/y = Neg(x)", "c = Identity(c/y, ^c/say)", "z = Neg(c)",
    ]  # fmt: skip


def test_effects_that_a_result_needs_anyway_cost_nothing() -> None:
    needs = PRINTS.replace('input: "x" attr', 'input: "x" attr', 1).replace("'y:y:0'", "'say:output:0'")
    nodes = [call("c", "prints", "x"), node("z", "Neg", "c", T=FLOAT)]
    graph, _ = inline(model(nodes, [needs], ["z"]))
    assert lines(graph)[-1] == "z = Neg(c/say)"


def test_names_inside_the_body_follow() -> None:
    body = [
        node("a", "Neg", "x", T=FLOAT),
        node("b", "Neg", "a:y:0", T=FLOAT, _class="list { s: 'loc:@a' }"),
        node("c", "Enter", "b:y:0", T=FLOAT, frame_name="s: 'loop'"),
    ]
    named = function("named", {"x": FLOAT}, body, {"y": "b:y:0"})
    nodes = [call("one", "named", "x"), call("two", "named", "one"), node("y", "Neg", "two", T=FLOAT)]
    graph, _ = inline(model(nodes, [named], ["y"]))
    assert graph.node("one/b").attrs["_class"] == (b"loc:@one/a",)
    assert graph.node("two/c").attrs["frame_name"] == b"two/loop"


def test_neighbours_of_the_body_are_nodes_of_the_graph() -> None:
    """An argument is whoever is passed; what TensorFlow calls otherwise there, and inner calls, are gone."""
    near = node("b", "Neg", "x", T=FLOAT, _class="list { s: 'loc:@x' s: 'loc:@some/argument' }")
    inner = function("inner", {"x": FLOAT}, [near], {"y": "b:y:0"})
    beside = node("z", "Neg", "d:output:0", T=FLOAT, _class="list { s: 'loc:@d' }")
    outer = function("outer", {"x": FLOAT}, [call("d", "inner", "x"), beside], {"y": "z:y:0"})
    graph, _ = inline(
        model([call("one", "outer", "x"), node("y", "Neg", "one", T=FLOAT)], [inner, outer], ["y"])
    )
    assert graph.node("one/d/b").attrs["_class"] == (b"loc:@x",)
    assert "_class" not in graph.node("one/z").attrs


def test_attributes_of_the_call_fill_the_body() -> None:
    generic = function("generic", {"x": "T"}, [node("y", "Neg", "x", T="$T")], {"y": "y:y:0"})
    nodes = [node("c", "generic", "x", T=FLOAT), node("y", "Neg", "c", T=FLOAT)]
    graph, _ = inline(model(nodes, [generic], ["y"]))
    assert node_text(graph.node("c/y")) == "c/y = Neg(x) {T=float}"


def test_in_a_loop_the_whole_body_is_in_the_loop() -> None:
    nodes = [
        constant("limit", 9.0),
        node("enter", "Enter", "x", T=FLOAT, frame_name="s: 'loop'"),
        node("most", "Enter", "limit", T=FLOAT, frame_name="s: 'loop'", is_constant="b: true"),
        node("merge", "Merge", "enter", "next", T=FLOAT, N=2),
        node("less", "Less", "merge", "most", T=FLOAT),
        node("cond", "LoopCond", "less"),
        node("switch", "Switch", "merge", "cond", T=FLOAT),
        call("c", "affine", "switch:1", "most"),
        node("next", "NextIteration", "c", T=FLOAT),
        node("exit", "Exit", "switch", T=FLOAT),
        node("y", "Neg", "exit", T=FLOAT),
    ]
    graph = model(nodes, [AFFINE], ["y"])
    result = apply(graph, "inline_partitionedcall").graph
    assert node_text(result.node("c/two")).startswith("c/two = Const(^switch)")
    feeds = {"x": np.float32(1)}
    assert run_graph(result, feeds, ["y"]) == run_graph(graph, feeds, ["y"])


LOOPING = function("f", {"x": FLOAT}, [call("again", "g", "x")], {"y": "again:output:0"})
LOOPING_TOO = function("g", {"x": FLOAT}, [call("again", "f", "x")], {"y": "again:output:0"})


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([call("c", "lost", "x")], "there is no function 'lost'"),
        ([call("c", "affine", "x")], "it passes 1 arguments to 'affine', which takes 2"),
        ([call("c", "f", "x")], "'f' calls itself, or a function that does"),
        ([node("c", "PartitionedCall", "x")], "it does not say which function it calls"),
        ([call("c", "broken", "x")], "'broken' cannot be read"),
        ([call("c", "dangling", "x")], "'dangling' refers to a node 'nowhere', which does not exist"),
        (
            [call("c", "affine", "x", "x"), node("d", "Neg", "c:1")],
            "'c:1' is used, but 'affine' gives 1 values",
        ),
    ],
)
def test_calls_that_stay(nodes: list[str], reason: str) -> None:
    broken = function("broken", {"x": FLOAT}, [node("y", "Neg", "no:y:0")], {"y": "y:y:0"})
    dangling = function("dangling", {"x": FLOAT}, [node("y", "Neg", "x", "^nowhere")], {"y": "y:y:0"})
    graph = model(nodes, [AFFINE, LOOPING, LOOPING_TOO, broken, dangling], ["c"])
    before = graphdef.to_bytes(graph)
    result = apply(graph, "inline_partitionedcall")
    assert [r.partition(":")[0] for r in reasons(result.steps[0])] == [
        reason.partition(":")[0]
    ] or reason in reasons(result.steps[0])
    assert graphdef.to_bytes(result.graph) == before


def test_a_fed_call_stays() -> None:
    graph = model([call("c", "affine", "x", "x"), node("y", "Neg", "c", T=FLOAT)], [AFFINE], ["y"])
    graph.inputs = [graph.value("c")]
    assert reasons(apply(graph, "inline_partitionedcall").steps[0]) == ["'c' is an input of the graph"]


def test_functions_that_something_calls_stay() -> None:
    nodes = [
        call("c", "affine", "x", "x"),
        node("t", "Placeholder", dtype=BOOL),
        node("if", "StatelessIf", "t", "x", then_branch="@swap", else_branch="@best", Tout=(FLOAT,)),
        node("y", "Neg", "c", T=FLOAT),
    ]
    pruned, report = inline(model(nodes, [AFFINE, BEST, SWAP], ["y"]))
    assert sorted(pruned.functions) == ["best", "swap"]
    assert report.trace.notes == ["1 functions that nothing calls were dropped, 2 are left"]
    whole, _ = inline(model(nodes, [AFFINE, BEST, SWAP], ["y"]), "(prune_library=false)")
    assert len(whole.functions) == 3


@pytest.mark.parametrize(("condition", "kept"), [(1, "then"), (0, "else")])
def test_a_branch_takes_the_place_of_a_constant_condition(condition: int, kept: str) -> None:
    negative = function("negative", {"x": FLOAT}, [node("else", "Neg", "x", T=FLOAT)], {"y": "else:y:0"})
    same = function("same", {"x": FLOAT}, [node("then", "Relu", "x", T=FLOAT)], {"y": "then:y:0"})
    nodes = [
        constant("taken", condition),
        node(
            "if",
            "StatelessIf",
            "taken",
            "x",
            then_branch="@same",
            else_branch="@negative",
            Tcond=INT32,
            Tout=(FLOAT,),
        ),
        node("y", "Neg", "if", T=FLOAT),
    ]
    graph, _ = inline(model(nodes, [same, negative], ["y"]), "(lower_cond=true)")
    assert f"if/{kept}" in graph
    assert not graph.functions
    assert inline(model(nodes, [same, negative], ["y"]))[1].changes == 0


def test_a_condition_that_is_not_constant_stays() -> None:
    nodes = [
        node("if", "If", "x", "x", then_branch="@affine", else_branch="@affine"),
        node("y", "Neg", "x", T=FLOAT),
    ]
    result = apply(model(nodes, [AFFINE], ["y"]), "inline_partitionedcall(lower_cond=true)")
    assert reasons(result.steps[0]) == ["its condition 'x' is not constant"]


def test_growth_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline_partitionedcall, "MAX_NODES", 1000)
    layers = [
        function(
            f"f{i}",
            {"x": FLOAT},
            [call("a", f"f{i + 1}", "x"), call("b", f"f{i + 1}", "a:output:0")],
            {"y": "b:output:0"},
        )
        for i in range(60)
    ]
    last = function("f60", {"x": FLOAT}, [node("y", "Neg", "x", T=FLOAT)], {"y": "y:y:0"})
    with pytest.raises(TransformError, match="the functions would grow to more than 1,000 nodes"):
        apply(model([call("c", "f0", "x")], [*layers, last], ["c"]), "inline_partitionedcall")


def test_many_calls_one_after_the_other() -> None:
    nodes = [call(f"c{i}", "affine", f"c{i - 1}" if i else "x", "x") for i in range(2000)]
    graph = apply(
        model([*nodes, node("y", "Neg", "c1999", T=FLOAT)], [AFFINE], ["y"]), "inline_partitionedcall"
    ).graph
    assert len(graph) == 2 + 4 * 2000
