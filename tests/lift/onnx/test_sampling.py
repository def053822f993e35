"""ONNX's ops that look at pictures in computed places, and those that choose regions and boxes, at random."""

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


def w(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("count", [2, 3])
def test_samples_by_a_grid(tmp_path: Path, count: int, mode: str, padding: str, corners: int) -> None:
    if (count, mode) == (3, "cubic"):
        pytest.skip("ONNX Runtime has none")
    rng = np.random.default_rng(count)
    x = w(rng, 2, 3, *rng.integers(2, 6, count).tolist())
    grid = rng.uniform(-1.8, 1.8, (2, *rng.integers(2, 5, count).tolist(), count)).astype(np.float32)
    options = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    case = Single("GridSample", [x, grid], [], options)
    case.check(tmp_path, "litert", tolerance=1e-4)
    case.open_axes = range(count + 2)
    case.check(tmp_path, tolerance=1e-4)


def test_samples_of_volumes_by_cubes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    grid = rng.uniform(-1, 1, (1, 2, 2, 2, 3)).astype(np.float32)
    options = {"mode": "cubic", "padding_mode": "reflection"}
    case = Single("GridSample", [w(rng, 1, 1, 3, 4, 3), grid], [], options)
    case.check(tmp_path, tolerance=1e-4, by="definition")


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_of_version_16(tmp_path: Path, mode: str) -> None:
    rng = np.random.default_rng(1)
    grid = rng.uniform(-1, 1, (2, 3, 4, 2)).astype(np.float32)
    Single("GridSample", [w(rng, 2, 3, 5, 4), grid], [], {"mode": mode}, opset=16).check(tmp_path, "litert")


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("sizes", [(4, 5), (3, 4, 2)])
def test_grids(tmp_path: Path, sizes: tuple[int, ...], corners: int) -> None:
    theta = w(np.random.default_rng(0), 2, len(sizes), len(sizes) + 1)
    shape = np.array([2, 3, *sizes], np.int64)
    case = Single("AffineGrid", [theta], [shape], {"align_corners": corners}, open_axes=(0,))
    case.check(tmp_path, "litert")


@pytest.mark.parametrize("seed", range(16))
def test_convolutions_of_moved_pixels(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    group, parts = int(rng.choice([1, 2])), int(rng.choice([1, 2]))
    kernel, strides, dilations = (rng.integers(1, 4, 2), rng.integers(1, 3, 2), rng.integers(1, 3, 2))
    pads = rng.integers(0, 2, 4)
    sizes = (kernel - 1) * dilations + 1 + rng.integers(0, 4, 2)
    outs = (sizes + pads[:2] + pads[2:] - (kernel - 1) * dilations - 1) // strides + 1
    taps = parts * int(kernel.prod())
    fed = [w(rng, 2, 4, *sizes), w(rng, 6, 4 // group, *kernel), 1.5 * w(rng, 2, 2 * taps, *outs)]
    fed += [w(rng, 6) if seed % 2 else None, w(rng, 2, taps, *outs) if seed % 3 else None]
    options = {"group": group, "offset_group": parts, "strides": strides.tolist(), "pads": pads.tolist()}
    options["dilations"] = dilations.tolist()
    case = Single("DeformConv", fed, [], options, opset=19, open_axes=(0,) if seed % 2 else ())
    case.check(tmp_path, *(["litert"] if seed % 4 == 0 else []), tolerance=1e-4)


def regions(rng: np.random.Generator, count: int) -> np.ndarray:
    ends = rng.uniform(-2, 14, (count, 2, 2)).astype(np.float32)
    return np.sort(ends, axis=1).reshape(count, 4)


@pytest.mark.parametrize("kind", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_aligned_regions(tmp_path: Path, mode: str, ratio: int, kind: str) -> None:
    rng = np.random.default_rng(ratio)
    options = {"mode": mode, "sampling_ratio": ratio, "coordinate_transformation_mode": kind,
               "output_height": 3, "output_width": 2, "spatial_scale": 0.5}  # fmt: skip
    fed = [w(rng, 2, 3, 6, 5), regions(rng, 5), np.array([0, 1, 1, 0, 0], np.int64)]
    case = Single("RoiAlign", fed, [], options)
    # The definition takes the largest of the weighted pixels, the runtime that of the samples.
    case.check(tmp_path, tolerance=1e-4, by="definition" if mode == "max" else "runtime")
    case.open_axes = (0, 2, 3)
    case.check(tmp_path, tolerance=1e-4, by="definition" if mode == "max" else "runtime")


def test_largest_pixels_of_regions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rois = np.concatenate([np.float32([[0], [1], [1], [0]]), np.round(2 * regions(rng, 4)) / 2], 1)
    options = {"pooled_shape": [2, 3], "spatial_scale": 0.5}
    case = Single("MaxRoiPool", [w(rng, 2, 3, 6, 7), rois.astype(np.float32)], [], options)
    case.check(tmp_path)


@pytest.mark.parametrize("seed", range(10))
def test_boxes_are_chosen(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    images, classes, count = (int(n) for n in rng.integers(1, 4, 3) * [1, 1, 5])
    ends = rng.uniform(0, 1, (images, count, 2, 2)).astype(np.float32)
    boxes = np.sort(ends, axis=2).reshape(images, count, 4) if seed % 2 else ends.reshape(images, count, 4)
    scores = rng.uniform(0, 1, (images, classes, count)).astype(np.float32)
    constants: list[np.ndarray | None] = [np.int64([3]), np.float32([0.3])]
    if seed % 3:
        constants.append(np.float32([0.4]))
    options = {"center_point_box": 1 - seed % 2}
    case = Single("NonMaxSuppression", [boxes, scores], constants, options)
    case.check(tmp_path, *(["litert"] if seed % 4 == 0 else []))


def test_no_box_is_chosen_unless_a_number_is_given(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    boxes, scores = rng.random((1, 4, 4), np.float32), rng.random((1, 2, 4), np.float32)
    Single("NonMaxSuppression", [boxes, scores]).check(tmp_path)


def test_boxes_of_computed_limits(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    fed = [rng.random((1, 6, 4), np.float32), rng.random((1, 2, 6), np.float32), np.int64([2])]
    Single("NonMaxSuppression", [*fed, np.float32([0.2]), np.float32([0.1])]).check(tmp_path)


@pytest.mark.parametrize("seed", range(8))
def test_the_middle_is_cut_out(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = w(rng, *rng.integers(3, 8, 3).tolist())
    axes = rng.permutation(3)[: rng.integers(1, 4)].tolist()
    sizes = rng.integers(2, 10, len(axes)).astype(np.int64)
    case = Single("CenterCropPad", [x], [sizes], {"axes": axes})
    case.check(tmp_path, "litert")
    case.open_axes = range(3)
    case.check(tmp_path)


X = np.ones((1, 2, 4, 4), np.float32)
ROI, IMAGE = np.ones((1, 4), np.float32), np.zeros(1, np.int64)


@pytest.mark.parametrize(
    ("op", "fed", "options", "problem"),
    [
        ("GridSample", [X, np.ones((1, 2, 2, 2), np.float32)], {"mode": "area"}, "it interpolates by 'area'"),
        ("GridSample", [X, np.ones((1, 2, 2, 2), np.float32)], {"padding_mode": "wrap"}, "it pads by 'wrap'"),
        ("GridSample", [X, np.ones((1, 2, 2, 3), np.float32)], {}, "its grid does not name 2 axes"),
        ("RoiAlign", [X, ROI, IMAGE], {"mode": "min"}, "it pools by 'min'"),
        ("RoiAlign", [X, ROI, IMAGE], {"coordinate_transformation_mode": "x"}, "its coordinates go by 'x'"),
        ("RoiAlign", [X, ROI, IMAGE], {"sampling_ratio": -1}, "it makes 1 x 1 pixels of -1 samples each"),
        ("MaxRoiPool", [X, np.ones((1, 5), np.float32)], {"pooled_shape": [2]}, "its regions have 1 sizes"),
        ("RoiAlign", [X, ROI, IMAGE], {"output_height": 1 << 40}, "it asks for 1099511627776 elements"),
        ("MaxRoiPool", [X, np.ones((1, 5), np.float32)], {"pooled_shape": [1 << 40, 2]}, "it asks for 10995"),
        ("DeformConv", [X, np.ones((1, 1, 2, 2), np.float32), np.ones((1, 8, 3, 3), np.float32)], {},
         "its channels, 2, do not fit 1 groups"),
        ("NonMaxSuppression", [ROI[None], np.ones((1, 1, 1), np.float32), np.int64([1])],
         {"center_point_box": 2}, "its center_point_box is 2"),
        ("CenterCropPad", [X, np.int64([2, 2])], {"axes": [2, 2]}, "do not fit its axes"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(
    tmp_path: Path, op: str, fed: list[np.ndarray], options: Any, problem: str
) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        Single(op, fed, [], options, opset=19 if op == "DeformConv" else 20).lifted(tmp_path)


def test_pictures_of_an_open_number_are_refused(tmp_path: Path) -> None:
    fed = [ROI[None], np.ones((1, 1, 1), np.float32), np.int64([1])]
    case = Single("NonMaxSuppression", fed)
    assert len(thinflow.run(case.lifted(tmp_path), case.feed, engine="reference")) == 1
