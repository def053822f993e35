"""Additions between a convolution and a depthwise one become its bias; clamps that saturation does go."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.eight_bit import fed, frozen, narrowed, one, operators, three, two, within
from tests.lower.tflite.harness import Net, run_litert
from thinflow.analysis.quant_params import infer_quant_params
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import QINT32, QUINT8
from thinflow.lower.tflite import fuse, fuse_quantized
from thinflow.lower.tflite.convert import lower_graph

FEW = settings(max_examples=25, deadline=None)
COUNT = 8


def codes_of(net, reals, name):
    """Constant codes of reals on the grid of their own range, and that."""
    low, high = float(min(reals.min(), 0)), float(max(reals.max(), 0))
    codes = np.clip(np.rint((reals - low) * 255 / (high - low)), 0, 255).astype(np.uint8)
    ends = (net.const(np.float32(end), f"{name}_{i}") for i, end in enumerate((low, high)))
    return [net.graph.constant(Tensor.from_array(codes, QUINT8), name), *ends]


class Chain:
    """Convolution, bias, clamp, depthwise convolution; its sums reach `part` of what they could.

    Attributes:
        inner: codes of the sums, before the bias.
        middle: codes with it.
        codes: of the depthwise convolution.
    """

    def __init__(
        self, part=1.0, clamp="QuantizedRelu6", bias=(-0.8, 0.8), seed=0, low=None, pad=False, top=6.0
    ):
        self.net = net = Net()
        rng = np.random.default_rng(seed)
        self.bias = np.linspace(*bias, COUNT)
        x = net.feed(rng.integers(0, 255, (1, 6, 6, COUNT), np.uint8, endpoint=True), "x")
        x.node.attrs["dtype"] = QUINT8
        codes = [x, net.const(np.float32(0), "x_low"), net.const(np.float32(1), "x_high")]
        w = rng.uniform(-1, 1, (1, 1, COUNT, COUNT))
        w[0, 0, 0, :2] = -1, 1  # so that all fit into int8
        w = codes_of(net, w, "w")
        wide = two(net, "QuantizedConv2D", codes, w, strides=(1, 1, 1, 1), padding="SAME")
        self.inner = frozen(net, wide, part, name="inner")
        wide = two(net, "QuantizedBiasAdd", self.inner, codes_of(net, self.bias, "bias"), out_type=QINT32)
        if clamp:
            wide = one(net, clamp, wide, Tinput=QINT32, out_type=QINT32)
        self.middle = narrowed(net, wide, 0.0 if low is None else low, top, name="middle")
        real = net.op("Dequantize", *self.middle, name="reals", T=QUINT8, mode="MIN_FIRST")
        if pad:
            real = net.op("Pad", real, np.int32([(0, 0), (1, 1), (1, 1), (0, 0)]), name="pad")
        # These stand for themselves in int8, so that the layer becomes an integer one.
        self.weights = (rng.integers(-127, 128, (3, 3, COUNT, 1)) / 256).astype(np.float32)
        dw = net.op("DepthwiseConv2dNative", real, net.const(self.weights, "f"), name="dw",
                    strides=(1, 1, 1, 1), padding="VALID" if pad else "SAME")  # fmt: skip
        (sums,) = net.reference(dw)
        ends = np.float32(min(sums.min(), 0)), np.float32(max(sums.max(), 0.1))
        self.codes = three(net.op("QuantizeV2", dw, *ends, name="q", T=QUINT8, mode="MIN_FIRST").node)

    def step(self, codes):
        return infer_quant_params(self.net.graph)[codes[0]].scale

    def off(self, lowered):
        """By how many codes LiteRT's result is off, each; and by how many it may be."""
        name = self.codes[0].name
        result = run_litert(lowered, {v.name: a for v, a in self.net.feeds.items()})[name]
        (expected,) = self.net.reference(self.codes[0])
        off = np.abs(result.astype(int) - expected.astype(int))
        # The inner rounding is left out; that to the middle grid may be the other way.
        each = 0.5 * self.step(self.inner) + self.step(self.middle)
        most = np.abs(self.weights).sum(axis=(0, 1)).max() * each / self.step(self.codes)
        return off, 1 + math.ceil(most)


def check(chain, *outputs):
    """The operators; the result is as close as roundings explain."""
    lowered, found = operators(chain.net, chain.codes[0], *outputs)
    off, allowed = chain.off(lowered)
    assert off.max() <= allowed
    assert off.mean() < 1
    return found


def unmerged(chain):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse, "merge_addends", lambda subgraph: None)
        return lower_graph(chain.net.graph, list(chain.net.feeds), [chain.codes[0]])


@FEW
@given(st.sampled_from([0.2, 0.5, 1.0]), st.sampled_from(["QuantizedRelu", "QuantizedRelu6", ""]),
       st.booleans(), st.sampled_from([0.4, 2.0, 6.0, 9.0]), st.integers(0, 99))  # fmt: skip
