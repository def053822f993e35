"""Options of ONNX's ops that are not what they should be: one line each, never another answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import helper, lifted, node, save
from thinflow.errors import FormatError, UnsupportedOp

X = np.ones((2, 3, 4), np.float32)
PICTURE = np.ones((1, 2, 5, 5), np.float32)
FILTERS = np.ones((4, 2, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("op", "options", "said"),
    [
        ("Flatten", {"axis": 1.5}, "its option 'axis' is '1.5', which is no whole number"),
        ("Elu", {"alpha": "much"}, "its option 'alpha' is 'much', which is no number"),
        ("Trilu", {"upper": [1]}, "its option 'upper' is .*, which is no whole number"),
        ("ReduceSum", {"keepdims": 2}, "its option 'keepdims' is 2, which is neither on nor off"),
        ("ReduceMax", {"keepdims": "yes"}, "its option 'keepdims' is 'yes', which is no whole number"),
        ("Gelu", {"approximate": "well"}, "its option 'approximate' is 'well', which is not known"),
        ("Softmax", {"axis": 3}, "its axis is 3 where there are 3"),
        ("LogSoftmax", {"axis": -4}, "its axis is -4 where there are 3"),
        ("MeanVarianceNormalization", {"odd": 1}, "its option 'odd' is 1, which is not known here"),
        ("LpNormalization", {"p": 3}, "its option 'p' is 3"),
        ("LRN", {"size": 0}, "its window has the size 0"),
    ],
)
def test_options_of_other_types_and_values(
    op: str, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = save(tmp_path / "m.onnx", [node(op, ["x"], ["y"], **options)], {"x": X}, ["y"])
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, {"x": X})


def test_an_option_that_is_given_twice(tmp_path: Path) -> None:
    made = node("Flatten", ["x"], ["y"], axis=1)
    made.attribute.append(helper.make_attribute("axis", 2))
    path = save(tmp_path / "m.onnx", [made], {"x": X}, ["y"])
    with pytest.raises(FormatError, match="its option 'axis' is given twice") as caught:
        thinflow.load(path)
    assert "(Flatten)" in caught.value.where


@pytest.mark.parametrize(
    ("op", "filters", "options", "said"),
    [
        ("Conv", FILTERS, {"kernel_shape": [2, 2]}, "strides, dilations and kernel do not fit together"),
        ("Conv", FILTERS, {"kernel_shape": [3]}, "strides, dilations and kernel do not fit together"),
        ("Conv", FILTERS[:, :1], {}, "its filters are for 1 channels, and there are 2"),
        ("ConvTranspose", FILTERS[:2], {"kernel_shape": [5, 5]}, "kernel do not fit together"),
    ],
)
def test_windows_that_contradict_their_weights(
    op: str, filters: np.ndarray, options: dict[str, Any], said: str, tmp_path: Path
) -> None:
    made = node(op, ["x", "w"], ["y"], **options)
    path = save(tmp_path / "m.onnx", [made], {"x": PICTURE}, ["y"], {"w": filters})
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, {"x": PICTURE})
