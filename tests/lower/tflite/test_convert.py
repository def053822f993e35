"""Whole graphs: names, unknown sizes, constants, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.tflite.harness import Net, compare, run_litert
from tests.transforms.golden import parse_graph
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT
from thinflow.lower.lowering import needed_nodes
from thinflow.lower.tflite.convert import lower_graph, unsupported
from thinflow.tflite.writer import to_bytes


def test_names_of_inputs_outputs_and_between(rng):
    net = Net()
    x = net.feed(rng.normal(size=(2, 3)).astype(np.float32), "in")
    middle = net.op("Exp", x, name="scope/exp")
    parts = net.op("Split", np.int32(1), middle, name="parts", num_split=3)
    last = parts.node.output(2)
    lowered = net.lower(last, parts)
    assert list(lowered.inputs) == ["in"]
    assert list(lowered.outputs) == ["parts:2", "parts"]
    assert [t.name for t in lowered.program.subgraphs[0].outputs] == ["parts:2", "parts"]
    assert lowered.program.subgraphs[0].operators[0].outputs[0].name == "scope/exp"
    assert lowered.program.signatures["serving_default"].outputs == lowered.outputs
    assert lowered.origin["parts:2"] == "parts:2"
    assert lowered.origin["scope/exp"] == "scope/exp"
    assert net.check(last, parts) == ["EXP", "SPLIT"]


def test_an_alias_as_output_gets_the_alias_name(rng):
    net = Net()
    x = net.feed(rng.normal(size=(2, 3)).astype(np.float32))
    y = net.op("Identity", net.op("Exp", x), name="out")
    assert net.check(y) == ["EXP"]
    assert list(net.lower(y).outputs) == ["out"]


def test_outputs_that_are_inputs_constants_or_twice_the_same_are_copied(rng):
    net = Net()
    x = net.feed(rng.normal(size=(2, 3)).astype(np.float32))
    flag = net.feed(np.float32(3), "scalar")
    y = net.op("Exp", x, name="y")
    outputs = [
        net.op("Identity", x, name="same"),
        net.const(np.float32([1, 2]), "constant"),
        y,
        net.op("Identity", y, name="again"),
        net.op("Identity", flag, name="scalar_out"),
    ]
    lowered = net.lower(*outputs)
    assert list(lowered.outputs) == ["same", "constant", "y", "again", "scalar_out"]
    net.check(*outputs)


def test_copy_of_an_input_of_unknown_shape(rng):
    net = Net()
    x = net.feed(rng.normal(size=(2, 3)).astype(np.float32), shape=(None, None))
    net.check(net.op("Identity", x, name="out"))


@pytest.mark.parametrize("batch", [1, 5])
def test_unknown_batch(rng, batch):
    net = Net()
    x = net.feed(rng.normal(size=(batch, 8, 8, 3)).astype(np.float32), shape=(None, 8, 8, 3))
    y = net.op(
        "Conv2D", x, rng.normal(size=(3, 3, 3, 4)).astype(np.float32), strides=[1, 2, 2, 1], padding="SAME"
    )
    y = net.op("Relu", net.op("BiasAdd", y, np.float32([1, 2, 3, 4])))
    shape = net.op("Shape", y)
    rows = net.op("StridedSlice", shape, np.int32([0]), np.int32([1]), np.int32([1]), shrink_axis_mask=1)
    flat = net.op("Reshape", y, net.op("Pack", rows, np.int32(64)))
    y = net.op("Softmax", net.op("MatMul", flat, rng.normal(size=(64, 5)).astype(np.float32)))
    assert net.check(y) == ["CONV_2D", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX"]
    lowered = net.lower(y)
    assert lowered.inputs["x"].shape == (None, 8, 8, 3)
    assert lowered.outputs["softmax"].shape == (None, 5)


def test_unknown_batch_of_a_transposed_convolution(rng):
    net = Net()
    x = net.feed(rng.normal(size=(3, 4, 4, 2)).astype(np.float32), shape=(None, 4, 4, 2))
    rows = net.op(
        "StridedSlice", net.op("Shape", x), np.int32([0]), np.int32([1]), np.int32([1]), shrink_axis_mask=1
    )
    sizes = net.op("Pack", rows, np.int32(8), np.int32(8), np.int32(3))
    w = net.const(rng.normal(size=(3, 3, 3, 2)).astype(np.float32))
    y = net.op("Conv2DBackpropInput", sizes, w, x, strides=[1, 2, 2, 1], padding="SAME")
    y = net.op("BiasAdd", y, np.float32([1, 2, 3]))
    assert net.check(y)[-1] == "TRANSPOSE_CONV"


def test_unknown_height_and_width(rng):
    net = Net()
    x = net.feed(rng.normal(size=(1, 6, 10, 3)).astype(np.float32), shape=(None, None, None, 3))
    half = net.op("MaxPool", x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    size = net.op("StridedSlice", net.op("Shape", x), np.int32([1]), np.int32([3]), np.int32([1]))
    y = net.op("AddV2", net.op("ResizeBilinear", half, size), x)
    net.check(y)


def test_constants_are_computed_now(rng):
    net = Net()
    x = net.feed(rng.normal(size=(2, 4)).astype(np.float32))
    w = net.op("Mul", net.op("Transpose", np.float32([[1, 2, 3, 4]]), np.int32([1, 0])), np.float32(2))
    size = net.op("Size", x)
    y = net.op("Mul", net.op("MatMul", x, w), net.op("Cast", size, DstT=FLOAT))
    assert net.check(y) == ["FULLY_CONNECTED"]


def test_a_huge_constant_is_left_to_the_runtime():
    net = Net()
    x = net.feed(np.float32([1]))
    big = net.op("Fill", np.int32([2048, 1024]), np.float32(0.5))
    y = net.op("Sum", net.op("Mul", big, x), np.int32([0, 1]))
    assert net.check(y) == ["FILL", "MUL", "SUM"]


def test_weights_are_views_of_the_graphs_own():
    net = Net()
    weights = np.ones((3, 3, 4, 8), np.float32) * np.arange(8, dtype=np.float32)
    x = net.feed(np.ones((1, 5, 5, 4), np.float32))
    y = net.op("Conv2D", x, weights, strides=[1, 1, 1, 1], padding="SAME")
    z = net.op("MatMul", net.feed(np.ones((1, 3), np.float32), "z"), np.ones((3, 2), np.float32))
    conv, dense = net.lower(y, z).program.subgraphs[0].operators
    assert np.shares_memory(conv.inputs[1].data, net.graph.node("c").tensor.numpy())
    assert conv.inputs[1].shape == (8, 3, 3, 4)
    assert dense.inputs[1].data.base is not None


def test_a_node_nobody_reads_need_not_be_lowered(rng):
    net = Net()
    x = net.feed(rng.normal(size=(2, 3)).astype(np.float32), shape=(None, 3))
    strange = net.op("NoSuchOp", net.op("Shape", x))
    y = net.op("Exp", x)
    assert net.check(y) == ["EXP"]
    with pytest.raises(UnsupportedOp, match="node 'nosuchop'"):
        net.lower(strange)


def test_the_first_refusal_in_running_order_is_raised():
    net = Net()
    x = net.feed(np.float32([1]))
    y = net.op("Second", net.op("First", x))
    with pytest.raises(UnsupportedOp) as caught:
        net.lower(y)
    assert str(caught.value).startswith("node 'first' (First): TFLite has no form of First\nhint: ")
    # No engine has an op that nothing knows, the reference engine neither.
    assert "cut it off" in caught.value.hint


def test_an_op_that_nothing_knows_is_named_and_not_the_type_of_what_it_gives():
    graph = parse_graph("x = Placeholder() {dtype=float}\ny = Warp(x) {}\nz = Tanh(y)\ninputs: x\noutputs: z")
    with pytest.raises(UnsupportedOp, match="nothing here knows the op Warp") as caught:
        lower_graph(graph, [graph.value("y")], graph.outputs, specs={})
    assert "cut it off" in caught.value.hint


def test_an_input_that_is_not_fed():
    net = Net()
    y = net.op("Exp", net.feed(np.float32([1])))
    with pytest.raises(UnsupportedOp, match="nothing feeds it"):
        lower_graph(net.graph, [], [y])


def test_an_input_of_unknown_type():
    net = Net()
    x = net.op("NoSuchOp", net.feed(np.float32([1])), name="cut")
    with pytest.raises(UnsupportedOp, match=r"node 'cut' .*the type of 'cut' is not known"):
        lower_graph(net.graph, [x], [net.op("Exp", x)])


def test_sizes_that_do_not_fit_are_told_where_they_show():
    net = Net()
    x = net.feed(np.zeros((1, 4, 4, 3), np.float32))
    filters = net.const(np.zeros((2, 2, 2, 6), np.float32))
    y = net.op("Conv2D", x, filters, strides=[1, 1, 1, 1], padding="VALID", name="conv")
    with pytest.raises(
        UnsupportedOp, match=r"node 'conv' .*sizes do not fit: .*\nhint: give others with --shape"
    ):
        net.lower(y)
    inner = net.op("Exp", y, name="behind")
    with pytest.raises(UnsupportedOp, match=r"sizes do not fit at node 'conv'"):
        lower_graph(net.graph, [inner], [net.op("Relu", inner)])


def test_half_a_loop_is_refused():
    net = Net()
    x = net.feed(np.float32(1))
    enter = net.op("Enter", x, frame_name="loop")
    merge = net.op("Merge", enter, enter)
    following = net.op("NextIteration", net.op("Exp", merge))
    merge.node.set_input(1, following)
    with pytest.raises(UnsupportedOp, match="the loop 'loop' has no LoopCond"):
        net.lower(net.op("Exit", merge))
    assert len(needed_nodes([merge], [])) == 5


def test_part_of_a_graph(rng):
    net = Net()
    x = net.feed(rng.normal(size=(2, 3)).astype(np.float32))
    middle = net.op("Exp", x, name="middle")
    y = net.op("Neg", middle)
    infer_shapes(net.graph)
    lowered = lower_graph(net.graph, [middle], [y], specs={})
    assert [o.code for o in lowered.program.subgraphs[0].operators] == ["NEG"]
    fed = np.float32([[1, 2, 3], [4, 5, 6]])
    compare(run_litert(lowered, {"middle": fed})["neg"], -fed)


def test_unsupported_tries_each_node_by_itself(rng):
    net = Net()
    x = net.feed(rng.normal(size=(1, 3, 4, 4)).astype(np.float32))
    w = net.op("Identity", rng.normal(size=(1, 1, 3, 3)).astype(np.float32))
    conv = net.op("Conv2D", x, w, strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW")
    good = net.op("Relu", conv)
    bad = net.op("RandomShuffle", good)
    reasons = unsupported(net.graph, list(net.graph))
    assert {n.name for n in reasons} == {"conv2d", "randomshuffle"}
    assert "NCHW" in reasons[conv.node]
    assert reasons[bad.node] == "TFLite has no form of RandomShuffle"


def test_files_of_equal_graphs_are_equal(rng):
    def raw():
        net = Net()
        x = net.feed(np.zeros((2, 3), np.float32))
        y = net.op("Softmax", net.op("MatMul", x, np.ones((3, 2), np.float32)))
        return to_bytes(net.lower(y).program)

    assert raw() == raw()
