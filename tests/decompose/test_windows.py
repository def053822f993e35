"""Windows and crops of images as simpler ops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decompose.harness import Constant, check_parts, check_targets
from tests.decompose.windows import BOXES, IMAGES, POOLS, floats
from thinflow.errors import UnsupportedOp
from thinflow.ops._windows import layout, window

DILATIONS = [
    (floats(3, 3, 2), {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}),
    (floats(2, 3, 2), {"strides": [1, 2, 1, 1], "rates": [1, 2, 1, 1], "padding": "SAME"}),
    (floats(3, 2, 2), {"strides": [1, 1, 2, 1], "rates": [1, 1, 2, 1], "padding": "VALID"}),
]


@pytest.mark.parametrize(("w", "attrs"), DILATIONS)
def test_dilation(w, attrs):
    check_parts("Dilation2D", [floats(2, 7, 6, 2), Constant(w)], attrs)
    check_targets("Dilation2D", [floats(2, 7, 6, 2), Constant(w)], attrs)


@pytest.mark.parametrize("attrs", POOLS)
def test_places_of_maxima(attrs):
    x = np.round(floats(2, 7, 5, 3))  # with equals, of which the first wins
    check_parts("MaxPoolWithArgmax", [x], attrs, ports=2)
    check_targets("MaxPoolWithArgmax", [x], attrs, ports=2)


def test_places_of_infinities():
    x = np.array([[1, np.inf], [np.inf, -np.inf]], np.float32).reshape(1, 2, 2, 1)
    check_parts("MaxPoolWithArgmax", [x], POOLS[0], ports=2)
    check_targets("MaxPoolWithArgmax", [x], POOLS[0], ports=2)


@pytest.mark.parametrize("size", [[4, 3], [1, 5], [7, 1]])
@pytest.mark.parametrize("attrs", [{}, {"method": "nearest"}, {"extrapolation_value": 7.5}])
def test_crops(size, attrs):
    operands = [floats(2, 6, 5, 2), BOXES, IMAGES, Constant(size, np.int32)]
    check_parts("CropAndResize", operands, attrs)
    check_targets("CropAndResize", operands, attrs, opened=False)


def test_crops_of_as_many_boxes_as_there_are():
    operands = [Constant(floats(2, 6, 5, 2)), BOXES, IMAGES, Constant([3, 3], np.int32)]
    check_targets("CropAndResize", operands)


def test_crops_of_bytes():
    x = (floats(1, 6, 5, 3, low=0, high=255)).astype(np.uint8)
    check_parts("CropAndResize", [x, BOXES, IMAGES * 0, Constant([3, 3], np.int32)])


TRANSPOSED = [
    ((2, 7, 6, 3), (3, 2, 3, 1), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
    ((2, 7, 6, 3), (3, 2, 3, 1), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
    ((2, 5, 6, 2), (2, 3, 2, 2), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    ((2, 8, 9, 2), (2, 2, 2, 2), {"strides": [1, 3, 3, 1], "padding": "VALID"}),
    ((1, 9, 9, 2), (3, 3, 2, 1), {"strides": [1, 1, 1, 1], "padding": "VALID", "dilations": [1, 2, 2, 1]}),
    ((1, 9, 9, 2), (1, 1, 2, 1), {"strides": [1, 4, 4, 1], "padding": "SAME"}),
]


@pytest.mark.parametrize(("whole", "w", "attrs"), TRANSPOSED)
def test_transposed_depthwise_convolutions(whole, w, attrs):
    gaps = attrs.get("dilations", [1, 1, 1, 1])
    win = window(layout("NHWC"), w[:2], attrs["strides"], attrs["padding"], gaps)
    dy = floats(whole[0], *win.output_sizes(whole[1:3]), w[2] * w[3])
    operands = [Constant(np.array(whole, np.int32)), Constant(floats(*w)), dy]
    check_parts("DepthwiseConv2dNativeBackpropInput", operands, attrs)
    check_targets("DepthwiseConv2dNativeBackpropInput", operands, attrs, opened=False)


SAME = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "why"),
    [
        ("MaxPoolWithArgmax", [floats(1, 4, 4, 2).astype(np.int32)], SAME, "no form for int32"),
        ("MaxPoolWithArgmax", [floats(1, 9, 9, 2)], {**SAME, "ksize": [1, 9, 9, 1]}, "more than 64 elements"),
        (
            "MaxPoolWithArgmax",
            [floats(1, 4, 4, 2)],
            {**SAME, "ksize": [1, 2, 2, 2]},
            "over batch or channels",
        ),
        (
            "CropAndResize",
            [floats(1, 4, 4, 2), BOXES, IMAGES, np.array([3, 3], np.int32)],
            {},
            "size is computed",
        ),
        (
            "CropAndResize",
            [floats(1, 4, 4, 2), BOXES, IMAGES, Constant([0, 3], np.int32)],
            {},
            "crops are empty",
        ),
        (
            "CropAndResize",
            [floats(1, 4, 4, 2), BOXES, IMAGES, Constant([3, 3], np.int32)],
            {"method": "cubic"},
            "cubic",
        ),
    ],
)
def test_refused(op, operands, attrs, why):
    with pytest.raises(UnsupportedOp, match=why):
        check_parts(op, operands, attrs)
