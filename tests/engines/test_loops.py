"""Loops, branches and arrays on engines: all of one in LiteRT, or all of it in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.loops import entered, while_loop
from thinflow.analysis.shapes import infer_with_loops
from thinflow.engines import find
from thinflow.engines._units import divide
from thinflow.interpreter import Plan
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, dtype
from thinflow.optimize.core import find_core

X = np.float32([[1, -2, 3]])


@pytest.fixture(autouse=True)
def _needs_litert() -> None:
    pytest.importorskip("ai_edge_litert")


def placeholder(graph: Graph, shape: tuple[int | None, ...] = (1, 3)) -> Value:
    return graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(shape)}).output()


def number(graph: Graph, value: float, name: str) -> Value:
    return graph.constant(np.asarray(value, np.float32 if isinstance(value, float) else np.int32), name)


def turned(graph: Graph, name: str, x: Value, body: Callable[[Value], Value], turns: int = 3) -> Value:
    """x after some turns."""
    limit, one = (entered(graph, name, number(graph, n, f"{name}/n{n}")) for n in (turns, 1))
    variables = while_loop(
        graph,
        name,
        [number(graph, 0, f"{name}/zero"), x],
        lambda m: graph.add("Less", [m[0], limit], f"{name}/Less").output(),
        lambda v: [graph.add("AddV2", [v[0], one], f"{name}/Add").output(), body(v[1])],
    )
    return variables[1]


def run(graph: Graph, x: Value, y: Value, array: np.ndarray = X) -> dict[str, str]:
    """Where nodes run, when LiteRT's engine gives what the interpreter gives."""
    compiled = find("litert").compile(graph, [x], [y])
    (expected,) = Plan(graph, [y], [x]).run({x: array})
    np.testing.assert_allclose(compiled.run([array])[0], expected, rtol=1e-5)
    return compiled.placement


def unary(graph: Graph, op: str, x: Value) -> Value:
    return graph.add(op, [x], attrs={"T": FLOAT}).output()


def test_a_loop_runs_in_litert() -> None:
    graph = Graph()
    x = placeholder(graph)
    y = unary(graph, "Relu", turned(graph, "loop", unary(graph, "Exp", x), lambda v: unary(graph, "Neg", v)))
    assert set(run(graph, x, y).values()) == {"litert"}


def odd(graph: Graph, x: Value) -> Value:
    """What LiteRT has no form of, and does nothing."""
    text = graph.add("AsString", [x], attrs={"T": FLOAT}).output()
    return graph.add("StringToNumber", [text], attrs={"out_type": FLOAT}).output()


@pytest.mark.usefixtures("every_region_pays")
def test_a_loop_that_is_refused_is_one_unit() -> None:
    graph = Graph()
    x = placeholder(graph)
    before = unary(graph, "Exp", x)
    good = turned(graph, "good", before, lambda v: unary(graph, "Neg", v))
    bad = turned(graph, "bad", good, lambda v: odd(graph, v))
    y = unary(graph, "Relu", bad)
    places = run(graph, x, y)
    here = {name for name, place in places.items() if place == "reference"}
    assert here >= {n.name for n in graph if n.name.startswith("bad/") and n.op in ("Merge", "Switch")}
    assert all(places[n.name] == "litert" for n in (before.node, good.node, y.node))
    reasons = find("litert").compile(graph, [x], [y]).reasons
    assert "no form of AsString" in reasons[bad.node.name]


def test_constants_that_a_refused_unit_reads_come_along() -> None:
    """What is computed from constants alone belongs to whoever reads it, on either side."""
    graph = Graph()
    x = placeholder(graph)
    two = graph.add("AddV2", [number(graph, 1.0, "a"), number(graph, 1.0, "b")], "two").output()
    inner = entered(graph, "bad", two)
    bad = turned(
        graph, "bad", x, lambda v: graph.add("Mul", [odd(graph, v), inner], attrs={"T": FLOAT}).output()
    )
    run(graph, x, graph.add("AddV2", [bad, two], "y").output())


