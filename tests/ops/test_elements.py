"""Arithmetic on partly known elements."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import infer, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import BOOL, FLOAT, INT8, INT32, UINT8, DType, TensorSpec
from thinflow.ops._shapes import (
    LIMIT,
    constant,
    in_range,
    known_list,
    map_elements,
    moved,
    shape_from,
    with_elements,
)

DIMS = TensorSpec(INT32, (3,), (None, 7, 8))
TWO = TensorSpec(INT32, (), (2,))


def test_arithmetic_keeps_the_holes() -> None:
    assert map_elements(lambda a, b: a * b, DIMS, TWO, shape=(3,)) == (None, 14, 16)
    assert map_elements(lambda a, b: a // b if b else None, DIMS, spec_of(np.array(0)), shape=(3,)) is None
    assert map_elements(lambda a, b: a * b, DIMS, TensorSpec(INT32, ()), shape=(3,)) is None
    assert map_elements(lambda a, b: a * b, DIMS, TWO, shape=(None,)) is None
    grid = map_elements(
        lambda a, b: a + b, spec_of(np.array([[1], [2]])), spec_of(np.array([10, 20])), shape=(2, 2)
    )
    assert grid == (11, 21, 12, 22)


def test_a_partial_function_sees_unknown_operands() -> None:
    zero = TensorSpec(INT32, (), (0,))

    def times(a: int | None, b: int | None) -> int | None:
        return 0 if 0 in (a, b) else None if a is None or b is None else a * b

    assert map_elements(times, DIMS, zero, shape=(3,), partial=True) == (0, 0, 0)


@pytest.mark.parametrize(
    ("value", "element", "stored"),
    [(200, INT8, -56), (-1, UINT8, 255), (5, BOOL, 1), (2**31, INT32, -(2**31)), (2**40, None, 2**40)],
)
def test_numbers_wrap_as_their_type_does(value: int, element: DType | None, stored: int) -> None:
    assert in_range(value, element) == stored


def test_only_small_whole_numbers_are_tracked() -> None:
    assert with_elements(TensorSpec(FLOAT, (1,)), (1,)).elements is None
    assert with_elements(TensorSpec(INT32, (1,)), (None,)).elements is None
    assert with_elements(TensorSpec(INT32, (None,)), (1,)).elements is None
    assert with_elements(TensorSpec(INT32, (LIMIT + 1,)), (1,) * (LIMIT + 1)).elements is None
    assert with_elements(TensorSpec(INT32, (0,)), ()).elements == ()


def test_moving_runs_the_kernel_on_the_elements() -> None:
    assert moved(TensorSpec(INT32, (2,)), lambda v: v[:2], DIMS).elements == (None, 7)
    assert moved(TensorSpec(INT32, ()), lambda v: v[1], DIMS).elements == (7,)
    assert moved(TensorSpec(INT32, (2,)), lambda v: v[:2], TensorSpec(INT32, (3,))).elements is None


def test_reading_inputs() -> None:
    assert constant(DIMS) is None
    assert known_list(TensorSpec(INT32, (2,))) == (None, None)
    assert known_list(TensorSpec(INT32, (None,))) is None
    assert shape_from(TensorSpec(INT32, (2,), (-1, 3))) == (None, 3)
    with pytest.raises(ShapeError, match="negative"):
        shape_from(TensorSpec(INT32, (1,), (-2,)))


def test_a_shape_computed_the_way_models_do() -> None:
    """reshape(x, [shape(x)[0], shape(x)[1] * 2, -1]) with an unknown batch."""
    x = TensorSpec(FLOAT, (None, 4, 6))
    sizes = infer("Shape", x)
    one = spec_of(np.array([1], np.int32))
    pick = {"shrink_axis_mask": 1}
    batch = infer("StridedSlice", sizes, spec_of(np.array([0], np.int32)), one, one, **pick)
    rows = infer("StridedSlice", sizes, one, one, one, **pick)
    rows = with_elements(rows, map_elements(lambda a, b: a * b, rows, TWO, shape=()))
    target = infer("Pack", batch, rows, spec_of(np.array(3, np.int32)))
    assert target.elements == (None, 8, 3)
    assert infer("Reshape", x, target).shape == (None, 8, 3)
