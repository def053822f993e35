"""Random networks through everything: engines, files, the float pipeline, eight bits.

A failing example is printed as a `Network(...)`; `Network(...).graph()` is the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings

from tests.networks import Network, networks
from tests.night import AT_NIGHT
from thinflow.compare.differences import difference
from thinflow.engines.litert import Model
from thinflow.engines.session import Session
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph, Value
from thinflow.ir.text import graph_text
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.litert import FloatModel, float_model, quantized_model
from thinflow.optimize.samples import Samples

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-4
"""Relative to the largest value; norms by the numbers of the batch enlarge differences of rounding."""
FEWEST_DECIBELS = 15
CALIBRATION = 16


def build(network: Network) -> Graph:
    graph = network.graph()
    note(graph_text(graph))
    return graph


def outputs(graph: Graph, network: Network, engine: str = "reference", batch: int = 2) -> list[Array]:
    return Session(graph, engine).run(None, network.sample(batch=batch))


def assert_close(found: list[Array], expected: list[Array], tolerance: float = TOLERANCE) -> None:
    for a, b in zip(expected, found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        gap = difference(a, b)
        assert gap.largest <= tolerance * max(1.0, np.abs(a).max(initial=0.0)), gap


@settings(max_examples=150)
@given(networks())
def test_engines_agree(network: Network) -> None:
    graph = build(network)
    session = Session(graph, "litert")
    for batch in (2, 1, 3):
        assert_close(session.run(None, network.sample(batch=batch)), outputs(graph, network, batch=batch))
    assert set(session.placement.values()) <= {"litert"}, session.reasons


@settings(max_examples=150)
@given(networks())
def test_files_lose_nothing(network: Network) -> None:
    graph = build(network)
    data = graphdef.to_bytes(graph)
    for again in (graphdef.from_bytes(data), graphdef.from_text(graphdef.to_text(graph))):
        assert graphdef.to_bytes(again) == data
        again.inputs = [again.value(v.name) for v in graph.inputs]
        again.outputs = [again.value(v.name) for v in graph.outputs]
        assert_close(outputs(again, network), outputs(graph, network), 0.0)


@settings(max_examples=150)
@given(networks())
def test_the_float_pipeline(network: Network) -> None:
    graph = build(network)
    first = float_graph(graph, samples=samples(graph, network, 1))
    assert not first.note
    assert not [step.error for step in first.steps if step.error]
    assert_close(outputs(first.graph, network), outputs(graph, network))
    second = float_graph(first.graph, verify=False)
    assert second.changes == 0, [str(e) for s in second.steps for e in s.trace.changes]
    assert graphdef.to_bytes(second.graph) == graphdef.to_bytes(first.graph)


def samples(graph: Graph, network: Network, count: int) -> Samples:
    def walk() -> Iterator[dict[Value, Array]]:
        return ({graph.inputs[0]: network.sample(i, batch=1)["x"]} for i in range(count))

    return Samples(walk, count, synthetic=False)


@settings(max_examples=100 if AT_NIGHT else 40)
@given(networks())
def test_eight_bits(network: Network) -> None:
    graph = build(network)
    graph = float_graph(graph, verify=False).graph
    data = samples(graph, network, CALIBRATION)
    model = float_model(graph, data)
    int8 = quantized_model(model, data)
    widest = max((r.high - r.low for r in int8.calibration.ranges.values()), default=0.0)
    for name, signal, noise in powers(model, int8.content, data):
        decibels = 10 * np.log10(max(signal, 1e-30) / max(noise, 1e-30))
        # What is left of a cancellation (a mean near 0, x - x) is as small as the rounding of what cancelled.
        cancelled = noise**0.5 <= widest / 255
        assert decibels > FEWEST_DECIBELS or cancelled, f"{name}: {decibels:.1f} dB, {int8.warnings}"


@settings(max_examples=60)
@given(networks())
def test_open_batches(network: Network) -> None:
    """A file made of a graph with an open batch, float and in eight bits, takes any after a resize."""
    network = replace(network, batch=None)
    graph = float_graph(build(network), verify=False).graph
    model = float_model(graph, samples(graph, network, 2))
    assert not model.core.outside
    assert not model.fixed
    int8 = quantized_model(model, samples(graph, network, 2))
    for batch in (3, 1):
        expected = outputs(graph, network, batch=batch)
        assert_close(resized(model.content, network.sample(batch=batch)["x"]), expected)
        found = resized(int8.content, network.sample(batch=batch)["x"])
        assert [a.shape for a in found] == [a.shape for a in expected]


def interpreter_of(content: bytes) -> Any:
    return pytest.importorskip("ai_edge_litert.interpreter").Interpreter(model_content=content)


def resized(content: bytes, x: Array) -> list[Array]:
    """What LiteRT answers once the input has another size, which the file must allow."""
    interpreter = interpreter_of(content)
    (taken,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(taken["index"], x.shape, strict=True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(taken["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def powers(model: FloatModel, content: bytes, data: Samples) -> Iterator[tuple[str, float, float]]:
    """Name, mean square and mean square of the error of each output over all samples."""
    before, after = Model(model.content), Model(content)
    runs = [(before.run(x), after.run(x)) for x in map(model.core.before, data)]
    for i, value in enumerate(model.core.outputs):
        exact = np.stack([a[i] for a, _ in runs]).astype(np.float64)
        yield value.name, float(np.mean(exact**2)), float(np.mean((exact - [b[i] for _, b in runs]) ** 2))


def test_every_kind_of_step_is_built() -> None:
    """Steps that do not fit are left out silently; none of them may never fit."""
    from tests.networks import KINDS

    for kind in KINDS:
        one, two = (
            Network(1, (5, 5, 3), 0, (("conv", 0, 1, 0),) * 2 + more) for more in ((), ((kind, 0, 0, 0),))
        )
        assert len(two.graph()) > len(one.graph()), kind


@pytest.mark.parametrize("batch", [1, None])
def test_a_network_can_be_built_again(batch: int | None) -> None:
    network = Network(batch, (5, 4, 2), 3, (("conv", 0, 1, 1), ("norm", 0, 0, 0), ("add", 1, 0, 0)))
    again = eval(repr(network))
    assert graphdef.to_bytes(again.graph()) == graphdef.to_bytes(network.graph())
