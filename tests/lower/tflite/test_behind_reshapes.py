"""Biases, factors and activations behind a change of shape go into the layer in front of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.builders import convolved_over_time, floats
from tests.lower.tflite.harness import Net


def dense(net, *sizes, units=12):
    """Rows of x times a matrix, as Keras says it for more than two axes."""
    x = net.feed(floats(*sizes, 6))
    return net.op("MatMul", net.op("Reshape", x, np.int32([-1, 6])), floats(6, units))


@pytest.mark.parametrize(
    ("shape", "bias"),
    [
        ((2, 5, 12), (12,)),
        ((2, 5, 3, 4), (3, 4)),
        ((2, 5, 3, 4), (4,)),
        ((2, 5, 3, 4), (1, 1, 3, 1)),
        ((2, 5, 12, 1), (12, 1)),
        ((2, 5, 3, 4), ()),
    ],
)
def test_bias_factor_and_activation(shape, bias):
    net = Net()
    y = net.op("Reshape", dense(net, 2, 5), np.int32(shape))
    y = net.op("Mul", y, floats(*bias))
    y = net.op("Relu", net.op("AddV2", y, floats(*bias)))
    codes = net.check(net.op("Sin", y))
    assert codes == ["FULLY_CONNECTED", *(["RESHAPE"] if shape != (2, 5, 12) else []), "SIN"]


@pytest.mark.parametrize("bias", [(5, 1, 1), (2, 1, 1, 1), (5, 3, 4), (2, 2, 5, 3, 4)])
def test_what_differs_along_more_than_the_channels_stays(bias):
    net = Net()
    y = net.op("Reshape", dense(net, 2, 5), np.int32([2, 5, 3, 4]))
    assert net.check(net.op("AddV2", y, floats(*bias))) == ["FULLY_CONNECTED", "RESHAPE", "ADD"]


def test_channels_that_meet_others_in_one_axis():
    """Two rows become one: its numbers are those of no channel."""
    net = Net()
    y = net.op("Reshape", dense(net, 2, 5), np.int32([5, 24]))
    assert net.check(net.op("AddV2", y, floats(24))) == ["FULLY_CONNECTED", "RESHAPE", "ADD"]


def test_a_reshaped_layer_that_is_read_twice_keeps_its_numbers():
    net = Net()
    y = net.op("Reshape", dense(net, 2, 5), np.int32([2, 5, 3, 4]))
    codes = net.check(net.op("AddV2", y, floats(3, 4)), net.op("Sin", y))
    assert codes.count("ADD") == 1


def test_convolution_over_time():
    net = Net()
    codes = net.check(convolved_over_time(net))
    assert codes.count("CONV_2D") == 1
    assert not {"ADD", "RELU"} & set(codes)


def test_sizes_that_stay_open():
    net = Net()
    x = net.feed(floats(3, 5, 6), shape=(None, 5, 6))
    y = net.op("MatMul", net.op("Reshape", x, np.int32([-1, 6])), floats(6, 12))
    y = net.op("AddV2", net.op("Reshape", y, np.int32([-1, 5, 3, 4])), floats(3, 4))
    assert net.check(y) == ["FULLY_CONNECTED", "RESHAPE"]


def test_a_reshape_that_puts_axes_back_goes():
    net = Net()
    y = net.op("Reshape", dense(net, 2, 5), np.int32([2, 5, 12]))
    assert net.check(y) == ["FULLY_CONNECTED"]
    swapped = net.op("Reshape", dense(net, 2, 5), np.int32([5, 2, 12]))
    assert net.check(swapped) == ["FULLY_CONNECTED", "RESHAPE"]
