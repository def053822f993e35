"""Quantized ops by ONNX's integer kernels: within one code of the reference, region by region."""

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
    frozen,
    lowered,
    measured,
    narrowed,
    operators,
    reals,
    run,
    stored,
    three,
    two,
    used_range,
)
from tests.lower.onnx.harness import Net
from thinflow.ir.types import QINT8, QINT32, QUINT8
from thinflow.lower.onnx import quantized_context
from thinflow.lower.onnx.quantized_context import bit_for_bit

FEW = settings(max_examples=25, deadline=None)
_IMAGE = st.tuples(st.integers(1, 2), st.integers(3, 8), st.integers(3, 8), st.sampled_from([1, 3, 16, 18]))
_LOWS = st.sampled_from([-4.0, -1.0, -0.3, 0.0])
_HIGHS = st.sampled_from([0.5, 1.0, 3.7])
_FREEZING = st.sampled_from([0.4, 1.0, 1.3])
EXTENDED = pytest.mark.parametrize("extended", [False, True], ids=["plain", "extended"])


@pytest.fixture(autouse=True, scope="module")
def small_tensors_too():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantized_context, "FEWEST", 0)
        yield


def check_codes(net, result, extended=True, most=1):
    """Frozen codes are within one of the reference; their range is the same."""
    codes, *ends = run(net, *result, extended=extended)
    wanted, *wanted_ends = net.reference(*result)
    assert codes.dtype == wanted.dtype
    assert int(np.abs(codes.astype(int) - wanted.astype(int)).max(initial=0)) <= most
    np.testing.assert_allclose(ends, wanted_ends, rtol=1e-6)


CONVS = {
    "shape": _IMAGE,
    "window": st.tuples(st.integers(1, 3), st.integers(1, 3)),
    "count": st.integers(1, 5),
    "stride": st.integers(1, 3),
    "padding": st.sampled_from(["SAME", "VALID"]),
    "low": st.one_of(_LOWS, st.just(0.4)),
    "high": _HIGHS,
    "extended": st.booleans(),
}


def conv(net, shape, window, count, stride, padding, low, high):
    x, w = fed(net, shape, low, high), stored(net, (*window, shape[3], count), -1.2, 0.9)
    attrs = {"strides": (1, stride, stride, 1), "padding": padding}
    return two(net, "QuantizedConv2D", x, w, **attrs)


@given(**CONVS, part=_FREEZING, T=st.sampled_from([QUINT8, QINT8]))
@FEW
def test_convolution_of_a_frozen_range(extended, part, T, **sizes):
    net = Net()
    result = frozen(net, conv(net, **sizes), part, T)
    check_codes(net, result, extended)
    counts = operators(net, result[0], extended=extended)
    assert counts["QLinearConv"] == (0 if sizes["low"] > 0 else 1)


@given(**CONVS)
@FEW
def test_convolution_of_a_measured_range(extended, **sizes):
    net = Net()
    sums = conv(net, **sizes)
    result = measured(net, sums)
    if used_range(net, sums)[1] < 0:
        return  # the range is widened to hold 0, and the codes are others
    check_measured(net, result, extended)
    counts = operators(net, result[0], extended=extended)
    assert counts["DynamicQuantizeLinear"] == (0 if sizes["low"] > 0 else 1)


@pytest.mark.parametrize("shape", [(1, 5, 5, 40), (2, 9, 4, 3)])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("op", ["QuantizedConv2D", "QuantizedDepthwiseConv2D"])
def test_signed_filters(op, shape, dilation):
    net = Net()
    x, w = fed(net, shape, 0, 3), stored(net, (3, 2, shape[3], 2), -1.2, 1.2, T=QINT8)
    attrs = {"strides": (1, 1, 1, 1), "padding": "SAME", "dilations": (1, dilation, dilation, 1)}
    wide = two(net, op, x, w, Tfilter=QINT8, **attrs)
    check_codes(net, frozen(net, wide))
    check_measured(net, measured(net, wide, name="measured"))


@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 40), st.integers(1, 6)),
    turned=st.tuples(st.booleans(), st.booleans()),
    low=_LOWS,
    high=_HIGHS,
    part=_FREEZING,
    extended=st.booleans(),
)
@FEW
def test_product_of_matrices(sizes, turned, low, high, part, extended):
    net = Net()
    m, k, n = sizes
    x = fed(net, (k, m) if turned[0] else (m, k), low, high)
    w = stored(net, (n, k) if turned[1] else (k, n), -2, 1)
    wide = two(net, "QuantizedMatMul", x, w, transpose_a=turned[0], transpose_b=turned[1], **WIDE)
    result = frozen(net, wide, part)
    check_codes(net, result, extended)
    assert operators(net, result[0], extended=extended)["QLinearMatMul"] == 1
    if used_range(net, wide)[1] >= 0:
        check_measured(net, measured(net, wide, name="measured"), extended)


