"""Fill, Range and OneHot."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of, text
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, INT64, TensorSpec


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


f32 = np.float32

CASES: dict[str, list[Case]] = {
    "Fill": [
        ([ints(2, 3), f32(1.5)], {}),
        ([ints(2), np.int32(4)], {}),
        ([ints(0, 2), np.array(b"ab", object)], {}),
    ],
    "Empty": [([ints(2, 3)], {"dtype": FLOAT, "init": True})],
    "ZerosLike": [
        ([np.ones((2, 3), f32)], {}),
        ([text(b"a")], {}),
        ([ints(4, 5)], {}),
        ([np.array([True])], {}),
    ],
    "OnesLike": [([np.zeros((2, 3), f32)], {}), ([ints(4, 5)], {}), ([np.zeros(2, np.complex64)], {})],
    "Range": [
        ([np.int32(3), np.int32(18), np.int32(4)], {}),
        ([np.int64(3), np.int64(-2), np.int64(-2)], {}),
        ([np.int32(3), np.int32(3), np.int32(1)], {}),
        ([np.uint32(3), np.uint32(7), np.uint32(2)], {}),
        ([f32(0.3), f32(10), f32(0.1)], {}),
        ([f32(5), f32(-3), f32(-0.7)], {}),
        ([np.float16(0), np.float16(3), np.float16(0.1)], {}),
        ([ml_dtypes.bfloat16(0), ml_dtypes.bfloat16(3), ml_dtypes.bfloat16(0.1)], {}),
    ],
    "LinSpace": [([f32(0.1), f32(7.7), np.int32(37)], {}), ([np.float64(3), np.float64(9), np.int32(1)], {})],
    "OneHot": [
        ([ints(0, 2, -1, 5), np.int32(3), f32(1), f32(0)], {}),
        ([np.array([[1, 0]]), np.int32(2), np.array(True), np.array(False)], {"axis": 1}),
        ([np.uint8(1), np.int32(3), np.int32(5), np.int32(6)], {"axis": 0}),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=name != "Range" or case[0][0].dtype.kind == "i")


def test_fill_makes_known_elements() -> None:
    assert infer("Fill", spec_of(ints(2)), spec_of(np.array(-1))).elements == (-1, -1)
    assert infer("Fill", TensorSpec(INT32, (2,), (None, 3)), TensorSpec(FLOAT, ())).shape == (None, 3)
    assert infer("Fill", TensorSpec(INT32, (2,)), TensorSpec(FLOAT, ())).shape == (None, None)


def test_float_ranges_multiply_instead_of_adding_up() -> None:
    y = run("Range", f32(0), f32(10), f32(0.1))
    assert y[99] == f32(99) * f32(0.1)


def test_range_refuses_to_run_forever() -> None:
    with pytest.raises(ShapeError, match="is 0"):
        run("Range", np.int32(0), np.int32(3), np.int32(0))
    with pytest.raises(ShapeError, match="leads away"):
        infer("Range", *(spec_of(np.array(v)) for v in (0, 3, -1)))


def test_lin_space_ends_exactly() -> None:
    y = run("LinSpace", f32(0.1), f32(7.7), np.int32(37))
    assert y[0] == f32(0.1)
    assert y[-1] == f32(7.7)


def test_one_hot_outside_the_depth_is_off() -> None:
    assert run("OneHot", ints(-1, 3), np.int32(3), f32(1), f32(9)).tolist() == [[9, 9, 9], [9, 9, 9]]
    assert infer(
        "OneHot", TensorSpec(INT64, (None,)), spec_of(np.array(4)), *[TensorSpec(FLOAT, ())] * 2
    ).shape == (None, 4)
