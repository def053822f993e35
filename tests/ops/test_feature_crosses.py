"""Sparse tensors cut, joined, computed with and crossed. The hashes are those of TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run, text
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT64, STRING

A = [
    np.array([[0, 0, 1], [0, 2, 0], [1, 1, 1], [2, 0, 0], [2, 3, 1]], np.int64),
    np.float32([1, 2, -3, 4, 5]),
    np.array([3, 4, 2], np.int64),
]
B = [np.array([[0, 0, 1], [1, 1, 0], [2, 3, 1]], np.int64), np.float32([2, -1, -4]), A[2]]
WHOLE = [x.astype(np.int32) if x.dtype == np.float32 else x for x in A]
NONE = [np.zeros((0, 3), np.int64), np.zeros(0, np.float32), A[2]]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def axes(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


_REDUCTIONS: list[Case] = [
    ([*A, axes(1)], {}),
    ([*A, axes(-1, 0)], {"keep_dims": True}),
    ([*A, axes()], {}),
    ([*WHOLE, axes(0, 1, 2)], {}),
    ([*NONE, axes(2)], {}),
]
_FEATURES = [
    ints(0, 0, 1, 0, 1, 1).reshape(3, 2),
    text(b"a", b"b", b"c"),
    ints(2, 2),
    ints(3, 4).reshape(2, 1),
]

CASES: dict[str, list[Case]] = {
    "SparseSlice": [([*A, ints(0, 1, 0), ints(2, 9, 2)], {}), ([*A, ints(3, 0, 0), ints(1, 1, 1)], {})],
    "SparseConcat": [
        ([A[0], B[0], A[1], B[1], A[2], B[2]], {"N": 2, "concat_dim": -2}),
        ([*A], {"N": 1, "concat_dim": 0}),
    ],
    "SparseSplit": [([np.int64(1), *A], {"num_split": 3}), ([np.int64(0), *A], {"num_split": 1})],
    "SparseReduceSum": _REDUCTIONS,
    "SparseReduceMax": _REDUCTIONS,
    "SparseReduceSumSparse": _REDUCTIONS,
    "SparseReduceMaxSparse": _REDUCTIONS,
    "SparseSoftmax": [(A, {}), (NONE, {})],
    "SparseAdd": [([*A, *B, np.float32(1.5)], {}), ([*A, *NONE, np.float32(0)], {})],
    "SparseSparseMaximum": [([*A, *B], {}), ([*NONE, *B], {})],
    "SparseSparseMinimum": [([*A, *B], {})],
    "SparseTensorDenseAdd": [([*A, np.ones((3, 4, 2), np.float32)], {})],
    "SparseDenseCwiseAdd": [([*A, np.float32([1, 2])], {})],
    "SparseDenseCwiseMul": [([*A, np.float32([[1], [2], [3], [4]])], {}), ([*A, np.float32(2)], {})],
    "SparseDenseCwiseDiv": [
        ([*A, np.float32([1, 2])], {}),
        ([*WHOLE, np.array([[2], [2], [-2], [3]], np.int32)], {}),
    ],
    "SparseCross": [
        (
            _FEATURES,
            {
                "N": 1,
                "hashed_output": False,
                "num_buckets": 0,
                "hash_key": 7,
                "out_type": STRING,
                "internal_type": STRING,
            },
        ),
        (
            _FEATURES,
            {
                "N": 1,
                "hashed_output": True,
                "num_buckets": 0,
                "hash_key": 956888297470,
                "out_type": INT64,
                "internal_type": INT64,
            },
        ),
    ],
    "SparseCrossV2": [([*_FEATURES, np.array(b"-", object)], {"N": 1})],
    "SparseCrossHashed": [([*_FEATURES, np.int64(0), np.array(False), ints(1, 2)], {"N": 1})],
}
CASES["SerializeSparse"] = [(A, {}), ([A[0], text(b"a", b"", b"c", b"d", b"ef"), A[2]], {})]
CASES["SerializeManySparse"] = [(A, {})]
CASES["DeserializeSparse"] = [
    ([run("SerializeSparse", *A)], {"dtype": FLOAT}),
    ([run("SerializeManySparse", *A)], {"dtype": FLOAT}),
]
CASES["DeserializeManySparse"] = CASES["DeserializeSparse"][1:]
_OPEN = {n for n in CASES if n not in ("SparseReduceSum", "SparseReduceMax", "SparseTensorDenseAdd")}
_OPEN -= {n for n in CASES if n.startswith("SparseDense")}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case, exact=name not in _OPEN)


def dense(indices: np.ndarray, values: np.ndarray, shape: np.ndarray) -> np.ndarray:
    y = np.zeros(shape, values.dtype)
    y[tuple(indices.T)] = values
    return y


def test_cut_and_joined() -> None:
    part = run("SparseSlice", *A, ints(0, 1, 0), ints(2, 9, 2))
    np.testing.assert_array_equal(dense(*part), dense(*A)[0:2, 1:])
    joined = run("SparseConcat", A[0], B[0], A[1], B[1], A[2], B[2], N=2, concat_dim=1)
    np.testing.assert_array_equal(dense(*joined), np.concatenate([dense(*A), dense(*B)], 1))
    parts = run("SparseSplit", np.int64(1), *A, num_split=3)
    for number, piece in enumerate(np.array_split(dense(*A), 3, 1)):
        np.testing.assert_array_equal(dense(*parts[number::3]), piece)
    with pytest.raises(ShapeError, match="5 parts of an axis of 4"):
        run("SparseSplit", np.int64(1), *A, num_split=5)


def test_arithmetic() -> None:
    np.testing.assert_array_equal(run("SparseReduceSum", *A, axes(1)), dense(*A).sum(1))
    assert run("SparseReduceMax", *A, axes(1, 2)).tolist() == [2, -3, 5]
    places, sums, _ = run("SparseAdd", *A, *B, np.float32(1.5))
    assert (places.tolist()[0], sums.tolist()) == ([0, 0, 1], [3, 2, -1, -3, 4])
    assert run("SparseSparseMaximum", *A, *B)[1].tolist() == [2, 2, 0, 0, 4, 5]
    assert run("SparseDenseCwiseMul", *A, np.float32([1, 10])).tolist() == [10, 2, -30, 4, 50]
    assert run("SparseDenseCwiseDiv", *WHOLE, np.int32(2)).tolist() == [0, 1, -1, 2, 2]
    np.testing.assert_array_equal(run("SparseSoftmax", *A), np.float32([1, 1, 1, 1, 1]))
    with pytest.raises(ShapeError, match="does not spread"):
        run("SparseDenseCwiseAdd", *A, np.float32([1, 2, 3]))


def test_crosses() -> None:
    inputs, attrs = CASES["SparseCross"][0]
    places, values, shape = run("SparseCross", *inputs, **attrs)
    assert (values.tolist(), shape.tolist()) == ([b"a_X_3", b"b_X_4", b"c_X_4"], [2, 2])
    assert places.tolist() == [[0, 0], [1, 0], [1, 1]]
    inputs, attrs = CASES["SparseCross"][1]
    hashes = [9216350530976061679, 5665986376437707883, 4779491748946477322]
    assert run("SparseCross", *inputs, **attrs)[1].tolist() == hashes
    inputs, attrs = CASES["SparseCrossHashed"][0]
    hashes = [2596702911034253409, 5718796256601334877, 3674302722055416035]
    assert run("SparseCrossHashed", *inputs, **attrs)[1].tolist() == hashes
    strong = [*_FEATURES[:3], text(b"q", b"r").reshape(2, 1), np.int64(0), np.array(True), ints(1, 2)]
    hashes = [354251847579447835, 2588094691897068935, 45832582632667055]
    assert run("SparseCrossHashed", *strong, N=1)[1].tolist() == hashes


def test_messages_there_and_back() -> None:
    words = [A[0], text(b"a", b"", b"c", b"d", b"ef"), A[2]]
    for triple, kind in ((A, FLOAT), (words, STRING)):
        for name in ("SerializeSparse", "SerializeManySparse"):
            found = run("DeserializeSparse", run(name, *triple), dtype=kind)
            for array, expected in zip(found, triple, strict=True):
                assert array.tolist() == expected.tolist()
    with pytest.raises(ShapeError, match="the messages hold int64, float, int64"):
        run("DeserializeSparse", run("SerializeSparse", *A), dtype=INT64)
