"""Several columns of a narrow image at once: the same to the bit, and only where kernels gain by it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lower.eight_bit import WIDE, fed, frozen, operators, stored, two, within
from tests.lower.tflite.harness import Net, run_litert
from thinflow.ir.types import QUINT8
from thinflow.lower.tflite import fuse
from thinflow.lower.tflite.convert import lower_graph

FEW = settings(max_examples=25, deadline=None)


def convolution(net, shape, kernel, stride=1, padding="SAME", count=32, part=0.7):
    """Codes of a convolution of fed codes."""
    x = fed(net, shape, -0.7, 1.0)
    w = stored(net, (*kernel, shape[3], count), -0.6, 0.6)
    wide = two(net, "QuantizedConv2D", x, w, strides=(1, stride, stride, 1), padding=padding)
    return frozen(net, wide, part)


def lowered_for(net, value, matrix_unit):
    lowered = lower_graph(net.graph, list(net.feeds), [value], matrix_unit=matrix_unit)
    return lowered, [o.code for o in lowered.program.subgraphs[0].operators]


def codes_of(net, lowered, value):
    return run_litert(lowered, {v.name: a for v, a in net.feeds.items()})[value.name]


def the_convolution(lowered):
    (found,) = (o for o in lowered.program.subgraphs[0].operators if o.code == "CONV_2D")
    return found


def unmerged(net, value):
    """LiteRT's codes from the convolution as it was."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse, "merge_columns", lambda subgraph, matrix_unit: None)
        lowered = lower_graph(net.graph, list(net.feeds), [value])
    return codes_of(net, lowered, value)


@FEW
@given(st.sampled_from([1, 2, 3, 4, 12]), st.tuples(st.integers(1, 7), st.integers(1, 7)),
       st.sampled_from([1, 2, 4]), st.sampled_from(["SAME", "VALID"]), st.sampled_from([5, 16, 32, 64]),
       st.sampled_from([(64, 64), (71, 72), (66, 58), (120, 49)]), st.booleans())  # fmt: skip
def test_every_sum_stays_what_it_was(depth, kernel, stride, padding, count, sizes, matrix_unit):
    net = Net()
    codes = convolution(net, (1, *sizes, depth), kernel, stride, padding, count)
    within(net, codes)
    lowered, _ = lowered_for(net, codes[0], matrix_unit)
    np.testing.assert_array_equal(codes_of(net, lowered, codes[0]), unmerged(net, codes[0]))


@pytest.mark.parametrize(
    ("matrix_unit", "shape", "kernel", "stride", "padding", "count", "expected"),
    [
        (True, (1, 224, 224, 3), (3, 3), 2, "SAME", 32, (3, 2, 12, 64)),
        (True, (1, 160, 160, 3), (3, 3), 2, "SAME", 16, (3, 2, 24, 64)),
        (True, (1, 230, 230, 3), (7, 7), 2, "VALID", 64, (7, 4, 6, 64)),
        (True, (1, 96, 96, 1), (3, 3), 1, "SAME", 32, (3, 3, 2, 64)),
        (True, (1, 96, 96, 6), (3, 3), 2, "SAME", 32, (3, 2, 24, 64)),
        (True, (1, 112, 112, 32), (1, 1), 1, "SAME", 16, (1, 1, 128, 64)),
        (False, (1, 224, 224, 3), (3, 3), 2, "SAME", 32, (3, 2, 6, 32)),
        (False, (1, 230, 230, 3), (7, 7), 2, "VALID", 64, (7, 4, 6, 64)),
        (False, (1, 96, 96, 1), (3, 3), 2, "SAME", 16, (3, 2, 2, 16)),
        (False, (1, 224, 224, 3), (16, 16), 16, "SAME", 192, (16, 1, 48, 192)),
        (False, (1, 112, 112, 12), (4, 4), 4, "VALID", 32, (4, 1, 48, 32)),
    ],
)
def test_filters(matrix_unit, shape, kernel, stride, padding, count, expected):
    """[kh,taps,channels of a block,results of a block]; some differ from the kernel's in each size."""
    net = Net()
    codes = convolution(net, shape, kernel, stride, padding, count)
    lowered, found = lowered_for(net, codes[0], matrix_unit)
    conv = the_convolution(lowered)
    filters = conv.inputs[1].array()
    if expected[3] == count:
        assert found.count("RESHAPE") == 1
        assert conv.options["stride_w"] == 1
    else:
        assert found.count("RESHAPE") == 2
    assert (*filters.shape[1:], filters.shape[0]) == expected
    assert conv.options["stride_h"] == stride
    assert lowered.origin[conv.outputs[0].name] == codes[0].node.name
    assert conv.inputs[2].shape == (expected[3],)


