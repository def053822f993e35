"""ONNX's normalizations: right by ONNX Runtime, and TensorFlow's own ops where it has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.models import agree, helper, lifted, runtime, save
from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

RNG = np.random.default_rng(3)


def w(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def vectors(n: int, count: int) -> list[np.ndarray]:
    return [np.abs(w(n)) + np.float32(0.2) for _ in range(count)]


@pytest.mark.parametrize("open_axes", [(), (0,), (0, 2, 3)])
def test_a_batch_norm_over_pictures_is_the_fused_one(tmp_path: Path, open_axes: tuple[int, ...]) -> None:
    case = Single(
        "BatchNormalization", [w(2, 4, 5, 6)], vectors(4, 4), {"epsilon": 1e-3}, open_axes=open_axes
    )
    assert case.check(tmp_path, "litert")["FusedBatchNormV3"] == 1


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 7), (1, 4, 3, 5, 2)])
def test_batch_norms_over_other_than_pictures(tmp_path: Path, shape: tuple[int, ...]) -> None:
    Single("BatchNormalization", [w(*shape)], vectors(4, 4)).check(tmp_path, "litert")


def test_a_batch_norm_in_training_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match="it is in training mode"):
        Single("BatchNormalization", [w(2, 4, 5, 6)], vectors(4, 4), {"training_mode": 1}, 3).lifted(tmp_path)


@pytest.mark.parametrize("shape", [(2, 4, 7), (2, 4, 5, 6), (1, 4, 3, 5, 2)])
def test_instance_norms(tmp_path: Path, shape: tuple[int, ...]) -> None:
    Single("InstanceNormalization", [w(*shape)], [w(4), w(4)]).check(tmp_path, "litert")


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("open_axes", [(), (0,), (2, 3), (0, 2, 3)])
def test_group_norms(tmp_path: Path, opset: int, open_axes: tuple[int, ...]) -> None:
    count = 2 if opset < 21 else 6
    Single(
        "GroupNormalization", [w(2, 6, 5, 4)], [w(count), w(count)], {"num_groups": 2, "epsilon": 1e-2},
        opset=opset, open_axes=open_axes,
    ).check(tmp_path)  # fmt: skip


def grouped(folder: Path, x: np.ndarray, groups: int, shape: Sequence[Any] | None = None) -> Path:
    """A norm of groups as exporters write it before ONNX has an op for that: a norm of what is reshaped."""
    channels = x.shape[1]
    constants = {
        "kernel": w(channels, channels, *[3] * (x.ndim - 2)), "groups": np.array([0, groups, -1]),
        "scale": w(groups), "offset": w(groups),
    }  # fmt: skip
    edges = [1] * (2 * (x.ndim - 2))
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["a"], pads=edges),
        helper.make_node("Reshape", ["a", "groups"], ["b"]),
        helper.make_node("InstanceNormalization", ["b", "scale", "offset"], ["c"], epsilon=1e-3),
        helper.make_node("Shape", ["a"], ["sizes"]),
        helper.make_node("Reshape", ["c", "sizes"], ["d"]),
        helper.make_node("Conv", ["d", "kernel"], ["y"], pads=edges),
    ]
    return save(folder / "m.onnx", nodes, {"x": x}, ["y"], constants, shapes=shape and {"x": shape})


@pytest.mark.parametrize("sizes", [(12, 8, 7), (12, 9), (12, 3, 5, 4)])
@pytest.mark.parametrize("groups", [1, 2, 4, 12])
@pytest.mark.parametrize("open_axes", [(), (0,), (2,)])
def test_norms_of_groups_before_their_op(
    tmp_path: Path, sizes: tuple[int, ...], groups: int, open_axes: tuple[int, ...]
) -> None:
    x = w(2, *sizes)
    shape = [f"n{k}" if k in open_axes else n for k, n in enumerate(x.shape)]
    path = grouped(tmp_path, x, groups, shape)
    agree(runtime(path, {"x": x}), lifted(path, {"x": x}), 1e-4)


def test_a_picture_whose_groups_are_normalized_is_not_transposed(tmp_path: Path) -> None:
    thinflow.convert(grouped(tmp_path, w(1, 6, 8, 7), 2), tmp_path / "m.tflite")
    ops = Counter(node.op for node in thinflow.load(tmp_path / "m.tflite", lift=False))
    assert ops["tfl.TRANSPOSE"] == 2  # of what is fed and fetched
    assert ops["tfl.CONV_2D"] == 2


def test_what_is_reshaped_across_pictures_is_normalized_as_it_is(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["a"]),
        helper.make_node("InstanceNormalization", ["a", "scale", "offset"], ["y"]),
    ]
    x = w(4, 6, 5, 2)
    for shape in ((2, 3, 40), (8, 6, 5), (2, 6, 20), (4, 4, 15)):
        constants = {"shape": np.array(shape), "scale": w(shape[1]), "offset": w(shape[1])}
        for sizes in (None, ["n", 6, 5, 2], [4, 6, "h", "w"]):
            path = save(tmp_path / "m.onnx", nodes, {"x": x}, ["y"], constants, shapes=sizes and {"x": sizes})
            agree(runtime(path, {"x": x}), lifted(path, {"x": x}), 1e-4)


def test_groups_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match="not 4 groups of equal size"):
        Single("GroupNormalization", [w(2, 6, 5, 4)], [w(4), w(4)], {"num_groups": 4}).lifted(tmp_path)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_an_odd_window_of_neighbours_is_one_op(tmp_path: Path, size: int) -> None:
    ops = Single("LRN", [w(2, 6, 4, 5)], [], {"size": size, "alpha": 0.3, "beta": 0.6, "bias": 1.5}).check(
        tmp_path, "litert"
    )
    assert ops["LRN"] == 1


@pytest.mark.parametrize("open_axes", [(), (0,), (0, 2, 3)])
def test_an_even_window_of_neighbours(tmp_path: Path, open_axes: tuple[int, ...]) -> None:
    # ONNX Runtime knows odd windows only; the definition takes one neighbour more behind.
    x = w(2, 6, 4, 5)
    squares = np.pad(x**2, [(0, 0), (1, 2), (0, 0), (0, 0)])
    sums = sum(squares[:, k : k + 6] for k in range(4))
    expected = x / (1.5 + 0.3 / 4 * sums) ** 0.6
    case = Single("LRN", [x], [], {"size": 4, "alpha": 0.3, "beta": 0.6, "bias": 1.5}, open_axes=open_axes)
    (found,) = thinflow.run(case.lifted(tmp_path), case.feed, engine="reference").values()
    np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-5)
