"""Strings, which ONNX knows as text."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.onnx.harness import Net
from thinflow.engines.session import Session
from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, INT32, STRING

WORDS = np.array([[b"a", b"bc", "ä€".encode()], [b"", b"x y", b"12"]], object)


def agree(net, *outputs):
    """The engine runs all of it, and gives what the interpreter gives."""
    session = Session(net.graph, "onnxruntime")
    found = session.run(list(outputs), net.feeds)
    for value, a, b in zip(outputs, found, net.reference(*outputs), strict=True):
        assert a.shape == b.shape, value.name
        assert a.tolist() == b.tolist(), value.name
    return session.placement


def text_net():
    net = Net()
    net.opset = 20
    node = net.graph.add("Placeholder", name="x", attrs={"dtype": STRING, "shape": ShapeAttr(WORDS.shape)})
    net.feeds[node.output()] = WORDS
    return net, node.output()


@pytest.mark.parametrize("separator", ["", "-", "→"])
def test_joins(separator):
    net, x = text_net()
    y = net.op("StringJoin", x, x, np.array(b"!", object), name="y", N=3, separator=separator)
    rows = net.op("ReduceJoin", x, np.int32([1]), name="rows", separator=separator)
    every = net.op("ReduceJoin", x, np.int32([1, 0]), name="all", separator=separator, keep_dims=True)
    places = agree(net, y, rows, every)
    assert set(places.values()) == {"onnxruntime"}


def test_numbers_as_texts_and_back():
    net = Net()
    x, truth = net.feed(np.int32([-1, 40, 0]), "x"), net.feed(np.array([True, False]), "t")
    text = net.op("AsString", x, name="text", T=INT32)
    back = net.op(
        "StringToNumber", net.op("StringJoin", text, np.array(b".5", object), N=2), name="n", out_type=FLOAT
    )
    agree(net, text, back, net.op("AsString", truth, name="truth"))


def test_patterns():
    net, x = text_net()
    y = net.op("RegexFullMatch", x, np.array(b"[a-z]+", object), name="y")
    agree(net, y, net.op("StaticRegexFullMatch", x, name="z", pattern=r"\d*"))


def test_moving_texts():
    net, x = text_net()
    part = net.op("StridedSlice", x, np.int32([0, 1]), np.int32([2, 3]), np.int32([1, 1]), name="part")
    y = net.op(
        "ConcatV2", part, net.op("GatherV2", x, np.int32([2, 0]), np.int32(1)), np.int32(1), N=2, name="y"
    )
    agree(net, y, net.op("Reshape", net.op("Transpose", x, np.int32([1, 0])), np.int32([6]), name="z"))


def test_what_is_no_text_goes_to_the_interpreter():
    for odd in (b"\xff\xfe", b"a\0b"):
        net = Net()
        node = net.graph.add("Placeholder", name="x", attrs={"dtype": STRING, "shape": ShapeAttr((1,))})
        net.feeds[node.output()] = np.array([odd], object)
        y = net.op("StringJoin", node.output(), node.output(), N=2, name="y")
        session = Session(net.graph, "onnxruntime")
        (found,) = session.run([y], net.feeds)
        assert found.tolist() == [odd * 2]
        assert session.placement["y"] == "reference"
        assert "takes text" in session.reasons["y"]


def test_refusals():
    net, x = text_net()
    with pytest.raises(UnsupportedOp, match="strings are bytes, ONNX's are text"):
        net.lower(net.op("Equal", x, x))
    real = net.feed(np.float32([1]), "r")
    with pytest.raises(UnsupportedOp, match="float is written otherwise"):
        net.lower(net.op("AsString", real))
    net.opset = 18
    with pytest.raises(UnsupportedOp, match="since opset 20"):
        net.lower(net.op("StringJoin", x, x, N=2))
