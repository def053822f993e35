"""Fusion: which operators are left, and that the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gelus import GELUS, spelled_gelu
from tests.lower.tflite.harness import Net


def image(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def conv(net, rng, x, channels, size=3, op="Conv2D", **attrs):
    depth = attrs.pop("depth")
    shape = (size, size, depth, 1) if op.startswith("Dep") else (size, size, depth, channels)
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME", **attrs}
    return net.op(op, x, image(rng, *shape), **attrs)


def norm(net, rng, x, channels, **attrs):
    parameters = [rng.uniform(0.5, 1.5, channels).astype(np.float32) for _ in range(4)]
    return net.op("FusedBatchNormV3", x, *parameters, is_training=False, **attrs)


def test_mobilenet_block(rng):
    """Every batch norm, bias and activation disappears into a convolution."""
    net = Net()
    x = net.feed(image(rng, 2, 9, 9, 3), shape=(None, 9, 9, 3))
    y = net.op("Relu6", norm(net, rng, conv(net, rng, x, 8, depth=3, strides=[1, 2, 2, 1]), 8))
    y = net.op("Relu6", norm(net, rng, conv(net, rng, y, 8, depth=8, op="DepthwiseConv2dNative"), 8))
    y = net.op("Relu6", norm(net, rng, conv(net, rng, y, 4, size=1, depth=8), 4))
    y = net.op("Mean", y, np.int32([1, 2]))
    y = net.op("MatMul", y, image(rng, 4, 3))
    y = net.op("Softmax", net.op("BiasAdd", y, image(rng, 3)))
    assert net.check(y) == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D", "MEAN", "FULLY_CONNECTED", "SOFTMAX"]


def test_resnet_block(rng):
    """Two convolutions, the shortcut's, and the sum with its activation."""
    net = Net()
    x = net.feed(image(rng, 1, 8, 8, 4))
    y = net.op("Relu", norm(net, rng, conv(net, rng, x, 8, depth=4), 8))
    y = norm(net, rng, conv(net, rng, y, 8, depth=8), 8)
    z = net.op("Relu", net.op("AddV2", y, norm(net, rng, conv(net, rng, x, 8, size=1, depth=4), 8)))
    assert net.check(z) == ["CONV_2D", "CONV_2D", "CONV_2D", "ADD"]


@pytest.mark.parametrize("op", ["Relu", "Relu6"])
def test_an_activation_stays_where_its_input_is_read_twice(rng, op):
    net = Net()
    x = net.feed(image(rng, 2, 3))
    total = net.op("AddV2", x, x)
    y = net.op(op, total)
    assert net.check(y, net.op("Exp", total)) == ["ADD", op.upper(), "EXP"]


def test_a_bias_stays_where_the_convolution_is_an_output(rng):
    net = Net()
    y = conv(net, rng, net.feed(image(rng, 1, 4, 4, 2)), 3, depth=2)
    assert net.check(y, net.op("BiasAdd", y, image(rng, 3))) == ["CONV_2D", "ADD"]


def test_a_bias_behind_an_activation_stays(rng):
    net = Net()
    y = net.op("Relu", conv(net, rng, net.feed(image(rng, 1, 4, 4, 2)), 3, depth=2))
    assert net.check(net.op("AddV2", y, image(rng, 3))) == ["CONV_2D", "ADD"]


def test_a_sum_over_width_is_no_bias(rng):
    net = Net()
    y = conv(net, rng, net.feed(image(rng, 1, 4, 3, 2)), 3, depth=2)
    assert net.check(net.op("AddV2", y, image(rng, 3, 1))) == ["CONV_2D", "ADD"]


def test_differences_quotients_and_numbers_fold_too(rng):
    net = Net()
    y = conv(net, rng, net.feed(image(rng, 1, 4, 4, 2)), 3, depth=2)
    y = net.op("Sub", y, image(rng, 1, 1, 1, 3))
    y = net.op("RealDiv", y, np.float32(4))
    assert net.check(net.op("Mul", np.float32([2, 3, 4]), y)) == ["CONV_2D"]


def test_a_shared_weight_keeps_its_numbers_for_the_other_reader(rng):
    net = Net()
    x = net.feed(image(rng, 1, 4, 4, 2))
    w = net.const(image(rng, 3, 3, 2, 3))
    a = net.op("Conv2D", x, w, strides=[1, 1, 1, 1], padding="SAME")
    b = net.op("Conv2D", x, w, strides=[1, 1, 1, 1], padding="VALID")
    assert net.check(net.op("Mul", a, image(rng, 3)), b) == ["CONV_2D", "CONV_2D"]


def test_scaling_of_the_input_folds_into_the_weights(rng):
    net = Net()
    x = net.feed(image(rng, 1, 4, 4, 2))
    y = conv(net, rng, net.op("Mul", x, np.float32(1 / 255)), 3, depth=2)
    assert net.check(y) == ["CONV_2D"]