def array_of_rows(graph: Graph, x: Value, body: Callable[[Value], Value], size: Value) -> Value:
    """body(row) for the three numbers of a vector."""
    made = [graph.add("TensorArrayV3", [size], n, attrs={"dtype": FLOAT}) for n in ("source", "target")]
    places = graph.constant(np.arange(3, dtype=np.int32), "places")
    filled = graph.add("TensorArrayScatterV3", [made[0], places, x, made[0].output(1)], "filled").output()
    source, flow, target = (entered(graph, "rows", v) for v in (made[0].output(), filled, made[1].output()))
    limit, one = (entered(graph, "rows", number(graph, n, f"n{n}")) for n in (3, 1))

    def turn(v: list[Value]) -> list[Value]:
        row = graph.add("TensorArrayReadV3", [source, v[0], flow], attrs={"dtype": FLOAT}).output()
        written = graph.add("TensorArrayWriteV3", [target, v[0], body(row), v[1]]).output()
        return [graph.add("AddV2", [v[0], one]).output(), written]

    initial = [number(graph, 0, "zero"), made[1].output(1)]
    last = while_loop(graph, "rows", initial, lambda m: graph.add("Less", [m[0], limit]).output(), turn)[1]
    attrs = {"dtype": FLOAT, "element_shape": ShapeAttr(())}
    return graph.add("TensorArrayGatherV3", [made[1].output(), places, last], "rows", attrs=attrs).output()


@pytest.mark.parametrize("body", ["good", "bad"])
@pytest.mark.usefixtures("every_region_pays")
def test_arrays_stay_with_their_loop(body: str) -> None:
    graph = Graph()
    x = placeholder(graph, (3,))
    size = graph.add("AddV2", [number(graph, 1, "c1"), number(graph, 2, "c2")], "size").output()
    middle = odd(graph, x)  # so that the size is not in the region of the loop
    rows = array_of_rows(
        graph, middle, lambda v: odd(graph, v) if body == "bad" else unary(graph, "Neg", v), size
    )
    y = unary(graph, "Relu", rows)
    places = run(graph, x, y, np.float32([1, -2, 3]))
    there = "reference" if body == "bad" else "litert"
    assert {places[n] for n in ("source", "target", "filled", rows.node.name)} == {there}
    assert places[y.node.name] == "litert"


def test_units_are_in_order_and_complete() -> None:
    graph = Graph()
    x = placeholder(graph)
    y = turned(graph, "b", turned(graph, "a", x, lambda v: odd(graph, v)), lambda v: odd(graph, v))
    division = divide(Plan(graph, [y], [x]))
    assert sum(len(unit) > 1 for unit in division.units) == 2
    assert {n.name for n in division.nodes} >= {n.name for n in graph if n.op in ("Merge", "Switch")}
    place = {n: i for i, unit in enumerate(division.units) for n in unit}
    assert all(place[v.node] <= i for n, i in place.items() for v in n.inputs if v.node in place)


def test_a_graph_without_loops_is_not_touched() -> None:
    graph = Graph()
    x = placeholder(graph)
    y = unary(graph, "Relu", x)
    assert divide(Plan(graph, [y], [x])).units == [[y.node]]


def test_shapes_go_through_loops() -> None:
    graph = Graph()
    x = placeholder(graph)
    axis = number(graph, 0, "axis")
    same = turned(graph, "same", x, lambda v: unary(graph, "Neg", v))
    grows = turned(
        graph,
        "grows",
        x,
        lambda v: graph.add(
            "ConcatV2", [v, v, axis], attrs={"N": 2, "T": FLOAT, "Tidx": dtype("int32")}
        ).output(),
    )
    infer_with_loops(graph)
    assert (same.shape, grows.shape) == ((1, 3), (None, 3))


def test_the_core_holds_a_loop() -> None:
    graph = Graph()
    x = placeholder(graph)
    start = odd(graph, x)
    y = turned(graph, "loop", start, lambda v: unary(graph, "Tanh", v))
    graph.inputs, graph.outputs = [x], [y]
    core = find_core(graph)
    assert core.inputs == [start]
    assert core.outputs == [y]
    assert {n.op for n in core.outside} == {"AsString", "StringToNumber"}


def test_a_keyword_model_agrees_on_24_clips(shared: Path) -> None:
    """The real LSTM: its .tflite begins at the sound and gives what TensorFlow gave."""
    from thinflow.api import load
    from thinflow.engines.litert import Model
    from thinflow.optimize.litert import float_model

    clips = sorted((shared / "data" / "kws").glob("*.wav"))
    if not clips:
        pytest.skip("no clips")
    graph = load(shared / "models" / "kws_Basic_LSTM_S.pb")
    model = float_model(graph)
    assert [v.name for v in model.core.inputs] == ["decoded_sample_data", "decoded_sample_data:1"]
    runtime = Model(model.content)
    with np.load(shared / "models" / "reference.npz") as stored:
        expected = stored["kws_Basic_LSTM_S/softmax"]
    for i in range(0, len(clips), 10):
        feed = {graph.value("wav_data"): np.array(clips[i].read_bytes(), object)}
        (scores,) = runtime.run(model.core.before(feed))
        np.testing.assert_allclose(scores.ravel(), expected[i].ravel(), atol=1e-5)