@given(
    shape=_IMAGE,
    T=st.sampled_from([QUINT8, QINT8]),
    clamp=st.sampled_from(sorted(CLAMPS, key=str)),
    low=_LOWS,
    high=st.sampled_from([0.5, 3.7, 9.0]),
    extended=st.booleans(),
)
@FEW
def test_bias(shape, T, clamp, low, high, extended):
    net = Net()
    x, bias = fed(net, shape, low, high, T=T), stored(net, shape[-1:], -0.5, 0.8, T=T)
    wide = two(net, "QuantizedBiasAdd", x, bias, T1=T, T2=T, out_type=QINT32)
    wide = clamped(net, wide, clamp)
    result = frozen(net, wide)
    check_codes(net, result, extended)
    assert operators(net, result[0])["QLinearAdd"] == 1
    if used_range(net, wide)[1] >= 0:
        check_measured(net, measured(net, wide, name="measured"), extended)


@given(
    op=st.sampled_from(["QuantizedAdd", "QuantizedMul"]),
    shape=_IMAGE,
    other=st.sampled_from(["same", "channels", "number"]),
    clamp=st.sampled_from(sorted(CLAMPS, key=str)),
    low=_LOWS,
    high=_HIGHS,
    extended=st.booleans(),
)
@FEW
def test_two_operands(op, shape, other, clamp, low, high, extended):
    net = Net()
    x = fed(net, shape, low, high)
    size = {"same": shape, "channels": shape[-1:], "number": ()}[other]
    y = fed(net, size, -0.7, 1.1, "y", seed=2) if other == "same" else stored(net, size, -0.7, 1.1)
    wide = clamped(net, two(net, op, x, y, **WIDE), clamp)
    result = frozen(net, wide)
    check_codes(net, result, extended)
    assert operators(net, result[0])[f"QLinear{op.removeprefix('Quantized')}"] == 1
    if used_range(net, wide)[1] >= 0:
        check_measured(net, measured(net, wide, name="measured"), extended)


@pytest.mark.parametrize("clamp", sorted(CLAMPS, key=str))
@pytest.mark.parametrize("op", ["QuantizedAdd", "QuantizedMul"])
def test_measured_range_of_a_large_picture_comes_from_its_channels(op, clamp):
    net = Net()
    wide = two(net, op, fed(net, (1, 64, 50, 32), -3, 8), stored(net, (32,), -1, 0.8), **WIDE)
    result = measured(net, clamped(net, wide, clamp))
    check_measured(net, result)
    made = lowered(net, result[0]).program.operators
    assert any(o.code.endswith("NhwcMaxPool") for o in made)
    assert all(o.outputs[0].shape == (32,) for o in made if o.code == "DynamicQuantizeLinear")


