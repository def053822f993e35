"""Transforms that change names, order and edges: what the golden texts cannot show."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from tests.transforms.support import apply, assert_same_numbers, step, to_bytes
from thinflow.errors import ThinflowError, WriteError
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph, Versions
from thinflow.ir.text import graph_text
from thinflow.ir.types import FLOAT
from thinflow.ops._defaults import defaults_of
from thinflow.transforms import names, resolve
from thinflow.transforms.renaming import numbered
from thinflow.wire import protos

SMALL = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    a = Neg(x) {T=float}
    y = Relu(a) {T=float}
    inputs: x
    outputs: y
"""


def big_graph(nodes: int) -> Graph:
    """A chain of Identity nodes with as many twins, waiting for each other, in reverse file order."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT})
    value = twin = x.output()
    for index in range(nodes // 2):
        value = graph.add("Identity", [value], f"a{index}", attrs={"T": FLOAT}).output()
        twin = graph.add("Identity", [twin], f"b{index}", attrs={"T": FLOAT}).output()
    y = graph.add("Add", [value, twin], "y", attrs={"T": FLOAT})
    graph.inputs, graph.outputs = [x.output()], [y.output()]
    graph.reorder(list(graph)[::-1])
    return graph


@pytest.mark.parametrize(
    ("pipeline", "left"),
    [
        ("remove_nodes(op=Identity)", 2),
        ("merge_duplicate_nodes", 5002),
        ("strip_unused_nodes", 10_002),
        ("sort_by_execution_order", 10_002),
        ("sort_by_execution_order(stable=true)", 10_002),
        ("obfuscate_names", 10_002),
        ("remove_control_dependencies", 10_002),
        ("add_default_attributes", 10_002),
    ],
)
def test_long_chains(pipeline: str, left: int) -> None:
    assert len(apply(big_graph(10_000), pipeline).graph) == left


def test_a_thousand_names() -> None:
    graph = Graph()
    value = graph.add("Const", name="first").output()
    for index in range(998):
        value = graph.add("Identity", [value], f"long/name/{index}").output()
    value = graph.add("Identity", [value], "last").output()
    graph.inputs, graph.outputs = [graph.value("first")], [value]
    found = [n.name for n in apply(graph, "obfuscate_names").graph]
    assert found[0] == "first"
    assert found[-1] == "last"
    assert found[1:63] == list("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert found[63:65] == ["10", "11"]
    assert len(set(found)) == 1000


def test_base_62() -> None:
    name = numbered("")
    first = [next(name) for _ in range(4000)]
    assert (first[61], first[62], first[62 * 62 - 1], first[62 * 62]) == ("Z", "10", "ZZ", "100")


def test_the_mapping_is_the_way_back(tmp_path: Path) -> None:
    graph = parse_graph(SMALL)
    path = tmp_path / "names.json"
    after = apply(graph, [("obfuscate_names", {"mapping": path})]).graph
    mapping = json.loads(path.read_text("utf-8"))
    assert mapping == {"a": "0"}
    for old, new in mapping.items():
        after.rename(after.node(new), old)
    assert graph_text(after) == graph_text(graph)


def test_a_mapping_that_cannot_be_written(tmp_path: Path) -> None:
    graph = parse_graph("x = A()\noutputs: x")
    with pytest.raises(Exception, match=r"names.json: cannot be written|cannot be written") as caught:
        apply(graph, [("obfuscate_names", {"mapping": tmp_path / "no" / "names.json"})])
    assert isinstance(caught.value.__cause__ or caught.value, WriteError)


def test_the_file_around_the_nodes_survives_every_transform() -> None:
    graph = parse_graph(SMALL)
    graph.versions = Versions(1087, 12)
    message = protos.parse("GraphDef", to_bytes(graph))
    message.library.function.add().signature.name = "body"
    loaded = graphdef.from_bytes(protos.serialize(message))
    loaded.inputs, loaded.outputs = [loaded.value("x")], [loaded.value("y")]
    for name in names():
        try:
            (pipeline,) = resolve(name)
        except ValueError:
            continue  # it needs options
        if name == "target_runtime":
            continue  # it needs a release, and changes the versions on purpose
        after = protos.parse("GraphDef", to_bytes(apply(loaded, [pipeline.transform]).graph))
        assert after.versions == message.versions, name
        if name != "strip_unused_nodes":  # nothing calls the function
            assert after.library == message.library, name


def test_a_function_library_is_mentioned() -> None:
    graph = parse_graph("x = Placeholder() {dtype=float, shape=shape[2]}\ninputs: x\noutputs: x")
    message = protos.parse("GraphDef", to_bytes(graph))
    message.library.function.add().signature.name = "body"
    loaded = graphdef.from_bytes(protos.serialize(message))
    loaded.outputs = [loaded.value("x")]
    _, report = step(loaded, "fold_constants")
    assert "function library" in report.trace.notes[0]


def test_untouched_nodes_stay_byte_for_byte() -> None:
    graph = parse_graph(
        "x = Placeholder() {dtype=float, shape=shape[2]}\ni = Identity(x) {T=float}\n"
        "a = Neg(x) {T=float, z=1, b=2}\ny = Relu(i) {T=float}\ninputs: x\noutputs: y, a"
    )
    loaded = graphdef.from_bytes(to_bytes(graph))
    loaded.inputs, loaded.outputs = [loaded.value("x")], [loaded.value("y"), loaded.value("a")]
    after = apply(loaded, "remove_nodes(op=Identity) merge_duplicate_nodes strip_unused_nodes").graph
    for name in ("x", "a"):
        node = after.node(name)
        assert node.attrs_untouched
        assert bytes(node.source.raw()) in to_bytes(after)  # type: ignore[union-attr]


def test_equal_constants_are_read_only_if_they_look_alike() -> None:
    graph = Graph()
    for index, size in enumerate([3, 4, 4]):
        graph.constant(np.arange(size, dtype=np.float32), f"c{index}")
    y = graph.add("AddN", list(graph), "y", attrs={"T": FLOAT, "N": 3})
    graph.outputs = [y.output()]
    after = apply(graph, "merge_duplicate_nodes").graph
    assert [v.name for v in after.node("y").inputs] == ["c0", "c1", "c1"]
    tensor = after.node("c0").tensor
    assert tensor is not None
    assert tensor._fingerprint == b""


def test_reference_models(shared: Path) -> None:
    """Lossless transforms leave the numbers of trained models alone, and a second run finds nothing."""
    pipeline = "strip_unused_nodes remove_nodes(op=Identity) merge_duplicate_nodes "
    pipeline += "sort_by_execution_order obfuscate_names"
    for path in sorted((shared / "conformance").glob("*.pb"))[::8]:
        graph = graphdef.load(path)
        sinks = [n for n in graph if not n.is_used and n.op not in {"Placeholder", "NoOp"}]
        graph.inputs = [n.output() for n in graph if n.op == "Placeholder"]
        graph.outputs = [n.output() for n in sinks]
        if not sinks:
            continue
        result = apply(graph, pipeline)
        assert len(result.graph) <= len(graph)
        again = apply(result.graph, pipeline)
        assert again.changes == 0, path.name
        with contextlib.suppress(ThinflowError):  # random input may be illegal for an op
            assert_same_numbers(graph, result.graph)


@pytest.mark.parametrize(
    ("op", "name", "value"),
    [
        ("Conv2D", "dilations", (1, 1, 1, 1)),
        ("FusedBatchNormV3", "is_training", True),
        ("FusedBatchNorm", "epsilon", 1e-4),
        ("Dequantize", "mode", b"MIN_COMBINED"),
        ("Gather", "validate_indices", True),
        ("LeakyRelu", "alpha", 0.2),
        ("StridedSlice", "shrink_axis_mask", 0),
    ],
)
def test_defaults(op: str, name: str, value: object) -> None:
    defaults = defaults_of(op)
    assert defaults is not None
    assert defaults[name] == value


def test_unknown_ops_have_no_defaults() -> None:
    assert defaults_of("Custom") is None
    assert defaults_of("BatchNormWithGlobalNormalization") == {}
