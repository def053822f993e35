"""Bodies of loops and functions that an engine cannot run whole: what it can run in them, it runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.library import constant, function, graph_of, node
from tests.loops import entered, while_loop
from thinflow.control_flow.frames import at_most_iterations
from thinflow.engines import find
from thinflow.engines.session import Session
from thinflow.errors import NodeError
from thinflow.formats import graphdef
from thinflow.interpreter import Plan
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import BOOL, FLOAT, INT32

WIDTH = 256


@pytest.fixture(autouse=True)
def _needs_litert() -> None:
    pytest.importorskip("ai_edge_litert")


def odd(graph: Graph, x: Value, name: str) -> Value:
    """What no engine has a form of, and does nothing."""
    text = graph.add("AsString", [x], f"{name}/text", attrs={"T": FLOAT}).output()
    return graph.add("StringToNumber", [text], f"{name}/number", attrs={"out_type": FLOAT}).output()


def layer_loop(width: int = WIDTH, turns: int = 3) -> tuple[Graph, Value, Value]:
    """x @ w through a text and back, some times; w enters the loop as TF1 has it."""
    graph = Graph()
    attrs = {"dtype": FLOAT, "shape": ShapeAttr((4, width))}
    x = graph.add("Placeholder", name="x", attrs=attrs).output()
    weights = np.random.default_rng(0).normal(0, width**-0.5, (width, width)).astype(np.float32)
    w = entered(graph, "loop", graph.constant(weights, "w"))
    limit, one = (entered(graph, "loop", graph.constant(np.int32(n), f"n{n}")) for n in (turns, 1))

    def body(v: list[Value]) -> list[Value]:
        y = graph.add("MatMul", [odd(graph, v[1], "odd"), w], "layer", attrs={"T": FLOAT}).output()
        return [
            graph.add("AddV2", [v[0], one], "step").output(),
            graph.add("Tanh", [y], "bound", attrs={"T": FLOAT}).output(),
        ]

    start = graph.constant(np.int32(0), "start")
    variables = while_loop(
        graph, "loop", [start, x], lambda m: graph.add("Less", [m[0], limit], "goes_on").output(), body
    )
    return graph, x, variables[1]


def sample(width: int = WIDTH) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).uniform(-1, 1, (4, width)).astype(np.float32)


def test_the_heavy_part_of_a_loop_runs_on_the_engine() -> None:
    graph, x, y = layer_loop()
    compiled = find("litert").compile(graph, [x], [y])
    for seed in range(3):
        array = sample() * (1 + seed)
        (expected,) = Plan(graph, [y], [x]).run({x: array})
        np.testing.assert_allclose(compiled.run([array])[0], expected, rtol=1e-4, atol=1e-5)
    assert compiled.placement["layer"] == compiled.placement["bound"] == "litert"
    assert compiled.placement["odd/text"] == "reference"
    assert "layer" not in compiled.reasons
    assert "AsString" in compiled.reasons["odd/text"]
    assert "cheap node" in compiled.reasons["step"]


def test_weights_that_enter_a_loop_are_constants_of_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied once and packed, not handed over in every turn."""
    from thinflow.engines import litert

    handed: list[list[tuple[int, ...]]] = []
    own = litert.Model.run

    def watched(self: Any, inputs: Any) -> Any:
        handed.append([x.shape for x in inputs])
        return own(self, inputs)

    monkeypatch.setattr(litert.Model, "run", watched)
    graph, x, y = layer_loop()
    compiled = find("litert").compile(graph, [x], [y])
    for _ in range(2):
        compiled.run([sample()])
    assert handed == [[(4, WIDTH)]] * 6


def test_a_loop_of_cheap_nodes_stays_where_it_is() -> None:
    graph, x, y = layer_loop(width=2)
    compiled = find("litert").compile(graph, [x], [y])
    (expected,) = Plan(graph, [y], [x]).run({x: sample(2)})
    np.testing.assert_allclose(compiled.run([sample(2)])[0], expected, rtol=1e-5)
    assert set(compiled.placement.values()) == {"reference"}
    assert "costs more than" in compiled.reasons["layer"]


def test_an_endless_loop_of_regions_ends() -> None:
    graph, x, y = layer_loop(turns=100)
    session = Session(graph, "litert", max_iterations=20)
    with pytest.raises(NodeError, match=r"did not end after 20 iterations\nhint: .*max_iterations"):
        session.run([y], {x: sample()})
    with at_most_iterations(101):
        assert Session(graph, "litert").run([y], {x: sample()})[0].shape == (4, WIDTH)