def test_chains_of_constants_merge_and_neutral_ones_vanish(rng):
    net = Net()
    x = net.feed(image(rng, 2, 3))
    y = net.op("AddV2", net.op("Sub", x, np.float32(1)), np.float32([1, 2, 3]))
    y = net.op("Mul", net.op("AddV2", y, np.float32(0)), np.float32(1))
    assert net.check(y) == ["ADD"]


def test_a_neutral_constant_that_grows_its_operand_stays(rng):
    net = Net()
    x = net.feed(image(rng, 1, 3))
    assert net.check(net.op("AddV2", x, np.zeros((2, 3), np.float32))) == ["ADD"]


@pytest.mark.parametrize(
    ("size", "pads", "stride", "codes"),
    [
        (8, (0, 1), 2, ["CONV_2D"]),
        (9, (1, 1), 2, ["CONV_2D"]),
        (8, (1, 1), 2, ["PAD", "CONV_2D"]),
        (8, (1, 1), 1, ["CONV_2D"]),
        (None, (1, 1), 1, ["CONV_2D"]),
        (None, (1, 1), 2, ["PAD", "CONV_2D"]),
    ],
)
def test_padding_becomes_same_where_it_is(rng, size, pads, stride, codes):
    net = Net()
    x = net.feed(image(rng, 1, size or 9, size or 9, 2), shape=(1, size, size, 2))
    padded = net.op("Pad", x, np.int32([[0, 0], pads, pads, [0, 0]]))
    y = conv(net, rng, padded, 3, depth=2, padding="VALID", strides=[1, stride, stride, 1])
    assert net.check(y) == codes


def test_explicit_padding_of_a_depthwise_convolution(rng):
    net = Net()
    x = net.feed(image(rng, 1, 8, 8, 2))
    pads = [0, 0, 1, 1, 1, 1, 0, 0]
    y = conv(net, rng, x, 2, depth=2, op="DepthwiseConv2dNative", padding="EXPLICIT", explicit_paddings=pads)
    assert net.check(y) == ["DEPTHWISE_CONV_2D"]


@pytest.mark.parametrize(
    ("pads", "crops", "padding"),
    [((2, 4), (0, 2), "SAME"), ((0, 0), (0, 0), "VALID"), ((4, 2), (0, 2), "kept")],
)
def test_dilation_spelled_as_space_to_batch(rng, pads, crops, padding):
    net = Net()
    size = 8 if padding == "VALID" else 10
    x = net.feed(image(rng, 1, size, size, 2))
    block = np.int32([2, 2])
    y = net.op("SpaceToBatchND", x, block, np.int32([pads, pads]))
    y = net.op("BiasAdd", conv(net, rng, y, 3, depth=2, padding="VALID"), image(rng, 3))
    y = net.op("Relu", net.op("BatchToSpaceND", y, block, np.int32([crops, crops])))
    codes = net.check(y)
    if padding == "kept":
        assert codes == ["SPACE_TO_BATCH_ND", "CONV_2D", "BATCH_TO_SPACE_ND", "RELU"]
    else:
        assert codes == ["CONV_2D"]
        options = net.lower(y).program.subgraphs[0].operators[0].options
        assert (options["dilation_h_factor"], options["padding"]) == (2, padding)


def test_reshapes_merge_and_those_that_do_nothing_vanish(rng):
    net = Net()
    x = net.feed(image(rng, 2, 6), shape=(None, 6))
    y = net.op("Squeeze", net.op("ExpandDims", x, np.int32(1)), squeeze_dims=[1])
    assert net.check(net.op("Exp", y)) == ["EXP"]
    z = net.op("Reshape", net.op("Reshape", x, np.int32([-1, 2, 3])), np.int32([-1, 3, 2]))
    assert net.check(z) == ["RESHAPE"]


def test_transposes_merge(rng):
    net = Net()
    x = net.feed(image(rng, 2, 3, 4, 5))
    there = net.op("Transpose", x, np.int32([0, 3, 1, 2]))
    assert net.check(net.op("Exp", net.op("Transpose", there, np.int32([0, 2, 3, 1])))) == ["EXP"]
    assert net.check(net.op("Transpose", there, np.int32([1, 0, 2, 3]))) == ["TRANSPOSE"]


def test_a_transpose_of_ones_is_a_reshape(rng):
    net = Net()
    x = net.feed(image(rng, 2, 1, 1, 5))
    assert net.check(net.op("Transpose", x, np.int32([0, 3, 1, 2]))) == ["RESHAPE"]


def test_what_does_nothing_vanishes(rng):
    net = Net()
    x = net.feed(image(rng, 2, 3))
    y = net.op("Pad", x, np.zeros((2, 2), np.int32))
    y = net.op("Tile", y, np.int32([1, 1]))
    y = net.op("Cast", y, DstT=net.graph.node("x").attrs["dtype"])
    y = net.op("StopGradient", net.op("CheckNumerics", y, message="no"))
    assert net.check(net.op("Exp", y)) == ["EXP"]


