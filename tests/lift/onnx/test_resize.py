"""ONNX's Resize and Upsample at random, beside ONNX Runtime and ONNX's own definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.configurations import COORDINATES, f, picture, resize, whole
from tests.lift.onnx.single import Single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.mark.parametrize("kind", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("seed", range(12))
def test_resizing(tmp_path: Path, seed: int, mode: str, kind: str) -> None:
    case = resize(seed, mode, kind)
    # The runtime knows neither fractions nor regions of axes whose size stays.
    by = "definition" if kind == "tf_crop_and_resize" else "runtime"
    if kind == "half_pixel_symmetric":
        case.constants = [None, None, whole(*case.fed[0].shape[:2], *np.arange(5, 3 + case.fed[0].ndim))]
    case.check(tmp_path, *(["litert"] if seed % 4 == 0 else []), tolerance=1e-4, by=by)


@pytest.mark.parametrize("kind", [k for k in COORDINATES if k != "tf_crop_and_resize"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("seed", range(8))
def test_resizing_what_is_open(tmp_path: Path, seed: int, mode: str, kind: str) -> None:
    case = resize(seed, mode, kind)
    case.options.pop("antialias", None)
    case.open_axes = range(case.fed[0].ndim) if len(case.constants) == 2 else range(2, case.fed[0].ndim)
    if kind == "half_pixel_symmetric":
        case.constants = [None, None, whole(*case.fed[0].shape[:2], *np.arange(5, 3 + case.fed[0].ndim))]
    case.check(tmp_path, tolerance=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_sizes_that_are_computed(tmp_path: Path, mode: str) -> None:
    x = picture(np.random.default_rng(0))
    case = Single("Resize", [x, None, None, whole(2, 3, 9, 4)])
    case.options, case.open_axes = {"mode": mode}, (0, 2, 3)
    case.check(tmp_path)


@pytest.mark.parametrize(
    ("options", "scales", "op", "flags"),
    [
        ({"mode": "linear"}, (2, 2), "ResizeBilinear", (False, True)),
        ({"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}, (2, 3), "ResizeBilinear",
         (False, True)),
        ({"mode": "linear", "coordinate_transformation_mode": "align_corners"}, (2, 3), "ResizeBilinear",
         (True, False)),
        ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, (2, 3), "ResizeBilinear",
         (False, False)),
        ({"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, (2, 2),
         "ResizeNearestNeighbor", (False, False)),
        ({"mode": "nearest"}, (2, 2), "ResizeNearestNeighbor", (False, True)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("open_axes", [(), (0, 2, 3)])
def test_what_tensorflow_resizes_is_one_op(
    tmp_path: Path,
    options: Any,
    scales: tuple[float, float],
    op: str,
    flags: tuple[bool, bool],
    open_axes: tuple[int, ...],
) -> None:
    case = Single("Resize", [picture(np.random.default_rng(0))], [None, f(1, 1, *scales)], options)
    case.open_axes = open_axes
    assert case.check(tmp_path, "litert", tolerance=1e-5)[op] == 1
    (node,) = (n for n in case.lifted(tmp_path) if n.op == op)
    assert (node.get("align_corners"), node.get("half_pixel_centers")) == flags


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("axes", [[2, 3], [3, 2]])
def test_proportions_and_axes(tmp_path: Path, mode: str, policy: str, axes: list[int]) -> None:
    x = picture(np.random.default_rng(4))
    options = {"mode": mode, "axes": axes, "keep_aspect_ratio_policy": policy}
    Single("Resize", [x], [None, None, whole(7, 8)], options).check(tmp_path, tolerance=1e-4)


@pytest.mark.parametrize(("op", "opset"), [("Upsample", 7), ("Upsample", 9), ("Resize", 10)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2, 2), (1, 3), (2.5, 1.4), (0.6, 0.5), (0.6, 2)])
def test_old_versions(tmp_path: Path, op: str, opset: int, mode: str, scales: tuple[float, float]) -> None:
    if op == "Upsample" and min(scales) < 1:
        pytest.skip("it only makes larger")
    x = picture(np.random.default_rng(1))
    options: dict[str, Any] = {"mode": mode}
    if opset == 7:
        options["scales"] = [1.0, 1.0, *scales]
    constants = [] if opset == 7 else [f(1, 1, *scales)]
    Single(op, [x], constants, options, opset=opset).check(tmp_path)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_the_first_version(tmp_path: Path, mode: str) -> None:
    """It names the two scales, and nothing runs it any more: it is Upsample of version 7 with scales of 1."""
    from onnx import helper

    x = picture(np.random.default_rng(1))
    answers = []
    for opset, options in (
        (1, {"mode": mode, "height_scale": 2.0, "width_scale": 3.0}),
        (7, {"mode": mode.removeprefix("bi"), "scales": [1.0, 1.0, 2.0, 3.0]}),
    ):
        node = helper.make_node("Upsample", ["x"], ["y"], **options)
        ends = [[helper.make_tensor_value_info(n, 1, s)] for n, s in (("x", x.shape), ("y", None))]
        graph = helper.make_graph([node], "g", *ends)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        answers += thinflow.Session(thinflow.load(tmp_path / "m.onnx"), "reference").run(["y"], {"x": x})
    np.testing.assert_array_equal(*answers)
    assert answers[0].shape == (x.shape[0], x.shape[1], 2 * x.shape[2], 3 * x.shape[3])


@pytest.mark.parametrize(
    ("options", "constants", "problem"),
    [
        ({"mode": "lanczos"}, [None, f(1, 1, 2, 2)], "in the mode 'lanczos'"),
        ({"coordinate_transformation_mode": "corners"}, [None, f(1, 1, 2, 2)], "go by 'corners'"),
        ({"nearest_mode": "half_up"}, [None, f(1, 1, 2, 2)], "it rounds by 'half_up'"),
        ({}, [None, f(1, 1, 2)], "3 sizes or scales for 4 axes"),
        ({}, [None, f(1, 1, 2, -2)], "its scales are missing, or not positive"),
        (
            {"coordinate_transformation_mode": "tf_crop_and_resize"},
            [f(0, 0, 0, np.nan, 1, 1, 1, 1), f(1, 1, 2, 2)],
            "its region has not 8 ends that are numbers",
        ),
        ({"axes": [2, 2]}, [None, f(2, 2)], "it names an axis twice"),
        (
            {"keep_aspect_ratio_policy": "squeeze"},
            [None, None, whole(1, 1, 2, 2)],
            "proportions by 'squeeze'",
        ),
        ({"mode": "cubic"}, [None, None, whole(1, 1, 0, 2)], "it makes 0 pixels of 4"),
    ],
)
def test_what_is_no_resizing_is_refused(tmp_path: Path, options: Any, constants: Any, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        Single("Resize", [np.ones((1, 1, 4, 4), np.float32)], constants, options).lifted(tmp_path)


def test_what_needs_sizes_is_refused_where_they_are_open(tmp_path: Path) -> None:
    case = Single("Resize", [np.ones((1, 1, 4, 4), np.float32)], [None, f(1, 1, 2, 2)], {"mode": "cubic"})
    case.open_axes = (2,)
    with pytest.raises(UnsupportedOp, match="its mode is 'cubic', and its sizes are open"):
        case.lifted(tmp_path)
    case.constants, case.options = [None, None, whole(1, 1, 2, 2)], {"mode": "linear", "antialias": 1}
    with pytest.raises(UnsupportedOp, match="smooths what it makes smaller, and its sizes are open"):
        case.lifted(tmp_path)
    case.options = {"keep_aspect_ratio_policy": "not_larger"}
    with pytest.raises(UnsupportedOp, match="it keeps proportions, and its sizes are open"):
        case.lifted(tmp_path)
    whole_pixels = Single(
        "Resize", [np.ones((1, 1, 4, 4), np.int8)], [None, f(1, 1, 2, 2)], {"mode": "cubic"}
    )
    with pytest.raises(UnsupportedOp, match="it mixes pixels of int8"):
        whole_pixels.lifted(tmp_path)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_mixtures_of_whole_numbers_are_cut_off(kind: type, tmp_path: Path) -> None:
    """As ONNX Runtime does it, which eight-bit networks that are made larger on the way rely on."""
    limits = np.iinfo(kind)
    x = np.random.default_rng(0).integers(limits.min, limits.max, (1, 3, 4, 5), kind, endpoint=True)
    case = Single("Resize", [x], [None, f(1, 1, 2, 2)], {"mode": "linear"}, opset=13)
    np.testing.assert_array_equal(case.run(tmp_path), case.expected()[0])