@EXTENDED
@pytest.mark.parametrize("op", ["QuantizedMaxPool", "QuantizedAvgPool"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
def test_pools(op, padding, stride, extended):
    net = Net()
    window = {"ksize": (1, 3, 2, 1), "strides": (1, stride, stride, 1), "padding": padding}
    pooled = net.op(op, *fed(net, (2, 7, 6, 3), -1, 4), name="pool", T=QUINT8, **window)
    check_codes(net, three(pooled.node), extended, most=0 if op == "QuantizedMaxPool" else 1)
    assert operators(net, pooled, extended=extended)["Gather"] == 0


@EXTENDED
@pytest.mark.parametrize("op", ["QuantizedRelu", "QuantizedRelu6"])
@pytest.mark.parametrize("high", [4.0, 9.0])
def test_clamped_codes(op, high, extended):
    net = Net()
    y = net.op(op, *fed(net, (2, 3, 3, 2), -2, high), name="y", Tinput=QUINT8)
    check_codes(net, three(y.node), extended)


@EXTENDED
@pytest.mark.parametrize("low", [-1.0, -2.0])
def test_joined_codes(low, extended):
    net = Net()
    x, y = fed(net, (2, 3, 3, 2), -1, 4), fed(net, (2, 3, 3, 5), low, 4, "y")
    joined = net.op(
        "QuantizedConcat", np.int32(3), x[0], y[0], x[1], y[1], x[2], y[2], name="j", N=2, T=QUINT8
    )
    check_codes(net, three(joined.node), extended)


@EXTENDED
def test_measured_reals_and_what_reads_them(extended):
    net = Net()
    x = net.feed(np.random.default_rng(0).normal(size=(2, 6, 5, 16)).astype(np.float32))
    axes = np.int32([0, 1, 2, 3])
    ends = [net.op(op, x, axes, name=op) for op in ("Min", "Max")]
    codes = three(net.op("QuantizeV2", x, *ends, name="codes", T=QUINT8, mode="MIN_FIRST").node)
    (low, high), shape = net.reference(*ends), np.int32([2, -1])
    reshaped = three(net.op("QuantizedReshape", codes[0], shape, *codes[1:], name="flat", T=QUINT8).node)
    value = reals(net, reshaped)
    (found,), (wanted,) = run(net, value, extended=extended), net.reference(value)
    np.testing.assert_allclose(found, wanted, atol=1.01 * float(high - low) / 255, rtol=0)
    assert operators(net, value, extended=extended)["DynamicQuantizeLinear"] == 1


@EXTENDED
def test_a_range_that_fake_quantization_gave(extended):
    net = Net()
    x = net.feed(np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32))
    ends = np.float32(-2), np.float32(1.5)
    wide = three(net.op("QuantizeV2", x, *ends, name="wide", T=QINT32, mode="MIN_FIRST").node)
    result = narrowed(net, wide, ends)
    check_codes(net, result, extended)
    assert operators(net, result[0], extended=extended) == {"QuantizeLinear": 1}


def test_32_bit_results_stay_exact():
    net = Net()
    wide = conv(net, (1, 6, 6, 40), (3, 3), 4, 1, "SAME", -1, 3)
    check_codes(net, wide, most=0)
    assert operators(net, wide[0])["MatMulInteger"] == 1
    few = conv(Net(), (1, 6, 6, 3), (3, 3), 4, 1, "SAME", -1, 3)
    assert few[0].node.op == "QuantizedConv2D"


def test_exact_codes_where_they_are_asked_for():
    net = Net()
    result = frozen(net, conv(net, (1, 6, 6, 20), (3, 3), 4, 1, "SAME", -1, 3))
    with bit_for_bit():
        check_codes(net, result, most=0)
        assert operators(net, result[0])["QLinearConv"] == 0


def test_few_codes_are_exact(monkeypatch):
    monkeypatch.setattr(quantized_context, "FEWEST", 6 * 6 * 4 + 1)
    net = Net()
    result = frozen(net, conv(net, (1, 6, 6, 20), (3, 3), 4, 1, "SAME", -1, 3))
    check_codes(net, result, most=0)
    monkeypatch.setattr(quantized_context, "FEWEST", 6 * 6 * 4)
    assert operators(net, result[0])["QLinearConv"] == 1


@EXTENDED
def test_chain_needs_no_transposes(extended):
    """Convolutions, bias, Relu and a pool, all frozen: images are transposed at the borders at most."""
    net = Net()
    x = fed(net, (1, 16, 16, 8), -1, 4)
    for number in range(3):
        w = stored(net, (3, 3, 8, 8), -0.4, 0.5, f"w{number}")
        attrs = {"strides": (1, 1, 1, 1), "padding": "SAME"}
        sums = three(
            net.op("QuantizedConv2D", x[0], w[0], *x[1:], *w[1:], name=f"conv{number}", **attrs).node
        )
        x = frozen(net, sums, T=QINT8, name=f"signed{number}")
        bias = stored(net, (8,), -0.5, 0.5, f"b{number}", QINT8)
        types = {"T1": QINT8, "T2": QINT8, "out_type": QINT32}
        sums = three(
            net.op("QuantizedBiasAdd", x[0], bias[0], *x[1:], *bias[1:], name=f"bias{number}", **types).node
        )
        sums = three(
            net.op("QuantizedRelu", *sums, name=f"relu{number}", Tinput=QINT32, out_type=QINT32).node
        )
        x = frozen(net, sums, name=f"codes{number}")
    window = {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "padding": "VALID"}
    x = three(net.op("QuantizedMaxPool", *x, name="pool", T=QUINT8, **window).node)
    counts = operators(net, x[0], extended=extended)
    assert counts["Transpose"] == (0 if extended else 2)
    assert counts["QLinearConv"] == 3
    (found,), (wanted,) = run(net, x[0], extended=extended), net.reference(x[0])
    assert np.mean(np.abs(found.astype(int) - wanted)) < 1


@pytest.mark.parametrize("scale", [0.3, 1.0, 1.7, 2.9])
def test_bias_on_reals_of_a_measured_range(scale):
    """TensorFlow's sum is off by a multiple of the range's rounding error, up to four codes."""
    net = Net()
    x = net.feed((np.random.default_rng(0).normal(size=(1, 6, 5, 16)) * scale).astype(np.float32))
    ends = [net.op(op, x, np.int32([0, 1, 2, 3]), name=op) for op in ("Min", "Max")]
    codes = three(net.op("QuantizeV2", x, *ends, name="codes", T=QINT8, mode="MIN_FIRST").node)
    bias = stored(net, (16,), -0.5, 0.8, T=QINT8)
    wide = two(net, "QuantizedBiasAdd", codes, bias, T1=QINT8, T2=QINT8, out_type=QINT32)
    check_codes(net, frozen(net, clamped(net, wide, "QuantizedRelu")), most=2)  # of two ops
