"""Random networks with everything a file may hold, through random pipelines of every transform.

Convolutions, norms, branches, shared weights, several outputs, control edges, calls of functions, and
names that TensorFlow would not take. Whatever the pipeline: the same numbers, a valid result, the same bytes
every time, and nothing left to do for a second run.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.networks import Network, networks
from tests.transforms.golden import parse_graph
from tests.transforms.random_calls import OPTIONS, calls
from tests.transforms.support import apply, assert_same_numbers, to_bytes
from thinflow.analysis.shapes import infer_shapes, port_count
from thinflow.formats import graphdef
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.check import find_problems
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph
from thinflow.ir.text import graph_text
from thinflow.ir.types import FLOAT, INT32
from thinflow.rewrite.rule import Transform
from thinflow.transforms import resolve
from thinflow.wire import protos

ODD = ("a^b", "with blank", "größe", "名前", "x#y", "_low", "-dash", "l" + "o" * 300 + "ng", "dots..", "q?")
"""Parts of names; in a file they may hold anything."""
LOOSE = 1e-4
"""Relative: norms right after each other enlarge rounding."""


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, Network]:
    """A network, dressed up, as it comes from a file."""
    network = draw(networks(steps=6))
    graph = network.graph()
    _several_outputs(graph)
    if draw(st.booleans()):
        _call(graph)
    _control_edges(draw, graph)
    odd = draw(st.booleans())
    loaded = _renamed(graph, draw(st.permutations(ODD))) if odd else graphdef.from_bytes(to_bytes(graph))
    _declare(loaded, graph, odd)
    note(graph_text(loaded))
    return loaded, network


def _several_outputs(graph: Graph) -> None:
    """The first output leaves through a Split whose halves are put back in the other order."""
    value = graph.outputs[0]
    flat = graph.add(
        "Reshape", [value, graph.constant(np.int32([-1]), "all")], "flat", attrs={"T": FLOAT, "Tshape": INT32}
    )
    twice = graph.add("Pack", [flat, flat], "twice", attrs={"T": FLOAT, "N": 2})
    axis = graph.constant(np.int32(0), "split_axis")
    halves = graph.add("Split", [axis, twice], "halves", attrs={"T": FLOAT, "num_split": 2})
    swapped = [halves.output(1), halves.output(0), graph.constant(np.int32(0), "join_axis")]
    joined = graph.add("ConcatV2", swapped, "joined", attrs={"T": FLOAT, "N": 2, "Tidx": INT32})
    graph.outputs = [joined.output(), *graph.outputs[1:]]


def _call(graph: Graph) -> None:
    """The first output goes through a function of the library."""
    body = parse_graph(
        "x = _Arg() {T=float, index=0}\nk = Const() {dtype=float, value=float[]{2}}\n"
        "i = Identity(k) {T=float}\nm = Mul(x, i) {T=float}\nn = Neg(m) {T=float}"
    )
    ends = [body.value("x")], [body.value("n"), body.value("x")]
    types = (FLOAT,), (FLOAT, FLOAT)
    graph.functions = {"twice_negative": Function("twice_negative", body, *ends, (), *types)}
    attrs = {"f": FunctionAttr("twice_negative"), "Tin": (FLOAT,), "Tout": (FLOAT, FLOAT)}
    call = graph.add("PartitionedCall", [graph.outputs[0]], "call", attrs=attrs)
    both = graph.add("AddV2", [call.output(0), call.output(1)], "both", attrs={"T": FLOAT})
    graph.outputs = [both.output(), *graph.outputs[1:]]


def _control_edges(draw: st.DrawFn, graph: Graph) -> None:
    nodes = list(graph)
    for _ in range(draw(st.integers(0, 4))):
        first, second = sorted(draw(st.tuples(*[st.integers(0, len(nodes) - 1)] * 2)))
        if first < second and nodes[second].op != "Placeholder":
            nodes[second].add_control_input(nodes[first])


def _renamed(graph: Graph, parts: list[str]) -> Graph:
    """The graph as if read from a file with other names."""
    message = protos.message("GraphDef")()
    message.ParseFromString(to_bytes(graph))
    names = {n.name: f"{n.name}/{parts[i % len(parts)]}" for i, n in enumerate(message.node)}
    for n in message.node:
        n.name = names[n.name]
        for i, reference in enumerate(n.input):
            mark = "^" if reference.startswith("^") else ""
            bare, colon, port = reference.removeprefix("^").partition(":")
            n.input[i] = f"{mark}{names[bare]}{colon}{port}"
    return graphdef.from_bytes(message.SerializeToString())


def _declare(loaded: Graph, like: Graph, odd: bool) -> None:
    """Inputs and outputs at the same places of the file; names may differ."""
    places = {n.name: i for i, n in enumerate(like)}
    nodes = list(loaded)
    loaded.inputs = [nodes[places[v.node.name]].output(v.port) for v in like.inputs]
    loaded.outputs = [nodes[places[v.node.name]].output(v.port) for v in like.outputs]
    infer_shapes(loaded)


def _keeps_numbers(steps: list[Transform]) -> bool:
    return all(t.exact for t in steps) and not any(t.renames for t in steps)


@settings(max_examples=40)
@given(graphs(), st.lists(calls(), min_size=1, max_size=3))
def test_pipelines(made: tuple[Graph, Network], pipeline: list[str]) -> None:
    graph, _ = made
    known = find_problems(graph, port_count)
    before = graph_text(graph)
    result = apply(graph, pipeline)
    assert graph_text(graph) == before, "the argument was changed"
    assert [p for p in find_problems(result.graph, port_count) if p not in known] == []
    assert to_bytes(apply(graph, pipeline).graph) == to_bytes(result.graph)
    if _keeps_numbers([s.transform for s in resolve(pipeline)]):
        assert_same_numbers(graph, result.graph, LOOSE)


@settings(max_examples=40)
@given(graphs(), calls())
def test_a_second_run_changes_nothing(made: tuple[Graph, Network], call: str) -> None:
    graph, _ = made
    first = apply(graph, call)
    if all(s.transform.repeatable for s in resolve(call)):
        second = apply(first.graph, call)
        assert second.changes == 0, [str(e) for s in second.steps for e in s.trace.changes]
        assert to_bytes(second.graph) == to_bytes(first.graph)


def test_every_transform_takes_part() -> None:
    """The strategy names all transforms but those that need files or names."""
    from thinflow.transforms import names

    assert set(OPTIONS) <= set(names())
