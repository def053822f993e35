"""Unrolled recurrent layers become loops: any of them, and what has to stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.support import compute, reasons, step
from tests.transforms.unrolled_layers import Network
from thinflow.errors import ParameterError
from thinflow.formats import graphdef
from thinflow.ir.graph import Graph, Value
from thinflow.ir.text import function_text, node_text
from thinflow.ir.types import FLOAT, INT32

STEPS = 9
KINDS = ["lstm", "keras", "gru", "simple"]
ASKED = ["last", "pack", "pack_1", "concat", "concat_0", "some", "expanded", "turned"]


def loops(graph: Graph) -> int:
    return sum(n.op == "StatelessWhile" for n in graph)


def check(before: Graph, batch: int = 2) -> Graph:
    """The graph after rerolling, which computes the same to the bit, from the file as well."""
    after, _ = step(before, "reroll_recurrence")
    _, second = step(after, "reroll_recurrence")
    assert second.changes == 0
    read = graphdef.from_bytes(graphdef.to_bytes(after))
    read.inputs, read.outputs = ([read.value(v.name) for v in ends] for ends in (after.inputs, after.outputs))
    shape = [batch if n is None else n for n in before.inputs[0].node.attrs["shape"].dims or ()]
    feeds = {"x": np.random.default_rng(5).normal(size=shape).astype(np.float32)}
    expected = compute(before, feeds)
    for one in (after, read):
        for a, b in zip(expected, compute(one, feeds), strict=True):
            np.testing.assert_array_equal(a, b)
    return after


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["unpack", "split", "slices", "blocks"])
def test_a_layer_becomes_a_loop(kind: str, form: str) -> None:
    net = Network()
    xs = net.pieces(net.sequence(None, STEPS, 3), STEPS, form)
    after = check(net.finished(net.layer(kind, xs, 3, 4)[-1]))
    assert loops(after) == 1
    assert sum(n.op == "Pack" for n in after) == 0
    assert len(after) < 40


def asked(net: Network, xs: list[Value], what: str) -> list[Value]:
    """What is wanted of the outputs of all steps."""
    if what in ("pack", "pack_1", "turned"):
        order = xs[::-1] if what == "turned" else xs
        return [net.add("Pack", *order, N=len(xs), axis=int(what == "pack_1"))]
    if what in ("concat", "concat_0"):
        return [net.concat(xs, int(what == "concat"))]
    if what == "expanded":
        return [net.concat([net.add("ExpandDims", v, net.axis(1), Tdim=INT32) for v in xs], 1)]
    if what == "some":
        return [net.add("Neg", xs[1]), net.add("Neg", xs[4]), xs[2]]
    return xs[-1:]


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_any_layers_compute_the_same(data: st.DataObject) -> None:
    """Stacked, turned round, with a dense layer in between, all outputs or some."""
    net = Network(random=np.random.default_rng(data.draw(st.integers(0, 99))))
    steps = data.draw(st.integers(8, 9))
    x = net.sequence(data.draw(st.sampled_from([None, 1, 2])), steps, 3)
    xs = net.pieces(x, steps, data.draw(st.sampled_from(["unpack", "split", "slices", "blocks"])))
    drawn = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2))
    width = 3
    for number, kind in enumerate(drawn):
        if number and data.draw(st.booleans(), label="dense between"):
            w = net.weights(width, 2)
            xs, width = [net.add("Relu", net.add("MatMul", v, w)) for v in xs], 2
        if data.draw(st.booleans(), label="reversed"):
            xs = xs[::-1]
        xs, width = net.layer(kind, xs, width, 4), 4
    outputs = asked(net, xs, data.draw(st.sampled_from(ASKED)))
    after = check(net.finished(*outputs))
    assert loops(after) == len(drawn)


# ---- The loop, as text

LSTM = """
x = Placeholder()
rnn/loop/transpose = Transpose(x, rnn/loop/const)
rnn/mul_23 = Identity(rnn/loop/statelesswhile:1)
gatherv2 = GatherV2(input_3, input_0, const)
concatv2 = ConcatV2(gatherv2, input_1, axis)
matmul = MatMul(concatv2, input_4)
biasadd = BiasAdd(matmul, input_5)
split = Split(axis, biasadd)
addv2 = AddV2(split:2, one)
sigmoid_1 = Sigmoid(split)
tanh = Tanh(split:1)
sigmoid_2 = Sigmoid(split:3)
sigmoid = Sigmoid(addv2)
mul_1 = Mul(sigmoid_1, tanh)
mul = Mul(input_2, sigmoid)
addv2_1 = AddV2(mul, mul_1)
tanh_1 = Tanh(addv2_1)
mul_2 = Mul(tanh_1, sigmoid_2)
addv2_2 = AddV2(input_0, const_1)
return addv2_2, mul_2, addv2_1, input_3, input_4, input_5
"""
GRU = """
x = Placeholder()
rnn/loop/transpose = Transpose(x, rnn/loop/const)
rnn/addv2_7 = Identity(rnn/loop/statelesswhile:1)
gatherv2 = GatherV2(input_2, input_0, const)
concatv2 = ConcatV2(gatherv2, input_1, axis)
matmul = MatMul(concatv2, input_3)
biasadd = BiasAdd(matmul, input_4)
sigmoid = Sigmoid(biasadd)
split = Split(axis, sigmoid)
mul_1 = Mul(split:1, input_1)
sub = Sub(one, split:1)
mul = Mul(split, input_1)
concatv2_1 = ConcatV2(gatherv2, mul, axis)
matmul_1 = MatMul(concatv2_1, input_5)
biasadd_1 = BiasAdd(matmul_1, input_6)
tanh = Tanh(biasadd_1)
mul_2 = Mul(sub, tanh)
addv2 = AddV2(mul_1, mul_2)
addv2_1 = AddV2(input_0, const_1)
return addv2_1, addv2, input_2, input_3, input_4, input_5, input_6
"""


def text_after(kind: str) -> str:
    """The body of the loop that a layer of two units becomes, and the nodes around it but for constants."""
    net = Network()
    xs = net.pieces(net.sequence(1, 8, 1), 8, "unpack")
    start = net.graph.constant(np.zeros((1, 2), np.float32), "rnn/start")
    weights, count = net.cell(kind, 1, 2)
    states = [start] * count
    for x in xs:
        states = net.step(kind, weights, x, states)
    after = check(net.finished(states[0]), batch=1)
    around = [node_text(n) for n in after if n.op not in ("Const", "StatelessWhile")]
    (loop,) = [n for n in after if n.op == "StatelessWhile"]
    body = function_text(after.functions[loop.attrs["body"].name]).splitlines()[1:]
    lines = [line for line in [*around, *body] if " = Const(" not in line]
    return "\n".join(line.partition(" {")[0] for line in lines)


def test_an_lstm_as_text() -> None:
    assert text_after("lstm") == LSTM.strip()


def test_a_gru_as_text() -> None:
    assert text_after("gru") == GRU.strip()


def test_steps_that_differ_in_weights() -> None:
    """A bias of its own in each step is read like a sequence."""
    net = simple()
    for node in [n for n in net.graph if n.op == "BiasAdd"]:
        node.set_input(1, net.weights(1))
    assert loops(check(net.graph)) == 1


def test_a_first_step_without_a_product() -> None:
    """Where the state of zeros was folded away, the steps behind become the loop."""
    net = simple(9)
    first, product = net.graph.node("rnn/biasadd"), net.graph.node("rnn/matmul")
    joined = product.inputs[0].node
    first.set_input(0, net.add("MatMul", joined.inputs[0], net.weights(1, 1)))
    net.graph.remove(product, joined)
    after = check(net.graph)
    assert loops(after) == 1
    assert sum(n.op == "MatMul" for n in after) == 1


def test_stacked_layers_that_start_from_constants() -> None:
    """The first product of the second layer needs nothing; it is a loop of its own all the same."""
    net = Network()
    xs = net.pieces(net.sequence(2, 8, 3), 8, "unpack")
    for inputs in (3, 2):
        weights, _ = net.cell("keras", inputs, 2)
        states = [net.graph.constant(np.zeros((2, 2), np.float32), "rnn/start")] * 2
        outputs = []
        for x in xs:
            states = net.step("keras", weights, x, states)
            outputs.append(states[0])
        xs = outputs
    assert loops(check(net.finished(xs[-1]))) == 2


def test_two_towers_with_the_same_weights() -> None:
    net = Network()
    xs = net.pieces(net.sequence(2, 8, 3), 8, "unpack")
    weights, _ = net.cell("simple", 3, 2)
    ends = []
    for row in (xs, xs[::-1]):
        states = [net.zeros(xs[0], 2)]
        for x in row:
            states = net.step("simple", weights, x, states)
        ends.append(states[0])
    assert loops(check(net.finished(*ends))) == 2


# ---- What stays as it is


def simple(steps: int = 8) -> Network:
    """A layer of one unit and one output; its steps are `rnn/matmul`, `rnn/matmul_1`..."""
    net = Network()
    xs = net.pieces(net.sequence(2, steps, 1), steps, "unpack")
    net.finished(net.layer("simple", xs, 1, 1)[-1])
    return net


def waits(net: Network) -> None:
    net.graph.node("rnn/tanh_3").add_control_input(net.graph.node("x"))


def is_another(net: Network) -> None:
    net.graph.node("rnn/tanh_3").op = "Sigmoid"


def skips_a_step(net: Network) -> None:
    net.graph.node("rnn/concatv2_5").set_input(1, net.graph.node("rnn/tanh_2").output())


def is_random(net: Network) -> None:
    for tanh in [n for n in net.graph if n.op == "Tanh"]:
        sizes = net.add("Shape", tanh.inputs[0], out_type=INT32)
        noise = net.add("RandomUniform", sizes, dtype=FLOAT, T=INT32)
        tanh.set_input(0, net.add("Mul", tanh.inputs[0], noise))


def is_fed(net: Network) -> None:
    net.graph.inputs = [*net.graph.inputs, net.graph.node("rnn/tanh_4").output()]


def depends_on_the_end(net: Network) -> None:
    """The middle of the sequence is computed from an early output."""
    net.graph.node("rnn/concatv2_5").set_input(0, net.add("Neg", net.graph.node("rnn/tanh_1").output()))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (waits, "'rnn/tanh_3' waits for other nodes, or others for it"),
        (is_another, "'rnn/tanh_3' is not what 'rnn/tanh' is in another step"),
        (skips_a_step, "8 nodes share its weights, but only 7 in a row need each other"),
        (is_random, "cannot go into a loop"),
        (is_fed, "'rnn/tanh_4' is fed from outside"),
        (depends_on_the_end, "others read nothing like it"),
    ],
)
def test_what_differs_stays(change: Callable[[Network], None], reason: str) -> None:
    net = simple()
    change(net)
    after, report = step(net.graph, "reroll_recurrence")
    assert report.changes == 0
    assert [n.name for n in after] == [n.name for n in net.graph]
    assert reason in reasons(report)["rnn/matmul"]


def test_fewer_steps_than_wanted_stay() -> None:
    _, report = step(simple(7).graph, "reroll_recurrence")
    assert report.changes == 0
    with pytest.raises(ParameterError, match="min_steps is 2"):
        step(simple(7).graph, "reroll_recurrence(min_steps=2)")


def test_a_state_that_grows() -> None:
    """The first step spreads a state of one row over the batch, which a loop's variable does not do."""
    net = Network()
    xs = net.pieces(net.sequence(2, 9, 1), 9, "unpack")
    weights, _ = net.cell("keras", 1, 1)
    states = [net.graph.constant(np.zeros((1, 1), np.float32), "rnn/start")] * 2
    for x in xs:
        states = net.step("keras", weights, x, states)
    _, report = step(net.finished(states[0]), "reroll_recurrence")
    assert report.changes == 0
    assert "does not begin with the shape that it has later" in reasons(report)["rnn/matmul_1"]
