"""Equal graphs are proven equal, and no change of the numbers slips through."""

from __future__ import annotations

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from thinflow.analysis.shapes import infer_shapes
from thinflow.compare.equivalence import PIXELS, _Sweep, prove
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT

ATTRS = {"T": FLOAT, "strides": (1, 1, 1, 1), "padding": "SAME"}


def conv_chain(layers: int = 3, scale: float = 1.0) -> Graph:
    """x -> (conv -> mul -> relu) * layers, with names conv0, mul0, relu0..."""
    rng = np.random.default_rng(0)
    graph = Graph()
    value = graph.add(
        "Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 32, 32, 4))}
    ).output()
    graph.inputs = [value]
    for i in range(layers):
        w = graph.constant(rng.standard_normal((3, 3, 4, 4)).astype(np.float32), f"w{i}")
        conv = graph.add("Conv2D", [value, w], f"conv{i}", attrs=ATTRS)
        factor = (rng.uniform(0.5, 1.5, 4) * (scale if i == 1 else 1)).astype(np.float32)
        mul = graph.add("Mul", [conv, graph.constant(factor, f"s{i}").node], f"mul{i}", attrs={"T": FLOAT})
        value = graph.add("Relu", [mul], f"relu{i}", attrs={"T": FLOAT}).output()
    graph.outputs = [value]
    infer_shapes(graph)
    return graph


def folded(graph: Graph) -> Graph:
    """The factors multiplied into the weights, done by hand."""
    copy = graph.clone()
    for node in copy:
        if node.op == "Mul":
            conv, factor = node.inputs[0].node, node.inputs[1].node
            tensor, scale = conv.inputs[1].node.tensor, factor.tensor
            assert tensor is not None
            assert scale is not None
            w = copy.constant(tensor.numpy() * scale.numpy(), f"{conv.name}_weights")
            new = copy.add("Conv2D", [conv.inputs[0], w], attrs=conv.attrs)
            copy.replace(node, new)
            copy.remove(conv)
            copy.remove(factor)
    return copy


def test_an_identical_graph_needs_no_run() -> None:
    graph = conv_chain()
    proof = prove(graph, graph.clone(), 1e-6)
    assert proof.equal
    assert (proof.cones, proof.worst) == (0, 0.0)


def test_folded_weights_are_proven_layer_by_layer() -> None:
    graph = conv_chain()
    proof = prove(graph, folded(graph), 1e-5)
    assert proof.equal
    assert proof.cones == 3  # mul0, mul1 and mul2, each once
    assert 0 < proof.worst < 1e-5


def test_a_changed_factor_is_not_proven() -> None:
    graph, other = conv_chain(), conv_chain(scale=1.01)
    proof = prove(graph, other, 1e-4)
    assert not proof.equal
    assert proof.unproven == ["relu2"]


@pytest.mark.parametrize("size", [3, 5000])
def test_a_changed_constant_is_not_proven(size: int) -> None:
    """Small ones are compared by content, large ones through what reads them."""

    def build(delta: float) -> Graph:
        graph = Graph()
        x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((size,))}).output()
        c = graph.constant(np.full(size, 2.0 + delta, np.float32) + np.zeros(size, np.float32), "c")
        graph.inputs, graph.outputs = [x], [graph.add("Mul", [x, c], "y", attrs={"T": FLOAT}).output()]
        infer_shapes(graph)
        return graph

    assert prove(build(0), build(0), 1e-6).equal
    assert not prove(build(0), build(0.01), 1e-6).equal


def test_constant_expressions_count_as_their_result() -> None:
    def build(fold: bool) -> Graph:
        graph = Graph()
        x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((2,))}).output()
        if fold:
            total = graph.constant(np.float32([3, 3]), "sum")
        else:
            one, two = graph.constant(np.float32([1, 1]), "one"), graph.constant(np.float32([2, 2]), "two")
            total = graph.add("Add", [one, two], "sum", attrs={"T": FLOAT}).output()
        graph.inputs, graph.outputs = [x], [graph.add("Mul", [total, x], "y", attrs={"T": FLOAT}).output()]
        infer_shapes(graph)
        return graph

    assert prove(build(False), build(True), 1e-6) == prove(build(True), build(False), 1e-6)
    assert prove(build(False), build(True), 1e-6).cones == 0


def test_pass_through_ops_and_operand_order_do_not_count() -> None:
    graph = conv_chain(1)
    other = graph.clone()
    mul = other.node("mul0")
    mul.set_inputs([mul.inputs[1], other.add("Identity", [mul.inputs[0]], attrs={"T": FLOAT})])
    proof = prove(graph, other, 1e-6)
    assert proof.equal
    assert proof.cones == 0


