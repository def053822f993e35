"""Eight-bit ops by LiteRT's integer kernels: within one code of the reference, region by region."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.eight_bit import (
    WIDE,
    fed,
    frozen,
    measured,
    narrowed,
    one,
    operators,
    random_codes,
    reals,
    stored,
    three,
    two,
    within,
)
from tests.lower.tflite.harness import Net, run_litert
from thinflow.errors import UnsupportedOp
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import QINT8, QINT32, QUINT8
from thinflow.lower.tflite.convert import lower_graph, unsupported

FEW = settings(max_examples=25, deadline=None)
_IMAGE = st.tuples(st.integers(1, 2), st.integers(3, 9), st.integers(3, 9), st.sampled_from([1, 3, 16]))
_LOWS = st.sampled_from([-4.0, -1.0, -0.3, 0.0])
_HIGHS = st.sampled_from([0.5, 1.0, 3.7])
_TYPES = st.sampled_from([QUINT8, QINT8])
_FREEZING = st.sampled_from([0.4, 1.0, 1.3])


# --- convolutions and products ------------------------------------------------------------------------------


@FEW
@given(_IMAGE, st.integers(1, 3), st.integers(1, 5), st.sampled_from(["SAME", "VALID"]),
       st.integers(1, 20), _LOWS, _HIGHS, st.sampled_from([-3.0, -0.6, 0.0]), _FREEZING, _TYPES)  # fmt: skip
def test_convolution(shape, kernel, stride, padding, count, low, high, weights_low, part, T):
    """Also with strides that leave pixels over, where windows move to the centre; any range of weights."""
    net = Net()
    x = fed(net, shape, low, high)
    w = stored(net, (kernel, kernel, shape[3], count), weights_low, 1.0)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, stride, stride, 1), padding=padding)
    found, _ = within(net, frozen(net, wide, part, T))
    assert found.count("CONV_2D") == 1


def test_the_kernel_is_that_for_int8_and_weights_are_symmetric():
    net = Net()
    x, w = fed(net, (1, 6, 6, 8), -1, 2), stored(net, (3, 3, 8, 4), -1, 0.7)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    lowered, found = operators(net, frozen(net, wide)[0])
    assert found[0] == "QUANTIZE"
    assert found[-2:] == ["CONV_2D", "QUANTIZE"]
    conv = lowered.program.subgraphs[0].operators[-2]
    data, weights, bias = conv.inputs
    assert [t.dtype.name for t in (data, weights, bias, conv.outputs[0])] == ["int8", "int8", "int32", "int8"]
    assert weights.quantization.zero_point.tolist() == bias.quantization.zero_point.tolist() == [0]
    scales = data.quantization.scale * weights.quantization.scale
    np.testing.assert_allclose(bias.quantization.scale, scales, rtol=1e-6)
    assert np.abs(weights.array().astype(int)).max() <= 127
    ends = lowered.program.subgraphs[0]
    assert (ends.inputs[0].dtype.name, ends.outputs[0].dtype.name) == ("quint8", "quint8")
    assert ends.inputs[0].quantization.zero_point.tolist() == [85]
    np.testing.assert_allclose(ends.inputs[0].quantization.scale, [3 / 255], rtol=1e-6)


def test_channels_that_fit_into_int8_keep_their_weights_beside_one_that_does_not():
    net = Net()
    x = fed(net, (1, 3, 3, 200), 0.0, 6.0)
    codes = random_codes((3, 3, 200, 40), QUINT8, 1)
    codes[..., 1:] = np.minimum(codes[..., 1:], 220)  # 100 stands for 0: at most 127 above it
    value = net.graph.constant(Tensor.from_array(codes, QUINT8), "w")
    w = [value, net.const(np.float32(-1.0), "w_low"), net.const(np.float32(1.55), "w_high")]
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    narrow = frozen(net, wide)
    within(net, narrow)
    lowered, found = operators(net, narrow[0])
    weights = lowered.program.subgraphs[0].operators[found.index("CONV_2D")].inputs[1]
    stored_values = codes.astype(int).transpose(3, 0, 1, 2) - 100
    np.testing.assert_array_equal(weights.array()[1:], stored_values[1:])
    scales = weights.quantization.scale
    assert scales[0] > scales[1]
    assert len(set(scales[1:].tolist())) == 1


@pytest.mark.parametrize("batch", [1, 3])
def test_a_batch_of_any_size(batch):
    net = Net()
    x = net.feed(random_codes((batch, 6, 6, 8), QUINT8, 0), shape=(None, 6, 6, 8))
    x.node.attrs["dtype"] = QUINT8
    codes = [x, net.const(np.float32(-1), "low"), net.const(np.float32(2), "high")]
    wide = two(
        net, "QuantizedConv2D", codes, stored(net, (3, 3, 8, 4), 0, 1), strides=(1, 2, 2, 1), padding="SAME"
    )
    narrow = frozen(net, wide)
    lowered, found = operators(net, narrow[0])
    assert lowered.inputs["x"].shape == (None, 6, 6, 8)
    assert "CONCATENATION" in found
    within(net, narrow)


@FEW
@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 9), st.booleans(), st.booleans(), _LOWS, _HIGHS,
       _FREEZING)  # fmt: skip
def test_matrix_product(rows, inner, count, transpose_a, transpose_b, low, high, part):
    net = Net()
    x = fed(net, (inner, rows) if transpose_a else (rows, inner), low, high)
    w = stored(net, (count, inner) if transpose_b else (inner, count), -0.4, 0.7)
    wide = two(net, "QuantizedMatMul", x, w, transpose_a=transpose_a, transpose_b=transpose_b, **WIDE)
    found, _ = within(net, frozen(net, wide, part))
    assert "FULLY_CONNECTED" in found


# --- element by element -------------------------------------------------------------------------------------


@FEW
@given(st.sampled_from(["QuantizedAdd", "QuantizedMul"]), _LOWS, _HIGHS, _LOWS, _HIGHS, _FREEZING,
       st.sampled_from([(2, 5, 7), (7,), (1,)]), st.booleans())  # fmt: skip
def test_sums_and_products(op, low, high, other_low, other_high, part, shape, constant):
    net = Net()
    make = stored if constant else fed
    x, y = fed(net, (2, 5, 7), low, high), make(net, shape, other_low, other_high, "y")
    found, _ = within(net, frozen(net, two(net, op, x, y, **WIDE), part))
    assert ("ADD" if op == "QuantizedAdd" else "MUL") in found


def test_sums_with_an_empty_constant_are_none():
    net = Net()
    x, y = fed(net, (2, 1), 0, 1), stored(net, (0,), 0, 1)
    codes, *_ = narrowed(net, two(net, "QuantizedAdd", x, y, **WIDE), 0, 2)
    net.check(codes)


@FEW
@given(_LOWS, _HIGHS, st.sampled_from([-0.8, -0.1]), st.sampled_from([0.05, 0.7]), _FREEZING,
       _TYPES, st.sampled_from(["", "QuantizedRelu", "QuantizedRelu6"]))  # fmt: skip
def test_bias(low, high, bias_low, bias_high, part, T, clamp):
    """Also where TensorFlow's kernel adds to each sum what float32 rounds the code of 0 by."""
    net = Net()
    x, y = fed(net, (2, 5, 7), low, high, T=T), stored(net, (7,), bias_low, bias_high, "y", T)
    wide = two(net, "QuantizedBiasAdd", x, y, T1=T, T2=T, out_type=QINT32)
    if clamp:
        wide = one(net, clamp, wide, Tinput=QINT32, out_type=QINT32)
    found, _ = within(net, frozen(net, wide, part))
    assert found.count("ADD") == 1
    assert not {"RELU", "RELU6"} & set(found)


