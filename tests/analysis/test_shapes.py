"""Static shapes over whole graphs."""

from __future__ import annotations

import pytest

from tests.transforms.golden import parse_graph
from thinflow.analysis.shapes import infer_node, infer_shapes, placeholder_spec, port_count
from thinflow.errors import ShapeError
from thinflow.formats import graphdef
from thinflow.ir.types import FLOAT, INT32, UNKNOWN, TensorSpec

CHAIN = """
x = Placeholder() {dtype=float, shape=shape[?,4]}
w = Const() {dtype=float, value=float[4,2]{range}}
y = MatMul(x, w) {T=float}
s = Shape(y) {T=float, out_type=int32}
z = Reshape(y, s) {T=float, Tshape=int32}
"""


def test_shapes_travel_and_stay_partly_known() -> None:
    graph = parse_graph(CHAIN)
    assert infer_shapes(graph) == {}
    assert graph.value("y").spec == TensorSpec(FLOAT, (None, 2))
    assert graph.value("s").spec.elements == (None, 2)
    assert graph.value("s").spec.dtype is INT32
    assert graph.value("z").shape == (None, 2)


def test_fed_specs_win() -> None:
    graph = parse_graph(CHAIN)
    infer_shapes(graph, {graph.value("x"): TensorSpec(FLOAT, (7, 4))})
    assert graph.value("z").shape == (7, 2)


def test_misfits_are_returned_not_raised() -> None:
    graph = parse_graph(CHAIN.replace("shape[?,4]", "shape[?,5]"))
    failures = infer_shapes(graph)
    assert list(failures) == ["y"]
    assert failures["y"].startswith("node 'y' (MatMul): ")
    assert graph.value("y").shape is None


def test_annotations_fill_gaps() -> None:
    graph = parse_graph("x = Mystery() {_output_shapes=[shape[3,?]]}")
    infer_shapes(graph)
    assert graph.value("x").shape is None
    infer_shapes(graph, use_annotations=True)
    assert graph.value("x").shape == (3, None)


def test_a_broken_graph_keeps_its_sound_part() -> None:
    graph = graphdef.from_text(
        'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } '
        'attr { key: "shape" value { shape { dim { size: 3 } } } } } '
        'node { name: "y" op: "Relu" input: "x" } '
        'node { name: "a" op: "Relu" input: "b" } node { name: "b" op: "Relu" input: "a" }'
    )
    infer_shapes(graph)
    assert graph.value("y").shape == (3,)
    assert graph.value("a").shape is None


@pytest.mark.parametrize("count", [-1, 2_000_000_000])
def test_absurd_numbers_of_outputs(count: int) -> None:
    graph = parse_graph(
        f"""
        a = Const() {{dtype=int32, value=int32[]{{0}}}}
        x = Placeholder() {{dtype=float, shape=shape[4]}}
        y = Split(a, x) {{T=float, num_split={count}}}
        """
    )
    assert port_count(graph.node("y")) is None
    failures = infer_shapes(graph)
    assert f"{count} outputs are more than any op can have" in failures["y"]
    with pytest.raises(ShapeError, match="the file is damaged"):
        infer_node(graph.node("y"), [v.spec for v in graph.node("y").inputs])


def test_a_rule_that_meets_a_strange_node_gives_nothing_and_a_reason() -> None:
    graph = parse_graph("y = MatMul() {T=float}\nz = Relu(y) {T=float}")
    assert infer_shapes(graph) == {
        "y": "node 'y' (MatMul): the node is not well formed (it lacks the input 'a' and 'b')"
    }
    assert infer_node(graph.node("y"), []) == (UNKNOWN,)


def test_port_counts() -> None:
    graph = parse_graph("a = Relu()\nb = Unpack() {num=3}\nc = Mystery()\nd = NoOp()")
    assert [port_count(n) for n in graph] == [1, 3, None, 0] or port_count(graph.node("c")) is None


def test_placeholder_spec() -> None:
    graph = parse_graph("x = Placeholder() {dtype=int32, shape=shape[1,?]}\ny = Placeholder()")
    assert placeholder_spec(graph.node("x")) == TensorSpec(INT32, (1, None))
    assert placeholder_spec(graph.node("y")) == TensorSpec()
