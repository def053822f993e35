"""ONNX's Fourier transforms and mel bands beside ONNX Runtime and the standard's reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


FORMS = [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 2), (1, 1, 2)]


def number(n: float, kind: Any = np.int64) -> np.ndarray:
    return np.array(n, kind)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("inverse", "onesided", "parts"), [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 2), (1, 1, 2)]
)
def test_transforms(tmp_path: Path, inverse: int, onesided: int, parts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(2, 5))
    x = rng.standard_normal((*rng.integers(3, 8, rank - 1), parts)).astype(np.float32)
    axis = int(rng.integers(0, rank - 1))
    length = [number(int(rng.integers(2, 10)))] if seed % 3 else [None]
    options = {"inverse": inverse, "onesided": onesided}
    open_axes = [axis] if seed % 4 == 3 else []
    if seed % 2:
        case = Single("DFT", [x], [*length, number(axis - rank)], options, opset=20, open_axes=open_axes)
    else:
        case = Single("DFT", [x], length, {**options, "axis": axis}, opset=17, open_axes=open_axes)
    case.check(tmp_path, by="defined", tolerance=1e-4)


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_other_types(tmp_path: Path, kind: Any) -> None:
    x = np.arange(8).reshape(1, 8, 1).astype(kind)
    Single("DFT", [x], (), {"onesided": 1}).check(tmp_path, by="defined", tolerance=1e-2)


@pytest.mark.parametrize("open_axes", [(), (1,)])
@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize(("parts", "onesided"), [(1, 0), (1, 1), (2, 0)])
def test_short_transforms(tmp_path: Path, parts: int, onesided: int, window: bool, open_axes: Any) -> None:
    rng = np.random.default_rng(parts)
    x = rng.standard_normal((2, 37, parts)).astype(np.float32)
    shape = np.hanning(8).astype(np.float32) if window else None
    for length in ([], [number(8)]) if window else ([number(8)],):
        case = Single("STFT", [x], [number(5), shape, *length], {"onesided": onesided}, opset=17,
                      open_axes=open_axes)  # fmt: skip
        case.check(tmp_path, tolerance=1e-4)


@pytest.mark.parametrize("open_axes", [(), (0, 1)])
def test_real_signals_without_parts(tmp_path: Path, open_axes: Any) -> None:
    x = np.random.default_rng(3).standard_normal((2, 37)).astype(np.float32)
    case = Single(
        "STFT", [x], [number(5), np.hanning(8).astype(np.float32)], {}, opset=17, open_axes=open_axes
    )
    case.check(tmp_path, tolerance=1e-4)


@pytest.mark.parametrize("bands", [3, 8, 20])
@pytest.mark.parametrize(("length", "rate"), [(16, 8192), (256, 16000), (33, 8000)])
@pytest.mark.parametrize(("low", "high"), [(0, 4000), (125, 3800)])
def test_mel_bands(tmp_path: Path, bands: int, length: int, rate: int, low: float, high: float) -> None:
    operands = [number(n) for n in (bands, length, rate)] + [number(n, np.float32) for n in (low, high)]
    case = Single("MelWeightMatrix", operands[:1], operands[1:], opset=17)
    constant = Single("MelWeightMatrix", [], operands, opset=17)
    constant.check(tmp_path, by="defined")
    with pytest.raises(UnsupportedOp, match="its operand 0 is computed"):
        case.lifted(tmp_path)


@pytest.mark.parametrize(
    ("op", "x", "operands", "options", "problem"),
    [
        ("DFT", np.ones((1, 4, 2)), [], {"onesided": 1}, "one side of the frequencies of complex numbers"),
        ("DFT", np.ones((1, 4, 3)), [], {}, "whether its numbers are complex is not known"),
        ("DFT", np.ones((1, 4, 1)), [None, number(2)], {}, "its axis is 2 where there are 3, the last for"),
        ("DFT", np.ones((1, 4, 1)), [number(1 << 40)], {}, "it asks for 1099511627776 elements"),
        ("STFT", np.ones(4), [number(1)], {}, "its signal is not"),
        ("STFT", np.ones((1, 4, 1)), [number(0), None, number(2)], {}, "the length of its frames"),
    ],
)
def test_what_is_refused(tmp_path: Path, op: str, x: Any, operands: Any, options: Any, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        Single(op, [x.astype(np.float32)], operands, options).lifted(tmp_path)
