"""Weights with a scale for each block of a row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow import formats
from thinflow.errors import FormatError
from thinflow.ir.types import FLOAT, HALF, dtype
from thinflow.tflite import writer
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes
from thinflow.wire.flatbuffer import Scalar

RNG = np.random.default_rng(3)
CODES = RNG.integers(-8, 8, (6, 64)).astype(np.int8)
SCALES = RNG.uniform(0.01, 0.02, (6, 2)).astype(np.float16)


def stored(
    monkeypatch: pytest.MonkeyPatch, *, size: int = 32, scales: int = 2, zero_points: int = -1
) -> bytes:
    """y = x w^T, with w in blocks of 32 of int4, whose scales are the tensor 2."""
    x, y = Tensor("x", (1, 64), FLOAT), Tensor("y", (1, 6), FLOAT)
    kept = Quantization(np.float32([1]), np.int64([0]))
    w = Tensor("w", CODES.shape, dtype("int4"), CODES.astype(dtype("int4").numpy()), quantization=kept)
    s = Tensor("s", SCALES.shape, HALF, SCALES)
    details = {0: Scalar("i32", scales), 1: Scalar("i32", zero_points), 2: Scalar("i32", size)}
    # The writer has no such parameters: a table of them for those of w.
    monkeypatch.setattr(writer, "_quantization_table", lambda q: {4: Scalar("u8", 2), 5: details})
    cast = Operator("DEQUANTIZE", [s], [Tensor("t", SCALES.shape, FLOAT)])
    return to_bytes(Program([Subgraph([x], [y], [Operator("FULLY_CONNECTED", [x, w], [y]), cast])]))


def load(data: bytes, path: Path) -> thinflow.Graph:
    path.write_bytes(data)
    return formats.load(path)


def test_they_are_real_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = CODES * np.repeat(SCALES.astype(np.float32), 32, axis=1)
    found = []
    # Whichever number the writer gives the tensor.
    for number in range(5):
        try:
            graph = load(stored(monkeypatch, scales=number), tmp_path / "m.tflite")
        except FormatError:
            continue
        found.append(number)
        assert graph.facts["left out"] == "the scales of blocks, whose weights are read as float32"
        np.testing.assert_array_equal(graph.node("w").tensor.numpy(), wanted)
        x = RNG.standard_normal((1, 64), np.float32)
        (y,) = thinflow.Session(thinflow.load(tmp_path / "m.tflite"), "reference").run(["y"], {"x": x})
        np.testing.assert_allclose(y, x @ wanted.T, rtol=1e-5, atol=1e-6)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"size": 0}, "'w' has no scale for each block of 0 elements"),
        ({"size": 5}, "'w' has no scale for each block of 5 elements"),
        ({"scales": 99}, "'w' has no scale for each block of 32 elements"),
        ({"zero_points": 3}, "'w' has zero points for its blocks, which are not supported"),
    ],
)
def test_damage(given: dict[str, int], problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match=problem):
        read_program(stored(monkeypatch, **given), losses=[])


def test_a_program_to_be_written_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="the scales of blocks"):
        read_program(stored(monkeypatch))
