"""Dead channels: whatever lies between two layers, the results stay and nothing dead is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thinflow
from tests.transforms.support import Array, reasons, step
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Value
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT

ACTIVATIONS = ("Relu", "Relu6", "Elu", "Sigmoid", "Tanh", "")


class Net:
    """A graph from an input [1, 7, 7, 3] on, or in another layout."""

    def __init__(self, seed: int, layout: bytes = b"NHWC") -> None:
        self.graph, self.rng, self.layout = Graph(), np.random.default_rng(seed), layout
        self.shape = (1, 7, 7, 3) if layout == b"NHWC" else (1, 3, 7, 7)
        placeholder = {"dtype": FLOAT, "shape": ShapeAttr(self.shape)}
        self.x = self.graph.add("Placeholder", name="x", attrs=placeholder).output()
        self.count = 0

    def const(self, values: Array) -> Value:
        self.count += 1
        return self.graph.constant(Tensor.from_array(np.asarray(values, np.float32), FLOAT), f"c{self.count}")

    def op(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        self.count += 1
        return self.graph.add(op, list(inputs), f"{op}{self.count}", attrs={"T": FLOAT, **attrs}).output()

    def conv(self, x: Value, w: Array, padding: bytes, op: str = "Conv2D") -> Value:
        attrs = {"strides": [1, 1, 1, 1], "padding": padding, "data_format": self.layout}
        return self.op(op, x, self.const(w), **attrs)

    def bias(self, x: Value, b: Array) -> Value:
        return self.op("BiasAdd", x, self.const(b), data_format=self.layout)

    def done(self, y: Value) -> Graph:
        self.graph.inputs, self.graph.outputs = [self.x], [y]
        return self.graph


def run(graph: Graph, shape: tuple[int, ...], seed: int = 0) -> Array:
    feed = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    (y,) = thinflow.Session(graph, engine="reference").run([graph.outputs[0].name], {"x": feed})
    return np.asarray(y)


def checked(net: Net, graph: Graph) -> Graph:
    """The graph without dead channels, found to give the same and to have none left."""
    before = run(graph, net.shape)
    made, _ = step(graph, "remove_dead_channels")
    np.testing.assert_allclose(run(made, net.shape), before, rtol=1e-4, atol=1e-5)
    assert step(made, "remove_dead_channels")[1].changes == 0
    return made


def weights(graph: Graph) -> list[tuple[int, ...]]:
    """Shapes of the weights of convolutions and products, in the order of the file."""
    return [n.inputs[1].node.tensor.shape for n in graph if n.op in ("Conv2D", "MatMul")]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from(ACTIVATIONS),
    st.sampled_from(("", "SAME", "VALID")),
    st.sampled_from(("", "MaxPool", "AvgPool")),
    st.sampled_from((b"SAME", b"VALID")),
    st.booleans(),
)
def test_results_stay(
    seed: int, activation: str, deep: str, pool: str, padding: bytes, pointwise: bool
) -> None:
    net = Net(seed)
    rng, count = net.rng, 6
    w, v = rng.normal(size=(3, 3, 3, count)), rng.normal(size=(*((1, 1) if pointwise else (3, 3)), count, 4))
    w[..., rng.random(count) < 0.4] = 0
    v[:, :, rng.random(count) < 0.3] = 0
    y = net.bias(net.conv(net.x, w, b"SAME"), rng.normal(size=count))
    y = net.op(activation, y) if activation else y
    if deep:
        d = rng.normal(size=(3, 3, count, 1))
        d[:, :, rng.random(count) < 0.3] = 0
        y = net.bias(net.conv(y, d, deep.encode(), "DepthwiseConv2dNative"), rng.normal(size=count))
        y = net.op("Relu", y)
    if pool:
        y = net.op(pool, y, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding=b"SAME", data_format=b"NHWC")
    y = net.conv(y, v, padding)
    checked(net, net.done(net.bias(y, rng.normal(size=4)) if seed % 2 else y))


def test_constant_channels_go_into_a_bias_only_where_nothing_is_padded() -> None:
    for padding, left in ((b"SAME", 4), (b"VALID", 2)):
        net = Net(1)
        w = net.rng.normal(size=(1, 1, 3, 4))
        w[..., :2] = 0
        y = net.op("Relu", net.bias(net.conv(net.x, w, b"SAME"), np.ones(4)))
        graph = net.done(net.conv(y, net.rng.normal(size=(3, 3, 4, 5)), padding))
        made = checked(net, graph)
        assert weights(made) == [(1, 1, 3, left), (3, 3, left, 5)]


def test_what_a_relu_always_cuts_off() -> None:
    net = Net(2)
    first = net.op("Relu", net.conv(net.x, net.rng.normal(size=(1, 1, 3, 5)), b"SAME"))
    w = net.rng.normal(size=(3, 3, 5, 4))
    w[..., 1] = -np.abs(w[..., 1])
    w[..., 2] = -np.abs(w[..., 2])
    y = net.op("Relu", net.bias(net.conv(first, w, b"SAME"), np.array([1, -0.1, 0.1, 1])))
    made = checked(net, net.done(net.conv(y, net.rng.normal(size=(3, 3, 4, 2)), b"SAME")))
    assert weights(made)[1:] == [(3, 3, 5, 3), (3, 3, 3, 2)]


def test_through_a_mean_into_a_dense_layer_in_both_layouts() -> None:
    for layout, axes in ((b"NHWC", [1, 2]), (b"NCHW", [2, 3])):
        net = Net(3, layout)
        w = net.rng.normal(size=(3, 3, 3, 6))
        w[..., [0, 4]] = 0
        y = net.op("Relu", net.bias(net.conv(net.x, w, b"SAME"), np.arange(6) - 3.0))
        y = net.op("Mean", y, net.graph.constant(Tensor.from_array(np.array(axes, np.int32)), "axes"))
        made = checked(net, net.done(net.op("MatMul", y, net.const(net.rng.normal(size=(6, 3))))))
        assert weights(made) == [(3, 3, 3, 4), (4, 3)]


def test_a_layer_that_is_smaller_leaves_others_without_readers() -> None:
    net = Net(4)
    w, v, u = (net.rng.normal(size=(1, 1, a, b)) for a, b in ((3, 5), (5, 4), (4, 2)))
    u[:, :, 1:] = 0
    v[:, :, 3:, 0] = 0
    y = net.op("Relu", net.conv(net.op("Relu", net.conv(net.x, w, b"SAME")), v, b"SAME"))
    made = checked(net, net.done(net.conv(y, u, b"SAME")))
    assert weights(made) == [(1, 1, 3, 3), (1, 1, 3, 1), (1, 1, 1, 2)]


def test_one_channel_is_always_left() -> None:
    net = Net(5)
    y = net.op("Relu", net.conv(net.x, np.zeros((1, 1, 3, 4)), b"SAME"))
    made = checked(net, net.done(net.conv(y, net.rng.normal(size=(1, 1, 4, 2)), b"SAME")))
    assert weights(made) == [(1, 1, 3, 1), (1, 1, 1, 2)]


def test_weights_that_others_read_stay_for_them() -> None:
    net = Net(6)
    w = net.rng.normal(size=(1, 1, 3, 3))
    w[..., 1] = 0
    shared = net.const(w)
    attrs = {"strides": [1, 1, 1, 1], "padding": b"SAME", "data_format": b"NHWC"}
    y = net.op("Conv2D", net.op("Relu", net.op("Conv2D", net.x, shared, **attrs)), shared, **attrs)
    made = checked(net, net.done(y))
    assert weights(made) == [(1, 1, 3, 2), (1, 1, 2, 3)]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("readers", "has 2 readers"),
        ("joined", "joins them with others"),
        ("softmax", "its channels go into 'Softmax"),
        ("across", "pools across channels"),
        ("axes", "is no mean over the picture"),
        ("grouped", "it is in groups, or nothing says that it is not"),
        ("numbers", "has other numbers than one per channel"),
        ("infinite", "gives them more axes, or infinite numbers"),
    ],
)
def test_what_has_to_stay(kind: str, why: str) -> None:
    net = Net(7)
    w = net.rng.normal(size=(1, 1, 1 if kind == "grouped" else 3, 3))
    w[..., 1] = 0
    y = h = net.conv(net.x, w, b"SAME")
    if kind == "readers":
        y = net.op("AddV2", y, h)
    elif kind == "joined":
        y = net.op("AddV2", y, net.x)
    elif kind == "softmax":
        y = net.op("Softmax", y)
    elif kind == "across":
        y = net.op("MaxPool", y, ksize=[1, 1, 1, 3], strides=[1, 1, 1, 3], padding=b"VALID")
    elif kind == "axes":
        axes = net.graph.constant(Tensor.from_array(np.array([1, 3], np.int32)), "axes")
        y = net.op("Mean", y, axes, keep_dims=True)
    elif kind == "numbers":
        y = net.op("Mul", y, net.const(np.ones((1, 7, 1, 1))))
    elif kind == "infinite":
        y = net.op("Mul", y, net.const(np.array([1, np.inf, 1])))
    size = 1 if kind in ("across", "axes") else 3
    graph = net.done(net.conv(y, net.rng.normal(size=(1, 1, size, 2)), b"SAME"))
    made, report = step(graph, "remove_dead_channels")
    assert report.changes == 0
    assert any(why in text for text in reasons(report).values()), reasons(report)
    assert weights(made)[0][-1] == 3
