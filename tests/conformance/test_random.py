"""Random networks on every engine, cut at random places, beside the interpreter.

A failing example is printed as a `Network(...)`; `Network(...).graph()` is the graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.networks import Network, networks
from thinflow.compare.differences import difference
from thinflow.engines import find, partition
from thinflow.engines._regions import Backend, compile_regions
from thinflow.engines.session import Session
from thinflow.interpreter import Plan
from thinflow.ir.attrs import FunctionAttr, ShapeAttr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node
from thinflow.ir.text import graph_text
from thinflow.ir.types import BOOL, FLOAT

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-4
"""Relative to the largest value; norms by the numbers of the batch enlarge differences of rounding."""
ENGINES = [
    pytest.param(name, marks=pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is missing"))
    for name, package in (("litert", "ai_edge_litert"), ("onnxruntime", "onnxruntime"))
]


def assert_close(found: list[Array], expected: list[Array]) -> None:
    for a, b in zip(expected, found, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        gap = difference(a, b)
        assert gap.largest <= TOLERANCE * max(1.0, np.abs(a).max(initial=0.0)), gap


def backend_of(engine: str) -> Backend:
    module = import_module(f"thinflow.engines.{engine}")
    found: Backend = module._backend() if hasattr(module, "_backend") else module._BACKEND
    return found


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=60)
@given(network=networks(), every=st.integers(2, 6), small=st.booleans())
def test_networks_cut_anywhere_agree(engine: str, network: Network, every: int, small: bool) -> None:
    """Each n-th node is refused, so that regions begin and end where no rule would have them."""
    graph = network.graph()
    note(graph_text(graph))
    position = {node: i for i, node in enumerate(graph)}
    own = backend_of(engine)

    def unsupported(graph: Graph, nodes: Iterable[Node]) -> dict[Node, str]:
        nodes = list(nodes)
        return own.unsupported(graph, nodes) | {n: "not today" for n in nodes if position[n] % every == 0}

    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(partition, "too_small", lambda _: "")
        compiled = compile_regions(
            replace(own, unsupported=unsupported), graph, graph.inputs, graph.outputs, 1
        )
    for batch in (2, 1):
        arrays = list(network.sample(batch=batch).values())
        expected = Plan(graph, graph.outputs, graph.inputs).run(dict(zip(graph.inputs, arrays, strict=True)))
        assert_close(compiled.run(arrays), expected)
    left = {n for n, where in compiled.placement.items() if where == "reference"}
    assert left <= set(compiled.reasons)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=40)
@given(network=networks(), every=st.integers(2, 6), taken=st.booleans())
def test_bodies_cut_anywhere_agree(engine: str, network: Network, every: int, taken: bool) -> None:
    """The network is one branch of an If that no engine may run whole; the other branch doubles the input."""
    body = network.graph()
    note(graph_text(body))
    graph = branched(body)
    own = backend_of(engine)

    def unsupported(graph: Graph, nodes: Iterable[Node]) -> dict[Node, str]:
        nodes = list(nodes)
        odd = (n for n in nodes if n.op == "StatelessIf" or crc32(n.name.encode()) % every == 0)
        return own.unsupported(graph, nodes) | dict.fromkeys(odd, "not today")

    backend = replace(own, unsupported=unsupported)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "too_small", lambda _: "")
        compiled = compile_regions(backend, graph, graph.inputs, graph.outputs, 1)
        for batch in (2, 1, 2, 3):
            arrays = [np.array(taken), network.sample(batch=batch)["x"]]
            feeds = dict(zip(graph.inputs, arrays, strict=True))
            assert_close(compiled.run(arrays), Plan(graph, graph.outputs, graph.inputs).run(feeds))
    assert compiled.placement["choice"] == "reference"


def branched(body: Graph) -> Graph:
    """If p: the first output of a network, else twice its input."""
    other = Graph()
    x = other.add("_Arg", name="x", attrs={"T": FLOAT}).output()
    double = other.add("AddV2", [x, x], "double", attrs={"T": FLOAT}).output()
    graph = Graph()
    graph.functions = {
        "network": Function("network", body, body.inputs[:1], body.outputs[:1]),
        "other": Function("other", other, [x], [double]),
    }
    p = graph.add("Placeholder", name="p", attrs={"dtype": BOOL, "shape": ShapeAttr(())}).output()
    image = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr(None)}).output()
    attrs = {"Tcond": BOOL, "Tin": (FLOAT,), "Tout": (FLOAT,)}
    branches = {"then_branch": FunctionAttr("network", {}), "else_branch": FunctionAttr("other", {})}
    choice = graph.add("StatelessIf", [p, image], "choice", attrs=attrs | branches)
    graph.inputs, graph.outputs = [p, image], [choice.output()]
    return graph


@settings(max_examples=60)
@given(networks())
def test_all_engines_agree(network: Network) -> None:
    """Every engine that is installed, as shipped, on the same inputs."""
    graph = network.graph()
    note(graph_text(graph))
    feed = network.sample(batch=2)
    expected = Session(graph, "reference").run(None, feed)
    for parameter in ENGINES:
        (engine,) = parameter.values
        if find_spec("ai_edge_litert" if engine == "litert" else "onnxruntime") is not None:
            assert find(str(engine)).available() is None
            assert_close(Session(graph, str(engine)).run(None, feed), expected)
