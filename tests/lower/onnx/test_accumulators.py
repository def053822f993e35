"""Layers of codes with constant weights: exact ones, joined ones, and those that were left in float."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.onnx.eight_bit import fed, frozen, measured, narrowed, reals, stored, three, two, used_range
from tests.lower.onnx.harness import Net, run_onnx
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import QINT8, QINT32, QUINT8
from thinflow.lower.onnx import quantized_context
from thinflow.lower.onnx.convert import lower_graph

FEW = settings(max_examples=25, deadline=None)
STEPS = (1, 1, 1, 1)


@pytest.fixture(autouse=True, scope="module")
def small_tensors_too():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantized_context, "FEWEST", 0)
        yield


def lowered(net, *outputs, extended=True, limits_bytes=True):
    return lower_graph(
        net.graph, list(net.feeds), list(outputs), opset=20, extended=extended, limits_bytes=limits_bytes
    )


def programs_codes(program):
    return [o.code.removeprefix("com.microsoft.") for o in program.program.operators]


def furthest(net, value, program):
    """How many codes the result is off at most; 0 is the reference."""
    (found,) = run_onnx(program, {v.name: a for v, a in net.feeds.items()}).values()
    (wanted,) = net.reference(value)
    return int(np.abs(found.astype(int) - wanted.astype(int)).max())


def weights(net, shape, wide=(), name="w"):
    """Weights around 0 that fit into int8, but for some; code 140 stands for 0."""
    codes = np.random.default_rng(3).integers(12, 256, shape).astype(np.uint8)
    for place, code in wide:
        codes[place] = code
    value = net.graph.constant(Tensor.from_array(codes, QUINT8), name)
    return [value, net.const(np.float32(-1.4), f"{name}_low"), net.const(np.float32(1.15), f"{name}_high")]


def conv(net, x, w, stride=1, padding="SAME"):
    return two(net, "QuantizedConv2D", x, w, strides=(1, stride, stride, 1), padding=padding)


@pytest.mark.parametrize("depth", [16, 32, 3])
@pytest.mark.parametrize("wide", [False, True])
def test_weights_around_zero(depth, wide):
    net = Net()
    x = fed(net, (1, 9, 8, depth), -1, 4)
    w = weights(net, (1, 1, depth, 16), [((0, 0, 1, 5), 0)] if wide else [])
    codes = frozen(net, conv(net, x, w))[0]
    program = lowered(net, codes)
    assert furthest(net, codes, program) <= 1
    (layer,) = [o for o in program.program.operators if o.code.endswith("QLinearConv")]
    if depth == 3 and wide:
        return  # whether its weights can be rounded depends on them
    assert not layer.inputs[5].array().any()
    assert programs_codes(program).count("Concat") == (1 if wide and depth > 4 else 0)


def test_weights_of_deep_sums_stay_as_they_are():
    net = Net()
    x, w = fed(net, (1, 5, 5, 32), -1, 4), stored(net, (3, 3, 32, 8), -1.1, 1.2)
    codes = frozen(net, conv(net, x, w))[0]
    program = lowered(net, codes)
    (layer,) = [o for o in program.program.operators if o.code.endswith("QLinearConv")]
    assert layer.inputs[5].array().any()
    assert furthest(net, codes, program) <= 1


@given(
    depth=st.sampled_from([1, 2, 3, 5, 6]),
    window=st.tuples(st.integers(1, 4), st.integers(1, 7)),
    stride=st.integers(1, 4),
    width=st.sampled_from([8, 12, 16, 24]),
    padding=st.sampled_from(["SAME", "VALID"]),
)
@settings(max_examples=60, deadline=None)
def test_several_columns_at_once(depth, window, stride, width, padding):
    net = Net()
    x, w = fed(net, (2, 10, width, depth), -1, 4), weights(net, (*window, depth, 4))
    codes = frozen(net, conv(net, x, w, stride, padding))[0]
    program = lowered(net, codes)
    assert furthest(net, codes, program) <= 1


def test_images_of_three_channels_are_read_four_pixels_at_once():
    net = Net()
    codes = frozen(net, conv(net, fed(net, (1, 16, 16, 3), -1, 1), weights(net, (3, 3, 3, 8)), 2))[0]
    program = lowered(net, codes)
    (layer,) = [o for o in program.program.operators if o.code.endswith("QLinearConv")]
    assert (layer.inputs[0].shape, layer.outputs[0].shape) == ((1, 16, 4, 12), (1, 8, 4, 16))
    assert furthest(net, codes, program) <= 1


def biased(net, x, bias, clamp, T=QINT8):
    """Codes and a bias, clamped, as 32-bit sums."""
    wide = two(net, "QuantizedBiasAdd", x, bias, T1=T, T2=T, out_type=QINT32)
    if clamp is None:
        return wide
    return three(net.op(clamp, *wide, name="clamp", Tinput=QINT32, out_type=QINT32).node)


@given(
    part=st.sampled_from([0.3, 0.7, 1.0]),
    more=st.sampled_from([0.5, 1.0, 1.6]),
    clamp=st.sampled_from([None, "QuantizedRelu", "QuantizedRelu6"]),
    depth=st.sampled_from([4, 16]),
    extended=st.booleans(),
    limits_bytes=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_bias_behind_a_layer(part, more, clamp, depth, extended, limits_bytes):
    """What saturates in between saturates still; only its rounding may be left out."""
    net = Net()
    x, w = fed(net, (1, 8, 7, depth), 0, 4), weights(net, (1, 1, depth, 8))
    first = frozen(net, conv(net, x, w), part, QINT8, "first")
    wide = biased(net, first, stored(net, (8,), -2.0, 1.5, "bias", QINT8), clamp)
    low, high = used_range(net, wide)
    codes = narrowed(net, wide, (np.float32(low), np.float32(max(high, 0.1) * more)))[0]
    program = lowered(net, codes, extended=extended, limits_bytes=limits_bytes)
    steps = [float(n[2] - n[1]) / 255 for n in (net.reference(*first), (0, low, high * more))]
    assert furthest(net, codes, program) <= 1 + int(np.ceil(0.5 * steps[0] / steps[1]))
    made = programs_codes(program)
    assert made.count("QLinearConv") == 1
    assert limits_bytes or not {"Min", "Max"} & set(made)


def test_bias_joins_its_layer():
    net = Net()
    x, w = fed(net, (1, 8, 7, 16), 0, 4), weights(net, (1, 1, 16, 8))
    first = frozen(net, conv(net, x, w), 1.0, QINT8, "first")
    codes = frozen(net, biased(net, first, stored(net, (8,), -0.3, 0.3, "bias", QINT8), "QuantizedRelu"), 0.8)
    assert programs_codes(lowered(net, codes[0])) == ["QLinearConv"]
    limited = narrowed(net, codes[0].node.inputs[:3], (np.float32(0), np.float32(1000)), name="limited")[0]
    assert programs_codes(lowered(net, limited)) == ["QLinearConv", "Min"]
    assert furthest(net, limited, lowered(net, limited)) <= 1


def test_a_layer_that_others_read_is_computed_once():
    net = Net()
    x, w = fed(net, (1, 8, 7, 16), 0, 4), weights(net, (1, 1, 16, 8))
    first = frozen(net, conv(net, x, w), 1.0, QINT8, "first")
    bias = stored(net, (8,), -0.3, 0.3, "bias", QINT8)
    codes = frozen(net, biased(net, first, bias, "QuantizedRelu"), 0.8)
    again = net.op("Dequantize", *first, name="again", T=QINT8, mode="MIN_FIRST")
    made = programs_codes(lowered(net, codes[0], again))
    assert (made.count("QLinearConv"), made.count("QLinearAdd")) == (1, 1)


def float_layer(net, op="DepthwiseConv2dNative", depth=16, scale=1.0, act=None, seed=1, **attrs):
    """Codes, a float layer between, and codes of a known range."""
    x = reals(net, fed(net, (1, 8, 7, depth), -1, 3))
    rng = np.random.default_rng(seed)
    count = 1 if op == "DepthwiseConv2dNative" else 8
    w = (np.rint(rng.uniform(-127, 127, (3, 3, depth, count))) * scale / 127).astype(np.float32)
    y = net.op(op, x, w, name="layer", strides=STEPS, padding="SAME", **attrs)
    y = net.op("BiasAdd", y, rng.normal(size=depth if count == 1 else count).astype(np.float32), name="b")
    y = y if act is None else net.op(act, y, name="act")
    (found,) = net.reference(y)
    return read_codes(net, y, np.float32(min(found.min(), 0)), np.float32(found.max() * 0.9))


def read_codes(net, y, *ends):
    """Reals as codes and back, in codes."""
    codes = three(net.op("QuantizeV2", y, *ends, name="codes", T=QUINT8, mode="MIN_FIRST").node)
    step = np.float32((ends[1] - ends[0]) / 255)
    return net.op("Mul", reals(net, codes, "read"), 1 / step, name="steps")


def check_reals(net, value, program):
    """They are within one of the reference."""
    (found,) = run_onnx(program, {v.name: a for v, a in net.feeds.items()}).values()
    (wanted,) = net.reference(value)
    assert np.abs(found - wanted).max() < 1.01


@pytest.mark.parametrize("act", [None, "Relu", "Relu6"])
@pytest.mark.parametrize("op", ["DepthwiseConv2dNative", "Conv2D"])
@pytest.mark.parametrize("extended", [False, True])
def test_float_layer_between_codes(op, act, extended):
    net = Net()
    codes = float_layer(net, op, act=act)
    program = lowered(net, codes, extended=extended)
    made = programs_codes(program)
    assert (made.count("QLinearConv"), made.count("Conv")) == (1, 0)
    check_reals(net, codes, program)


def test_float_layer_whose_weights_do_not_fit_stays_float():
    net = Net()
    x = reals(net, fed(net, (1, 8, 7, 16), -1, 3))
    w = np.full((3, 3, 16, 1), 0.004, np.float32)
    w[1, 1] = 1
    w[0] *= -1.37
    w *= np.linspace(1, 60, 16, dtype=np.float32)[:, None]
    y = net.op("DepthwiseConv2dNative", x, w, name="layer", strides=STEPS, padding="SAME")
    codes = read_codes(net, y, np.float32(-0.9), np.float32(1.3))
    program = lowered(net, codes)
    assert "Conv" in programs_codes(program)
    check_reals(net, codes, program)


@pytest.mark.parametrize("clamp", [None, "QuantizedRelu", "QuantizedRelu6"])
@pytest.mark.parametrize("window", [1, 3])
def test_bias_on_sums_of_a_measured_range(clamp, window):
    """The sums are rounded once, behind the bias; half a code of the range in between is less."""
    net = Net()
    x, w = fed(net, (1, 8, 7, 16), 0, 4), weights(net, (window, window, 16, 8))
    first = measured(net, conv(net, x, w), QINT8, "first")
    codes = measured(net, biased(net, first, stored(net, (8,), -2.0, 1.5, "bias", QINT8), clamp))
    (found, *ends) = run_onnx(lowered(net, *codes), {v.name: a for v, a in net.feeds.items()}).values()
    wanted, *wanted_ends = net.reference(*codes)
    _, low, high = net.reference(*first)
    step = float(wanted_ends[1] - wanted_ends[0]) / 255
    slack = 0.5 * float(high - low) / 255 + 4 * step  # TensorFlow's own sum is up to 4 codes off
    np.testing.assert_allclose(ends, wanted_ends, atol=slack)
    apart = np.abs(_reals(found, ends) - _reals(wanted, wanted_ends))
    assert apart.max() <= slack + step
    made = programs_codes(lowered(net, codes[0]))
    assert made.count("DynamicQuantizeLinear") + made.count("QuantizeLinear") == 1
    assert "QLinearAdd" not in made


def _reals(codes, ends):
    """What codes of a range stand for."""
    return codes.astype(np.float64) * (float(ends[1]) - float(ends[0])) / 255 + float(ends[0])


def test_float_layer_behind_a_measured_range_reads_what_was_rounded():
    net = Net()
    codes = measured(net, conv(net, fed(net, (1, 8, 7, 16), 0, 4), weights(net, (1, 1, 16, 8))))
    x = reals(net, codes)
    w = np.random.default_rng(0).normal(size=(3, 3, 8, 1)).astype(np.float32)
    y = net.op("DepthwiseConv2dNative", x, w, name="layer", strides=STEPS, padding="SAME")
    program = lowered(net, y)
    assert not {"DynamicQuantizeLinear", "QuantizeLinear"} & set(programs_codes(program))
    (found,) = run_onnx(program, {v.name: a for v, a in net.feeds.items()}).values()
    (wanted,) = net.reference(y)
    _, low, high = net.reference(*codes)
    most = np.abs(w).sum(axis=(0, 1)).max() * float(high - low) / 255
    assert np.abs(found - wanted).max() <= most


def test_reals_that_are_asked_for_are_rounded():
    net = Net()
    codes = measured(net, conv(net, fed(net, (1, 8, 7, 16), 0, 4), weights(net, (1, 1, 16, 8))))
    assert programs_codes(lowered(net, reals(net, codes))).count("DynamicQuantizeLinear") == 1


def image_on_a_grid(net):
    """Reals that codes of -4 to 3.96875 stand for without an error, those two among them."""
    steps = np.random.default_rng(0).integers(-128, 128, (1, 17, 16, 3))
    steps[0, 5, 5] = -128, 127, 0
    return net.feed((steps / 32).astype(np.float32))


@pytest.mark.parametrize("is_measured", [False, True])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_border_of_zeros_is_left_to_the_convolution(is_measured, padding):
    net = Net()
    x = net.op("Pad", image_on_a_grid(net), np.int32([[0, 0], [3, 2], [3, 3], [0, 0]]), name="pad")
    ends = [np.float32(-4), np.float32(3.96875)]
    if is_measured:
        ends = [net.op(op, x, np.int32([0, 1, 2, 3]), name=op) for op in ("Min", "Max")]
    coded = three(net.op("QuantizeV2", x, *ends, name="codes", T=QUINT8, mode="MIN_FIRST").node)
    sums = conv(net, coded, weights(net, (7, 7, 3, 8)), 2, padding)
    codes = frozen(net, sums)[0]
    program = lowered(net, codes)
    assert "Pad" not in programs_codes(program)
    assert furthest(net, codes, program) <= 1


def test_a_border_of_other_numbers_stays():
    net = Net()
    border = np.int32([[0, 0], [3, 2], [3, 3], [0, 0]])
    x = net.op("PadV2", image_on_a_grid(net), border, np.float32(1), name="pad")
    ends = np.float32(-4), np.float32(3.96875)
    coded = three(net.op("QuantizeV2", x, *ends, name="codes", T=QUINT8, mode="MIN_FIRST").node)
    codes = frozen(net, conv(net, coded, weights(net, (7, 7, 3, 8)), 2))[0]
    program = lowered(net, codes)
    assert "Pad" in programs_codes(program)
    assert furthest(net, codes, program) <= 1


def test_ends_of_a_picture_are_taken_in_the_layout_that_others_read():
    net = Net()
    x = net.feed(np.random.default_rng(0).normal(size=(1, 8, 8, 16)).astype(np.float32))
    w = np.random.default_rng(1).normal(size=(3, 3, 16, 1)).astype(np.float32)
    y = net.op("DepthwiseConv2dNative", x, w, name="layer", strides=STEPS, padding="SAME")
    axes = np.int32([0, 1, 2, 3])
    most = net.op("Max", y, axes, name="most")
    rows = net.op("Reshape", y, np.int32([64, 16]), name="rows")
    z = net.op("MatMul", rows, np.random.default_rng(2).normal(size=(16, 4)).astype(np.float32), name="z")
    program = lowered(net, z, most)
    (reduction,) = [o for o in program.program.operators if o.code == "ReduceMax"]
    source = next(o for o in program.program.operators if reduction.inputs[0] in o.outputs)
    assert (source.code, reduction.inputs[0].shape) == ("Reshape", (None,))
    found = run_onnx(program, {v.name: a for v, a in net.feeds.items()})
    for value, wanted in zip((z, most), net.reference(z, most), strict=True):
        np.testing.assert_allclose(found[value.name], wanted, rtol=1e-4, atol=1e-4)
