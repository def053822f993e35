"""Layers in C whose weights are computed by other layers answer as LiteRT's own kernels do."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.c.c_answers import differences
from tests.lower.c.c_networks import RELU, Layers
from thinflow.engines._c_library import compiler
from thinflow.errors import UnsupportedOp
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.tflite.model import Operator
from thinflow.tflite.reader import read_program

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


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("layer", ["conv", "pointwise", "depthwise", "dense", "turned"])
def test_bytes(layer: str, kind: str) -> None:
    net = Layers(2, 6, 5, 4, kind=kind, seed=3)
    x, number = net.last, 1
    if layer == "conv":
        net.conv(5, 3, 2, **RELU)
    elif layer == "pointwise":
        net.conv(3, 1)
    elif layer == "depthwise":
        net.depthwise(2)
    elif layer == "dense":
        net.reshaped(2, 120)
        net.dense(7)
    else:
        options = {"stride_h": 2, "stride_w": 2, "padding": "SAME"}
        net.weighted("TRANSPOSE_CONV", (3, 3, 3, 4), 0, (2, 12, 10, 3), **options)
        operator = net.block.operators[-1]
        sizes = net.constant("sizes", np.int32([2, 12, 10, 3]))
        operator.inputs = [sizes, operator.inputs[1], x, operator.inputs[2]]
    weights, *bias = net.block.operators[-1].inputs[number:][:: 2 if layer == "turned" else 1]
    both = [t for t in (weights, *bias) if t is not None]
    for tensor in both:
        tensor.data = None
        net.block.inputs.append(tensor)
    assert differences(net.content()) == []
    if layer == "dense" and kind == "int8":
        assert differences(net.content(), "xnnpack") == []
    else:
        with pytest.raises(UnsupportedOp, match="--rounding litert has it"):
            network(read_program(net.content()), Options("xnnpack"))


@pytest.mark.parametrize("cpu", ["generic", "cortex-m3", "x86-64-v3"])
@pytest.mark.parametrize("has_bias", [True, False])
def test_bytes_with_biases_that_are_known(cpu: str, has_bias: bool) -> None:
    net = Layers(7, 12, seed=3)
    x, w = net.last, net.tensor("w", (9, 12), 0.02, 0)
    net.block.inputs.append(w)
    assert x.quantization is not None
    scale = x.quantization.scale * np.float32(0.02)
    bias = net.constant("bias", np.arange(-9000, 9000, 2000, dtype=np.int32), scale) if has_bias else None
    net.emit("FULLY_CONNECTED", [x, w, bias], net.tensor("y", (7, 9), 0.3), **RELU)
    assert differences(net.content(), cpu=cpu) == []


def test_weights_that_are_known_with_biases_that_are_not() -> None:
    net = Layers(1, 6, 5, 4, seed=3)
    net.conv(5, 3, 2, **RELU)
    bias = net.block.operators[-1].inputs[2]
    assert bias is not None
    bias.data = None
    net.block.inputs.append(bias)
    assert differences(net.content()) == []
