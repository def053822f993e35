"""Peak memory of activations."""

from __future__ import annotations

from tests.transforms.golden import parse_graph
from thinflow.analysis.liveness import Peak, peak_activations
from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.order import execution_order


def peak(text: str, output: str) -> Peak:
    graph = parse_graph(text)
    infer_shapes(graph)
    return peak_activations(execution_order(graph), [graph.value(output)])


X = "x = Placeholder() {dtype=float, shape=shape[100]}\n"


def test_values_die_after_their_last_reader() -> None:
    chain = X + "a = Relu(x) {T=float}\nb = Relu(a) {T=float}\nc = Relu(b) {T=float}\n"
    assert peak(chain, "c").size_bytes == 800


def test_a_long_lived_value_counts_throughout() -> None:
    skip = (
        X + "a = Relu(x) {T=float}\nb = Relu(a) {T=float}\nc = Relu(b) {T=float}\nd = Add(c, x) {T=float}\n"
    )
    assert peak(skip, "d").size_bytes == 1200


def test_identity_shares_memory_and_constants_are_free() -> None:
    text = (
        X + "w = Const() {dtype=float, value=float[100]{range}}\n"
        "i = Identity(x) {T=float}\ny = Add(i, w) {T=float}\n"
    )
    assert peak(text, "y") == Peak(800, "y", True)


def test_unknown_sizes_are_admitted() -> None:
    found = peak("x = Placeholder() {dtype=float, shape=shape[?]}\ny = Relu(x) {T=float}\n", "y")
    assert not found.complete
    assert found.size_bytes == 0