def test_a_kernel_that_adds_on_its_own_account_is_followed():
    """Ranges for which QuantizedBiasAdd's code of 0 is rounded up: all sums are some codes too high."""
    offs = []
    for reach in np.linspace(5.0, 7.0, 12):
        net = Net()
        x, y = fed(net, (4, 6), -reach, 3.0, T=QINT8), stored(net, (6,), -1.0, 0.9, "y", QINT8)
        wide = two(net, "QuantizedBiasAdd", x, y, T1=QINT8, T2=QINT8, out_type=QINT32)
        narrow = narrowed(net, wide, 0.0, 2.0)
        (expected,) = net.reference(narrow[0])
        exact = (net.feeds[x[0]] - _zero(x)) * _step(x) + (random_codes((6,), QINT8, 1) - _zero(y)) * _step(y)
        offs.append(int(np.abs(np.clip(np.rint(exact / (2 / 255)), 0, 255) - expected).max()))
        within(net, narrow)
    assert max(offs) > 4, "the kernel has changed: nothing to follow"


def _ends(x):
    return [float(v.node.tensor.numpy()) for v in x[1:]]


def _step(x):
    low, high = _ends(x)
    return (high - low) / 255


def _zero(x):
    return -128 - np.rint(_ends(x)[0] / _step(x))


