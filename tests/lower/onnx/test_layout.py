"""How many transposes are left, and that the numbers stay what they were."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from tests.lower.builders import conv_attrs, floats
from tests.lower.onnx.harness import Net, check_model, compare, run_onnx
from thinflow.interpreter import Plan
from thinflow.ir.graph import Value
from thinflow.ir.types import QUINT8
from thinflow.lower.onnx.convert import lower_graph
from thinflow.onnx.writer import to_bytes
from thinflow.optimize.float_graph import float_graph
from thinflow.synthetic import synthetic_feeds

I32 = np.int32


class Images(Net):
    """A net with a picture as input, and a few layers."""

    def picture(self, *shape, name="x", **more):
        return self.feed(floats(*(shape or (1, 8, 8, 3))), name, **more)

    def conv(self, x, channels=3, *, to=4, name="", size=3):
        return self.op("Conv2D", x, floats(size, size, channels, to), name=name, **conv_attrs())

    def transposes(self, *outputs):
        self.check(*outputs)
        return self.counts(*outputs)["Transpose"]


def test_between_convolutions_there_is_nothing():
    net = Images()
    y = net.op("BiasAdd", net.conv(net.picture()), floats(4))
    y = net.op("Relu6", y)
    y = net.op("Mul", net.conv(y, 4), floats(4))
    y = net.op(
        "FusedBatchNormV3",
        net.conv(y, 4),
        floats(4),
        floats(4),
        floats(4),
        floats(4, low=0.1),
        is_training=False,
    )
    assert net.transposes(y) == 2  # in and out


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("op", ["Pad", "PadV2"])
def test_a_border_of_zeros_counts_in_the_maximum(op, padding):
    """ONNX Runtime would take the border into the pool, which fills borders with the lowest number."""
    net = Images()
    x = net.picture()
    borders = np.array([[0, 0], [1, 1], [1, 1], [0, 0]], I32)
    below = net.op("Sub", np.float32(-1), net.op("Relu", net.conv(x)), name="below")
    padded = net.op(op, below, borders, *([np.float32(0)] if op == "PadV2" else []), name="padded")
    y = net.op("MaxPool", padded, name="pool", ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding=padding)
    net.check(net.op("Add", y, floats(4)))


def test_residuals_and_joins():
    net = Images()
    a = net.conv(net.picture())
    b = net.conv(net.op("Relu", a), 4)
    c = net.op("AddV2", a, b)
    d = net.op("ConcatV2", c, net.conv(c, 4), I32(3))
    e = net.conv(d, 8)
    assert net.transposes(net.op("Mean", e, np.array([1, 2], I32))) == 1


def test_squeeze_and_excite():
    """The gate has sides of 1: what would be its transposes are reshapes."""
    net = Images()
    x = net.conv(net.picture())
    gate = net.op("Mean", x, np.array([1, 2], I32), keep_dims=True)
    gate = net.op("Relu", net.conv(gate, 4, to=2, size=1))
    gate = net.op("Sigmoid", net.conv(gate, 2, size=1))
    y = net.conv(net.op("Mul", x, gate), 4)
    assert net.transposes(net.op("Mean", y, np.array([1, 2], I32))) == 1


def test_gate_of_a_dense_layer():
    net = Images()
    x = net.conv(net.picture(shape=(None, 8, 8, 3)))
    gate = net.op("Sigmoid", net.op("MatMul", net.op("Mean", x, np.array([1, 2], I32)), floats(4, 4)))
    y = net.op("Mul", x, net.op("Reshape", gate, np.array([-1, 1, 1, 4], I32)))
    assert net.transposes(net.op("Mean", net.conv(y, 4), np.array([1, 2], I32))) == 1


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("axes", [[1], [3], [1, 2], [0, 3], [-1, 1], [0, 1, 2, 3]])
@pytest.mark.parametrize("op", ["Sum", "Max"])
def test_reductions(op, axes, keep):
    net = Images()
    net.opset = 18 if keep else 17
    y = net.op(op, net.conv(net.picture()), np.array(axes, I32), keep_dims=keep)
    assert net.transposes(y) <= 2


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Pad", [np.array([[0, 0], [1, 2], [0, 1], [0, 0]], I32)], {}),
        ("MirrorPad", [np.array([[0, 0], [1, 2], [0, 1], [0, 0]], I32)], {"mode": "REFLECT"}),
        ("MirrorPad", [np.array([[0, 0], [1, 2], [0, 1], [0, 0]], I32)], {"mode": "SYMMETRIC"}),
        ("StridedSlice", [np.array(a, I32) for a in ([0, 1, 0, 0], [1, 7, 5, 4], [1, 2, 1, 1])], {}),
        ("Slice", [np.array([0, 1, 1, 0], I32), np.array([1, 4, 4, -1], I32)], {}),
        ("Tile", [np.array([1, 2, 1, 3], I32)], {}),
        ("Softmax", [], {}),
        ("Cumsum", [I32(2)], {}),
        ("ReverseV2", [np.array([1, 3], I32)], {}),
        ("ResizeBilinear", [np.array([5, 6], I32)], {"half_pixel_centers": True}),
        ("SpaceToDepth", [], {"block_size": 2}),
        ("DepthToSpace", [], {"block_size": 2}),
        ("LRN", [], {"depth_radius": 2}),
        ("MaxPool", [], {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}),
        ("AddV2", [floats(8, 8, 4)], {}),
        ("AddV2", [floats(8, 1)], {}),
        ("Maximum", [np.float32(0.1)], {}),
        ("GatherV2", [np.array([2, 0, 1], I32), I32(1)], {}),
        ("Transpose", [np.array([0, 2, 1, 3], I32)], {}),
    ],
)
def test_layers_without_a_layout(op, inputs, attrs):
    """Between two convolutions they cost no Transpose (one more where they are one)."""
    net = Images()
    y = net.op(op, net.conv(net.picture()), *inputs, name="y", **attrs)
    channels = net.reference(y)[0].shape[-1]
    z = net.op("Mean", net.conv(y, channels), np.array([1, 2], I32))
    assert net.transposes(z) == (2 if op == "Transpose" else 1)


def test_several_outputs():
    net = Images()
    x = net.conv(net.picture())
    parts = net.op("Split", I32(3), x, num_split=2).node
    a, b = net.conv(parts.output(0), 2, name="a"), net.conv(parts.output(1), 2, name="b")
    values = net.op("TopKV2", x, I32(2)).node
    net.check(values.output(0), values.output(1))
    assert net.transposes(net.op("Mean", net.op("Mul", a, b), np.array([1, 2], I32))) == 1


def test_indices_along_an_axis():
    net = Images()
    x = net.conv(net.picture())
    for axis, count in ((3, 1), (1, 2)):
        assert net.transposes(net.op("ArgMax", x, I32(axis), name=f"arg{axis}")) == count
    row = net.op("StridedSlice", x, *(np.array(a, I32) for a in ([0, 2], [0, 3], [1, 1])), begin_mask=1,
                 end_mask=1, shrink_axis_mask=2)  # fmt: skip
    assert net.transposes(row) == 2


def test_the_shape_of_a_transposed_value():
    net = Images()
    x = net.conv(net.picture(shape=(None, None, None, 3)))
    sizes = net.op(
        "StridedSlice", net.op("Shape", x), np.array([1], I32), np.array([3], I32), np.array([1], I32)
    )
    y = net.conv(net.op("ResizeBilinear", x, net.op("Mul", sizes, I32(2))), 4)
    assert net.transposes(net.op("Mean", y, np.array([1, 2], I32))) == 1


def test_a_padded_input_needs_no_pad():
    net = Images()
    x = net.op("Pad", net.picture(), np.array([[0, 0], [1, 2], [3, 1], [0, 0]], I32))
    y = net.op("Conv2D", x, floats(3, 3, 3, 4), strides=[1, 2, 2, 1], padding="VALID")
    assert net.counts(y) == {"Transpose": 2, "Conv": 1}
    net.check(y)


def test_flatten_keeps_the_order_of_elements():
    net = Images()
    x = net.op("Relu", net.conv(net.picture(shape=(None, 8, 8, 3))))
    y = net.op("MatMul", net.op("Reshape", x, np.array([-1, 256], I32)), floats(256, 5))
    assert net.transposes(net.op("BiasAdd", y, floats(5))) == 2


def test_pushing_never_adds():
    """Outputs before and behind ops: pushing the one Transpose past them would make three."""
    net = Images()
    x = net.conv(net.picture())
    assert net.transposes(x, net.op("Relu", x), net.op("Exp", x)) == 2
    other = net.op("AddV2", x, net.feed(floats(1, 8, 8, 4), "z"))
    assert net.transposes(other) <= 3


@pytest.mark.parametrize("crop", [[[0, 1], [0, 0]], [[2, 2], [1, 2]], [[3, 2], [0, 0]]])
def test_dilation_spelt_by_blocks(crop):
    """One dilated convolution, unless more is cut off than was added."""
    net = Images()
    x = net.op("Relu", net.conv(net.picture(1, 9, 10, 3)))
    x = net.op("SpaceToBatchND", x, np.array([2, 2], I32), np.array([[2, 3], [2, 2]], I32))
    x = net.op("Conv2D", x, floats(3, 3, 4, 4), strides=[1, 1, 1, 1], padding="VALID")
    x = net.op("BatchToSpaceND", x, np.array([2, 2], I32), np.array(crop, I32))
    y = net.op("Mean", net.conv(net.op("BiasAdd", x, floats(4)), 4), np.array([1, 2], I32))
    assert (net.transposes(y) == 1) == (crop[0][0] <= 2)
    assert (net.counts(y)["Conv"] == 3) or crop[0][0] > 2


def test_channels_first_graphs_get_none():
    net = Images()
    x = net.feed(floats(1, 3, 8, 8))
    y = net.op("Conv2D", x, floats(3, 3, 3, 4), **conv_attrs(data_format="NCHW"))
    y = net.op("BiasAdd", y, floats(4), data_format="NCHW")
    y = net.op("MaxPool", y, ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], padding="VALID", data_format="NCHW")
    y = net.op(
        "FusedBatchNormV3",
        y,
        floats(4),
        floats(4),
        floats(4),
        floats(4, low=0.1),
        is_training=False,
        data_format="NCHW",
    )
    assert net.counts(y) == {"Conv": 1, "MaxPool": 1, "BatchNormalization": 1}
    net.check(y)


@cache
def zoo_program(name: str, optimised: bool):
    from thinflow import api, zoo

    graph = api.load(zoo.build(name))
    if optimised:
        graph = float_graph(graph, verify=False).graph
    return graph, lower_graph(graph, graph.inputs, graph.outputs)


slow = pytest.mark.slow
NETWORKS = [
    "digits",
    "mobilenet_v2",
    *(pytest.param(name, marks=slow) for name in ("mobilenet_v1", "resnet_v2_50", "inception_v3_2015")),
]


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_transpose_once(name):
    _, lowered = zoo_program(name, True)
    counts = lowered.program.counts()
    assert counts["Transpose"] == 1
    assert not {"Pad", "MatMul"} & set(counts)
    # Norms in front of an activation, which no convolution takes in.
    assert counts["BatchNormalization"] == (17 if name == "resnet_v2_50" else 0)


def test_unoptimised_networks_transpose_once_too():
    _, lowered = zoo_program("mobilenet_v2", False)
    assert lowered.program.counts()["Transpose"] == 1
    assert lowered.program.counts()["BatchNormalization"] == 52


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree_with_the_interpreter(name):
    graph, lowered = zoo_program(name, True)
    feed: dict[Value, np.ndarray] = next(synthetic_feeds(graph.inputs, 1, 0))
    results = run_onnx(lowered, {v.name: a for v, a in feed.items()})
    for value, expected in zip(
        graph.outputs, Plan(graph, graph.outputs, graph.inputs).run(feed), strict=True
    ):
        compare(results[value.name], expected, rtol=1e-3, atol=1e-4)


def test_the_batch_stays_open():
    graph, lowered = zoo_program("mobilenet_v2", True)
    assert graph.inputs[0].spec.shape[0] is None
    assert lowered.program.inputs[0].shape == (None, 224, 224, 3)
    assert lowered.program.outputs[0].shape == (None, 1000)
    check_model(to_bytes(lowered.program), lowered)


EIGHT = {"T": QUINT8, "mode": "MIN_FIRST"}


def _coded(net, x, name):
    """A float value as codes of a fixed range and back, which is two operators."""
    node = net.op("QuantizeV2", x, np.float32(-9), np.float32(9), name=f"{name}_codes", **EIGHT).node
    return net.op("Dequantize", *(node.output(p) for p in range(3)), name=name, **EIGHT)


def test_codes_are_transposed_with_their_reals():
    net = Images()
    x = net.conv(net.picture())
    y = net.conv(_coded(net, x, "back"), 4)
    counts = Counter(o.code for o in net.lower(y).program.operators)
    assert (counts["QuantizeLinear"], counts["DequantizeLinear"], counts["Transpose"]) == (1, 1, 2)
    found = run_onnx(net.lower(y), {v.name: a for v, a in net.feeds.items()})[y.name]
    compare(found, net.reference(y)[0], 0, 1.5)  # codes may differ by one


def test_codes_of_a_measured_range_are_transposed_with_their_reals():
    net = Images()
    x = net.conv(net.picture())
    ends = [net.op(op, x, np.int32([0, 1, 2, 3]), name=op) for op in ("Min", "Max")]
    node = net.op("QuantizeV2", x, *ends, name="codes", **EIGHT).node
    y = net.conv(net.op("Dequantize", *(node.output(p) for p in range(3)), name="back", **EIGHT), 4)
    counts = Counter(o.code for o in net.lower(y).program.operators)
    assert (counts["DynamicQuantizeLinear"], counts["Transpose"]) == (1, 2)
    found = run_onnx(net.lower(y), {v.name: a for v, a in net.feeds.items()})[y.name]
    compare(found, net.reference(y)[0], 0, 1.5)  # codes may differ by one


def test_bytes_are_transposed_rather_than_reals():
    net = Images()
    codes = net.feed(np.arange(192, dtype=np.uint8).reshape(1, 8, 8, 3), "codes")
    codes.node.attrs["dtype"] = QUINT8
    ends = np.float32(-1), np.float32(2)
    y = net.conv(net.op("Dequantize", codes, *ends, name="reals", **EIGHT))
    first, second = net.lower(y).program.operators[:2]
    assert (first.code, first.inputs[0].dtype.name) == ("Transpose", "uint8")
    assert second.code == "DequantizeLinear"
    net.check(y)
