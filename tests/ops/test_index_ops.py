"""Axes and places under another numbering; rows replaced."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run
from thinflow.errors import ShapeError
from thinflow.ir.types import INT32, TensorSpec
from thinflow.ops.index_ops import DataFormatVecPermute

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
TWO = np.float32([[10, 20], [30, 40]])
AT = np.int32([2, 0])

CASES: dict[str, list[Case]] = {
    "DataFormatDimMap": [([np.int32([[0, 3], [-1, 1]])], {}), ([np.int64(2)], {"src_format": "NHWC"})],
    "DataFormatVecPermute": [
        ([np.int32([1, 2, 3, 4])], {}),
        ([np.int64([[1, 2], [3, 4]])], {"src_format": "NCHW", "dst_format": "NHWC"}),
    ],
    "UnravelIndex": [([np.int32([5, 11]), np.int32([3, 4])], {}), ([np.int64(5), np.int64([3, 4])], {})],
    **{
        name: [([ROWS, AT, TWO], {}), ([ROWS, np.int32([-1]), TWO[:1]], {})]
        for name in ("InplaceUpdate", "InplaceAdd", "InplaceSub")
    },
    "ParallelConcat": [([ROWS[:1], ROWS[1:2]], {"shape": (2, 2)})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_axes() -> None:
    assert run("DataFormatDimMap", np.int32([0, 1, 2, 3, -1])).tolist() == [0, 2, 3, 1, 1]
    assert run("DataFormatVecPermute", np.int32([1, 2, 3, 4])).tolist() == [1, 4, 2, 3]
    assert run("DataFormatVecPermute", np.int32([5, 6])).tolist() == [5, 6]  # height and width alone
    with pytest.raises(ShapeError, match="there are 3 rows"):
        run("DataFormatVecPermute", np.int32([1, 2, 3]))


def test_sizes_that_are_open_move_with_their_axes() -> None:
    sizes = TensorSpec(INT32, (4,), (None, 3, 5, 7))
    assert DataFormatVecPermute.infer(sizes).elements == (None, 7, 3, 5)
    assert DataFormatVecPermute.infer(sizes, src_format="NCHW", dst_format="NHWC").elements == (None, 5, 7, 3)
    assert DataFormatVecPermute.infer(TensorSpec(INT32, (2,), (5, 7))).elements is None


def test_positions() -> None:
    assert run("UnravelIndex", np.int32([5, 11]), np.int32([3, 4])).tolist() == [[1, 2], [1, 3]]
    with pytest.raises(ShapeError, match="outside"):
        run("UnravelIndex", np.int32([12]), np.int32([3, 4]))


def test_rows() -> None:
    assert run("InplaceUpdate", ROWS, AT, TWO).tolist() == [[30, 40], [2, 3], [10, 20]]
    assert run("InplaceUpdate", ROWS, np.int32([1, 1]), TWO)[1].tolist() == [30, 40]
    assert run("InplaceAdd", ROWS, np.int32([1, 1]), TWO)[1].tolist() == [42, 63]
    assert run("InplaceSub", ROWS, np.int32([0]), TWO[:1])[0].tolist() == [-10, -19]