def test_a_mean_keeps_its_sizes_of_one(rng):
    net = Net()
    x = net.feed(image(rng, 2, 3, 4, 5), shape=(None, 3, 4, 5))
    y = net.op("Reshape", net.op("Mean", x, np.int32([1, 2])), np.int32([-1, 1, 1, 5]))
    assert net.check(y) == ["MEAN"]


def test_hard_swish(rng):
    for spelling in range(3):
        net = Net()
        x = net.feed(image(rng, 4, 5) * 3)
        gate = net.op("Relu6", net.op("AddV2", x, np.float32(3)))
        sixth = np.float32(1 / 6)
        if spelling == 0:
            y = net.op("Mul", x, net.op("Mul", gate, sixth))
        elif spelling == 1:
            y = net.op("Mul", net.op("Mul", x, gate), sixth)
        else:
            y = net.op("Mul", net.op("RealDiv", gate, np.float32(6)), x)
        assert net.check(y) == ["HARD_SWISH"]


@pytest.mark.parametrize("spelling", range(3))
def test_gelu(rng, spelling):
    net = Net()
    x = net.op("MatMul", net.feed(image(rng, 4, 5)), image(rng, 5, 6))
    half, root = np.float32(0.5), np.float32(np.sqrt(2))
    scaled = net.op("Mul", x, 1 / root) if spelling else net.op("RealDiv", x, root)
    gate = net.op("AddV2", net.op("Erf", scaled), np.float32(1))
    if spelling == 2:
        y = net.op("Mul", net.op("Mul", x, gate), half)
    else:
        y = net.op("Mul", net.op("Mul", half, x), gate)
    assert net.check(y, atol=1e-4) == ["FULLY_CONNECTED", "GELU"]


@pytest.mark.parametrize("outside", [False, True])
def test_gelu_of_the_complementary_error_function(rng, outside):
    net = Net()
    x = net.op("MatMul", net.feed(image(rng, 4, 5)), image(rng, 5, 6))
    root = np.float32(np.sqrt(0.5))
    scaled = net.op("Neg", net.op("Mul", x, root)) if outside else net.op("Mul", net.op("Neg", x), root)
    y = net.op("Mul", net.op("Mul", np.float32(0.5), x), net.op("Erfc", scaled))
    assert net.check(y, atol=1e-4) == ["FULLY_CONNECTED", "GELU"]


@pytest.mark.parametrize(("spelling", "products"), GELUS.items())
def test_gelu_with_its_factors_anywhere(rng, spelling, products):
    net = Net()
    x = net.op("Exp", net.feed(image(rng, 4, 5)))
    x = net.op("Sub", x, net.feed(image(rng, 4, 5)))
    codes = net.check(net.op("Sin", spelled_gelu(net, x, spelling)), atol=1e-4)
    assert sorted(codes) == sorted(["EXP", "SUB", "GELU", "SIN", *["MUL"] * products])


def test_what_is_nearly_a_gelu_stays(rng):
    """The function is of something else, the sum is not with one, or a product has a third factor."""
    for spelling in range(3):
        net = Net()
        x, other = net.feed(image(rng, 4, 5)), net.feed(image(rng, 4, 5))
        erf = net.op("Erf", net.op("Mul", other if spelling == 0 else x, np.float32(np.sqrt(0.5))))
        gate = net.op("AddV2", erf, np.float32(1.1 if spelling == 1 else 1))
        y = net.op("Mul", net.op("Mul", x, np.float32(0.5)), gate)
        y = net.op("Mul", y, other) if spelling == 2 else y
        codes = net.check(y, atol=1e-4)
        assert ("SELECT_V2" in codes) == (spelling != 2)


@pytest.mark.parametrize(("alpha", "code"), [(0.1, "LEAKY_RELU"), (1.5, "MAXIMUM")])
def test_leaky_relu(rng, alpha, code):
    net = Net()
    x = net.op("Exp", net.feed(image(rng, 4, 5)))
    x = net.op("Sub", x, np.float32(2))
    assert net.check(net.op("Maximum", net.op("Mul", x, np.float32(alpha)), x))[-1] == code


def test_relu_and_minimum_are_relu6(rng):
    net = Net()
    x = net.feed(image(rng, 4, 5) * 8)
    y = net.op("Minimum", net.op("Relu", net.op("AddV2", x, x)), np.float32(6))
    assert net.check(y) == ["ADD"]


def test_softmax_spelled_out_stays(rng):
    net = Net()
    e = net.op("Exp", net.feed(image(rng, 2, 3)))
    y = net.op("RealDiv", e, net.op("Sum", e, np.int32([-1]), keep_dims=True))
    assert net.check(y) == ["EXP", "SUM", "DIV"]
