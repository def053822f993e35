"""What pays on an engine, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loops import entered, while_loop
from thinflow.analysis.shapes import infer_shapes
from thinflow.engines.partition import Region, too_small
from thinflow.engines.session import Session
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import FLOAT, Shape


def chain(count: int, shape: Shape, op: str = "Tanh") -> tuple[Graph, Region]:
    """A region of nodes one after the other."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(shape)}).output()
    region = Region(True, [], [x])
    y = x
    for _ in range(count):
        region.nodes.append(graph.add(op, [y], attrs={"T": FLOAT}))
        y = region.nodes[-1].output()
    region.outputs = [y]
    infer_shapes(graph)
    return graph, region


@pytest.mark.parametrize(("count", "pays"), [(1, False), (4, False), (6, True), (40, True)])
def test_a_handful_of_cheap_nodes_does_not_pay(count: int, pays: bool) -> None:
    _, region = chain(count, (4,))
    assert bool(too_small(region)) is not pays
    if count == 4:
        assert too_small(region) == (
            "moving 2 values to the engine and back (32 bytes) costs more than these 4 cheap nodes"
        )


def test_nodes_that_do_nothing_never_pay() -> None:
    assert too_small(chain(100, (4,), "Identity")[1])


def convolution(shape: Shape) -> Region:
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(shape)}).output()
    w = graph.constant(np.zeros((3, 3, 8, 8), np.float32), "w")
    attrs = {"T": FLOAT, "strides": (1, 1, 1, 1), "padding": "SAME"}
    conv = graph.add("Conv2D", [x, w], attrs=attrs)
    infer_shapes(graph)
    return Region(True, [conv], [x], [conv.output()])


@pytest.mark.parametrize("shape", [(1, 16, 16, 8), (None, 16, 16, 8), None, (None, None, None, 8)])
def test_one_convolution_pays(shape: Shape) -> None:
    """An open size counts as 1, and what reads an input of unknown rank tells which sizes those are."""
    if shape in (None, (None, None, None, 8)):
        assert too_small(convolution(shape)).endswith("than this cheap node")
    else:
        assert not too_small(convolution(shape))


def test_large_values_cost_more_to_move_than_one_addition() -> None:
    assert too_small(chain(1, (1 << 20,), "Neg")[1]) == ""  # reads and writes as much as is moved
    wide = chain(1, (1 << 20,), "Identity")[1]
    assert "(8388608 bytes)" in too_small(wide)


def odd(graph: Graph, x: Value) -> Value:
    text = graph.add("AsString", [x], attrs={"T": FLOAT}).output()
    return graph.add("StringToNumber", [text], attrs={"out_type": FLOAT}).output()


@pytest.mark.parametrize("engine", ["litert", "onnxruntime"])
def test_placement_tells_what_did_not_pay(engine: str) -> None:
    pytest.importorskip("ai_edge_litert" if engine == "litert" else "onnxruntime")
    graph, region = chain(2, (4,))
    for _ in range(2):
        x = odd(graph, region.outputs[0])
        region.outputs = [graph.add("Tanh", [x], "last", attrs={"T": FLOAT}).output()]
    graph.outputs = region.outputs
    session = Session(graph, engine)
    x = np.float32([1, 2, 3, 4])
    (expected,) = Session(graph, "reference").run(None, {"x": x})
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-5)
    assert set(session.placement.values()) == {"reference"}
    assert session.placement_reasons == session.reasons
    assert set(session.reasons) == set(session.placement), "a node that fell back without a reason"
    assert "costs more than these 2 cheap nodes" in session.reasons["Tanh"]


def test_a_graph_without_a_border_is_not_judged() -> None:
    pytest.importorskip("ai_edge_litert")
    graph, region = chain(1, (4,))
    graph.inputs, graph.outputs = region.inputs, region.outputs
    assert set(Session(graph, "litert").placement.values()) == {"litert"}


def test_a_loop_pays_however_small() -> None:
    """Nobody knows how often it turns."""
    pytest.importorskip("ai_edge_litert")
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((4,))}).output()
    limit = entered(graph, "loop", graph.constant(np.int32(100), "limit"))
    one = entered(graph, "loop", graph.constant(np.int32(1), "one"))
    (_, y) = while_loop(
        graph,
        "loop",
        [graph.constant(np.int32(0), "zero"), odd(graph, x)],
        lambda m: graph.add("Less", [m[0], limit]).output(),
        lambda v: [
            graph.add("AddV2", [v[0], one]).output(),
            graph.add("Tanh", [v[1]], "turn", attrs={"T": FLOAT}).output(),
        ],
    )
    graph.inputs, graph.outputs = [x], [y]
    session = Session(graph, "litert")
    x_array = np.float32([1, 2, 3, 4])
    expected = Session(graph, "reference").run(None, {"x": x_array})[0]
    np.testing.assert_allclose(session.run(None, {"x": x_array})[0], expected, rtol=1e-5)
    assert session.placement["turn"] == "litert"