def test_as_close_as_roundings_explain(part, clamp, pad, top, seed):
    """Sums saturate for most pixels where only a part of their range is kept."""
    chain = Chain(part, clamp, bias=(-0.3, 0.1), seed=seed, pad=pad, top=top)
    assert "ADD" not in check(chain)


def test_each_channel_saturates_where_its_sums_did():
    chain = Chain(0.3, bias=(-0.5, 0.2), seed=1, top=2.0)
    lowered, found = operators(chain.net, chain.codes[0])
    assert [c for c in found if c != "QUANTIZE"] == ["CONV_2D", "DEPTHWISE_CONV_2D"]
    front, _ = (o for o in lowered.program.subgraphs[0].operators if o.code != "QUANTIZE")
    assert front.options["fused_activation_function"] == "RELU6"
    before, add, _ = (o for o in unmerged(chain).program.subgraphs[0].operators if o.code != "QUANTIZE")
    scales = (conv.inputs[1].quantization.scale for conv in (before, front))
    steps = chain.step(chain.middle) * np.divide(*scales)
    grid = add.inputs[1].quantization
    addend = (add.inputs[1].array().astype(float) - grid.zero_point) * grid.scale
    np.testing.assert_allclose(addend, chain.bias, atol=0.03)
    ends = infer_quant_params(chain.net.graph)[chain.inner[0]].high + addend
    np.testing.assert_allclose(255 * steps, np.clip(ends, 0, 2.0), atol=chain.step(chain.inner))
    assert steps.min() < 0.7 * steps.max()
    off, allowed = chain.off(lowered)
    assert off.max() <= allowed
    # One step for all: channels of a low bias go on where they have to stop.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse_quantized, "_steps", lambda *_: np.full(COUNT, chain.step(chain.middle)))
        lowered, found = operators(chain.net, chain.codes[0])
    assert "ADD" not in found
    assert chain.off(lowered)[0].max() > allowed


def test_a_channel_that_cannot_rise_above_0():
    chain = Chain(0.2, bias=(-3.0, 0.1), top=1.0)
    assert "ADD" not in check(chain)


def test_what_the_convolution_would_write_has_too_fine_a_scale_for_its_kernel():
    # The scale of its sums would do: they are multiplied by 0.8, results by 40.
    chain = Chain(1.0, bias=(-3.0, 0.1), top=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse_quantized, "_LARGEST", 20.0)
        assert "ADD" in operators(chain.net, chain.codes[0])[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"bias": (-0.1, 3.0)},  # the lowest sum and a high bias are above 0
        {"clamp": "", "low": -1.0},  # channels have two ends of their own
    ],
)
def test_what_an_end_of_one_grid_cannot_say(changes):
    assert "ADD" in check(Chain(0.2, **changes))


def test_another_reader_wants_codes_of_one_grid():
    chain = Chain(0.3)
    lowered, found = operators(chain.net, chain.codes[0], chain.middle[0])
    assert "ADD" in found
    results = run_litert(lowered, {v.name: a for v, a in chain.net.feeds.items()})
    (expected,) = chain.net.reference(chain.middle[0])
    assert np.abs(results[chain.middle[0].name].astype(int) - expected).max() <= 1


# --- clamps that saturation makes superfluous -------------------------------------------------------------


def added(net, clamp, low, high):
    """Codes of a clamped sum on a grid."""
    x, y = fed(net, (1, 6, 6, 8), -4.0, 5.0), fed(net, (1, 6, 6, 8), -1.0, 3.0, "y", seed=1)
    wide = two(net, "QuantizedAdd", x, y, T1=QUINT8, T2=QUINT8, Toutput=QINT32)
    return narrowed(net, one(net, clamp, wide, Tinput=QINT32, out_type=QINT32), low, high)


def activation_of(net, codes):
    lowered, _ = operators(net, codes[0])
    (add,) = (o for o in lowered.program.subgraphs[0].operators if o.code == "ADD")
    return add.options["fused_activation_function"]


@pytest.mark.parametrize(
    ("clamp", "low", "high", "left"),
    [
        ("QuantizedRelu", 0.0, 3.0, "NONE"),
        ("QuantizedRelu6", 0.0, 6.0, "NONE"),
        ("QuantizedRelu6", 0.0, 5.5, "NONE"),
        ("QuantizedRelu6", 0.0, 7.0, "RELU6"),  # codes go on above 6
        ("QuantizedRelu6", -1.0, 6.0, "RELU6"),  # and below 0
        ("QuantizedRelu", -1.0, 3.0, "RELU"),
    ],
)
def test_only_clamps_that_no_code_needs_go(clamp, low, high, left):
    net = Net()
    codes = added(net, clamp, low, high)
    within(net, codes)
    assert activation_of(net, codes) == left
