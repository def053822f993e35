"""Pack, Concat, Split and their kin."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of, text
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


CASES: dict[str, list[Case]] = {
    "Pack": [
        ([X, X + 1], {"N": 2}),
        ([X, X + 1], {"N": 2, "axis": -1}),
        ([np.int32(3), np.int32(4)], {"N": 2}),
        ([text(b"a"), text(b"b")], {"N": 2}),
    ],
    "Unpack": [([X], {"num": 3, "axis": 1}), ([ints(3, 4)], {"num": 2}), ([text(b"ab", b"c")], {"num": 2})],
    "Concat": [([np.int32(1), X, X[:, :1]], {"N": 2})],
    "ConcatV2": [
        ([X, X[:, :1], np.int32(-2)], {"N": 2}),
        ([ints(1), ints(2, 3), np.int64(0)], {"N": 2}),
        ([text(b"a"), text(b"b", b"c"), np.int32(0)], {"N": 2}),
    ],
    "ConcatOffset": [([np.int32(1), ints(2, 3), ints(2, 5), ints(2, 0)], {"N": 3})],
    "Split": [([np.int32(-1), X], {"num_split": 2}), ([np.int32(0), ints(1, 2, 3)], {"num_split": 3})],
    "SplitV": [
        ([X, ints(1, -1), np.int32(2)], {"num_split": 2}),
        ([ints(1, 2, 3), np.array([0, 1, 2]), np.int32(0)], {"num_split": 3}),
        ([X, ints(3), np.int32(1)], {"num_split": 1}),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_pack_of_scalars_is_a_partly_known_vector() -> None:
    unknown, three = TensorSpec(INT32, ()), TensorSpec(INT32, (), (3,))
    assert infer("Pack", unknown, three).elements == (None, 3)
    assert [s.elements for s in infer("Unpack", TensorSpec(INT32, (2,), (None, 3)), num=2)] == [None, (3,)]


def test_concat_adds_unknown_sizes_up_to_unknown() -> None:
    a, b = TensorSpec(FLOAT, (None, 2, None)), TensorSpec(FLOAT, (4, None, 3))
    assert infer("ConcatV2", a, b, spec_of(np.array(2))).shape == (4, 2, None)
    assert infer("ConcatV2", a, b, spec_of(np.array(1))).shape == (4, None, 3)
    assert infer("ConcatV2", a, b, TensorSpec(INT32, ())).shape == (None, None, None)
    joined = infer(
        "ConcatV2", TensorSpec(INT32, (1,)), TensorSpec(INT32, (2,), (3, None)), spec_of(np.array(0))
    )
    assert joined.elements == (None, 3, None)


def test_concat_offset() -> None:
    offsets = run("ConcatOffset", np.int32(1), ints(2, 3), ints(2, 5))
    assert [o.tolist() for o in offsets] == [[0, 0], [0, 3]]
    with pytest.raises(ShapeError, match="differ"):
        run("ConcatOffset", np.int32(1), ints(2, 3), ints(1, 5))


def test_split_v_refuses_wrong_sums() -> None:
    with pytest.raises(ShapeError, match="add up"):
        run("SplitV", X, ints(1, 2), np.int32(2), num_split=2)
    with pytest.raises(ShapeError, match="more than one"):
        run("SplitV", X, ints(-1, -1), np.int32(2), num_split=2)
    with pytest.raises(ShapeError, match="equal parts"):
        infer("Split", spec_of(np.array(1)), spec_of(X), num_split=2)


def test_split_v_sizes_with_unknown_total() -> None:
    parts = infer(
        "SplitV", TensorSpec(FLOAT, (None,)), spec_of(ints(2, -1)), spec_of(np.array(0)), num_split=2
    )
    assert [p.shape for p in parts] == [(2,), (None,)]
