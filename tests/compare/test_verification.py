"""The first tensor that differs, whatever the names are."""

from __future__ import annotations

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.errors import GraphError, ParameterError
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.zoo import build

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,4]{1,-1,2,-2,3,-3,4,-4,1,-1,2,-2,3,-3,4,-4}}
m = MatMul(x, w) {T=float}
t = Tanh(m) {T=float}
u = Exp(t) {T=float}
y = Neg(u) {T=float}
inputs: x
outputs: y
"""


def renamed(text: str) -> Graph:
    graph = parse_graph(text)
    for number, node in enumerate(list(graph)):
        graph.rename(node, f"n{number}")
    return graph


def test_both_names_are_told() -> None:
    found = thinflow.verify(parse_graph(TEXT), renamed(TEXT.replace("u = Exp(t)", "u = Sinh(t)")))
    assert not found.ok
    place = found.divergence
    assert place is not None
    assert (place.name, place.op, place.twin, place.twin_op) == ("u", "Exp", "n4", "Sinh")
    assert found.first_divergence == "u"
    lines = str(found).splitlines()
    assert "first value that differs: u in the first, n4 in the second" in lines
    assert any(line.startswith("  Exp and Sinh, at [0, ") for line in lines)
    assert any(line.startswith("no names are shared; paired: y with n5") for line in lines)
    assert lines[-2].startswith("tolerance 0.0001: |a - b| may be up to 0.0001 of the largest |a|")


def test_renamed_graphs_agree() -> None:
    assert thinflow.verify(parse_graph(TEXT), renamed(TEXT)).ok


def test_half_of_a_fold_is_not_to_blame() -> None:
    """The folded convolutions differ from the first layer on; the only wrong thing is the last layer."""
    before = build("mobilenet_v1")
    after = thinflow.transform(before, "fold_old_batch_norms", verify=False)
    bias = "MobilenetV1/Logits/Conv2d_1c_1x1/biases"
    tensor = after.node(bias).tensor
    assert tensor is not None
    after.node(bias).attrs["value"] = Tensor.from_array(
        tensor.numpy() + 50 * np.eye(1, tensor.size, 5, dtype=np.float32)[0]
    )
    feeds = {v.name: np.zeros((1, 224, 224, 3), np.float32) for v in before.inputs}
    found = thinflow.verify(before, after, feeds)
    assert not found.ok
    assert found.first_divergence.startswith(bias)


def test_several_seeds_and_runs() -> None:
    assert thinflow.verify(parse_graph(TEXT), parse_graph(TEXT), seed=[0, 1, 2], runs=3).runs == 9
    with pytest.raises(ParameterError, match="0 runs compare nothing"):
        thinflow.verify(parse_graph(TEXT), parse_graph(TEXT), runs=0)


def test_positions_pair_only_what_fits() -> None:
    other = parse_graph(
        "q = Placeholder() {dtype=float, shape=shape[7]}\nr = Neg(q) {T=float}\ninputs: q\noutputs: r"
    )
    with pytest.raises(GraphError, match="no output in common"):
        thinflow.verify(parse_graph(TEXT), other)
    fits = parse_graph(
        "q = Placeholder() {dtype=float, shape=shape[1,4]}\nr = Neg(q) {T=float}\ninputs: q\noutputs: r"
    )
    assert not thinflow.verify(parse_graph(TEXT), fits).ok


def test_the_worst_output_is_named() -> None:
    two = TEXT.replace("outputs: y", "z = Abs(t) {T=float}\noutputs: z, y")
    found = thinflow.verify(parse_graph(two), parse_graph(two.replace("y = Neg(u)", "y = Abs(u)")))
    assert found.worst_output == "y"
    assert "worst output: y" in str(found)
