"""Constants stored without their zeros: as LiteRT makes them whole, and damaged ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.errors import FormatError
from thinflow.ir.types import FLOAT
from thinflow.tflite import sparsity, writer
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.sparsity import Dimension, Sparsity, densified
from thinflow.tflite.writer import to_bytes
from thinflow.wire.flatbuffer import Scalar, Vector

KINDS = {np.int32: (1, "i32"), np.uint16: (2, "u16"), np.uint8: (3, "u8")}


def compressed(dense: np.ndarray, sparse: int = 1, kind: type = np.int32) -> tuple[np.ndarray, list[Any]]:
    """Values of a matrix whose axis `sparse` is sparse, and the metadata of both."""
    if sparse == 1:
        segments = np.concatenate([[0], np.cumsum((dense != 0).sum(1))])
        first = {0: Scalar("i8", 0), 1: Scalar("i32", len(dense))}
        return dense[dense != 0], [first, csr(segments, np.nonzero(dense)[1], kind)]
    rows = np.flatnonzero(dense.any(1))
    last = {0: Scalar("i8", 0), 1: Scalar("i32", dense.shape[1])}
    return dense[rows].ravel(), [csr(np.array([0, len(rows)]), rows, kind), last]


def csr(segments: np.ndarray, indices: np.ndarray, kind: type) -> dict[int, Any]:
    number, name = KINDS[kind]
    tables = [{0: Vector(name, a.tolist())} for a in (segments, indices)]
    return {
        0: Scalar("i8", 1),
        2: Scalar("u8", number),
        3: tables[0],
        4: Scalar("u8", number),
        5: tables[1],
    }


def model(
    path: Path, monkeypatch: pytest.MonkeyPatch, values: np.ndarray, shape: tuple, parameters: dict[int, Any]
) -> str:
    """x [2,k] times the transposed sparse weights, made whole first."""
    x, y = Tensor("x", (2, shape[1]), FLOAT), Tensor("y", (2, shape[0]), FLOAT)
    w, whole = Tensor("w", values.shape, FLOAT, values), Tensor("whole", shape, FLOAT)
    steps = [Operator("DENSIFY", [w], [whole]), Operator("FULLY_CONNECTED", [x, whole, None], [y])]
    plain = writer._tensor_table

    def table(tensor: Tensor, buffer: int) -> dict[int, Any]:
        made = plain(tensor, buffer)
        return made | {0: Vector("i32", shape), 6: parameters} if tensor is w else made

    monkeypatch.setattr(writer, "_tensor_table", table)
    path.write_bytes(to_bytes(Program([Subgraph([x], [y], steps)])))
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [0, 1])
def test_matrices(sparse: int, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    rng = np.random.default_rng(0)
    dense = (rng.standard_normal((6, 8)) * (rng.random((6, 8)) < 0.3)).astype(np.float32)
    dense[[1, 4]] = 0
    values, dimensions = compressed(dense, sparse, kind)
    parameters = {0: Vector("i32", (0, 1)), 2: dimensions}
    path = model(tmp_path / "m.tflite", monkeypatch, values, dense.shape, parameters)
    x = rng.standard_normal((2, 8)).astype(np.float32)
    (expected,) = thinflow.Session(path, "litert").run(None, {"x": x})
    (found,) = thinflow.Session(path, "reference").run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, x @ dense.T, rtol=1e-5, atol=1e-6)
    with pytest.raises(FormatError, match="sparse weights are not supported"):
        read_program(Path(path).read_bytes())


def test_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    rng = np.random.default_rng(1)
    blocks = rng.standard_normal((3, 4, 2, 2)).astype(np.float32) * (rng.random((3, 4, 1, 1)) < 0.4)
    dense = blocks.transpose(0, 2, 1, 3).reshape(6, 8).astype(np.float32)
    kept = blocks.any((2, 3))
    segments = np.concatenate([[0], np.cumsum(kept.sum(1))])
    size = [{0: Scalar("i8", 0), 1: Scalar("i32", n)} for n in (3, 2, 2)]
    parameters = {
        0: Vector("i32", (0, 1, 2, 3)),
        1: Vector("i32", (0, 1)),
        2: [size[0], csr(segments, np.nonzero(kept)[1], np.int32), *size[1:]],
    }
    values = blocks[kept].astype(np.float32).ravel()
    path = model(tmp_path / "m.tflite", monkeypatch, values, (6, 8), parameters)
    x = rng.standard_normal((2, 8)).astype(np.float32)
    (expected,) = thinflow.Session(path, "litert").run(None, {"x": x})
    (found,) = thinflow.Session(path, "reference").run(None, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, x @ dense.T, rtol=1e-5, atol=1e-6)


ROWS = Dimension(2)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Sparsity((0, 2), (), (ROWS, ROWS)), "the order of its dimensions makes no sense"),
        (Sparsity((0, 1), (), (ROWS,)), "the order of its dimensions makes no sense"),
        (Sparsity((0, 1, 2), (5,), (ROWS,) * 3), "the order of its dimensions makes no sense"),
        (Sparsity((0, 1, 2, 3), (1, 1), (Dimension(1),) * 4), "a dimension of it is divided twice"),
        (Sparsity((0, 1), (), (Dimension(-1), ROWS)), "a dense dimension has the size -1"),
        (Sparsity((0, 1), (), (ROWS, Dimension(1 << 40))), "a dense dimension has the size"),
        (Sparsity((0, 1), (), (ROWS, Dimension(1))), "its 3 values do not fit its indices"),
        (
            Sparsity((0, 1), (), (ROWS, Dimension(0, np.array([0, 1, 3]), np.array([0, 1, 9])))),
            "lie outside of its shape",
        ),
        (
            Sparsity((0, 1), (), (ROWS, Dimension(0, np.array([0, 5, 3]), np.array([0, 1, 1])))),
            "the segments of a sparse dimension make no sense",
        ),
        (
            Sparsity((0, 1), (), (ROWS, Dimension(0, np.array([0, 3]), np.array([0, 1, 1])))),
            "the segments of a sparse dimension make no sense",
        ),
    ],
)
def test_damage_is_named(given: Sparsity, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        densified(np.ones(3, np.float32), (2, 3), given)


def test_kinds_that_are_not_known_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values, dimensions = compressed(np.eye(3, dtype=np.float32))
    for slot, number, said in ((0, 5, "a dimension of kind 5"), (2, 9, "indices of kind 9")):
        broken = dimensions[1] | {slot: Scalar("i8" if slot == 0 else "u8", number)}
        parameters = {0: Vector("i32", (0, 1)), 2: [dimensions[0], broken]}
        with monkeypatch.context() as m:
            path = model(tmp_path / "m.tflite", m, values, (3, 3), parameters)
        with pytest.raises(FormatError, match=said):
            thinflow.Session(path, "reference")
    with monkeypatch.context() as m:
        path = model(tmp_path / "m.tflite", m, values, (3, 3), {0: Vector("i32", (0, 1)), 2: dimensions})
        m.setattr("thinflow.tflite.reader.MOST_ELEMENTS", 5)
        with pytest.raises(FormatError, match="sparse weights are too large to be read"):
            thinflow.Session(path, "reference")
    assert sparsity.MOST_ELEMENTS > 5
