"""Resizing: the three sampling conventions, areas and crops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, INT32, TensorSpec

Array = np.ndarray[Any, Any]


def random(*shape: int, dtype: Any = np.float32) -> Array:
    return (np.random.default_rng(sum(shape)).random(shape) * 100).astype(dtype)


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


def row(*values: float) -> Array:
    return np.array(values, np.float32).reshape(1, 1, -1, 1)


FLAGS: list[dict[str, Any]] = [{}, {"align_corners": True}, {"half_pixel_centers": True}]
CASES: dict[str, list[Case]] = {
    name: [
        ([x, ints(7, 2)], flags)
        for x in (random(2, 4, 5, 3), random(1, 3, 4, 1, dtype=np.uint8))
        for flags in FLAGS
    ]
    for name in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
}
CASES["ResizeArea"] = [([random(1, 4, 5, 2), ints(3, 7)], flags) for flags in FLAGS[:2]]
CASES["CropAndResize"] = [
    ([random(2, 5, 6, 3), random(4, 4) / 100, ints(0, 1, 1, 0), ints(3, 2)], {"method": method})
    for method in ("bilinear", "nearest")
]


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


@pytest.mark.parametrize(
    ("name", "flags", "expected"),
    [
        ("ResizeBilinear", {}, [0, 5, 10, 10]),
        ("ResizeBilinear", {"align_corners": True}, [0, 10 / 3, 20 / 3, 10]),
        ("ResizeBilinear", {"half_pixel_centers": True}, [0, 2.5, 7.5, 10]),
        ("ResizeNearestNeighbor", {}, [0, 0, 10, 10]),
        ("ResizeNearestNeighbor", {"align_corners": True}, [0, 0, 10, 10]),
        ("ResizeNearestNeighbor", {"half_pixel_centers": True}, [0, 0, 10, 10]),
        ("ResizeBicubic", {}, [0, 5, 10, 10.9375]),
        ("ResizeArea", {}, [0, 0, 10, 10]),
    ],
)
def test_two_pixels_to_four(name: str, flags: dict[str, Any], expected: list[float]) -> None:
    y = run(name, row(0, 10), ints(1, 4), **flags)
    np.testing.assert_allclose(y.ravel(), expected, rtol=1e-6)


def test_nearest_rounds_halves_up_when_corners_align() -> None:
    y = run("ResizeNearestNeighbor", row(0, 1, 2, 3, 4), ints(1, 3), align_corners=True)
    assert y.ravel().tolist() == [0, 2, 4]
    y = run("ResizeNearestNeighbor", row(0, 1, 2, 3), ints(1, 7), align_corners=True)
    assert y.ravel().tolist() == [0, 1, 1, 2, 2, 3, 3]


def test_same_size_is_a_copy_even_of_infinities() -> None:
    x = row(np.inf, 1, np.nan)
    np.testing.assert_array_equal(run("ResizeBilinear", x, ints(1, 3)), x)


def test_shrinking_reads_only_the_rows_it_needs() -> None:
    x = random(1, 50, 4, 2)
    y = run("ResizeBilinear", x, ints(5, 4))
    np.testing.assert_array_equal(y, x[:, ::10])


def test_area_weights_partial_pixels() -> None:
    y = run("ResizeArea", row(3, 6, 9), ints(1, 2))
    np.testing.assert_allclose(y.ravel(), [(3 + 3) / 1.5, (3 + 9) / 1.5], rtol=1e-6)
    np.testing.assert_array_equal(
        run("ResizeArea", row(7), ints(2, 2), align_corners=True), np.full((1, 2, 2, 1), 7)
    )


def test_crops() -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)
    whole, flipped, outside = [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 2]
    y = run(
        "CropAndResize",
        x,
        np.array([whole, flipped, outside], np.float32),
        ints(0, 0, 0),
        ints(3, 4),
        extrapolation_value=-1.0,
    )
    np.testing.assert_array_equal(y[0], x[0])
    np.testing.assert_array_equal(y[1], x[0, ::-1, ::-1])
    assert y[2, 0, :, 0].tolist() == [0, 2, -1, -1]
    assert (
        run("CropAndResize", x, np.array([whole], np.float32), ints(0), ints(1, 1)).item() == 5.5
    )  # the centre
    with pytest.raises(ShapeError, match="outside the batch"):
        run("CropAndResize", x, np.array([whole], np.float32), ints(1), ints(1, 1))


@pytest.mark.parametrize("name", ["ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"])
def test_refusals(name: str) -> None:
    with pytest.raises(ShapeError, match="both set"):
        run(name, row(1, 2), ints(2, 2), align_corners=True, half_pixel_centers=True)
    with pytest.raises(ShapeError, match="not positive"):
        run(name, row(1, 2), ints(0, 2))


def test_partly_known_size() -> None:
    size = TensorSpec(INT32, (2,), (None, 7))
    assert infer("ResizeBilinear", TensorSpec(INT32, (None, 3, 4, 5)), size) == TensorSpec(
        FLOAT, (None, None, 7, 5)
    )
