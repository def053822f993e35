"""Constants, shapes of tensors, and changes of axes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import FLOAT, INT32, INT64, TensorSpec

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


CASES: dict[str, list[Case]] = {
    "Const": [([], {"value": Tensor.from_array(np.array([[1, 2]], np.int32)), "dtype": INT32})],
    "Shape": [([X], {}), ([X], {"out_type": INT64}), ([np.float32(1)], {})],
    "ShapeN": [([X, ints(1, 2)], {"N": 2})],
    "Size": [([X], {}), ([np.zeros((0, 3))], {"out_type": INT64})],
    "Rank": [([X], {}), ([np.float32(1)], {})],
    "Reshape": [
        ([X, ints(4, -1)], {}),
        ([X, ints(6, 4)], {}),
        ([np.zeros((0, 3), np.int8), ints(-1, 0)], {}),
        ([np.zeros((0, 3), np.int8), ints(5, -1)], {}),
        ([np.array([7], np.int32), np.zeros(0, np.int32)], {}),
    ],
    "ExpandDims": [([X, np.int32(-1)], {}), ([X, np.int32(1)], {}), ([ints(1, 2), ints(0)], {})],
    "Squeeze": [
        ([X[None, :, :1]], {}),
        ([X[None, :, :1]], {"squeeze_dims": (-2,)}),
        ([np.ones((1, 1), np.int32)], {}),
    ],
    "Transpose": [([X, ints(2, 0, 1)], {}), ([X.astype(np.uint8), np.array([0, 2, 1], np.int64)], {})],
    "ConjugateTranspose": [([(X[0] * 1j).astype(np.complex64), ints(1, 0)], {}), ([X[0], ints(1, 0)], {})],
    "InvertPermutation": [([ints(3, 0, 2, 1)], {}), ([np.array([1, 0])], {})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_placeholder_scalar_is_not_unknown() -> None:
    assert infer("Placeholder", dtype=FLOAT).shape is None
    assert infer("Placeholder", dtype=FLOAT, shape=()).shape == ()
    assert infer("PlaceholderV2", dtype=FLOAT, shape=(None, 3)) == TensorSpec(FLOAT, (None, 3))


def test_shape_keeps_what_is_known() -> None:
    x = TensorSpec(FLOAT, (None, 3))
    assert infer("Shape", x).elements == (None, 3)
    assert infer("Shape", TensorSpec(FLOAT)).shape == (None,)
    assert infer("Size", TensorSpec(FLOAT, (None, 0))).elements == (0,)
    assert infer("Size", x).elements is None
    assert infer("Rank", x).elements == (2,)


def test_flatten_with_unknown_batch() -> None:
    """The usual flatten: shape = [batch, -1], where batch comes from Shape."""
    x = TensorSpec(FLOAT, (None, 7, 7, 4))
    assert infer("Reshape", x, spec_of(ints(-1, 196))).shape == (None, 196)
    assert infer("Reshape", x, TensorSpec(INT32, (2,), (None, 196))).shape == (None, 196)
    assert infer("Reshape", TensorSpec(FLOAT, (6,)), TensorSpec(INT32, (2,), (None, 3))).shape == (2, 3)
    assert infer("Reshape", x, TensorSpec(INT32, (2,))).shape == (None, None)


@pytest.mark.parametrize("shape", [(5, -1), (-1, -1), (5, 5), (-2, 3)])
def test_reshape_refuses(shape: tuple[int, int]) -> None:
    with pytest.raises(ShapeError):
        run("Reshape", X, ints(*shape))
    with pytest.raises(ShapeError):
        infer("Reshape", spec_of(X), spec_of(ints(*shape)))


def test_reshape_of_nothing_ignores_zeros_on_both_sides() -> None:
    assert run("Reshape", np.zeros((0, 3)), ints(-1, 0)).shape == (3, 0)


def test_squeeze_with_unknown_sizes() -> None:
    assert infer("Squeeze", TensorSpec(FLOAT, (None, 1, 1, 8))).shape is None
    assert infer("Squeeze", TensorSpec(FLOAT, (None, 1, None, 8)), squeeze_dims=(1, 2)).shape == (None, 8)
    with pytest.raises(ShapeError, match="cannot squeeze"):
        run("Squeeze", X, squeeze_dims=(0,))


def test_transpose_carries_unknown_sizes() -> None:
    assert infer("Transpose", TensorSpec(FLOAT, (None, 2, 3)), spec_of(ints(2, 0, 1))).shape == (3, None, 2)
    assert infer("Transpose", TensorSpec(FLOAT), spec_of(ints(1, 0))).shape == (None, None)


def test_invert_permutation_refuses_repeats() -> None:
    np.testing.assert_array_equal(run("InvertPermutation", ints(2, 0, 1)), [1, 2, 0])
    with pytest.raises(ShapeError, match="not a permutation"):
        run("InvertPermutation", ints(0, 0))