@FEW
@given(_LOWS, _HIGHS, st.integers(1, 16), st.sampled_from([7.5, 9.0, 30.0]))
def test_bias_and_clamp_join_the_convolution(low, high, count, wide):
    """Where the clamp hides what saturates on the way, and the rounding on the way does not show."""
    net = Net()
    x, w = fed(net, (1, 5, 5, 8), low, high), stored(net, (1, 1, 8, count), -0.6, 1.0)
    sums = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    inner = narrowed(net, sums, -1.0, wide, QINT8, "inner")
    y = stored(net, (count,), -0.5, 0.7, "y", QINT8)
    sums = two(net, "QuantizedBiasAdd", inner, y, T1=QINT8, T2=QINT8, out_type=QINT32)
    sums = one(net, "QuantizedRelu6", sums, Tinput=QINT32, out_type=QINT32)
    found, _ = within(net, narrowed(net, sums, 0.0, wide), 2)  # of two ops
    assert found.count("CONV_2D") == 1
    assert "ADD" not in found


def test_a_rounding_that_shows_is_not_left_out():
    net = Net()
    x, w = fed(net, (1, 5, 5, 8), -1, 1), stored(net, (1, 1, 8, 4), -0.6, 1.0)
    sums = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    inner = narrowed(net, sums, -20.0, 20.0, QINT8, "inner")
    y = stored(net, (4,), -0.5, 0.7, "y", QINT8)
    sums = two(net, "QuantizedBiasAdd", inner, y, T1=QINT8, T2=QINT8, out_type=QINT32)
    result = narrowed(net, sums, -8.0, 8.0)
    found, _ = within(net, result, 1 + 3)  # a code of the convolution is 2.5 of these
    assert "ADD" in found
    codes = run_litert(operators(net, result[0])[0], {"x": net.feeds[x[0]]})["narrow"]
    assert np.mean(codes != net.reference(result[0])[0]) < 0.1  # about half, if it were


def test_what_saturates_on_the_way_does_so_here():
    net = Net()
    x, w = fed(net, (1, 5, 5, 8), -1, 1), stored(net, (1, 1, 8, 4), -0.6, 1.0)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    inner = frozen(net, wide, 0.2, QINT8, "inner")
    y = stored(net, (4,), -0.5, 0.7, "y", QINT8)
    wide = two(net, "QuantizedBiasAdd", inner, y, T1=QINT8, T2=QINT8, out_type=QINT32)
    found, _ = within(net, narrowed(net, wide, -9.0, 9.0))
    assert "ADD" in found


# --- what keeps the grid ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["QuantizedMaxPool", "QuantizedAvgPool"])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_pools(op, padding):
    net = Net()
    x = fed(net, (2, 7, 8, 3), -1, 2)
    y = one(net, op, x, ksize=(1, 3, 2, 1), strides=(1, 2, 2, 1), padding=padding, T=QUINT8)
    _, off = within(net, y)
    assert off == 0 or op == "QuantizedAvgPool"


@pytest.mark.parametrize(("op", "code"), [("QuantizedRelu", "RELU"), ("QuantizedRelu6", "RELU6")])
def test_clamped_codes(op, code):
    net = Net()
    found, off = within(net, one(net, op, fed(net, (2, 9), -2, 9), Tinput=QUINT8, out_type=QUINT8))
    assert (found, off) == (["QUANTIZE", code, "QUANTIZE"], 0)


def test_a_clamp_behind_a_convolution_is_part_of_it():
    net = Net()
    x, w = fed(net, (1, 5, 5, 8), -1, 1), stored(net, (3, 3, 8, 4), -0.6, 0.8)
    codes = frozen(net, two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="VALID"))
    found, _ = within(net, one(net, "QuantizedRelu", codes, Tinput=QUINT8, out_type=QUINT8))
    assert "RELU" not in found


@pytest.mark.parametrize("size", [(8, 12), (4, 6), (7, 11), (2, 3)])
def test_resizing_by_weights_of_seven_bits(size):
    net = Net()
    x = fed(net, (1, 4, 6, 2), -1, 2)
    within(net, one(net, "QuantizedResizeBilinear", x, np.int32(size), align_corners=size == (7, 11)))


