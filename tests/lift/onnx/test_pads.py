"""ONNX's Pad, DepthToSpace and SpaceToDepth beside ONNX Runtime, at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def whole(values: Any) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("seed", range(6))
def test_pads(tmp_path: Path, mode: str, seed: int, is_open: bool) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(3, 6, rng.integers(1, 5)).tolist())
    x = rng.standard_normal(shape).astype(np.float32)
    axes = rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)]
    least = -1 if mode == "constant" else 0
    pads = rng.integers(least, 3, 2 * axes.size)
    constants: list[np.ndarray | None] = [whole(pads), np.float32(0.5 if seed % 2 else 0), whole(axes)]
    open_axes = range(len(shape)) if is_open else ()
    Single("Pad", [x], constants, {"mode": mode}, opset=19, open_axes=open_axes).check(tmp_path)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("axes", [None, [2, 0]])
def test_pads_that_are_computed(tmp_path: Path, mode: str, axes: list[int] | None) -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    pads = whole([1, 0, 2, 0, 1, 0] if axes is None else [1, 2, 0, 1])
    constants = [] if axes is None else [np.float32(2), whole(axes)]
    Single("Pad", [x, pads], constants, {"mode": mode}, opset=19, open_axes=(1,)).check(tmp_path)


def test_zeros_around_a_picture_are_one_pad(tmp_path: Path) -> None:
    x = np.ones((1, 2, 3, 4), np.float32)
    ops = Single("Pad", [x], [whole([0, 0, 1, 1, 0, 0, 1, 2])]).check(tmp_path, "litert")
    assert ops == {"Pad": 1}


@pytest.mark.parametrize(
    ("options", "constants", "problem"),
    [
        ({"mode": "mirror"}, [whole([0, 1, 0, 1])], "it pads in the mode 'mirror'"),
        ({}, [whole([0, 1, 0])], "it has 3 pads for 2 axes"),
        ({}, [whole([0, 1]), None, whole([5])], "its axes \\[5\\] are not those of 2 dimensions"),
    ],
)
def test_what_is_not_a_pad_is_refused(tmp_path: Path, options: Any, constants: Any, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        Single("Pad", [np.ones((2, 3), np.float32)], constants, options, opset=19).lifted(tmp_path)


@pytest.mark.parametrize("open_axes", [(), (0, 2, 3)])
@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_is_one_op(tmp_path: Path, mode: str, open_axes: tuple[int, ...]) -> None:
    x = np.arange(2 * 12 * 3 * 5, dtype=np.float32).reshape(2, 12, 3, 5)
    case = Single("DepthToSpace", [x], [], {"blocksize": 2, "mode": mode}, open_axes=open_axes)
    assert case.check(tmp_path, "litert")["DepthToSpace"] == 1


@pytest.mark.parametrize("open_axes", [(), (0, 2, 3)])
def test_space_to_depth_is_one_op(tmp_path: Path, open_axes: tuple[int, ...]) -> None:
    x = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    case = Single("SpaceToDepth", [x], [], {"blocksize": 2}, open_axes=open_axes)
    assert case.check(tmp_path, "litert")["SpaceToDepth"] == 1


def test_blocks_of_another_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match="its mode is 'RCD'"):
        Single(
            "DepthToSpace", [np.ones((1, 4, 2, 2), np.float32)], [], {"blocksize": 2, "mode": "RCD"}
        ).lifted(tmp_path)