def functional_loop(turns: int = 3) -> Graph:
    """The same as a While of TF2, the weights being an argument."""
    goes_on = function(
        "goes_on",
        {"i": INT32, "x": FLOAT, "w": FLOAT},
        [constant("limit", turns), node("less", "Less", "i", "limit:output:0", T=INT32)],
        {"r": "less:z:0"},
    )
    body = function(
        "turn",
        {"i": INT32, "x": FLOAT, "w": FLOAT},
        [
            constant("one", 1),
            node("next", "AddV2", "i", "one:output:0", T=INT32),
            node("text", "AsString", "x", T=FLOAT),
            node("number", "StringToNumber", "text:output:0", out_type=FLOAT),
            node("layer", "MatMul", "number:output:0", "w", T=FLOAT),
            node("bound", "Tanh", "layer:product:0", T=FLOAT),
        ],
        {"i2": "next:z:0", "x2": "bound:y:0", "w2": "w"},
    )
    weights = np.random.default_rng(0).normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
    types = (INT32, FLOAT, FLOAT)
    graph = graph_of(
        [
            node("x", "Placeholder", dtype=FLOAT),
            constant("start", 0),
            constant("w", weights),
            node("loop", "StatelessWhile", "start", "x", "w", T=types, cond="@goes_on", body="@turn"),
        ],
        [goes_on, body],
    )
    graph.inputs, graph.outputs = [graph.value("x")], [graph.value("loop:1")]
    return graph


def test_the_body_of_a_function_is_cut_as_well() -> None:
    graph = functional_loop()
    session = Session(graph, "litert")
    expected = Session(graph, "reference").run(None, {"x": sample()})[0]
    for _ in range(2):
        np.testing.assert_allclose(session.run(None, {"x": sample()})[0], expected, rtol=1e-4, atol=1e-5)
    assert session.placement["turn/layer"] == session.placement["turn/bound"] == "litert"
    assert session.placement["loop"] == "reference"
    assert "AsString" in session.reasons["turn/text"]


def test_other_sizes_are_right_too() -> None:
    """A body is cut for two choices of sizes; the interpreter takes the others."""
    graph = functional_loop()
    session = Session(graph, "litert")
    for rows in (1, 2, 3, 4, 1):
        array = np.resize(sample(), (rows, WIDTH))
        expected = Session(graph, "reference").run(None, {"x": array})[0]
        np.testing.assert_allclose(session.run(None, {"x": array})[0], expected, rtol=1e-4, atol=1e-5)


def test_branches_are_cut_when_they_are_taken() -> None:
    branches = [
        function(
            name,
            {"x": FLOAT},
            [
                node("text", "AsString", "x", T=FLOAT),
                node("number", "StringToNumber", "text:output:0", out_type=FLOAT),
                node("square", "MatMul", "number:output:0", "number:output:0", T=FLOAT),
                node("result", op, "square:product:0", T=FLOAT),
            ],
            {"r": "result:y:0"},
        )
        for name, op in (("yes", "Neg"), ("no", "Tanh"))
    ]
    graph = graph_of(
        [
            node("p", "Placeholder", dtype=BOOL),
            node("x", "Placeholder", dtype=FLOAT),
            node("y", "StatelessIf", "p", "x", Tcond=BOOL, Tin=(FLOAT,), Tout=(FLOAT,))
            + " attr { key: 'then_branch' value { func { name: 'yes' } } }"
            + " attr { key: 'else_branch' value { func { name: 'no' } } }",
        ],
        branches,
    )
    graph.inputs, graph.outputs = [graph.value("p"), graph.value("x")], [graph.value("y")]
    x = np.random.default_rng(0).uniform(-1, 1, (128, 128)).astype(np.float32)
    session = Session(graph, "litert")
    for taken, name in ((True, "yes"), (False, "no")):
        assert f"{name}/square" not in session.placement
        expected = Session(graph, "reference").run(None, {"p": taken, "x": x})[0]
        np.testing.assert_allclose(session.run(None, {"p": taken, "x": x})[0], expected, rtol=1e-4, atol=1e-4)
        assert session.placement[f"{name}/square"] == "litert"


def branched(width: int = 128) -> tuple[Graph, Value, Value, Value]:
    """x @ w through a text on the one side, tanh(x @ x) on the other, as TF1 writes it."""
    graph = Graph()
    p = graph.add("Placeholder", name="p", attrs={"dtype": BOOL, "shape": ShapeAttr(())}).output()
    attrs = {"dtype": FLOAT, "shape": ShapeAttr((width, width))}
    x = graph.add("Placeholder", name="x", attrs=attrs).output()
    weights = np.random.default_rng(0).normal(0, width**-0.5, (width, width)).astype(np.float32)
    w = graph.constant(weights, "w")
    pred = graph.add("Identity", [p], "pred", attrs={"T": BOOL}).output()
    data, wide = (graph.add("Switch", [v, pred], f"switch_{v.node.name}", attrs={"T": FLOAT}) for v in (x, w))
    text = odd(graph, data.output(1), "odd")
    yes = graph.add("MatMul", [text, wide.output(1)], "yes", attrs={"T": FLOAT}).output()
    square = graph.add("MatMul", [data.output(0), data.output(0)], "square", attrs={"T": FLOAT})
    no = graph.add("Tanh", [square], "no", attrs={"T": FLOAT}).output()
    merge = graph.add("Merge", [no, yes], "merge", attrs={"T": FLOAT, "N": 2}).output()
    y = graph.add("Neg", [odd(graph, merge, "after")], "y", attrs={"T": FLOAT}).output()
    return graph, p, x, y