def test_resizing_by_other_weights_is_refused():
    net = Net()
    y = one(net, "QuantizedResizeBilinear", fed(net, (1, 4, 6, 2), -1, 2), np.int32([7, 11]))
    with pytest.raises(
        UnsupportedOp, match="resizing 4 to 7 pixels by weights of 7 bits is more than a step"
    ):
        operators(net, y[0])


def test_reshape():
    net = Net()
    y = one(net, "QuantizedReshape", fed(net, (2, 6), -1, 2), np.int32([3, -1]), T=QUINT8)
    assert within(net, y) == (["QUANTIZE", "RESHAPE", "QUANTIZE"], 0)


@pytest.mark.parametrize(("low", "high"), [(-1, 2), (-3, 1)])
def test_join(low, high):
    net = Net()
    parts = [fed(net, (2, 3), -1, 2, "a"), stored(net, (2, 4), low, high, "b"), fed(net, (2, 1), -1, 2, "c")]
    columns = [list(column) for column in zip(*parts, strict=True)]
    y = net.op(
        "QuantizedConcat",
        np.int32(1),
        *functools.reduce(operator.iadd, columns, []),
        N=3,
        T=QUINT8,
        name="joined",
    )
    _, off = within(net, three(y.node))
    assert off == 0 or low == -3


def test_stored_codes_that_nodes_give_different_ranges():
    net = Net()
    x, shared = fed(net, (2, 6), -1, 2), stored(net, (6,), 0, 0.0625, "y")
    wider = [shared[0], net.const(np.float32(0), "low"), net.const(np.float32(1), "high")]
    for number, y in enumerate((shared, wider)):
        wide = two(net, "QuantizedMul", x, y, **WIDE)
        within(
            net, narrowed(net, wide, -1 if number else -0.06, 2 if number else 0.12, name=f"narrow{number}")
        )


# --- reals --------------------------------------------------------------------------------------------------


def test_floats_go_in_and_come_out(rng):
    net = Net()
    x = net.feed(rng.uniform(-1, 2, (1, 6, 6, 3)).astype(np.float32))
    codes = net.op("QuantizeV2", x, np.float32(-1), np.float32(2), T=QUINT8, mode="MIN_FIRST").node
    wide = two(
        net, "QuantizedConv2D", three(codes), stored(net, (3, 3, 3, 4), -1, 1), strides=(1, 2, 2, 1),
        padding="SAME",
    )  # fmt: skip
    narrow = frozen(net, wide)
    y = reals(net, narrow)
    lowered, found = operators(net, y)
    assert (found[0], found[-2:]) == ("QUANTIZE", ["CONV_2D", "DEQUANTIZE"])
    ends = lowered.program.subgraphs[0]
    assert [t.dtype.name for t in (ends.inputs[0], ends.outputs[0])] == ["float", "float"]
    result = run_litert(lowered, {"x": net.feeds[x]})[y.name]
    low, high = (float(v) for v in net.reference(*narrow[1:]))
    # A code of the input more or less, and one of the result.
    np.testing.assert_allclose(result, net.reference(y)[0], atol=2.1 * (high - low) / 255)


def test_ranges_of_reals_found_anew(rng):
    """As before the first layer, and behind depthwise convolutions, which the recipe leaves in float."""
    net = Net()
    x = net.feed(rng.uniform(-1, 2, (1, 6, 6, 3)).astype(np.float32))
    flat = net.op("Reshape", x, np.int32([-1]))
    low, high = (net.op(op, flat, np.int32([0]), name=op) for op in ("Min", "Max"))
    codes = three(net.op("QuantizeV2", x, low, high, T=QUINT8, mode="MIN_FIRST").node)
    w = stored(net, (3, 3, 3, 4), -1, 1)
    wide = two(net, "QuantizedConv2D", codes, w, strides=(1, 1, 1, 1), padding="SAME")
    found, _ = within(net, frozen(net, wide))
    assert {"REDUCE_MIN", "REDUCE_MAX", "CONV_2D"} <= set(found)
    wide = two(net, "QuantizedBiasAdd", codes, stored(net, (3,), -0.2, 0.3, "y"), out_type=QINT32)
    found, _ = within(net, frozen(net, wide, name="second"))
    assert found[-3:] == ["ADD", "QUANTIZE", "QUANTIZE"]
    y = net.op("Dequantize", *one(net, "QuantizedReshape", codes, np.int32([6, 18])), mode="MIN_FIRST")
    result = run_litert(operators(net, y)[0], {"x": net.feeds[x]})[y.name]
    np.testing.assert_allclose(result, net.reference(y)[0], atol=1.01 * 3 / 255)


