"""MediaPipe's custom operators beside their definition, element by element."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.lift.tflite.programs import program
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT
from thinflow.tflite.writer import to_bytes

RNG = np.random.default_rng(0)


def run(folder: Path, code: str, shapes: list, outputs: list, options: bytes, feed: dict) -> list[np.ndarray]:
    made = program("CUSTOM", shapes, [(s, FLOAT) for s in outputs], custom_code=code, custom_options=options)
    (folder / "m.tflite").write_bytes(to_bytes(made))
    return thinflow.Session(folder / "m.tflite", "reference").run(None, feed)


def pool_options(
    padding: int, stride: tuple[int, int], window: tuple[int, int], activation: int = 0
) -> bytes:
    """By width and height, as the structure has them."""
    return struct.pack("<6i", padding, stride[1], stride[0], window[1], window[0], activation) + bytes(16)


@pytest.mark.parametrize("seed", range(6))
def test_pools_with_places(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    height, width = (int(n) for n in rng.integers(5, 9, 2))
    window, stride = (tuple(int(n) for n in rng.integers(1, 4, 2)) for _ in range(2))
    x = rng.standard_normal((2, height, width, 3)).astype(np.float32)
    padding = 1 + seed % 2
    counts, before = [], []
    for size, length, step in zip((height, width), window, stride, strict=True):
        count = -(-size // step) if padding == 1 else (size - length) // step + 1
        counts.append(count)
        before.append(max((count - 1) * step + length - size, 0) // 2 if padding == 1 else 0)
    shape = (2, *counts, 3)
    most, place = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for b, i, j, k in np.ndindex(*shape):
        best = -np.inf
        for p, q in np.ndindex(*window):
            row, column = i * stride[0] - before[0] + p, j * stride[1] - before[1] + q
            if 0 <= row < height and 0 <= column < width and x[b, row, column, k] > best:
                best = x[b, row, column, k]
                place[b, i, j, k] = np.float32(p * window[1] + q) + np.float32(0.1)
        most[b, i, j, k] = best
    options = pool_options(padding, stride, window)
    found = run(tmp_path, "MaxPoolingWithArgmax2D", [(x.shape, FLOAT)], [shape, shape], options, {"x0": x})
    np.testing.assert_array_equal(found[0], most)
    np.testing.assert_array_equal(found[1], place)


@pytest.mark.parametrize("side", [1, 2, 3])
def test_unpools(side: int, tmp_path: Path) -> None:
    x = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    place = RNG.integers(0, side * side, x.shape)
    expected = np.zeros((2, 3 * side, 4 * side, 5), np.float32)
    for b, i, j, k in np.ndindex(*x.shape):
        row, column = divmod(int(place[b, i, j, k]), side)
        expected[b, i * side + row, j * side + column, k] = x[b, i, j, k]
    feed = {"x0": x, "x1": (place + 0.1).astype(np.float32)}
    options = pool_options(1, (side, side), (side, side))
    shapes = [(x.shape, FLOAT)] * 2
    (found,) = run(tmp_path, "MaxUnpooling2D", shapes, [expected.shape], options, feed)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(8))
def test_transposed_convolutions_with_a_bias(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    height, width, kh, kw, sh, sw = (int(n) for n in (*rng.integers(2, 6, 2), *rng.integers(1, 4, 4)))
    x = rng.standard_normal((1, height, width, 2)).astype(np.float32)
    w, bias = rng.standard_normal((3, kh, kw, 2)).astype(np.float32), np.float32([1, 2, 3])
    padding = 1 + seed % 2
    cut = [
        max(0, f - (n - 1) % s - 1) if padding == 1 else 0 for n, f, s in ((height, kh, sh), (width, kw, sw))
    ]
    shape = (1, sh * (height - 1) + kh - cut[0], sw * (width - 1) + kw - cut[1], 3)
    expected = np.broadcast_to(bias, shape).copy()
    for i, j, p, q in np.ndindex(height, width, kh, kw):
        row, column = i * sh - cut[0] // 2 + p, j * sw - cut[1] // 2 + q
        if 0 <= row < shape[1] and 0 <= column < shape[2]:
            expected[0, row, column] += w[:, p, q] @ x[0, i, j]
    options = struct.pack("<3i", padding, sw, sh)
    specs = [(x.shape, FLOAT), w, bias]
    (found,) = run(tmp_path, "Convolution2DTransposeBias", specs, [shape], options, {"x0": x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("code", "options", "said"),
    [
        ("MaxUnpooling2D", b"\1", "its options are too short"),
        ("MaxUnpooling2D", pool_options(1, (1, 1), (2, 2)), "its windows overlap, leave gaps"),
        ("MaxUnpooling2D", pool_options(9, (2, 2), (2, 2)), "its padding is of kind 9"),
        ("MaxUnpooling2D", pool_options(1, (2, 2), (2, 2), 1), "it has an activation"),
        ("MaxUnpooling2D", pool_options(1, (0, 0), (2, 2)), "its window is 2 by 2, in steps of 0 and 0"),
    ],
)
def test_what_is_refused(code: str, options: bytes, said: str, tmp_path: Path) -> None:
    shapes = [((1, 2, 2, 1), FLOAT)] * 2
    with pytest.raises(UnsupportedOp, match=said):
        run(tmp_path, code, shapes, [(1, 4, 4, 1)], options, {})


def test_steps_of_a_convolution_are_checked(tmp_path: Path) -> None:
    specs = [((1, 2, 2, 1), FLOAT), np.ones((1, 2, 2, 1), np.float32), np.float32([0])]
    with pytest.raises(UnsupportedOp, match="its steps are 0 and 1"):
        run(tmp_path, "Convolution2DTransposeBias", specs, [(1, 4, 4, 1)], struct.pack("<3i", 1, 1, 0), {})
