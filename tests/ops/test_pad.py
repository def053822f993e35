"""Slice, Tile, Pad, broadcasting, reversing and rolling."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of, text
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
M = np.arange(6, dtype=np.int32).reshape(2, 3)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def pairs(*values: tuple[int, int]) -> np.ndarray:
    return np.array(values, np.int32)


CASES: dict[str, list[Case]] = {
    "Slice": [([X, ints(0, 1, 0), ints(-1, 2, 0)], {}), ([ints(1, 2, 3), np.array([1]), np.array([-1])], {})],
    "Tile": [([M, ints(2, 0)], {}), ([M, ints(2, 2)], {}), ([text(b"a", b"b"), ints(2)], {})],
    "BroadcastTo": [
        ([M[:, None], ints(2, 2, 4, 3)], {}),
        ([np.float32(2), ints(0, 2)], {}),
        ([np.int32(3), ints(2)], {}),
    ],
    "BroadcastArgs": [([ints(2, 1, 3), ints(5, 1)], {}), ([ints(0), ints(1)], {})],
    "Pad": [([M, pairs((1, 0), (0, 2))], {}), ([X.astype(np.float16), pairs((0, 0), (1, 1), (0, 0))], {})],
    "PadV2": [
        ([M, pairs((1, 0), (0, 2)), np.int32(7)], {}),
        ([X, pairs((0, 0), (1, 1), (0, 0)), np.float32("nan")], {}),
    ],
    "MirrorPad": [
        ([M, pairs((1, 0), (0, 2))], {"mode": "REFLECT"}),
        ([M, pairs((2, 1), (3, 2))], {"mode": "SYMMETRIC"}),
    ],
    "Reverse": [([X, np.array([True, False, True])], {}), ([ints(1, 2), np.array([True])], {})],
    "ReverseV2": [([X, ints(-1, 0)], {}), ([ints(1, 2), ints(0)], {}), ([M, np.zeros(0, np.int32)], {})],
    "ReverseSequence": [
        ([X, np.array([3, 1])], {"seq_dim": 2}),
        ([X, ints(0, 1, 2, 2)], {"seq_dim": 0, "batch_dim": 2}),
    ],
    "Roll": [([X, ints(1, -2, 5), ints(0, 2, -1)], {}), ([M, np.int32(-1), np.int32(1)], {})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_slice_with_partly_known_numbers() -> None:
    x = TensorSpec(FLOAT, (None, 5))
    assert infer("Slice", x, spec_of(ints(0, 2)), spec_of(ints(-1, -1))).shape == (None, 3)
    assert infer("Slice", x, TensorSpec(INT32, (2,)), TensorSpec(INT32, (2,), (4, None))).shape == (4, None)
    assert infer(
        "Slice", TensorSpec(INT32, (3,), (None, 2, 3)), spec_of(ints(1)), spec_of(ints(1))
    ).elements == (2,)
    with pytest.raises(ShapeError, match="leaves"):
        run("Slice", X, ints(0, 0, 3), ints(1, 1, 2))


def test_tile_by_unknown() -> None:
    times = TensorSpec(INT32, (2,), (None, 3))
    assert infer("Tile", TensorSpec(FLOAT, (4, None)), times).shape == (None, None)
    assert infer("Tile", TensorSpec(FLOAT, (0, 5)), times).shape == (0, 15)


def test_broadcast_to_unknown_size_is_settled_by_the_input() -> None:
    assert infer("BroadcastTo", TensorSpec(FLOAT, (5, 1)), TensorSpec(INT32, (3,))).shape == (None, 5, None)


def test_broadcast_args_of_partly_known_shapes() -> None:
    a, b = TensorSpec(INT32, (2,), (None, 1)), TensorSpec(INT32, (1,), (None,))
    assert infer("BroadcastArgs", a, b).elements is None
    assert infer("BroadcastArgs", a, spec_of(ints(3))).elements == (None, 3)


def test_pad_of_unknown_rank_gets_it_from_paddings() -> None:
    assert infer("Pad", TensorSpec(FLOAT), TensorSpec(INT32, (4, 2))).shape == (None,) * 4
    with pytest.raises(ShapeError, match="negative"):
        run("Pad", M, pairs((-1, 0), (0, 0)))


@pytest.mark.parametrize(("mode", "amount"), [("REFLECT", 3), ("SYMMETRIC", 4)])
def test_mirror_is_no_longer_than_the_axis(mode: str, amount: int) -> None:
    with pytest.raises(ShapeError, match="exceeds"):
        run("MirrorPad", M, pairs((0, 0), (amount, 0)), mode=mode)


def test_mirror_modes() -> None:
    line = ints(1, 2, 3)
    assert run("MirrorPad", line, pairs((2, 0)), mode="REFLECT").tolist() == [3, 2, 1, 2, 3]
    assert run("MirrorPad", line, pairs((2, 0)), mode="SYMMETRIC").tolist() == [2, 1, 1, 2, 3]


def test_reverse_sequence_leaves_the_tail() -> None:
    y = run("ReverseSequence", M, np.array([2, 3]), seq_dim=1)
    assert y.tolist() == [[1, 0, 2], [5, 4, 3]]


def test_shifts_of_one_axis_add_up() -> None:
    assert run("Roll", ints(0, 1, 2, 3), ints(1, 2), ints(0, 0)).tolist() == [1, 2, 3, 0]


def test_an_axis_reversed_twice_is_refused() -> None:
    with pytest.raises(ShapeError, match="twice"):
        run("ReverseV2", M, ints(0, -2))


def test_an_empty_tensor_is_padded_too() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert run("MirrorPad", empty, pairs((0, 0), (1, 1)), mode="SYMMETRIC").shape == (0, 5)
