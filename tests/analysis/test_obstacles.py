"""What keeps a graph from running, told without running it."""

from __future__ import annotations

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.api import obstacles
from thinflow.formats import graphdef
from thinflow.wire import protos

INPUT = "x = Placeholder() {dtype=float, shape=shape[1,4]}\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (INPUT + "y = Relu() {T=float}", "node 'y' (Relu): the node is not well formed (it lacks the input"),
        (INPUT + "y = MatMul(x, x) {T=float}", "node 'y' (MatMul): inner sizes differ: 4 and 1"),
        (
            INPUT + "y = PartitionedCall(x) {Tin=[float], Tout=[float], f=@lost}",
            "there is no function 'lost'",
        ),
        ("x = Placeholder() {dtype=resource}\ny = Identity(x) {T=resource}", "'x' stands for a table"),
        ("x = Placeholder() {dtype=float, shape=shape[1099511627776]}\ny = Relu(x) {T=float}", "too large"),
    ],
)
def test_reasons(text: str, reason: str) -> None:
    (found,) = obstacles(thinflow.summarize(parse_graph(text)))
    assert reason in found


def test_a_constant_that_was_cut() -> None:
    text = (
        'node{name:"c" op:"Const" attr{key:"dtype" value{type:DT_FLOAT}} attr{key:"value" value{tensor{'
        'dtype:DT_FLOAT tensor_shape{dim{size:4}} tensor_content:"abc"}}}} '
        'node{name:"y" op:"Relu" input:"c" attr{key:"T" value{type:DT_FLOAT}}}'
    )
    graph = graphdef.from_bytes(bytes(protos.serialize(protos.from_text("GraphDef", text))))
    (found,) = obstacles(thinflow.summarize(graph))
    assert found == "node 'c' (Const): a float tensor of shape [4] takes 16 bytes, the file holds 3"


def test_a_sound_graph_has_none() -> None:
    lost = "\nz = Relu() {T=float}\nn = NoOp()"  # not needed by what is asked for
    graph = parse_graph(INPUT + "y = Relu(x) {T=float}" + lost + "\noutputs: y\n")
    assert obstacles(thinflow.summarize(graph)) == []