def test_strings_joined_in_another_order_are_a_difference() -> None:
    text = """
        a = Placeholder() {dtype=string, shape=shape[2]}
        b = Placeholder() {dtype=string, shape=shape[2]}
        y = Add(a, b) {T=string}
        inputs: a, b
        outputs: y
    """
    before, after = parse_graph(text), parse_graph(text.replace("Add(a, b)", "Add(b, a)"))
    assert prove(before, before.clone(), 1e-6).equal
    assert prove(before, after, 1e-6).unproven == ["y"]


def test_a_different_attribute_is_a_difference() -> None:
    graph = conv_chain(1)
    other = graph.clone()
    other.node("relu0").op = "Relu6"
    assert prove(graph, graph.clone(), 1e-6).equal
    other.node("conv0").attrs["padding"] = b"VALID"
    assert not prove(graph, other, 1e-6).equal


def test_a_missing_output_is_named() -> None:
    graph = conv_chain(1)
    other = graph.clone()
    other.outputs = []
    other.remove(other.node("relu0"))
    assert prove(graph, other, 1e-6).unproven == ["relu0"]


def test_a_random_source_is_itself_and_no_other() -> None:
    def build(name: str) -> Graph:
        graph = Graph()
        shape = graph.constant(np.array([3], np.int32), "shape")
        r = graph.add("RandomUniform", [shape], name, attrs={"dtype": FLOAT, "T": shape.node.attrs["dtype"]})
        graph.outputs = [graph.add("Neg", [r], "y", attrs={"T": FLOAT}).output()]
        infer_shapes(graph)
        return graph

    assert prove(build("a"), build("a"), 1e-6).equal


def test_a_clamp_that_only_large_numbers_reach_is_seen() -> None:
    graph = conv_chain(1)
    other = graph.clone()
    relu = other.node("relu0")
    other.replace(relu, other.add("Relu6", relu.inputs, attrs=relu.attrs))
    assert not prove(graph, other, 1e-5).equal


def test_a_node_that_passes_several_values_on() -> None:
    text = """
        x = Placeholder() {dtype=float, shape=shape[3]}
        y = Neg(x) {T=float}
        both = IdentityN(x, y) {T=[float,float]}
        z = Add(both:1, both) {T=float}
        inputs: x
        outputs: z
    """
    before, after = parse_graph(text), parse_graph(text)
    assert prove(before, after, 0.0).equal
    z = after.node("z")
    z.set_input(0, after.value("y"))
    assert prove(before, after, 0.0).equal
    z.set_input(0, after.value("x"))
    assert not prove(before, after, 0.0).equal


def test_a_port_that_a_constant_does_not_have_is_no_change() -> None:
    text = """
    c = Const() {value=float[2]{1,2}}
    y = Neg(c) {T=float}
    inputs:
    outputs: y
    """
    before, after = parse_graph(text), parse_graph(text)
    after.node("c").output(1)  # somebody looked for it
    assert prove(before, after, 1e-6).equal


def test_attributes_written_out_are_compared_without_a_run() -> None:
    """What an absent attribute means is known; another value of it is a change."""
    graph = conv_chain()
    other = graph.clone()
    other.node("conv0").attrs["dilations"] = (1, 1, 1, 1)
    proof = prove(graph, other, 1e-6)
    assert proof.equal
    assert proof.cones == 0
    other.node("conv0").attrs["dilations"] = (1, 2, 2, 1)
    assert not prove(graph, other, 1e-6).equal


def test_weights_that_something_passes_on_stay_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are neither made up nor cut like a picture, which would not fit the convolution."""
    graph = Graph()
    x = graph.add(
        "Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, 32, 32, 16))}
    ).output()
    weights = np.linspace(-1, 1, 16 * 512, dtype=np.float32).reshape(1, 1, 16, 512)
    read = graph.add("Identity", [graph.constant(weights, "w")], "w/read", attrs={"T": FLOAT})
    conv = graph.add("Conv2D", [x, read], "conv", attrs=ATTRS)
    graph.inputs, graph.outputs = [x], [conv.output()]
    infer_shapes(graph)
    other = graph.clone()
    same = other.add("Mul", [other.value("x"), other.constant(np.float32(1), "one").node], attrs={"T": FLOAT})
    other.node("conv").set_input(0, same.output())
    asked: list[int] = []
    random = _Sweep._random
    monkeypatch.setattr(_Sweep, "_random", lambda *given: asked.append(given[2]) or random(*given))
    proof = prove(graph, other, 1e-6)
    assert proof.equal
    assert proof.cones == 1
    assert asked == [PIXELS]
