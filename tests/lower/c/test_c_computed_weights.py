"""Layers in C whose weights are computed by other layers answer as LiteRT's own kernels do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.c_networks import RELU, Layers
from thinflow.engines._c_library import compiler
from thinflow.tflite.model import Operator

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def computed(net: Layers, number: int = 1) -> None:
    """Let weights and bias of the last operator be inputs of the network."""
    operator: Operator = net.block.operators[-1]
    for n in (number, number + 1):
        tensor = operator.inputs[n]
        assert tensor is not None
        tensor.data = None
        net.block.inputs.append(tensor)


@pytest.mark.parametrize("filters", [3, 8, 11])
@pytest.mark.parametrize("kind", ["conv", "pointwise", "depthwise", "dense"])
def test_layers(kind: str, filters: int) -> None:
    net = Layers(2, 6, 5, 4, kind="float")
    if kind == "conv":
        net.conv(filters, 3, 2, **RELU)
    elif kind == "pointwise":
        net.conv(filters, 1)
    elif kind == "depthwise":
        net.depthwise(filters)
    else:
        net.reshaped(2, 120)
        net.dense(filters)
    computed(net)
    assert differences(net.content()) == []


def test_groups_of_filters() -> None:
    net = Layers(2, 6, 5, 8, kind="float")
    net.weighted("CONV_2D", (20, 3, 3, 4), 0, (2, 6, 5, 20), padding="SAME", stride_h=1, stride_w=1)
    computed(net)
    assert differences(net.content()) == []


def test_the_other_way_round() -> None:
    net = Layers(1, 4, 5, 3, kind="float")
    x, sizes = net.last, net.constant("sizes", np.int32([1, 8, 10, 6]))
    net.weighted("TRANSPOSE_CONV", (6, 3, 3, 3), 0, (1, 8, 10, 6), stride_h=2, stride_w=2, padding="SAME")
    operator = net.block.operators[-1]
    operator.inputs = [sizes, operator.inputs[1], x, operator.inputs[2]]
    w = operator.inputs[1]
    assert w is not None
    w.data = None
    net.block.inputs.append(w)
    assert differences(net.content()) == []


def test_three_dimensions() -> None:
    net = Layers(1, 4, 5, 3, 2, kind="float")
    options = {"stride_d": 1, "stride_h": 1, "stride_w": 1, "padding": "SAME"}
    net.weighted("CONV_3D", (2, 3, 3, 2, 5), 4, (1, 4, 5, 3, 5), **options)
    computed(net)
    assert differences(net.content()) == []


@pytest.mark.parametrize("rounding", ["litert", "xnnpack"])
def test_bytes(rounding: str) -> None:
    net = Layers(7, 12, seed=3)
    x, w = net.last, net.tensor("w", (9, 12), 0.02, 0)
    net.block.inputs.append(w)
    net.emit("FULLY_CONNECTED", [x, w, None], net.tensor("y", (7, 9), 0.3), **RELU)
    assert differences(net.content(), rounding) == []
