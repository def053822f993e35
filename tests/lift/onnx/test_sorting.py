"""ONNX's ops that order elements beside ONNX Runtime, at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def few(rng: np.random.Generator, rank: int, kind: Any = np.float32) -> np.ndarray:
    """An array in which most numbers are there more than once."""
    return rng.integers(0, 4, tuple(rng.integers(2, 6, rank))).astype(kind)


@pytest.mark.parametrize("is_fed", [False, True])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("kind", [np.float32, np.int64, np.int32])
@pytest.mark.parametrize("seed", range(4))
def test_top_k(tmp_path: Path, kind: Any, largest: int, is_fed: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    x, axis = few(rng, rank, kind), int(rng.integers(-rank, rank))
    if kind is not np.float32:
        x.reshape(-1)[0] = np.iinfo(kind).min
    k = np.int64([rng.integers(1, x.shape[axis] + 1)])
    fed, constants = ([x, k], []) if is_fed else ([x], [k])
    Single("TopK", fed, constants, {"axis": axis, "largest": largest}, 2, open_axes=[0]).check(tmp_path)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("seed", range(6))
def test_the_place_of_the_largest(tmp_path: Path, op: str, last: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    options = {"axis": int(rng.integers(-rank, rank)), "keepdims": seed % 2, "select_last_index": last}
    Single(op, [few(rng, rank)], (), options, open_axes=range(rank) if seed > 2 else ()).check(tmp_path)


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("seed", range(6))
def test_hardmax(tmp_path: Path, opset: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    options = {"axis": int(rng.integers(-rank, rank))}
    open_axes = range(rank) if seed > 2 else ()
    Single("Hardmax", [few(rng, rank)], (), options, opset=opset, open_axes=open_axes).check(tmp_path)


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("kind", [np.float32, np.int64, np.int8])
@pytest.mark.parametrize("seed", range(6))
def test_unique(tmp_path: Path, kind: Any, is_sorted: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    x = rng.integers(-1, 2, (rng.integers(4, 9), *rng.integers(1, 4, rank - 1))).astype(kind)
    options = {"sorted": is_sorted, **({} if seed % 3 == 2 else {"axis": 0 if seed % 2 else -rank})}
    Single("Unique", [x], (), options, 4, open_axes=[0] if seed > 3 else ()).check(tmp_path)


def test_unique_along_another_axis(tmp_path: Path) -> None:
    x = np.float32([[[1, 1], [0, 1], [2, 1], [0, 1]], [[1, 1], [0, 1], [2, 1], [0, 1]]])
    Single("Unique", [x], (), {"axis": 1}, 4).check(tmp_path)


def test_the_runtimes_own_unique_keeps_the_order_and_tells_no_places(tmp_path: Path) -> None:
    """`com.microsoft.Unique`: the values as they come first, which one each element is, and how often."""
    x = np.array([2, 1, 1, 3, 4, 3], np.float32)
    Single("com.microsoft.Unique", [x], outputs=3).check(tmp_path)


@pytest.mark.parametrize(
    ("x", "options", "problem"),
    [
        (np.array(["b", "a"], object), {}, "it sorts texts"),
        (np.ones((3, 70), np.float32), {"axis": 0}, "it sorts slices of more than 64 numbers"),
    ],
)
def test_what_is_not_sorted(tmp_path: Path, x: np.ndarray, options: Any, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        Single("Unique", [x], (), options, 1).lifted(tmp_path)