def test_codes_for_an_op_that_knows_nothing_of_them():
    net = Net()
    x = fed(net, (2, 3), -1, 2)
    codes = one(net, "QuantizedRelu", x, Tinput=QUINT8, out_type=QUINT8)
    y = net.op("Transpose", codes[0], np.int32([1, 0]), T=QUINT8)
    assert within(net, [y])[0] == ["QUANTIZE", "RELU", "QUANTIZE", "TRANSPOSE"]
    first = net.op("Transpose", x[0], np.int32([1, 0]), T=QUINT8)
    lowered, _ = operators(net, first, codes[0])
    results = run_litert(lowered, {"x": net.feeds[x[0]]})
    for value, expected in zip((first, codes[0]), net.reference(first, codes[0]), strict=True):
        np.testing.assert_array_equal(results[value.name], expected)


# --- refusals -----------------------------------------------------------------------------------------------

ANEW = "is found anew in every run, and LiteRT's integer kernels need it fixed: see the transform"


def test_ranges_that_are_measured_are_refused_with_what_to_do():
    net = Net()
    x, w = fed(net, (1, 5, 5, 3), -1, 2), stored(net, (3, 3, 3, 4), -1, 1)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    y = reals(net, measured(net, wide))
    anew = f"the range of 'narrow_range' {ANEW} 'freeze_requantization_ranges'"
    with pytest.raises(UnsupportedOp, match=anew) as e:
        operators(net, y)
    assert "docs/quantization.md" in e.value.hint
    found = unsupported(net.graph, list(net.graph))
    assert {n.name for n in found} == {"QuantizedConv2D", "narrow_range", "narrow", "reals"}
    assert all("freeze_requantization_ranges" in why for why in found.values())


def test_wide_codes_are_not_handed_out():
    net = Net()
    x, w = fed(net, (1, 5, 5, 3), -1, 2), stored(net, (3, 3, 3, 4), -1, 1)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    narrow = narrowed(net, wide, -3, 3)
    with pytest.raises(UnsupportedOp, match="its 32-bit values are wanted as such"):
        operators(net, narrow[0], wide[0])
    with pytest.raises(UnsupportedOp, match="32-bit values are not made by an op that LiteRT rounds"):
        lower_graph(net.graph, [wide[0]], [narrow[0]])


@pytest.mark.parametrize(("low", "high"), [(0.5, 2.0), (-3.0, -1.0)])
def test_ranges_without_0_are_refused(low, high):
    net = Net()
    x, w = fed(net, (1, 5, 5, 3), low, high), stored(net, (3, 3, 3, 4), -1, 1)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, 1, 1, 1), padding="SAME")
    with pytest.raises(UnsupportedOp, match=f"the range of 'x', {low:g} to {high:g}, does not hold 0"):
        operators(net, narrowed(net, wide, -3, 3)[0])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"strides": (1, 1, 2, 1)}, "need equal strides"),
        ({"strides": (1, 1, 1, 2)}, "along batch and channels must be 1"),
        ({"dilations": (1, 2, 2, 1)}, "dilations of this op"),
        ({"padding": "EXPLICIT"}, "padding EXPLICIT is not known"),
    ],
)
def test_other_geometry_is_refused(change, reason):
    net = Net()
    x, w = fed(net, (1, 5, 5, 3), -1, 1), stored(net, (3, 3, 3, 4), -1, 1)
    attrs = {"strides": (1, 1, 1, 1), "padding": "SAME"} | change
    wide = two(net, "QuantizedConv2D", x, w, **attrs)
    with pytest.raises(UnsupportedOp, match=reason):
        operators(net, narrowed(net, wide, -3, 3)[0])


def test_computed_weights_and_other_modes_are_refused():
    net = Net()
    x, w = fed(net, (4, 3), -1, 1), fed(net, (3, 4), -1, 1, "w")
    with pytest.raises(UnsupportedOp, match="its weights are computed while the model runs"):
        operators(net, narrowed(net, two(net, "QuantizedMatMul", x, w, **WIDE), -3, 3)[0])
    with pytest.raises(UnsupportedOp, match="LiteRT quantizes as the mode MIN_FIRST does, not SCALED"):
        operators(net, net.op("Dequantize", *x, T=QUINT8, mode="SCALED"))
