"""Random small graphs through random pipelines of every transform: numbers, structure, idempotence,
determinism.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.random_calls import OPTIONS, calls
from tests.transforms.support import apply, assert_same_numbers, to_bytes
from thinflow.analysis.shapes import port_count
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.check import find_problems
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.text import graph_text
from thinflow.ir.types import FLOAT, INT32
from thinflow.transforms import find, resolve

SIZE = 4
UNARY = ("Identity", "Relu", "Neg", "Square", "Tanh", "StopGradient")
BINARY = ("Add", "AddV2", "Mul", "Sub", "Maximum", "MatMul", "BiasAdd")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A graph of square float matrices, scrambled in file order, with control edges, duplicates and
    leftovers.
    """
    graph = Graph()
    values: list[Value] = []
    attrs = {"dtype": FLOAT, "shape": ShapeAttr((SIZE, SIZE))}
    inputs = [
        graph.add("Placeholder", name=f"x{i}", attrs=attrs).output() for i in range(draw(st.integers(1, 2)))
    ]
    values += inputs
    for index in range(draw(st.integers(1, 3))):
        numbers = (
            np.random.default_rng(draw(st.integers(0, 2))).standard_normal((SIZE, SIZE)).astype(np.float32)
        )
        values.append(graph.constant(numbers, f"w{index}"))
    bias = graph.constant(np.arange(SIZE, dtype=np.float32), "bias")
    for index in range(draw(st.integers(1, 10))):
        node = _random_node(draw, graph, values, bias, f"node{index}")
        values.extend(node.output(port) for port in range(2 if node.op in {"IdentityN", "Split"} else 1))
    nodes = list(graph)
    for _ in range(draw(st.integers(0, 3))):
        early, late = sorted(draw(st.tuples(st.integers(0, len(nodes) - 1), st.integers(0, len(nodes) - 1))))
        if early < late and nodes[late].op != "Placeholder":
            nodes[late].add_control_input(nodes[early])
    graph.reorder(draw(st.permutations(nodes)))
    produced = [v for v in values if v not in inputs]
    graph.inputs = inputs
    graph.outputs = draw(st.lists(st.sampled_from(produced), min_size=1, max_size=3, unique=True))
    return graph


def _random_node(draw: st.DrawFn, graph: Graph, values: list[Value], bias: Value, name: str) -> Node:
    def pick() -> Value:
        return draw(st.sampled_from(values))

    kind = draw(st.sampled_from((*UNARY, *BINARY, "IdentityN", "Split")))
    notes = {"_note": 1} if draw(st.booleans()) else {}
    if kind in UNARY:
        return graph.add(kind, [pick()], name, attrs={"T": FLOAT, **notes})
    if kind == "IdentityN":
        return graph.add(kind, [pick(), pick()], name, attrs={"T": (FLOAT, FLOAT)})
    if kind == "Split":
        axis = graph.constant(np.int32(0), f"{name}/axis")
        halves = graph.add(kind, [axis, pick()], f"{name}/halves", attrs={"T": FLOAT, "num_split": 2})
        again = graph.constant(np.int32(0), f"{name}/again")
        both = [halves.output(1), halves.output(0), again]
        return graph.add("ConcatV2", both, name, attrs={"T": FLOAT, "N": 2, "Tidx": INT32})
    second = bias if kind == "BiasAdd" else pick()
    return graph.add(kind, [pick(), second], name, attrs={"T": FLOAT, **notes})


@settings(max_examples=150)
@given(graphs(), st.lists(calls(), min_size=1, max_size=4))
def test_pipelines_keep_what_the_graph_computes(graph: Graph, pipeline: list[str]) -> None:
    before = graph_text(graph)
    result = apply(graph, pipeline)
    after = result.graph
    assert graph_text(graph) == before, "the argument was changed"
    assert find_problems(after, port_count) == []
    assert to_bytes(apply(graph, pipeline).graph) == to_bytes(after)
    steps = [step.transform for step in resolve(pipeline)]
    if all(t.exact for t in steps):
        # Twice the sum: later steps may enlarge what earlier ones left.
        assert_same_numbers(graph, after, 2 * sum(t.tolerance for t in steps))


@settings(max_examples=150)
@given(graphs(), calls())
def test_a_second_run_changes_nothing(graph: Graph, call: str) -> None:
    (step,) = resolve(call)
    first = apply(graph, call)
    if (first.changes == 0) != (graph_text(first.graph) == graph_text(graph)):
        # Text shows eight numbers of a constant; the bytes show them all.
        assert to_bytes(first.graph) != to_bytes(graph), f"{call}: the ledger says {first.changes} changes"
    if step.transform.repeatable:
        second = apply(first.graph, call)
        assert second.changes == 0, [str(e) for s in second.steps for e in s.trace.changes]
        assert to_bytes(second.graph) == to_bytes(first.graph)


def test_every_option_string_is_valid() -> None:
    for name, texts in OPTIONS.items():
        for text in texts:
            assert isinstance(resolve(name + text)[0].transform, find(name))
