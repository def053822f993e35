"""Factors and addends per channel become one operator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.builders import conv_attrs, floats
from tests.lower.onnx.harness import Net

F, A = floats(3), floats(3, low=1.0)
IMAGE = floats(2, 5, 4, 3)


def scaled(net, x, factor=F, addend=A, name="y"):
    return net.op("AddV2", net.op("Mul", x, factor, name=f"{name}/mul"), addend, name=name)


def pooled(net, x):
    return net.op("MaxPool", x, name="pool", ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME")


def test_before_an_activation():
    net = Net()
    codes = net.check(net.op("Relu", scaled(net, pooled(net, net.feed(IMAGE)))))
    assert codes.count("BatchNormalization") == 1
    assert not {"Mul", "Add"} & set(codes)


def test_channels_first():
    net = Net()
    x = net.feed(np.ascontiguousarray(IMAGE.transpose(0, 3, 1, 2)))
    assert "BatchNormalization" in net.check(scaled(net, x, F.reshape(3, 1, 1), A.reshape(1, 3, 1, 1)))


@pytest.mark.parametrize(
    ("factor", "addend"),
    [(F, np.float32(1)), (F, floats(5, 4, 3)), (floats(4, 1), A), (np.float32(3), A)],
    ids=["one addend", "addend per pixel", "factor per column", "one factor"],
)
def test_other_operands_stay(factor, addend):
    net = Net()
    assert "BatchNormalization" not in net.check(scaled(net, pooled(net, net.feed(IMAGE)), factor, addend))


def test_a_product_that_others_read_stays():
    net = Net()
    y = scaled(net, pooled(net, net.feed(IMAGE)))
    product = y.node.inputs[0]
    assert "BatchNormalization" not in net.check(y, product)


def test_behind_a_convolution_they_are_left_to_it():
    net = Net()
    y = scaled(net, net.op("Conv2D", net.feed(IMAGE), floats(3, 3, 3, 3), **conv_attrs()))
    assert "BatchNormalization" not in net.check(y)
