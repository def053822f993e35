"""ONNX's ops that read and write single places, beside ONNX Runtime, at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

SEEDS = range(6)


def array(rng: np.random.Generator, rank: int) -> np.ndarray:
    return rng.standard_normal(tuple(rng.integers(2, 5, rank))).astype(np.float32)


def axis_of(rng: np.random.Generator, rank: int) -> int:
    return int(rng.integers(-rank, rank))


def opened(rng: np.random.Generator, rank: int, seed: int) -> list[int]:
    """Axes whose size the file leaves open: none of them in every other case."""
    return [a for a in range(rank) if seed % 2 and rng.random() < 0.6]


def index(rng: np.random.Generator, x: np.ndarray, axis: int) -> np.ndarray:
    """Places along an axis, for an array no larger than x along the others."""
    shape = [int(rng.integers(1, n + 1)) for n in x.shape]
    size = x.shape[axis]
    return rng.integers(-size, size, shape, np.int64)


@pytest.mark.parametrize("is_fed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_gather(tmp_path: Path, seed: int, is_fed: bool) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    x, axis = array(rng, rank), axis_of(rng, rank)
    places = rng.integers(-x.shape[axis], x.shape[axis], tuple(rng.integers(1, 4, rng.integers(0, 3))))
    places = places.astype(np.int32 if seed % 3 == 0 else np.int64)
    fed, constants = ([x, places], []) if is_fed else ([x], [places])
    Single("Gather", fed, constants, {"axis": axis}, open_axes=opened(rng, rank, seed)).check(tmp_path)


def test_gather_without_places_below_zero_is_one_op(tmp_path: Path) -> None:
    x = np.ones((3, 4), np.float32)
    assert Single("Gather", [x], [np.int64([2, 0])]).check(tmp_path) == {"GatherV2": 1}
    assert Single("Gather", [x, np.int64([2, 0])], opset=9).check(tmp_path) == {"GatherV2": 1}
    # The size is known, so that the place is.
    assert Single("Gather", [x], [np.int64([-1, 0])]).check(tmp_path) == {"GatherV2": 1}


@pytest.mark.parametrize("is_fed", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_gather_elements(tmp_path: Path, seed: int, is_fed: bool) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    x, axis = array(rng, rank), axis_of(rng, rank)
    places = index(rng, x, axis)
    fed, constants = ([x, places], []) if is_fed else ([x], [places])
    Single("GatherElements", fed, constants, {"axis": axis}, open_axes=opened(rng, rank, seed)).check(
        tmp_path
    )


@pytest.mark.parametrize("how", ["", "none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("seed", SEEDS)
def test_scatter_elements(tmp_path: Path, how: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    x, axis = array(rng, rank), axis_of(rng, rank)
    if how in {"", "none"}:
        # Which of two updates of a place stays is nobody's promise.
        length = int(rng.integers(1, x.shape[axis] + 1))
        places = np.argsort(rng.random(x.shape), axis)
        places = np.take(places, range(length), axis)
        places = np.where(rng.random(places.shape) < 0.3, places - x.shape[axis], places)
    else:
        places = index(rng, x, axis)
    updates = rng.standard_normal(places.shape).astype(np.float32)
    op, opset = ("ScatterElements", 18) if how else ("Scatter", 10)
    options = {"axis": axis, **({"reduction": how} if how else {})}
    open_axes = opened(rng, rank, seed)
    Single(op, [x, places, updates], (), options, opset=opset, open_axes=open_axes).check(tmp_path)


@pytest.mark.parametrize("how", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("seed", SEEDS)
def test_scatter_nd(tmp_path: Path, how: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    x, width = array(rng, rank), int(rng.integers(1, rank + 1))
    count = int(rng.integers(1, 4))
    lead = (count,) if seed % 2 else (2, count)
    places = np.stack([rng.integers(-n, n, lead) for n in x.shape[:width]], -1).astype(np.int64)
    if how == "none":
        places = places[..., :1, :][:1] if places.ndim == 3 else places[:1]
    updates = rng.standard_normal((*places.shape[:-1], *x.shape[width:])).astype(np.float32)
    options = {"reduction": how}
    Single("ScatterND", [x, places, updates], (), options, opset=18,
           open_axes=opened(rng, rank, seed)).check(tmp_path)  # fmt: skip


@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_gather_nd(tmp_path: Path, seed: int, batch: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(batch + 1, 5))
    x = array(rng, rank)
    width = int(rng.integers(1, rank - batch + 1))
    lead = (*x.shape[:batch], *rng.integers(1, 4, rng.integers(0, 3)).tolist())
    places = np.stack([rng.integers(-n, n, lead) for n in x.shape[batch : batch + width]], -1)
    fed, constants = ([x, places], []) if seed % 3 else ([x], [places])
    open_axes = opened(rng, rank, seed)
    Single("GatherND", fed, constants, {"batch_dims": batch}, open_axes=open_axes).check(tmp_path)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cache_is_written_to(tmp_path: Path, mode: str, seed: int) -> None:
    from onnx.reference import ReferenceEvaluator

    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 5))
    x = rng.standard_normal(tuple(rng.integers(3, 6, rank))).astype(np.float32)
    axis = int(rng.integers(1, rank))
    steps = int(rng.integers(1, x.shape[axis]))
    shape = tuple(steps if a == axis else n for a, n in enumerate(x.shape))
    new = rng.standard_normal(shape).astype(np.float32)
    last = x.shape[axis] - (steps if mode == "linear" else 1)
    fed = [x, new, *([rng.integers(0, last + 1, x.shape[0], np.int64)] if seed % 3 else [])]
    options = {"axis": axis - rank if seed % 2 else axis, "mode": mode}
    case = Single("TensorScatter", fed, (), options, opset=24, open_axes=opened(rng, rank, seed))
    (expected,) = ReferenceEvaluator(case.bytes()).run(None, case.feed)
    made = case.lifted(tmp_path)
    (found,) = thinflow.run(made, case.feed, engine="reference").values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("is_fed", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_compress(tmp_path: Path, axis: int | None, is_fed: bool) -> None:
    rng = np.random.default_rng(3)
    x = array(rng, 3)
    which = np.array([True, False, True][: x.shape[axis] if axis is not None else 3])
    fed, constants = ([x, which], []) if is_fed else ([x], [which])
    options = {} if axis is None else {"axis": axis}
    Single("Compress", fed, constants, options, open_axes=[0] if is_fed else []).check(tmp_path)


@pytest.mark.parametrize("time", [0, 1])
def test_reverse_sequence(tmp_path: Path, time: int) -> None:
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    lengths = np.int64([1, 4, 2] if time else [2, 3, 1, 2])
    options = {"time_axis": time, "batch_axis": 1 - time}
    assert Single("ReverseSequence", [x, lengths], (), options).check(tmp_path) == {"ReverseSequence": 1}


@pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
def test_one_hot(tmp_path: Path, axis: int) -> None:
    x = np.int64([[0, -1, 3], [7, -9, -4]])
    constants = [np.int64(4), np.float32([0.5, 2])]
    Single("OneHot", [x], constants, {"axis": axis}).check(tmp_path, "litert", "onnxruntime")
    Single("OneHot", [x, np.int64([4])], constants[1:], {"axis": axis}).check(tmp_path)


def test_columns_by_number(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    op = "ai.onnx.ml.ArrayFeatureExtractor"
    Single(op, [x], [np.int64([2, 0])]).check(tmp_path)
    Single(op, [x[0]], [np.int64([2, 0])]).check(tmp_path)


@pytest.mark.parametrize(
    ("op", "fed", "options", "problem"),
    [
        ("Gather", [np.ones((2, 3)), np.int64([0])], {"axis": 2}, "its axis is 2 where there are 2"),
        (
            "ScatterND",
            [np.ones(3), np.int64([[0]]), np.ones(1)],
            {"reduction": "mean"},
            "it combines by 'mean'",
        ),
        (
            "TensorScatter",
            [np.ones((2, 3)), np.ones((2, 1))],
            {"mode": "ring", "axis": 1},
            "its mode is 'ring', its axis 1",
        ),
        (
            "GatherElements",
            [np.ones((2, 3)), np.int64([0])],
            {},
            "its index has another number of dimensions",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, op: str, fed: Any, options: Any, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        Single(op, fed, (), options, opset=24).lifted(tmp_path)


def test_written_places_are_written_in_litert_too(tmp_path: Path) -> None:
    """ONNX forbids places that are written twice, which LiteRT would add up."""
    x, updates = np.zeros((3, 4), np.float32), np.float32([[1, 2], [3, 4]])
    rows = np.int64([[0, 2], [1, 0]])
    Single("ScatterElements", [x, rows, updates], (), {"axis": 0}, opset=18).check(tmp_path, "litert")
    Single("ScatterND", [x, np.int64([[2], [0]]), np.ones((2, 4), np.float32)]).check(tmp_path, "litert")


def test_places_of_seven_axes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 1, 2, 1, 2, 2)).astype(np.float32)
    places = rng.integers(-3, 3, (2, 1, 1, 2, 1, 2, 2), np.int64)
    Single("GatherElements", [x, places], (), {"axis": 1}).check(tmp_path, "litert")
