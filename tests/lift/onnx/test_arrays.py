"""ONNX's reshapes, cuts and fills beside ONNX Runtime, with operands that are constant, fed or computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import agree, lifted, node, runtime, save
from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp
from thinflow.lift.graphs import lift

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")

GIVEN = ["constant", "fed"]


def whole(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def array(rng: np.random.Generator, rank: int, least: int = 1) -> np.ndarray:
    return rng.standard_normal(tuple(rng.integers(least, 6, rank))).astype(np.float32)


def case(op: str, x: np.ndarray, operands: list[Any], given: str, options: Any = None, **more: Any) -> Single:
    """The op with its other operands as constants, or all of them fed."""
    if given == "constant":
        return Single(op, [x], operands, options or {}, **more)
    return Single(op, [x, *operands], (), options or {}, **more)


SHAPES = [(0, -1), (0, 0, -1), (-1, 0), (0, 12), (24,), (0, 3, 4), (0, -1, 2), (-1, 3, 0)]


@pytest.mark.parametrize("open_axes", [(), (0,), (1,), (2,), (0, 1), (0, 1, 2)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given", GIVEN)
def test_reshape(tmp_path: Path, given: str, shape: tuple[int, ...], open_axes: tuple[int, ...]) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    case("Reshape", x, [whole(*shape)], given, open_axes=open_axes).check(tmp_path)


def test_open_batches_are_one_reshape(tmp_path: Path) -> None:
    x = np.ones((2, 3, 4), np.float32)
    for shape in ((0, -1), (0, 12), (0, 4, -1), (-1, 12)):
        assert Single("Reshape", [x], [whole(*shape)], open_axes=[0]).check(tmp_path) == {"Reshape": 1}


@pytest.mark.parametrize("allowzero", [0, 1])
def test_reshape_of_nothing(tmp_path: Path, allowzero: int) -> None:
    x = np.zeros((0, 3), np.float32)
    shape = whole(3, 0) if allowzero else whole(0, 1, 3)
    for given in GIVEN:
        case("Reshape", x, [shape], given, {"allowzero": allowzero}, open_axes=[0]).check(tmp_path)


@pytest.mark.parametrize("open_axes", [(), (0,), (2,), (0, 2)])
@pytest.mark.parametrize("axis", [-3, -1, 0, 1, 2, 3])
def test_flatten(tmp_path: Path, axis: int, open_axes: tuple[int, ...]) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    Single("Flatten", [x], (), {"axis": axis}, open_axes=open_axes).check(tmp_path)
    nothing = np.zeros((2, 0, 4), np.float32)
    Single("Flatten", [nothing], (), {"axis": axis}, open_axes=open_axes).check(tmp_path)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("seed", range(12))
def test_slice(tmp_path: Path, seed: int, given: str) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 5))
    x = array(rng, rank)
    axes = rng.permutation(rank)[: rng.integers(1, rank + 1)]
    count = axes.size
    steps = rng.choice([-3, -2, -1, 1, 2, 3], count)
    starts, ends = rng.integers(-7, 8, count), rng.integers(-7, 8, count)
    far = rng.random(count) < 0.3
    ends = np.where(far, np.where(steps < 0, -(2**62), 2**62), ends)
    signed = np.where(rng.random(count) < 0.4, axes - rank, axes)
    kind = np.int32 if seed % 4 == 3 and not far.any() else np.int64
    operands = [a.astype(kind) for a in (starts, ends, signed, steps)]
    if seed % 5 == 4:
        operands = [a.astype(kind) for a in (starts, np.abs(ends))]
    case("Slice", x, operands, given, open_axes=range(rank) if seed % 2 else ()).check(tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_split(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    x, axis = array(rng, rank, 3), int(rng.integers(-rank, rank))
    size = x.shape[axis]
    first = int(rng.integers(1, size))
    for given in GIVEN:
        case("Split", x, [whole(first, size - first)], given, {"axis": axis}, outputs=2).check(tmp_path)
    for open_axes in ((), range(rank)):
        options = {"axis": axis, "num_outputs": 2}
        Single("Split", [x], (), options, 2, open_axes=open_axes).check(tmp_path)
        Single("Split", [x], [whole(size)], {"axis": axis}, 1, open_axes=open_axes).check(tmp_path)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("op", ["Expand", "Tile"])
def test_repeats(tmp_path: Path, op: str, given: str) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    operand = whole(3, 2, 1, 3) if op == "Expand" else whole(1, 3, 2)
    for open_axes in ((), (0,), (0, 1, 2)):
        case(op, x, [operand], given, open_axes=open_axes).check(tmp_path)
    assert Single("Expand", [x], [whole(2, 4, 3)]).check(tmp_path) == {"BroadcastTo": 1}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [-5, -1, 0, 1, 5])
def test_triangles(tmp_path: Path, k: int, upper: int, given: str) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for open_axes in ((), (1, 2)):
        operands, options = [np.array(k, np.int64)], {"upper": upper}
        case("Trilu", x, operands, given, options, open_axes=open_axes).check(tmp_path)
        Single("Trilu", [x], (), {"upper": upper}, open_axes=open_axes).check(tmp_path)


@pytest.mark.parametrize("k", [-1, 0, 2])
@pytest.mark.parametrize("number", [None, onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE])
def test_ones_on_a_diagonal(tmp_path: Path, k: int, number: int | None) -> None:
    x = np.zeros((3, 4), np.float32)
    options = {"k": k} if number is None else {"k": k, "dtype": number}
    for open_axes in ((), (0,), (0, 1)):
        Single("EyeLike", [x], (), options, open_axes=open_axes).check(tmp_path)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.int32, np.int16, np.float64])
def test_range(tmp_path: Path, kind: Any) -> None:
    numbers = [np.array(n, kind) for n in (9, 2, -2)]
    Single("Range", numbers).check(tmp_path)
    Single("Range", numbers[:1], numbers[1:]).check(tmp_path)
    assert Single("Range", [np.array(n, np.float16) for n in (1, 7, 2)]).run(tmp_path).tolist() == [1, 3, 5]


@pytest.mark.parametrize(("start", "end"), [(0, None), (1, 3), (-2, None), (0, -1), (-9, 9), (3, 1)])
def test_shape(tmp_path: Path, start: int, end: int | None) -> None:
    options = {"start": start} if end is None else {"start": start, "end": end}
    for open_axes in ((), (0, 2)):
        Single("Shape", [np.ones((2, 3, 4), np.float32)], (), options, open_axes=open_axes).check(tmp_path)


def test_sizes_through_floats(tmp_path: Path) -> None:
    """What old exporters write for a picture twice as large: rounded products of sizes cast to float."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Slice", ["shape", "two", "four"], ["sides"]),
        node("Cast", ["sides"], ["real"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["real", "factor"], ["more"]),
        node("Floor", ["more"], ["floor"]),
        node("Cast", ["floor"], ["wanted"], to=onnx.TensorProto.INT64),
        node("Slice", ["shape", "zero", "two"], ["outer"]),
        node("Concat", ["outer", "wanted"], ["sizes"], axis=0),
        node("Greater", ["sides", "two"], ["large"]),
        node("Where", ["large", "wanted", "sides"], ["chosen"]),
        node("ReduceProd", ["chosen"], ["count"], keepdims=1),
        node("Expand", ["x", "sizes"], ["big"]),
        node("Reshape", ["big", "flat"], ["line"]),
        node("Slice", ["line", "zero", "count"], ["y"]),
    ]
    constants = {name: whole(n) for name, n in (("zero", 0), ("two", 2), ("four", 4), ("flat", -1))}
    constants["factor"] = np.float32([2.5])
    x = np.ones((1, 2, 1, 1), np.float32)
    path = save(tmp_path / "m.onnx", nodes, {"x": x}, ["y"], constants)
    agree(runtime(path, {"x": x}), lifted(path, {"x": x}))
    made = lift(thinflow.formats.load(path))
    (cut,) = [n for n in made if n.op == "StridedSlice" and n.name == "y"]
    assert all(v.node.tensor is not None for v in cut.inputs[1:])


@pytest.mark.parametrize(
    ("op", "operands", "options", "problem"),
    [
        ("Slice", [whole(0), whole(1), whole(7)], {}, "its axes \\[7\\] are not those of 2 dimensions"),
        ("Slice", [whole(0, 0), whole(1, 1), whole(0, -2)], {}, "its axes \\[0, -2\\] are not those"),
        ("Unsqueeze", [whole(4)], {}, "its axes \\[4\\] are not those of 3 dimensions"),
        ("Flatten", [], {"axis": 5}, "its axis is 5 where there are 2"),
        ("EyeLike", [], {"dtype": 99}, "it makes a type that TensorFlow does not have"),
        ("Split", [], {"num_outputs": 3}, "not all of its parts have names"),
    ],
)
def test_what_is_refused(tmp_path: Path, op: str, operands: Any, options: Any, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        Single(op, [np.ones((2, 3), np.float32)], operands, options).lifted(tmp_path)
