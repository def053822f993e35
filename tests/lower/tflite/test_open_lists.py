"""Loops over an open batch: lists whose length, or whose items' sizes, only a run tells."""

from __future__ import annotations

import numpy as np
import pytest

from tests.library import constant, function, graph_of, node
from tests.loops import entered, while_loop
from tests.lower.tflite.harness import Net, compare, run_litert
from thinflow.errors import UnsupportedOp
from thinflow.interpreter import Plan
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, INT32, VARIANT
from thinflow.lower.tflite.convert import lower_graph

SAMPLES = np.arange(12, dtype=np.float32).reshape(4, 3)


def at_every_size(graph, inputs, outputs):
    """One file, lowered with an open batch, answers as the reference for one sample, three, and one again."""
    (x,), lowered = inputs, lower_graph(graph, inputs, outputs)
    assert lowered.program.subgraphs[0].inputs[0].shape == (None, 3)
    for count in (1, 3, 1):
        found = run_litert(lowered, {x.name: SAMPLES[:count]})
        for value, expected in zip(
            outputs, Plan(graph, outputs, inputs).run({x: SAMPLES[:count]}), strict=True
        ):
            compare(found[value.name], expected)


def length(net, x):
    """The number of samples, int32 []."""
    sizes = net.op("Shape", x, out_type=INT32)
    return net.op(
        "StridedSlice", sizes, np.int32([0]), np.int32([1]), np.int32([1]), T=INT32, shrink_axis_mask=1
    )


def test_tensor_arrays_with_an_item_for_each_sample():
    """`tf.map_fn` of TensorFlow 1: y[i] = 2 x[i]."""
    net = Net()
    x = net.feed(SAMPLES, shape=(None, 3))
    count = length(net, x)
    source, target = (net.op("TensorArrayV3", count, name=n, dtype=FLOAT) for n in ("source", "target"))
    every = net.op("Range", np.int32(0), length(net, x), np.int32(1))
    filled = net.op("TensorArrayScatterV3", source, every, x, source.node.output(1), T=FLOAT)
    inside = [entered(net.graph, "loop", v) for v in (source, filled, target)]
    n, one = (entered(net.graph, "loop", v) for v in (count, net.const(np.int32(1))))

    def body(v):
        row = net.op("TensorArrayReadV3", inside[0], v[0], inside[1], dtype=FLOAT)
        doubled = net.op("AddV2", row, row)
        flow = net.op("TensorArrayWriteV3", inside[2], v[0], doubled, v[1], T=FLOAT)
        return [net.op("AddV2", v[0], one), flow]

    start = [net.const(np.int32(0)), target.node.output(1)]
    flow = while_loop(net.graph, "loop", start, lambda m: net.op("Less", m[0], n), body)[1]
    size = net.op("TensorArraySizeV3", target, flow)
    places = net.op("Range", np.int32(0), size, np.int32(1))
    y = net.op("TensorArrayGatherV3", target, places, flow, dtype=FLOAT, element_shape=ShapeAttr((3,)))
    at_every_size(net.graph, [x], [y, net.op("Neg", size)])


def test_a_first_item_tells_how_large_items_are():
    """`tf.scan` over time sets the first item ahead of its loop; an item is a row for each sample."""
    net = Net()
    x = net.feed(SAMPLES, shape=(None, 3))
    made = net.op("TensorArrayV3", np.int32(2), dtype=FLOAT)
    first = net.op("TensorArrayWriteV3", made, np.int32(0), x, made.node.output(1), T=FLOAT)
    flow = net.op("TensorArrayWriteV3", made, np.int32(1), net.op("Neg", x), first, T=FLOAT)
    every = net.const(np.arange(2, dtype=np.int32))
    at_every_size(net.graph, [x], [net.op("TensorArrayGatherV3", made, every, flow, dtype=FLOAT)])


def test_tensor_lists_with_an_item_for_each_sample():
    """`tf.map_fn` of TensorFlow 2: y[i] = 2 x[i]."""
    variables = {"i": INT32, "n": INT32, "rows": VARIANT, "out": VARIANT}
    less = function("less", variables, [node("c", "Less", "i", "n", T=INT32)], {"r": "c:z:0"})
    turn = function("turn", variables, [
        constant("one", np.int32(1)), constant("any", np.int32([3])),
        node("j", "AddV2", "i", "one:output:0", T=INT32),
        node("row", "TensorListGetItem", "rows", "i", "any:output:0", element_dtype=FLOAT),
        node("d", "AddV2", "row:item:0", "row:item:0", T=FLOAT),
        node("set", "TensorListSetItem", "out", "i", "d:z:0", element_dtype=FLOAT),
    ], {"a": "j:z:0", "b": "n", "c": "rows", "d": "set:output_handle:0"})  # fmt: skip
    types = (INT32, INT32, VARIANT, VARIANT)
    graph = graph_of([
        node("x", "Placeholder", dtype=FLOAT, shape="shape { dim { size: -1 } dim { size: 3 } }"),
        constant("zero", np.int32(0)), constant("at", np.int32([0])), constant("to", np.int32([1])),
        constant("shape", np.int32([3])), constant("free", np.int32([-1])),
        node("sizes", "Shape", "x", T=FLOAT, out_type=INT32),
        node("n", "StridedSlice", "sizes", "at", "to", "to", T=INT32, Index=INT32, shrink_axis_mask=1),
        node("made", "TensorListReserve", "free", "n", element_dtype=FLOAT, shape_type=INT32),
        node("rows", "TensorListFromTensor", "x", "shape", element_dtype=FLOAT, shape_type=INT32),
        node("w", "StatelessWhile", "zero", "n", "rows", "made", cond="@less", body="@turn", T=types),
        node("y", "TensorListStack", "w:3", "shape", element_dtype=FLOAT),
        node("l", "TensorListLength", "w:3"), node("e", "TensorListLength", "made"),
        node("m", "Neg", "l", T=INT32), node("f", "Neg", "e", T=INT32),
    ], [less, turn])  # fmt: skip
    at_every_size(graph, [graph.value("x")], [graph.value(name) for name in ("y", "m", "f")])


def test_items_of_no_known_size_are_refused():
    net = Net()
    size = net.feed(np.int32(4), "size")
    made = net.op("TensorArrayV3", size, dtype=FLOAT)
    with pytest.raises(UnsupportedOp, match="the items of its list have shape"):
        net.lower(net.op("TensorArrayGatherV3", made, np.int32([0]), made.node.output(1), dtype=FLOAT))


def test_some_items_of_an_open_number():
    net = Net()
    size, x = net.feed(np.int32(5), "size"), net.feed(SAMPLES)
    made = net.op("TensorArrayV3", size, dtype=FLOAT)
    places = net.const(np.int32([3, 1, 0, 2]))
    flow = net.op("TensorArrayScatterV3", made, places, x, made.node.output(1), T=FLOAT)
    every = net.op("Range", np.int32(0), size, np.int32(1))
    net.check(net.op("TensorArrayGatherV3", made, every, flow, dtype=FLOAT))
