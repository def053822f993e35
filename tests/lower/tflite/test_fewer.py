"""Flattening in front of a dense layer, and PReLU: fewer operators, the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.builders import floats
from tests.lower.tflite.harness import Net

SLOPES = floats(3, low=-0.5, high=0.5)


@pytest.mark.parametrize(
    ("shape", "flat", "codes"),
    [
        ((2, 1, 1, 4), [2, 4], ["FULLY_CONNECTED"]),
        ((2, 1, 1, 4), [-1, 4], ["FULLY_CONNECTED"]),
        ((2, 3, 4), [6, 4], ["FULLY_CONNECTED"]),
        ((2, 2, 1, 2), [2, 4], ["RESHAPE", "FULLY_CONNECTED"]),
    ],
)
def test_dense_layers_flatten_by_themselves(shape, flat, codes):
    net = Net()
    x = net.feed(floats(*shape))
    assert net.check(net.op("MatMul", net.op("Reshape", x, np.int32(flat)), floats(4, 5))) == codes


def test_what_others_read_stays_flat_for_them():
    net = Net()
    flat = net.op("Reshape", net.feed(floats(2, 1, 1, 4)), np.int32([2, 4]))
    codes = net.check(net.op("MatMul", flat, floats(4, 5)), net.op("Neg", flat))
    assert sorted(codes) == ["FULLY_CONNECTED", "NEG", "RESHAPE"]


def by_keras(net, x, slopes):
    """relu(x) - slopes * relu(-x)."""
    negative = net.op("Mul", -slopes, net.op("Relu", net.op("Neg", x)))
    return net.op("AddV2", net.op("Relu", x), negative)


def by_hand(net, x, slopes):
    """relu(x) + slopes * (x - |x|) / 2."""
    apart = net.op("Sub", x, net.op("Abs", x))
    return net.op("AddV2", net.op("Mul", net.op("Mul", slopes, apart), np.float32(0.5)), net.op("Relu", x))


@pytest.mark.parametrize("written", [by_keras, by_hand])
@pytest.mark.parametrize("slopes", [SLOPES, SLOPES.reshape(1, 1, 3), floats(4, 5, 3, low=0.0, high=0.5)])
def test_prelu(written, slopes):
    net = Net()
    assert net.check(written(net, net.feed(floats(2, 4, 5, 3)), slopes)) == ["PRELU"]


def test_two_sources_are_no_prelu():
    net = Net()
    x, y = net.feed(floats(2, 3), "x"), net.feed(floats(2, 3) + 1, "y")
    negative = net.op("Mul", SLOPES, net.op("Relu", net.op("Neg", y)))
    assert "PRELU" not in net.check(net.op("AddV2", net.op("Relu", x), negative))
