"""Blocks between batch, space and depth; image patches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec


def pairs(*values: tuple[int, int]) -> np.ndarray:
    return np.array(values, np.int32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


IMAGE = np.arange(48, dtype=np.float32).reshape(1, 4, 6, 2)
BATCHES = np.arange(96, dtype=np.int32).reshape(8, 3, 2, 2)
PATCH = {"ksizes": (1, 2, 3, 1), "strides": (1, 1, 2, 1), "rates": (1, 2, 1, 1)}

CASES: dict[str, list[Case]] = {
    "SpaceToBatchND": [
        ([IMAGE, ints(2, 3), pairs((1, 1), (2, 1))], {}),
        ([IMAGE[0], ints(3), pairs((0, 0))], {}),
        ([IMAGE, np.zeros(0, np.int32), np.zeros((0, 2), np.int32)], {}),
    ],
    "BatchToSpaceND": [
        ([BATCHES, ints(2, 2), pairs((1, 0), (0, 3))], {}),
        ([BATCHES, np.array([4]), np.array([[5, 0]])], {}),
    ],
    "SpaceToBatch": [([IMAGE, pairs((0, 0), (1, 1))], {"block_size": 2})],
    "BatchToSpace": [([BATCHES, pairs((1, 1), (0, 0))], {"block_size": 2})],
    "SpaceToDepth": [([IMAGE], {"block_size": 2}), ([IMAGE.astype(np.uint8)], {"block_size": 2})],
    "DepthToSpace": [
        ([IMAGE.reshape(1, 2, 3, 8)], {"block_size": 2}),
        ([IMAGE.reshape(1, 4, 3, 4)], {"block_size": 2}),
    ],
    "ExtractImagePatches": [
        ([IMAGE], {**PATCH, "padding": "SAME"}),
        ([IMAGE.astype(np.int32)], {**PATCH, "padding": "VALID"}),
    ],
}

MORE: dict[str, list[Case]] = {
    "SpaceToDepth": [
        ([IMAGE.reshape(1, 2, 4, 6)], {"block_size": 2, "data_format": "NCHW"}),
        (
            [np.arange(64, dtype=np.int8).reshape(1, 2, 4, 2, 4)],
            {"block_size": 2, "data_format": "NCHW_VECT_C"},
        ),
    ],
    "DepthToSpace": [
        ([IMAGE.reshape(1, 8, 2, 3)], {"block_size": 2, "data_format": "NCHW"}),
        (
            [np.arange(32, dtype=np.int8).reshape(1, 4, 2, 1, 4)],
            {"block_size": 2, "data_format": "NCHW_VECT_C"},
        ),
    ],
}


@pytest.mark.parametrize(
    ("name", "case"), [(n, c) for d in (CASES, MORE) for n, cases in d.items() for c in cases]
)
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_batch_undoes_space() -> None:
    block, margins = ints(2, 3), pairs((1, 1), (2, 1))
    there = run("SpaceToBatchND", IMAGE, block, margins)
    np.testing.assert_array_equal(run("BatchToSpaceND", there, block, margins), IMAGE)


def test_first_places_come_first() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 2, 2, 1)
    assert run("SpaceToBatch", x, pairs((0, 0), (0, 0)), block_size=2).ravel().tolist() == [0, 1, 2, 3]
    assert run("SpaceToDepth", x, block_size=2).tolist() == [[[[0, 1, 2, 3]]]]


@pytest.mark.parametrize("name", ["SpaceToDepth", "DepthToSpace"])
def test_channels_first_is_channels_last_moved(name: str) -> None:
    x = np.arange(128, dtype=np.int8).reshape(1, 4, 4, 8)
    expected = run(name, x, block_size=2)
    first = run(name, x.transpose(0, 3, 1, 2), block_size=2, data_format="NCHW")
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), expected)
    if name == "SpaceToDepth":
        packed = x.reshape(1, 4, 4, 2, 4).transpose(0, 3, 1, 2, 4)
        y = run(name, packed, block_size=2, data_format="NCHW_VECT_C")
        np.testing.assert_array_equal(y.transpose(0, 2, 3, 1, 4).reshape(expected.shape), expected)


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="does not divide"):
        run("SpaceToBatchND", IMAGE, ints(3, 2), pairs((0, 0), (0, 0)))
    with pytest.raises(ShapeError, match="exceed"):
        run("BatchToSpaceND", BATCHES, ints(2, 2), pairs((4, 3), (0, 0)))
    with pytest.raises(ShapeError, match="divide"):
        infer("DepthToSpace", spec_of(IMAGE), block_size=2)


def test_unknown_sizes() -> None:
    x = TensorSpec(FLOAT, (None, None, 6, 2))
    margins = spec_of(pairs((0, 0), (1, 1)))
    assert infer("SpaceToBatchND", x, spec_of(ints(2, 2)), margins).shape == (None, None, 4, 2)
    assert infer("SpaceToBatchND", x, TensorSpec(INT32, (2,)), margins).shape == (None, None, None, 2)
    assert infer("SpaceToDepth", TensorSpec(FLOAT), block_size=2).shape == (None,) * 4


def test_patches_beyond_the_edge_are_zero() -> None:
    x = np.ones((1, 1, 2, 1), np.float32)
    attrs = {"ksizes": (1, 1, 3, 1), "strides": (1, 1, 1, 1), "rates": (1, 1, 1, 1)}
    assert run("ExtractImagePatches", x, **attrs, padding="SAME").tolist() == [[[[0, 1, 1], [1, 1, 0]]]]
