"""Measured ranges on ONNX's integer kernels: what is left out, joined or copied once before the codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.onnx.eight_bit import (
    CLAMPS,
    WIDE,
    check_measured,
    clamped,
    fed,
    lowered,
    measured,
    operators,
    run,
    stored,
    three,
    two,
    used_range,
)
from tests.lower.onnx.harness import Net, run_onnx
from thinflow.ir.types import QINT8, QINT32, QUINT8
from thinflow.lower.onnx import integers, quantized_context, transpose_passes

CLAMPED = pytest.mark.parametrize("clamp", sorted(CLAMPS, key=str))


@pytest.fixture(autouse=True, scope="module")
def small_tensors_too():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantized_context, "FEWEST", 0)
        yield


def conv(net, x, w, stride=1, padding="SAME"):
    return two(net, "QuantizedConv2D", x, w, strides=(1, stride, stride, 1), padding=padding)


def reals(codes, low, high):
    """What codes of a range stand for, and the width of one."""
    step = (float(high) - float(low)) / 255
    return codes.astype(np.float64) * step + float(low), step


def check_close(net, codes, *before):
    """Codes within one of the reference's, and half a code more of each range whose rounding is left out.

    Args:
        before: these earlier codes, each with the most that a real of theirs counts in the result.
    """
    found, *ends = run(net, *codes)
    wanted, step = reals(*net.reference(*codes))
    slack = step + sum(0.5 * factor * reals(*net.reference(*first))[1] for first, factor in before)
    np.testing.assert_allclose(ends, net.reference(*codes[1:]), rtol=1e-6, atol=slack)
    assert np.abs(reals(found, *ends)[0] - wanted).max() <= slack + step / 2


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(("window", "stride"), [((3, 3), 1), ((2, 3), 2), ((1, 5), 1)])
def test_what_windows_see_is_copied_once(batch, window, stride):
    net = Net()
    x, w = fed(net, (batch, 9, 10, 16), -1, 4), stored(net, (*window, 16, 5), -1.2, 0.9)
    sums = conv(net, x, w, stride)
    result = measured(net, sums)
    check_measured(net, result)
    counts = operators(net, result[0])
    assert (counts["Gather"], counts["Slice"], counts["Concat"]) == (1, 0, 0)
    (wanted,) = net.reference(sums[0])
    np.testing.assert_array_equal(run(net, sums[0])[0], wanted)


def test_windows_of_large_pictures_are_cut_out(monkeypatch):
    """A table of all places would be too large."""
    monkeypatch.setattr(integers, "_MOST_PLACES", 4 * 4 * 9)
    net = Net()
    x, w = fed(net, (1, 10, 10, 16), -1, 4), stored(net, (3, 3, 16, 5), -1.2, 0.9)
    result = measured(net, conv(net, x, w, 2, "VALID"))
    check_measured(net, result)
    assert operators(net, result[0])["Gather"] == 1
    monkeypatch.setattr(integers, "_MOST_PLACES", 4 * 4 * 9 - 1)
    check_measured(net, result)
    counts = operators(net, result[0])
    assert (counts["Gather"], counts["Concat"]) == (0, 1)


def test_single_pixels_need_no_copies_unless_some_are_left_out():
    for stride in (1, 2):
        net = Net()
        x, w = fed(net, (1, 9, 9, 16), -1, 4), stored(net, (1, 1, 16, 5), -1.2, 0.9)
        result = measured(net, conv(net, x, w, stride))
        check_measured(net, result)
        counts = operators(net, result[0])
        assert (counts["Gather"], counts["Slice"]) == (0, stride - 1)


@given(
    depth=st.sampled_from([1, 2, 3, 6]),
    window=st.tuples(st.integers(3, 8), st.integers(4, 7)),
    stride=st.integers(1, 4),
    width=st.sampled_from([8, 12, 16, 24]),
    padding=st.sampled_from(["SAME", "VALID"]),
    batch=st.integers(1, 2),
    ends=st.sampled_from([(-1.2, 0.9), (-0.1, 1.0)]),
)
@settings(max_examples=60, deadline=None)
def test_few_channels_in_blocks_of_columns(depth, window, stride, width, padding, batch, ends):
    net = Net()
    x, w = fed(net, (batch, 10, width, depth), -1, 4), stored(net, (*window, depth, 4), *ends)
    sums = conv(net, x, w, stride, padding)
    if used_range(net, sums)[1] >= 0:
        check_measured(net, measured(net, sums))


@CLAMPED
def test_deep_sums_of_few_channels_are_a_product_that_adds_its_bias(clamp):
    net = Net()
    x, w = fed(net, (1, 32, 32, 3), -1, 1), stored(net, (7, 7, 3, 8), -0.3, 0.4)
    first = measured(net, conv(net, x, w, 2), QINT8, "first")
    bias = stored(net, (8,), -2.0, 1.5, "bias", QINT8)
    wide = two(net, "QuantizedBiasAdd", first, bias, T1=QINT8, T2=QINT8, out_type=QINT32)
    codes = measured(net, clamped(net, wide, clamp))
    made = lowered(net, *codes).program.operators
    assert "Conv" not in {o.code for o in made}
    (product,) = [o for o in made if o.code == "MatMulInteger"]
    (total,) = [o for o in made if o.code == "Add" and len(o.outputs[0].shape) == 4]
    assert product.outputs[0].shape == total.outputs[0].shape == (1, 16, 8, 16)
    offset = 4 * reals(*net.reference(*codes))[1]  # TensorFlow's own sum is up to 4 codes off
    found, *ends = run(net, *codes)
    wanted, step = reals(*net.reference(*codes))
    slack = offset + 0.5 * reals(*net.reference(*first))[1] + step
    assert np.abs(reals(found, *ends)[0] - wanted).max() <= slack


def test_shallow_sums_of_few_channels_stay_a_convolution():
    net = Net()
    x, w = fed(net, (1, 16, 16, 3), -1, 1), stored(net, (3, 3, 3, 8), -0.3, 0.4)
    counts = operators(net, measured(net, conv(net, x, w, 2))[0])
    assert (counts["Conv"], counts["MatMulInteger"]) == (1, 0)


@CLAMPED
@pytest.mark.parametrize("shape", [(2, 5, 4, 8), (6, 8)])
@pytest.mark.parametrize("number", [False, True])
def test_a_product_and_a_sum_by_channel_are_one_pass(clamp, shape, number):
    net = Net()
    first = two(net, "QuantizedMul", fed(net, shape, -2, 3), stored(net, shape[-1:], -1.1, 0.8), **WIDE)
    first = measured(net, first, name="first")
    other = stored(net, () if number else shape[-1:], -0.5, 0.9, "y", seed=4)
    types = {"T1": QUINT8, "T2": QUINT8, "Toutput": QINT32}
    wide = three(net.op("QuantizedAdd", first[0], other[0], *first[1:], *other[1:], name="sum", **types).node)
    codes = measured(net, clamped(net, wide, clamp))
    check_close(net, codes, (first, 1.0))
    counts = operators(net, codes[0])
    assert counts["BatchNormalization"] == 1
    assert all(o.outputs[0].shape == () for o in lowered(net, codes[0]).program.operators if o.code == "Mul")


def test_a_sum_of_two_tensors_is_none_by_channel():
    net = Net()
    first = two(net, "QuantizedMul", fed(net, (2, 5, 4, 8), -2, 3), stored(net, (8,), -1.1, 0.8), **WIDE)
    first = measured(net, first, name="first")
    other = fed(net, (2, 5, 4, 8), -0.5, 0.9, "y", seed=4)
    types = {"T1": QUINT8, "T2": QUINT8, "Toutput": QINT32}
    wide = three(net.op("QuantizedAdd", first[0], other[0], *first[1:], *other[1:], name="sum", **types).node)
    codes = measured(net, wide)
    check_close(net, codes, (first, 1.0))
    assert operators(net, codes[0])["BatchNormalization"] == 0


@pytest.mark.parametrize(("stride", "padding"), [(2, "SAME"), (3, "VALID"), (1, "SAME")])
def test_pixels_some_steps_apart_are_rounded_once(stride, padding):
    """A pool whose windows are single pixels: reals are picked, not codes."""
    net = Net()
    w = stored(net, (1, 1, 16, 8), -1.2, 0.9)
    first = measured(net, conv(net, fed(net, (1, 8, 7, 16), 0, 4), w), name="first")
    window = {"ksize": (1, 1, 1, 1), "strides": (1, stride, stride, 1), "padding": padding}
    thin = three(net.op("QuantizedMaxPool", *first, name="thin", T=QUINT8, **window).node)
    codes = measured(net, two(net, "QuantizedMul", thin, stored(net, (8,), -1.0, 0.7, "y"), **WIDE))
    check_close(net, codes, (first, 1.0))
    counts = operators(net, codes[0])
    assert (counts["DynamicQuantizeLinear"], counts["NhwcMaxPool"]) == (1, 0)
    program = lowered(net, *thin)
    (found, *_) = run_onnx(program, {v.name: a for v, a in net.feeds.items()}).values()
    (wanted,) = net.reference(thin[0])
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1


def depthwise(net, batch=1):
    """A float layer and its codes."""
    x = net.feed(np.random.default_rng(0).normal(size=(batch, 8, 7, 16)).astype(np.float32))
    w = np.random.default_rng(1).normal(size=(3, 3, 16, 1)).astype(np.float32)
    y = net.op("DepthwiseConv2dNative", x, w, name="layer", strides=(1, 1, 1, 1), padding="SAME")
    ends = [net.op(op, y, np.int32([0, 1, 2, 3]), name=op) for op in ("Min", "Max")]
    return y, three(net.op("QuantizeV2", y, *ends, name="codes", T=QINT8, mode="MIN_FIRST").node)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("clamp", ["QuantizedRelu", "QuantizedRelu6"])
def test_maxima_around_a_bias_are_those_of_channels(batch, clamp, monkeypatch):
    net = Net()
    _, first = depthwise(net, batch)
    bias = stored(net, (16,), -0.5, 0.8, T=QINT8)
    wide = two(net, "QuantizedBiasAdd", first, bias, T1=QINT8, T2=QINT8, out_type=QINT32)
    codes = measured(net, clamped(net, wide, clamp))
    joined = run(net, *codes)
    made = lowered(net, *codes).program.operators
    assert [o.outputs[0].shape for o in made if o.code == "GlobalMaxPool"] == [(batch, 16, 1, 1)]
    maxima = [o.inputs[0].shape for o in made if o.code == "ReduceMax"]
    assert maxima == [(batch, 16)] * 2
    monkeypatch.setattr(transpose_passes.ReduceByChannel, "try_at", lambda *_: "")
    apart = run(net, *codes)
    assert operators(net, *codes)["GlobalMaxPool"] == 0
    for found, wanted in zip(joined, apart, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_single_maximum_is_taken_as_it_is():
    net = Net()
    y, first = depthwise(net)
    assert operators(net, y, *first)["GlobalMaxPool"] == 0
