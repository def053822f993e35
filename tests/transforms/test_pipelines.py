"""Named orders: what they consist of, that they repeat as long as it pays, and what they tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.transforms.golden import parse_graph
from tests.transforms.support import apply, assert_same_numbers
from thinflow.errors import ParameterError, TransformError
from thinflow.ir.graph import Graph
from thinflow.ir.text import graph_text
from thinflow.rewrite.rule import Trace, Transform
from thinflow.rewrite.runner import Rounds, Step, run
from thinflow.transforms import names, resolve
from thinflow.transforms.pipelines import PIPELINES, order_names

NETWORK = """
    x = Placeholder() {dtype=float, shape=shape[?,6,6,2]}
    false = Const() {value=bool[]{False}}
    training = PlaceholderWithDefault(false) {dtype=bool, shape=shape[]}
    w = Const() {value=float[1,1,2,3]{normal 1}}
    read = Identity(w) {T=float}
    conv = Conv2D(x, read) {T=float, padding="VALID", strides=[1,1,1,1]}
    half = Const() {value=float[]{0.5}}
    two = Const() {value=float[]{2}}
    a = Mul(conv, half) {T=float}
    to = Const() {value=int32[4]{0,3,1,2}}
    from = Const() {value=int32[4]{0,2,3,1}}
    b = Transpose(a, to) {T=float, Tperm=int32}
    s = Switch(b, training) {T=float}
    train = Exp(s:1) {T=float}
    infer = Relu(s) {T=float}
    m = Merge(infer, train) {N=2, T=float}
    c = Transpose(m, from) {T=float, Tperm=int32}
    i = Identity(c) {T=float}
    d = Mul(i, two) {T=float}
    y = Neg(d) {T=float}
    inputs: x
    outputs: y
"""


def test_everything_in_one() -> None:
    graph = parse_graph(NETWORK)
    after = apply(graph, "float").graph
    assert sorted(n.op for n in after) == ["Const", "Const", "Conv2D", "Mul", "Neg", "Placeholder", "Relu"]
    assert_same_numbers(graph, after, 1e-4)


@pytest.mark.parametrize("name", [*sorted(set(PIPELINES) - {"eight_bit"}), "for_runtime(runtime=litert)"])
def test_a_second_run_changes_nothing(name: str) -> None:
    first = apply(NETWORK, name).graph
    again = apply(first, name)
    assert again.changes == 0, [str(e) for s in again.steps for e in s.trace.changes]
    assert graph_text(again.graph) == graph_text(first)


@pytest.mark.parametrize("name", order_names())
def test_every_name_is_free_and_resolves(name: str) -> None:
    assert name not in names()
    text = f"{name}(runtime=onnx)" if name == "for_runtime" else name
    steps = resolve(text)
    assert len({id(s.rounds) for s in steps if s.rounds is not None}) == 1
    assert steps[0].rounds is not None
    assert steps[0].rounds.name == name


def test_orders_mix_with_transforms() -> None:
    steps = resolve(["remove_device", "float", ("for_runtime", {"runtime": "onnx"})])
    assert steps[0].rounds is None
    names_in_turn = list(dict.fromkeys("" if s.rounds is None else s.rounds.name for s in steps))
    assert names_in_turn == ["", "float", "for_runtime"]


def test_options_of_all_orders() -> None:
    inside, outside = resolve("float"), resolve("float(functions=false, ignore_errors=true)")
    assert type(inside[0].transform) is not type(outside[0].transform)
    assert [s.transform.name for s in inside] == [s.transform.name for s in outside]
    assert {s.ignore_errors for s in inside} == {False}
    assert {s.ignore_errors for s in outside} == {True}


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("flot", "Transform 'flot' not recognized", "did you mean 'float'?"),
        ("float(speed=1)", "'float' has no parameter 'speed'", "it takes functions, ignore_errors"),
        ("float(function=true)", "'float' has no parameter 'function'", "did you mean 'functions'?"),
        ("float(functions=maybe)", "Couldn't interpret the functions argument as a boolean:maybe", "true"),
        ("for_runtime", "'for_runtime' needs a runtime", "runtime=litert|onnx|tensorflow|mobile"),
        ("for_runtime(runtime=tpu)", "there is no runtime 'tpu'", "runtime=litert"),
        ("for_runtime(runtime=onnx, runtime=litert)", "Expected a single 'runtime' parameter", "once"),
        ("for_runtime(runtime=onnx, version=1.4)", "version=1.4 is TensorFlow's", "leave it out"),
    ],
)
def test_mistakes(text: str, problem: str, hint: str) -> None:
    with pytest.raises(ParameterError) as caught:
        resolve(text)
    assert problem in caught.value.message
    assert hint in (caught.value.hint or "")


@dataclass(frozen=True)
class Doing(Transform):
    """A transform made of a function."""

    name = "doing"

    what: Callable[[Graph, Trace], None]

    def apply(self, graph: Graph, trace: Trace) -> None:
        self.what(graph, trace)


CHAIN = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    y = Neg(x) {T=float}
    inputs: x
    outputs: y
"""


def swap(old: str, new: str, told: list[str]) -> Doing:
    """A transform that turns one op into another."""

    def work(graph: Graph, trace: Trace) -> None:
        told.append(f"{old}-{new}")
        node = graph.node("y")
        if node.op == old:
            trace.changed(node, f"is now {new}")
            node.op = new

    return Doing(work)


def test_steps_repeat_until_nothing_changes() -> None:
    told: list[str] = []
    rounds = Rounds("both")
    steps = [Step(swap("Relu", "Abs", told), rounds=rounds), Step(swap("Neg", "Relu", told), rounds=rounds)]
    result = run(parse_graph(CHAIN), steps)
    assert result.graph.node("y").op == "Abs"
    assert told == ["Relu-Abs", "Neg-Relu", "Relu-Abs", "Neg-Relu"]  # the last round changes nothing
    assert [len(s.trace.changes) for s in result.steps] == [1, 1]
    assert [s.nodes for s in result.steps] == [(2, 2), (2, 2)]


def test_steps_that_never_agree_end_with_a_warning() -> None:
    told: list[str] = []
    rounds = Rounds("quarrel", limit=3)
    steps = [Step(swap("Neg", "Abs", told), rounds=rounds), Step(swap("Abs", "Neg", told), rounds=rounds)]
    result = run(parse_graph(CHAIN), steps)
    assert len(told) == 6
    assert result.steps[0].trace.warnings == [
        "'quarrel' still changed something in round 3, which was the last"
    ]


def test_a_step_that_fails_in_a_later_round() -> None:
    def fail(graph: Graph, trace: Trace) -> None:
        if graph.node("y").op == "Abs":
            raise ParameterError("it cannot", hint="try something else")

    rounds = Rounds("both")
    steps = [Doing(fail), swap("Neg", "Abs", [])]
    with pytest.raises(TransformError, match=r"transform 'doing'.*it cannot"):
        run(parse_graph(CHAIN), [Step(t, rounds=rounds) for t in steps])
    result = run(parse_graph(CHAIN), [Step(t, ignore_errors=True, rounds=rounds) for t in steps])
    assert result.steps[0].error == "it cannot"
    assert result.graph.node("y").op == "Abs"