@pytest.mark.parametrize(
    ("matrix_unit", "shape", "kernel", "stride", "count"),
    [
        (True, (1, 64, 64, 64), (3, 3), 1, 64),  # channels enough
        (True, (1, 65, 65, 3), (3, 3), 2, 32),  # columns that do not come out even
        (True, (1, 16, 16, 3), (3, 3), 2, 32),  # a small picture
        (True, (1, 64, 64, 3), (1, 1), 1, 64),  # no columns to share
        (False, (1, 64, 64, 3), (3, 3), 1, 32),  # twice the products where 4 are made in one step
        (False, (1, 96, 96, 6), (3, 3), 2, 32),  # channels enough
        (False, (1, 64, 64, 3), (1, 1), 2, 32),  # half of each block would be zeros
        (False, (1, 112, 112, 16), (2, 2), 2, 32),  # few taps less
        (False, (1, 96, 96, 3), (5, 5), 4, 32),  # too many zeros where products are made one by one
    ],
)
def test_what_is_left_alone(matrix_unit, shape, kernel, stride, count):
    net = Net()
    value = convolution(net, shape, kernel, stride, count=count)[0]
    lowered, found = lowered_for(net, value, matrix_unit)
    assert "RESHAPE" not in found
    assert the_convolution(lowered).inputs[1].shape == (count, *kernel, shape[3])


def test_a_filter_with_scales_of_its_own_per_channel():
    """A float layer between codes: its filter and bias have a scale for each result."""
    net = Net()
    x = fed(net, (1, 64, 64, 3), 0.0, 6.0)
    real = net.op("Dequantize", *x, name="reals", T=QUINT8, mode="MIN_FIRST")
    w = net.const(np.random.default_rng(3).normal(0, 0.2, (3, 3, 3, 32)).astype(np.float32), "filter")
    y = net.op("Conv2D", real, w, name="c", strides=(1, 2, 2, 1), padding="SAME")
    ends = np.float32(-12.0), np.float32(12.0)
    q = net.op("QuantizeV2", y, *ends, name="q", T=QUINT8, mode="MIN_FIRST").node
    codes = [q.output(p) for p in range(3)]
    within(net, codes)
    lowered, _ = lowered_for(net, codes[0], True)
    conv = the_convolution(lowered)
    assert conv.inputs[1].shape == (64, 3, 2, 12)
    scales = conv.inputs[1].quantization.scale
    assert len(scales) == 64
    np.testing.assert_array_equal(scales[:32], scales[32:])
    np.testing.assert_array_equal(codes_of(net, lowered, codes[0]), unmerged(net, codes[0]))


def test_dilated_convolutions_are_left_alone():
    net = Net()
    x = fed(net, (1, 64, 64, 3), 0.0, 6.0)
    real = net.op("Dequantize", *x, name="reals", T=QUINT8, mode="MIN_FIRST")
    w = net.const(np.random.default_rng(3).normal(0, 0.2, (3, 3, 3, 32)).astype(np.float32), "filter")
    y = net.op("Conv2D", real, w, name="c", strides=(1, 1, 1, 1), padding="SAME", dilations=(1, 1, 2, 1))
    ends = np.float32(-12.0), np.float32(12.0)
    q = net.op("QuantizeV2", y, *ends, name="q", T=QUINT8, mode="MIN_FIRST").node
    lowered, _ = operators(net, q.output(0))
    assert the_convolution(lowered).inputs[1].shape == (32, 3, 3, 3)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_batch_of_any_size(batch):
    net = Net()
    array = np.random.default_rng(0).integers(0, 255, (batch, 64, 64, 3), np.uint8, endpoint=True)
    x = net.feed(array, shape=(None, 64, 64, 3))
    x.node.attrs["dtype"] = QUINT8
    codes = [x, net.const(np.float32(-1), "low"), net.const(np.float32(2), "high")]
    w = stored(net, (3, 3, 3, 32), -0.6, 0.6)
    wide = two(net, "QuantizedConv2D", codes, w, strides=(1, 2, 2, 1), padding="SAME", **WIDE)
    (value, *_) = frozen(net, wide)
    for matrix_unit, count in ((True, 2), (False, 1)):
        lowered, found = lowered_for(net, value, matrix_unit)
        assert found.count("RESHAPE") == count
        np.testing.assert_array_equal(codes_of(net, lowered, value), unmerged(net, value))
