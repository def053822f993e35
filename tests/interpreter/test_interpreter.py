"""Running graphs: order, branches, loops, calls, and what is said when something is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thinflow.interpreter.calls
from tests.library import constant, function, graph_of, node
from tests.loops import while_loop
from thinflow.errors import FeedError, GraphError, NodeError, ShapeError, UnsupportedOp
from thinflow.interpreter import Plan, run_graph, run_node, tasks
from thinflow.interpreter.calls import is_true
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import DOUBLE, FLOAT, INT32, VARIANT

X = np.array([1, 2, 3], np.int32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def call(name: str, function_name: str, *inputs: str, results: int = 1, op: str = "PartitionedCall") -> str:
    return node(name, op, *inputs, f=f"@{function_name}", Tout=(INT32,) * results)


SQUARE = function("square", {"a": INT32}, [node("y", "Mul", "a", "a", T=INT32)], {"r": "y:z:0"})
NEGATE = function("negate", {"a": INT32}, [node("y", "Neg", "a", T=INT32)], {"r": "y:y:0"})
SAME = function("same", {"a": INT32}, [], {"r": "a"})
PLACEHOLDER = node("x", "Placeholder", dtype=INT32)


# ---- Plans


def test_only_what_is_needed_runs() -> None:
    graph = Graph()
    a = graph.constant(X, "a")
    wanted = graph.add("Neg", [a], "wanted")
    graph.add("NoSuchOp", [a])
    plan = Plan(graph, [wanted.output()])
    assert [n.name for n in plan.nodes] == ["a", "wanted"]
    np.testing.assert_array_equal(plan.run({})[0], -X)


def test_what_is_fed_is_not_computed() -> None:
    graph = Graph()
    middle = graph.add("NoSuchOp", [graph.add("Placeholder", name="x")], "middle")
    end = graph.add("Neg", [middle], "end")
    np.testing.assert_array_equal(run_graph(graph, {"middle": X}, ["end"])[0], -X)
    np.testing.assert_array_equal(run_graph(graph, {"end": X}, ["end"])[0], X)
    with pytest.raises(FeedError, match="nothing was fed for the input 'middle'"):
        Plan(graph, [end.output()], [middle.output()]).run({})


def test_a_fed_port_leaves_the_others() -> None:
    graph = graph_of([PLACEHOLDER, node("u", "Unique", "x"), node("y", "Add", "u", "u:1", T=INT32)])
    feeds = {"x": ints(5, 5, 7), "u": ints(10, 20, 30)}
    np.testing.assert_array_equal(run_graph(graph, feeds, ["y"])[0], ints(10, 20, 31))


def test_a_fed_port_saves_the_node_unless_another_is_asked_for() -> None:
    graph = graph_of([PLACEHOLDER, node("u", "Unique", "x"), node("y", "Neg", "u", T=INT32),
                      node("z", "Neg", "u:1", T=INT32)])  # fmt: skip
    plan = Plan(graph, [graph.value("y")], [graph.value("u")])
    assert [n.name for n in plan.nodes] == ["y"]
    np.testing.assert_array_equal(plan.compute([ints(1, 2)])[0], ints(-1, -2))


def test_waiting_may_be_kept_within_some_nodes() -> None:
    graph = graph_of([PLACEHOLDER, node("w", "NoOp", "^x"), node("v", "NoOp", "^w"),
                      node("c", "Const", "^v", dtype=INT32,
                           value="tensor { dtype: 3 tensor_shape {} int_val: 4 }")])  # fmt: skip
    c = graph.value("c")
    assert {n.name for n in Plan(graph, [c]).nodes} == {"x", "w", "v", "c"}
    assert {n.name for n in Plan(graph, [c], within={graph.node("v")}).nodes} == {"v", "c"}


def test_observers_see_every_value() -> None:
    graph = graph_of([PLACEHOLDER, node("y", "Neg", "x"), node("z", "Abs", "y")])
    seen: list[str] = []
    plan = Plan(graph, [graph.value("z")], [graph.value("x")])
    plan.run({graph.value("x"): X}, lambda value, array: seen.append(f"{value.name}={array.tolist()}"))
    assert seen == ["y=[-1, -2, -3]", "z=[1, 2, 3]"]


def test_a_plan_runs_again() -> None:
    graph = graph_of([PLACEHOLDER, node("y", "Neg", "x")])
    plan = Plan(graph, [graph.value("y")], [graph.value("x")])
    for value in (X, X + 1):
        np.testing.assert_array_equal(plan.run({graph.value("x"): value})[0], -value)


def test_what_overflows_is_infinite_and_no_warning() -> None:
    graph = Graph()
    a = graph.constant(np.full((2, 2), 3e38, np.float32), "a")
    product = graph.add("MatMul", [a, a], "product", attrs={"T": FLOAT})
    (alone,) = run_node(product, [a.node.tensor.numpy()] * 2)
    (result,) = Plan(graph, [product.output()]).run({})
    assert np.isposinf([alone, result]).all()


def test_errors_name_the_node() -> None:
    graph = graph_of(
        [PLACEHOLDER, node("odd", "NoSuchOp", "x"), node("add", "Add", "x", "w"), constant("w", [1, 2])]
    )
    with pytest.raises(UnsupportedOp, match=r"node 'odd' \(NoSuchOp\)"):
        run_graph(graph, {"x": X}, ["odd"])
    with pytest.raises(NodeError, match=r"node 'add' \(Add\).*int32\[3\], int32\[2\]"):
        run_graph(graph, {"x": X}, ["add"])
    with pytest.raises(FeedError, match=r"node 'x' \(Placeholder\): nothing was fed"):
        run_graph(graph, {}, ["x"])
    with pytest.raises(FeedError, match="'add:7' is not computed"):
        run_graph(graph, {"x": X[:2]}, ["add:7"])
    with pytest.raises(GraphError, match="no outputs were asked for"):
        run_graph(graph, {}, [])
    with pytest.raises(ShapeError, match=r"node 'c' \(Cast\): the attribute 'DstT' is missing"):
        run_node(graph.add("Cast", [graph.value("x")], "c"), [X])


# ---- Branches of TF1


def branches(pred: Any, inner: Any = None) -> tuple[Graph, list[Value]]:
    """cond(pred, 1, 2) as TF1 writes it: two constants that wait for their side of the switch."""
    graph = Graph()
    condition = graph.constant(np.array(pred), "pred")
    switch = graph.add("Switch", [condition, condition], "switch")
    sides = [graph.add("Identity", [switch.output(port)], name) for port, name in ((0, "no"), (1, "yes"))]
    no, yes = (graph.constant(ints(v), f"c{v}") for v in (2, 1))
    no.node.add_control_input(sides[0])
    yes.node.add_control_input(sides[1])
    return graph, [no, yes, graph.add("Merge", [no, yes], "merge").output()]


@pytest.mark.parametrize(("pred", "result", "index"), [(True, 1, 1), (False, 2, 0)])
def test_a_constant_waits_for_its_branch(pred: bool, result: int, index: int) -> None:
    graph, (no, yes, merged) = branches(pred)
    results = Plan(graph, [merged, merged.node.output(1)]).run({})
    np.testing.assert_array_equal(results[0], ints(result))
    assert (results[1], results[1].dtype) == (index, np.int32)
    with pytest.raises(FeedError, match="lies on a branch that was not taken"):
        Plan(graph, [no if pred else yes]).run({})


def test_a_dead_branch_stays_dead() -> None:
    graph, (no, _, merged) = branches(True)
    far = graph.add("Neg", [graph.add("Abs", [no])])
    both = graph.add("Merge", [far, merged])
    np.testing.assert_array_equal(Plan(graph, [both.output()]).run({})[0], ints(1))


def test_a_loop_on_a_dead_branch_does_not_turn() -> None:
    graph, (no, _, merged) = branches(True)
    (result,) = while_loop(
        graph,
        "loop",
        [no],
        lambda v: graph.add("NoSuchOp", [v[0]]).output(),
        lambda v: v,
    )
    both = graph.add("Merge", [result, merged])
    np.testing.assert_array_equal(Plan(graph, [both.output()]).run({})[0], ints(1))


@pytest.mark.parametrize(("index", "taken"), [(0, 0), (2, 2), (-1, 2), (9, 2)])
def test_switch_n(index: int, taken: int) -> None:
    graph = Graph()
    data, which = graph.constant(X), graph.constant(np.array(index, np.int32))
    switch = graph.add("_SwitchN", [data, which], "switch", attrs={"num_outs": 3})
    merge = graph.add("Merge", [switch.output(port) for port in range(3)])
    assert Plan(graph, [merge.output(1)]).run({})[0] == taken


# ---- Loops of TF1


def test_an_endless_loop_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_ITERATIONS", 10)
    graph = Graph()
    true = graph.constant(np.array(True))
    (result,) = while_loop(graph, "loop", [true], lambda v: v[0], lambda v: v)
    with pytest.raises(NodeError, match="the loop did not end after 10 iterations"):
        Plan(graph, [result]).run({})


def test_observers_see_each_turn() -> None:
    graph = Graph()
    one, limit = graph.constant(np.array(1, np.int32)), graph.constant(np.array(2, np.int32))
    (result,) = while_loop(
        graph,
        "loop",
        [graph.constant(np.array(0, np.int32))],
        lambda v: graph.add("Less", [v[0], limit]).output(),
        lambda v: [graph.add("Add", [v[0], one], "next").output()],
    )
    seen: list[tuple[str, int]] = []
    Plan(graph, [result]).run({}, lambda value, array: seen.append((value.name, int(array))))
    assert [v for name, v in seen if name == "next"] == [1, 2]
    assert seen[-1] == ("loop/Exit", 2)


# ---- Calls


def test_calls_by_attribute_and_by_name() -> None:
    nodes = [PLACEHOLDER, call("a", "square", "x"), node("b", "negate", "a"), call("c", "same", "b")]
    graph = graph_of(nodes, [SQUARE, NEGATE, SAME])
    np.testing.assert_array_equal(run_graph(graph, {"x": X}, ["c"])[0], -X * X)


def test_calls_nest_and_give_several_results() -> None:
    both = function(
        "both",
        {"a": INT32, "b": INT32},
        [call("s", "square", "a", op="StatefulPartitionedCall"), node("t", "negate", "b")],
        {"first": "t:r:0", "second": "s:output:0", "third": "a"},
    )
    graph = graph_of([PLACEHOLDER, call("y", "both", "x", "x", results=3)], [SQUARE, NEGATE, both])
    first, second, third = run_graph(graph, {"x": X}, ["y:0", "y:1", "y:2"])
    np.testing.assert_array_equal(np.stack([first, second, third]), [-X, X * X, X])


def test_types_are_filled_in_at_each_call() -> None:
    body = [node("c", "Cast", "a", SrcT="$S", DstT="$D")]
    convert = function("convert", {"a": "S"}, body, {"r": "c:y:0"})
    nodes = [
        PLACEHOLDER,
        node("y", "convert", "x", S=INT32, D=FLOAT),
        node("z", "convert", "y", S=FLOAT, D=DOUBLE),
    ]
    y, z = run_graph(graph_of(nodes, [convert]), {"x": X}, ["y", "z"])
    assert (y.dtype, z.dtype) == (np.float32, np.float64)


def test_control_results_run_though_nobody_reads_them() -> None:
    body = [node("fails", "NoSuchOp", "a"), node("y", "Neg", "a")]
    watched = function("f", {"a": INT32}, body, {"r": "y:y:0"}, "control_ret { key: 'c' value: 'fails' }")
    with pytest.raises(UnsupportedOp, match=r"node 'y' .*, node 'fails'"):
        run_graph(graph_of([PLACEHOLDER, call("y", "f", "x")], [watched]), {"x": X}, ["y"])


def choose(pred: str, op: str = "StatelessIf") -> str:
    return node("y", op, pred, "x", then_branch="@square", else_branch="@negate", Tout=(INT32,))


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
@pytest.mark.parametrize(("pred", "factor"), [(1, X), (0, -1), ([0], X)])
def test_if(op: str, pred: Any, factor: Any) -> None:
    graph = graph_of([PLACEHOLDER, constant("p", pred), choose("p", op)], [SQUARE, NEGATE])
    np.testing.assert_array_equal(run_graph(graph, {"x": X}, ["y"])[0], X * factor)


@pytest.mark.parametrize(("index", "factor"), [(0, X), (1, -1), (2, 1), (-1, 1), (7, 1)])
def test_case(index: int, factor: Any) -> None:
    case = node("y", "StatelessCase", "k", "x", branches=("@square", "@negate", "@same"), Tout=(INT32,))
    graph = graph_of([PLACEHOLDER, constant("k", index), case], [SQUARE, NEGATE, SAME])
    np.testing.assert_array_equal(run_graph(graph, {"x": X}, ["y"])[0], X * factor)


BELOW = function("below", {"i": INT32, "n": INT32}, [node("y", "Less", "i", "n", T=INT32)], {"r": "y:z:0"})
TWICE = function(
    "twice", {"i": INT32, "n": INT32}, [node("y", "Add", "i", "i", T=INT32)], {"i": "y:z:0", "n": "n"}
)
WHILE = node("w", "While", "i", "n", cond="@below", body="@twice", T=(INT32, INT32))


@pytest.mark.parametrize(("start", "end"), [(1, 128), (3, 192), (200, 200)])
def test_while(start: int, end: int) -> None:
    graph = graph_of([constant("i", start), constant("n", 100), WHILE], [BELOW, TWICE])
    assert [int(v) for v in run_graph(graph, {}, ["w", "w:1"])] == [end, 100]


def test_an_endless_while_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinflow.interpreter.calls, "MAX_ITERATIONS", 10)
    graph = graph_of([constant("i", 0), constant("n", 100), WHILE], [BELOW, TWICE])
    with pytest.raises(NodeError, match=r"node 'w' \(While\): the loop did not end after 10 iterations"):
        run_graph(graph, {}, ["w"])


def test_a_function_may_call_itself_but_not_for_ever() -> None:
    step = function(
        "step",
        {"a": INT32},
        [constant("one", 1), node("less", "Sub", "a", "one:output:0"), node("down", "countdown", "less:z:0")],
        {"r": "down:r:0"},
    )
    pick = node("y", "If", "a", "a", then_branch="@step", else_branch="@same", Tout=(INT32,))
    countdown = function("countdown", {"a": INT32}, [pick], {"r": "y:output:0"})
    graph = graph_of([PLACEHOLDER, node("y", "countdown", "x")], [step, countdown, SAME])
    assert run_graph(graph, {"x": np.array(5, np.int32)}, ["y"])[0] == 0
    with pytest.raises(GraphError, match="50 calls inside each other") as caught:
        run_graph(graph, {"x": np.array(-1, np.int32)}, ["y"])
    assert "does a function call itself?" in str(caught.value)
    assert run_graph(graph, {"x": np.array(2, np.int32)}, ["y"])[0] == 0


def test_bad_calls_name_the_call() -> None:
    nodes = [
        PLACEHOLDER,
        call("absent", "sqare", "x"),
        call("wrong", "square", "x", "x"),
        node("none", "PartitionedCall"),
    ]
    graph = graph_of([*nodes, node("empty", "Case", "x")], [SQUARE])
    with pytest.raises(
        GraphError, match=r"node 'absent' \(PartitionedCall\): there is no function 'sqare'"
    ) as caught:
        run_graph(graph, {"x": X}, ["absent"])
    assert "'square'" in caught.value.hint
    with pytest.raises(GraphError, match="'square' takes 1 arguments, not 2"):
        run_graph(graph, {"x": X}, ["wrong"])
    with pytest.raises(GraphError, match="it does not say which function to call"):
        run_graph(graph, {}, ["none"])
    with pytest.raises(GraphError, match="it has no branches"):
        run_graph(graph, {"x": X}, ["empty"])


def test_an_error_inside_names_both_nodes() -> None:
    bad = function("bad", {"a": INT32}, [node("odd", "NoSuchOp", "a")], {"r": "odd:y:0"})
    graph = graph_of([PLACEHOLDER, call("y", "bad", "x")], [bad])
    with pytest.raises(UnsupportedOp, match=r"node 'y' \(PartitionedCall\), node 'odd' \(NoSuchOp\)"):
        run_graph(graph, {"x": X}, ["y"])


def test_what_is_true() -> None:
    assert is_true(np.float32(0.5))
    assert is_true(np.array(b"no", object))
    assert is_true(np.zeros(1))
    assert not is_true(np.array(b"", object))
    assert not is_true(np.array(0))
    assert not is_true(np.zeros(0))


# ---- Handles


def test_a_list_grows_in_a_loop() -> None:
    """The squares of 0..3, as tf.map_fn computes them."""
    more = function(
        "more",
        {"i": INT32, "v": VARIANT},
        [constant("n", 4), node("y", "Less", "i", "n:output:0")],
        {"r": "y:z:0"},
    )
    push = function(
        "push",
        {"i": INT32, "v": VARIANT},
        [
            constant("one", 1),
            node("sq", "Mul", "i", "i"),
            node("next", "AddV2", "i", "one:output:0"),
            node("set", "TensorListSetItem", "v", "i", "sq:z:0", element_dtype=INT32),
        ],
        {"i": "next:z:0", "v": "set:output_handle:0"},
    )
    nodes = [
        constant("zero", 0),
        constant("four", 4),
        constant("shape", -1),
        node("list", "TensorListReserve", "shape", "four", element_dtype=INT32, shape_type=INT32),
        node("w", "StatelessWhile", "zero", "list", cond="@more", body="@push", T=(INT32, VARIANT)),
        node("y", "TensorListStack", "w:1", "shape", element_dtype=INT32),
    ]
    graph = graph_of(nodes, [more, push])
    plan = Plan(graph, [graph.value("y")])
    for _ in range(2):
        np.testing.assert_array_equal(plan.run({})[0], ints(0, 1, 4, 9))


def test_a_table_is_filled_before_it_is_asked() -> None:
    nodes = [
        PLACEHOLDER,
        node("table", "HashTableV2", key_dtype=INT32, value_dtype=INT32),
        constant("keys", [1, 2]),
        constant("values", [10, 20]),
        node("init", "InitializeTableV2", "table", "keys", "values"),
        constant("default", -1),
        node("y", "LookupTableFindV2", "table", "x", "default"),
    ]
    np.testing.assert_array_equal(run_graph(graph_of(nodes), {"x": X}, ["y"])[0], ints(10, 20, -1))
    with pytest.raises(NodeError, match="nothing was put into the table"):
        run_graph(graph_of([*nodes[:2], *nodes[5:]]), {"x": X}, ["y"])
