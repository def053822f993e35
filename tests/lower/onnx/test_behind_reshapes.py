"""Biases behind a change of shape go into the layer in front of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.builders import convolved_over_time, floats
from tests.lower.onnx.harness import Net


def rows(net, units=12):
    return net.op("MatMul", net.op("Reshape", net.feed(floats(2, 5, 6)), np.int32([-1, 6])), floats(6, units))


@pytest.mark.parametrize(
    ("shape", "bias", "fits"),
    [
        ((2, 5, 12), (12,), True),
        ((2, 5, 3, 4), (3, 4), True),
        ((2, 5, 3, 4), (4,), True),
        ((2, 5, 3, 4), (1, 1, 3, 1), True),
        ((2, 5, 3, 4), (1,), True),
        ((2, 5, 3, 4), (5, 1, 1), False),
        ((5, 24), (24,), False),
        ((2, 5, 3, 4), (1, 2, 5, 3, 4), False),
    ],
)
def test_bias_of_a_product(shape, bias, fits):
    net = Net()
    y = net.op("AddV2", net.op("Reshape", rows(net), np.int32(shape)), floats(*bias))
    codes = net.check(net.op("Sin", y))
    assert ("Gemm" in codes, "Add" in codes) == (fits, not fits)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (12,), (1, 12)])
def test_bias_right_behind_a_product(shape):
    net = Net()
    assert net.check(net.op("AddV2", rows(net), floats(*shape)))[-1] == "Gemm"


def test_convolution_over_time():
    net = Net()
    codes = net.check(convolved_over_time(net))
    assert codes.count("Conv") == 1
    assert "Add" not in codes
