"""What the golden cases of fold_batch_norms cannot show: other types, long chains, shared weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.support import apply, assert_same_numbers, reasons, step
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.types import dtype

Array = np.ndarray[Any, Any]
CHANNELS = 4


def start(kind: str = "float", shape: tuple[int | None, ...] = (1, 5, 5, 3)) -> Graph:
    graph = Graph()
    attrs = {"dtype": dtype(kind), "shape": ShapeAttr(shape)}
    graph.inputs = [graph.add("Placeholder", name="x", attrs=attrs).output()]
    return graph


def numbers(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(0.5, 2.0, shape).astype(dtype(kind).numpy())


def conv(graph: Graph, kind: str = "float", name: str = "conv", weights: Value | None = None) -> Value:
    weights = weights or graph.constant(numbers((3, 3, 3, CHANNELS), kind, 1), "w")
    attrs = {"T": dtype(kind), "padding": b"SAME", "strides": (1, 1, 1, 1)}
    return graph.add("Conv2D", [graph.inputs[0], weights], name, attrs=attrs).output()


def then(graph: Graph, op: str, x: Value, constant: Array, name: str, *, first: bool = False) -> Value:
    other = graph.constant(constant, f"{name}/c")
    inputs = [other, x] if first else [x, other]
    return graph.add(op, inputs, name, attrs={"T": dtype(constant.dtype)}).output()


@pytest.mark.parametrize(
    ("kind", "tolerance"), [("half", 4e-3), ("bfloat16", 3e-2), ("float", 1e-5), ("double", 1e-12)]
)
def test_every_float_type(kind: str, tolerance: float) -> None:
    graph = start(kind)
    value = then(graph, "Sub", conv(graph, kind), numbers((CHANNELS,), kind, 2), "sub")
    value = then(graph, "RealDiv", value, numbers((1, 1, 1, CHANNELS), kind, 3), "div")
    value = then(graph, "Mul", value, numbers((), kind, 4), "mul", first=True)
    graph.outputs = [then(graph, "BiasAdd", value, numbers((CHANNELS,), kind, 5), "y")]
    after, _ = step(graph, "fold_batch_norms")
    assert [n.op for n in after] == ["Placeholder", "Const", "Conv2D", "Const", "BiasAdd"]
    assert {n.tensor.dtype.name for n in after if n.tensor} == {kind}
    assert_same_numbers(graph, after, tolerance)


def test_what_half_cannot_hold_is_refused() -> None:
    graph = start("half")
    value = conv(graph, "half")
    graph.outputs = [then(graph, "Mul", value, np.full(CHANNELS, 60000, np.float16), "y")]
    after, report = step(graph, "fold_batch_norms")
    assert not report.changes
    assert len(after) == len(graph)
    assert reasons(report) == {"y": "the result would have values that half cannot hold"}


def test_random_chains() -> None:
    ops = ["Mul", "Add", "AddV2", "Sub", "RealDiv", "Div", "BiasAdd"]
    shapes = [(), (1,), (CHANNELS,), (1, 1, 1, CHANNELS), (1, 1)]
    random = np.random.default_rng(7)
    for trial in range(40):
        graph = start()
        value = conv(graph)
        for i in range(int(random.integers(1, 7))):
            op = str(random.choice(ops))
            shape = (CHANNELS,) if op == "BiasAdd" else shapes[random.integers(len(shapes))]
            first = op in {"Mul", "Add", "AddV2", "Sub"} and bool(random.integers(2))
            value = then(graph, op, value, numbers(shape, "float", trial + i), f"s{i}", first=first)
        graph.outputs = [value]
        after, report = step(graph, "fold_batch_norms")
        assert_same_numbers(graph, after, 1e-5)
        scales = any(n.op in {"Mul", "Div", "RealDiv"} for n in graph) or any(
            n.op == "Sub" and n.inputs[0].node.op == "Const" for n in graph
        )
        assert (report.changes > 0) == scales
        assert not scales or len(after) <= 5


def test_chain_of_thousands() -> None:
    graph = start()
    value = conv(graph)
    for i in range(3000):
        value = then(
            graph,
            "Mul" if i % 2 else "Add",
            value,
            np.full(CHANNELS, 1 + (i % 3 - 1) * 1e-3, np.float32),
            f"s{i}",
        )
    graph.outputs = [value]
    after, report = step(graph, "fold_batch_norms")
    assert len(after) == 5
    assert report.changes == 3000
    assert_same_numbers(graph, after, 1e-3)


def test_every_sharer_of_a_filter_keeps_its_numbers() -> None:
    graph = start()
    weights = graph.constant(numbers((3, 3, 3, CHANNELS), "float", 1), "w")
    convs = [conv(graph, name=f"conv{i}", weights=weights) for i in range(4)]
    scaled = [
        then(graph, "Mul", c, numbers((CHANNELS,), "float", 10 + i), f"y{i}") for i, c in enumerate(convs[:3])
    ]
    graph.outputs = [*scaled, graph.add("Relu", [convs[3]], "y3", attrs={"T": dtype("float")}).output()]
    result = apply(graph, "fold_batch_norms")
    assert not any(n.op == "Mul" for n in result.graph)
    assert_same_numbers(graph, result.graph, 1e-5)


def test_duplicate_only_when_somebody_else_reads() -> None:
    graph = start()
    value = conv(graph)
    graph.outputs = [then(graph, "Mul", value, numbers((CHANNELS,), "float", i), f"y{i}") for i in range(3)]
    after, _ = step(graph, "fold_batch_norms(duplicate_shared=true)")
    assert sum(n.op == "Conv2D" for n in after) == 3
    assert not any(n.op == "Mul" for n in after)
    assert_same_numbers(graph, after, 1e-5)


def test_conv_that_is_an_output_can_be_duplicated() -> None:
    graph = start()
    value = conv(graph)
    graph.outputs = [value, then(graph, "Mul", value, numbers((CHANNELS,), "float", 1), "y")]
    after, _ = step(graph, "fold_batch_norms(duplicate_shared=true)")
    assert [v.name for v in after.outputs] == ["conv", "y"]
    assert {v.node.op for v in after.outputs} == {"Conv2D"}
    assert_same_numbers(graph, after, 1e-5)


def test_constants_that_wait_hand_their_control_edges_on() -> None:
    graph = start()
    ready = graph.add("NoOp", name="ready")
    value = conv(graph)
    value = then(graph, "Mul", value, numbers((CHANNELS,), "float", 1), "mul")
    graph.outputs = [then(graph, "Sub", value, numbers((CHANNELS,), "float", 2), "y")]
    graph.node("y/c").add_control_input(ready)
    after, _ = step(graph, "fold_batch_norms")
    assert [n.name for n in after.node("conv_bias").control_inputs] == ["ready"]