def test_branches_of_tf1_are_cut_when_they_are_taken() -> None:
    graph, p, x, y = branched()
    compiled = find("litert").compile(graph, [p, x], [y])
    array = np.random.default_rng(1).uniform(-1, 1, (128, 128)).astype(np.float32)
    for taken, heavy in ((True, "yes"), (False, "square"), (True, "yes")):
        feeds = [np.array(taken), array]
        (expected,) = Plan(graph, [y], [p, x]).run(dict(zip((p, x), feeds, strict=True)))
        np.testing.assert_allclose(compiled.run(feeds)[0], expected, rtol=1e-4, atol=1e-4)
        assert compiled.placement[heavy] == "litert"
    assert compiled.placement["merge"] == compiled.placement["odd/text"] == "reference"
    assert "yes" not in compiled.reasons
    assert "AsString" in compiled.reasons["odd/text"]


def test_branches_that_cannot_be_told_apart_stay_where_they_are() -> None:
    """One that prints has an effect; the interpreter runs all of it, and says so."""
    graph, p, x, y = branched()
    node = graph.node("yes")
    printed = graph.add("Print", [node.inputs[0]], "print", attrs={"T": FLOAT, "U": ()}).output()
    node.set_input(0, printed)
    compiled = find("litert").compile(graph, [p, x], [y])
    array = np.zeros((128, 128), np.float32)
    (expected,) = Plan(graph, [y], [p, x]).run({p: np.array(False), x: array})
    np.testing.assert_allclose(compiled.run([np.array(False), array])[0], expected)
    assert compiled.placement["yes"] == "reference"
    assert compiled.reasons["yes"]


def test_bodies_inside_bodies() -> None:
    """A loop in a function that another loop calls: the innermost layer is the engine's."""
    inner = functional_loop()
    names = {f.name: f for f in inner.functions.values()}
    assert set(names) == {"goes_on", "turn"}
    text = graphdef.to_text(inner)
    called = function(
        "twice",
        {"x": FLOAT, "w": FLOAT},
        [
            constant("start", 0),
            node("loop", "StatelessWhile", "start:output:0", "x", "w")
            + " attr { key: 'T' value { list { type: 3 type: 1 type: 1 } } }"
            + " attr { key: 'cond' value { func { name: 'goes_on' } } }"
            + " attr { key: 'body' value { func { name: 'turn' } } }",
        ],
        {"y": "loop:output:1"},
    )
    text = text.replace("library {", f"library {{ {called} ", 1)
    call = node("call", "StatefulPartitionedCall", "x", "w", Tin=(FLOAT, FLOAT), Tout=(FLOAT,), f="@twice")
    text += f" node {{ {call} }}"
    graph = graphdef.from_text(text)
    graph.inputs, graph.outputs = [graph.value("x")], [graph.value("call")]
    session = Session(graph, "litert")
    expected = Session(graph, "reference").run(None, {"x": sample()})[0]
    np.testing.assert_allclose(session.run(None, {"x": sample()})[0], expected, rtol=1e-4, atol=1e-5)
    assert session.placement["turn/layer"] == "litert"


def test_a_loop_inside_a_loop() -> None:
    graph = Graph()
    attrs = {"dtype": FLOAT, "shape": ShapeAttr((4, WIDTH))}
    x = graph.add("Placeholder", name="x", attrs=attrs).output()
    weights = np.random.default_rng(0).normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
    w = graph.constant(weights, "w")

    def counted(name: str, start: Value, body: Any, weights: Value) -> Value:
        zero, one, limit = (graph.constant(np.int32(n), f"{name}/n{n}") for n in range(3))
        if name == "inner":
            zero, one, limit = (entered(graph, "outer", v) for v in (zero, one, limit))
        one, limit, inside = (entered(graph, name, v) for v in (one, limit, weights))
        return while_loop(
            graph,
            name,
            [zero, start],
            lambda m: graph.add("Less", [m[0], limit], f"{name}/less").output(),
            lambda v: [graph.add("AddV2", [v[0], one], f"{name}/add").output(), body(v[1], inside)],
        )[1]

    def layer(v: Value, w: Value) -> Value:
        y = graph.add("MatMul", [odd(graph, v, "odd"), w], "layer", attrs={"T": FLOAT}).output()
        return graph.add("Tanh", [y], "bound", attrs={"T": FLOAT}).output()

    y = counted("outer", x, lambda v, inside: counted("inner", v, layer, inside), w)
    compiled = find("litert").compile(graph, [x], [y])
    for _ in range(2):
        (expected,) = Plan(graph, [y], [x]).run({x: sample()})
        np.testing.assert_allclose(compiled.run([sample()])[0], expected, rtol=1e-4, atol=1e-5)
    assert compiled.placement["layer"] == "litert", compiled.reasons
