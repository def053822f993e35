"""ONNX's normalizations: right by ONNX Runtime, and TensorFlow's own ops where it has one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
    import thinflow

    (found,) = thinflow.run(case.lifted(tmp_path), case.feed, engine="reference").values()
    np.testing.assert_allclose(found, expected, rtol=3e-5, atol=3e-5)
