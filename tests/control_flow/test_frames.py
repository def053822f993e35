"""Loops of TF1 as steps of a schedule."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loops import entered, while_loop
from thinflow.control_flow.frames import Loop, schedule
from thinflow.errors import GraphError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Value


def number(graph: Graph, value: int, name: str = "c") -> Value:
    return graph.constant(np.array(value, np.int32), name)


def counting(graph: Graph, name: str, limit: Value) -> list[Value]:
    """A loop that counts up to a value from outside."""
    one = number(graph, 1, "one")
    return while_loop(
        graph,
        name,
        [number(graph, 0, "zero")],
        lambda v: graph.add("Less", [v[0], entered(graph, name, limit)], f"{name}/Less").output(),
        lambda v: [graph.add("Add", [v[0], entered(graph, name, one)], f"{name}/Add").output()],
    )


def test_a_graph_without_loops_is_its_nodes() -> None:
    graph = Graph()
    a = number(graph, 1)
    b = graph.add("Neg", [a])
    assert schedule(graph, [a.node, b]) == [a.node, b]


def test_a_loop_is_one_step() -> None:
    graph = Graph()
    limit = number(graph, 3, "limit")
    (result,) = counting(graph, "loop", limit)
    after = graph.add("Neg", [result])
    steps = schedule(graph, graph)
    (loop,) = [s for s in steps if isinstance(s, Loop)]
    assert (loop.name, len(loop.enters), len(loop.merges), len(loop.exits)) == ("loop", 3, 1, 1)
    assert [s.name for s in loop.head] == ["loop/Less", "loop/LoopCond"]
    assert [s.name for s in loop.body] == ["loop/Switch", "loop/Identity", "loop/Add"]
    assert [s.name for s in loop.ending] == ["loop/Switch"]
    assert not loop.free
    assert steps.index(loop) < steps.index(after)
    assert {s.name for s in steps if not isinstance(s, Loop)} == {"limit", "one", "zero", "Neg"}


def test_loops_nest() -> None:
    graph = Graph()
    total = while_loop(
        graph,
        "outer",
        [number(graph, 0), number(graph, 0)],
        lambda v: graph.add("Less", [v[0], entered(graph, "outer", number(graph, 4))]).output(),
        lambda v: [
            graph.add("Add", [v[0], entered(graph, "outer", number(graph, 1))]).output(),
            graph.add("Add", [v[1], *_inner(graph, v[0])]).output(),
        ],
    )[1]
    (outer,) = [s for s in schedule(graph, graph) if isinstance(s, Loop)]
    (inner,) = [s for s in outer.body if isinstance(s, Loop)]
    assert (outer.name, inner.name) == ("outer", "inner")
    assert Plan(graph, [total]).run({})[0] == 0 + 1 + 2 + 3
    assert inner.condition in Plan(graph, [total]).nodes


def _inner(graph: Graph, limit: Value) -> list[Value]:
    """A loop inside another that counts up to one of its variables."""
    zero = graph.add("ZerosLike", [limit]).output()
    return while_loop(
        graph,
        "inner",
        [zero],
        lambda v: graph.add("Less", [v[0], entered(graph, "inner", limit)]).output(),
        lambda v: [
            graph.add(
                "Add", [v[0], entered(graph, "inner", graph.add("OnesLike", [limit]).output())]
            ).output()
        ],
    )


def test_a_constant_may_be_read_without_an_enter() -> None:
    graph = Graph()
    one, limit = number(graph, 1, "one"), number(graph, 5, "limit")
    (result,) = while_loop(
        graph,
        "loop",
        [number(graph, 0, "zero")],
        lambda v: graph.add("Less", [v[0], limit]).output(),
        lambda v: [graph.add("Add", [v[0], one]).output()],
    )
    (loop,) = [s for s in schedule(graph, graph) if isinstance(s, Loop)]
    assert {v.name for v in loop.free} == {"one", "limit"}
    assert Plan(graph, [result]).run({})[0] == 5


def test_a_loop_that_was_cut_is_refused() -> None:
    graph = Graph()
    enter = graph.add("Enter", [number(graph, 0)], attrs={"frame_name": "loop"})
    with pytest.raises(GraphError, match="the loop 'loop' has no LoopCond"):
        schedule(graph, [*graph, graph.add("Exit", [enter])])


def test_a_frame_has_one_place() -> None:
    graph = Graph()
    (first,) = counting(graph, "a", number(graph, 2))
    outside = graph.add("Enter", [first], attrs={"frame_name": "b"})
    inside = graph.add("Enter", [outside], attrs={"frame_name": "c"})
    graph.add("Enter", [inside], attrs={"frame_name": "b"})
    with pytest.raises(GraphError, match="the frame 'b' is entered from two places"):
        schedule(graph, graph)
