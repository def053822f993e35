"""Float layers between two eight-bit grids become integer ones within one code, or stay float."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.eight_bit import fed, narrowed, operators, reals, stored, three, two, within
from tests.lower.tflite.harness import Net
from thinflow.analysis.quant_params import infer_quant_params
from thinflow.ir.types import QUINT8

FEW = settings(max_examples=20, deadline=None)
RNG = np.random.default_rng(4)


def ends(net, value, part=1.0):
    """Constants: the range of a float value, and a part of it."""
    (array,) = net.reference(value)
    low, high = min(float(array.min()), 0.0) * part, max(float(array.max()), 0.1) * part
    return [net.const(np.float32(end), name) for end, name in ((low, "to_low"), (high, "to_high"))]


def quantized(net, value, part=1.0):
    return three(
        net.op("QuantizeV2", value, *ends(net, value, part), name="q", T=QUINT8, mode="MIN_FIRST").node
    )


def depthwise(net, x, w, stride=1, padding="SAME", **attrs):
    return net.op(
        "DepthwiseConv2dNative", x, w, name="dw", strides=(1, stride, stride, 1), padding=padding, **attrs
    )


def filters(net, *shape, size=0.4, seed=4):
    return net.const(np.random.default_rng(seed).normal(0, size, shape).astype(np.float32), "filter")


@FEW
@given(st.integers(1, 2), st.sampled_from(["SAME", "VALID"]), st.sampled_from([(3, 3), (1, 1)]),
       st.sampled_from([-2.0, 0.0]), st.sampled_from([0.7, 1.0]), st.integers(0, 99))  # fmt: skip
def test_depthwise(stride, padding, window, low, part, seed):
    net = Net()
    x = reals(net, fed(net, (1, 9, 8, 16), low, 6.0, seed=seed))
    y = depthwise(net, x, filters(net, *window, 16, 1, seed=seed), stride, padding)
    found, _ = within(net, quantized(net, y, part))
    assert "DEPTHWISE_CONV_2D" in found


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("clamp", ["Relu", "Relu6", ""])
def test_bias_and_clamp_are_part_of_it(multiplier, clamp):
    net = Net()
    x = reals(net, fed(net, (1, 9, 8, 8), 0.0, 6.0))
    y = depthwise(net, x, filters(net, 3, 3, 8, multiplier, size=0.1))
    y = net.op("BiasAdd", y, net.const(RNG.normal(0, 2, 8 * multiplier).astype(np.float32), "bias"), name="b")
    y = net.op(clamp, y, name="clamp") if clamp else y
    found, _ = within(net, quantized(net, y))
    assert [c for c in found if c != "QUANTIZE"] == ["DEPTHWISE_CONV_2D"]


def test_stored_weights_a_border_and_other_layers():
    net = Net()
    x = reals(net, fed(net, (1, 9, 9, 8), 0.0, 6.0))
    w = net.op(
        "Dequantize", *stored(net, (3, 3, 8, 1), -1.0, 1.1), name="w_reals", T=QUINT8, mode="MIN_FIRST"
    )
    pads = net.const(np.array([(0, 0), (0, 1), (0, 1), (0, 0)], np.int32), "pads")
    y = depthwise(net, net.op("Pad", x, pads, name="pad"), w, 2, "VALID")
    found, _ = within(net, quantized(net, y))
    assert [c for c in found if c != "QUANTIZE"] == ["PAD", "DEPTHWISE_CONV_2D"]
    net = Net()
    x = reals(net, fed(net, (1, 9, 9, 4), -1.0, 2.0))
    y = net.op("Conv2D", x, filters(net, 3, 3, 4, 8), name="c", strides=(1, 1, 2, 1), padding="SAME")
    found, _ = within(net, quantized(net, y))
    assert [c for c in found if c != "QUANTIZE"] == ["CONV_2D"]


def test_a_sum_behind_it_becomes_its_bias():
    net = Net()
    x = reals(net, fed(net, (1, 8, 8, 16), 0.0, 6.0))
    codes = quantized(net, depthwise(net, x, filters(net, 3, 3, 16, 1)), 3.0)
    wide = two(net, "QuantizedBiasAdd", codes, stored(net, (16,), -0.5, 0.5, "bias"))
    narrow = narrowed(net, wide, -27.0, 43.0)  # coarse enough to leave out the rounding in front
    y = three(net.op("QuantizedRelu6", *narrow, name="clamp").node)
    inner, outer = (infer_quant_params(net.graph)[v].scale for v in (codes[0], narrow[0]))
    found, _ = within(net, y, allowed=1 + math.ceil(inner / outer))
    assert [c for c in found if c != "QUANTIZE"] == ["DEPTHWISE_CONV_2D"]


def test_too_fine_a_result_stays_float():
    net = Net()
    x = reals(net, fed(net, (1, 8, 8, 16), 0.0, 6.0))
    y = depthwise(net, x, filters(net, 3, 3, 16, 1))
    lowered, found = operators(net, quantized(net, y, 0.01)[0])
    assert "DEQUANTIZE" in found
    conv = next(o for o in lowered.program.subgraphs[0].operators if o.code == "DEPTHWISE_CONV_2D")
    assert conv.outputs[0].dtype.name == "float"


def test_weights_that_are_computed_stay_float():
    net = Net()
    x = reals(net, fed(net, (1, 8, 8, 4), 0.0, 6.0))
    w = net.feed(RNG.normal(0, 1, (3, 3, 4, 1)).astype(np.float32), "w")
    _, found = operators(net, quantized(net, depthwise(net, x, w))[0])
    assert "DEQUANTIZE" in found
