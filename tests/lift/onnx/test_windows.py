"""ONNX's pools and convolutions beside ONNX Runtime, at random: lines, pictures and volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.lift.onnx.configurations import convolution, pool, w
from tests.lift.onnx.single import Single
from thinflow import formats
from thinflow.analysis.shapes import infer_shapes
from thinflow.errors import UnsupportedOp
from thinflow.lift.graphs import lift

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")


OPEN = "the sizes of its input are open"


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("seed", range(60))
def test_pools(tmp_path: Path, op: str, seed: int) -> None:
    case = pool(op, seed)
    engines = ["litert"] if seed % 5 == 0 else []
    try:
        case.check(tmp_path, *engines, tolerance=1e-4)
    except UnsupportedOp as refusal:
        # Only what depends on sizes that the file leaves open.
        if OPEN not in refusal.problem or len(case.open_axes) < 2:
            raise
        Single(op, case.fed, [], case.options, opset=22).check(tmp_path, tolerance=1e-4)


@pytest.mark.parametrize("seed", range(30))
def test_places_of_maxima(tmp_path: Path, seed: int) -> None:
    case = pool("MaxPool", 3 * (seed + 500) + seed % 2)
    case.outputs, case.options["storage_order"] = 2, seed % 2
    # Of equal numbers the first one's place is given.
    case.fed = [np.round(case.fed[0])]
    case.check(tmp_path)


def test_places_of_maxima_of_open_pictures_are_refused(tmp_path: Path) -> None:
    case = Single("MaxPool", [np.ones((1, 1, 4, 4), np.float32)], [], {"kernel_shape": [2, 2]}, 2)
    case.open_axes = (2,)
    with pytest.raises(UnsupportedOp, match="the places of its maxima are read"):
        case.lifted(tmp_path)


@pytest.mark.parametrize(
    ("options", "sizes", "open_axes"),
    [
        ({"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, (7, 8), (0, 2, 3)),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}, (7, 8), (0, 2, 3)),
        ({"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, (7, 8), (0, 2, 3)),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, (7, 9), ()),
        ({"kernel_shape": [2, 2], "strides": [2, 2]}, (7, 8), (0, 2, 3)),
    ],
)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_what_tensorflow_pools_is_one_op(
    tmp_path: Path, op: str, options: Any, sizes: tuple[int, ...], open_axes: tuple[int, ...]
) -> None:
    x = w(np.random.default_rng(0), 2, 3, *sizes)
    ops = Single(op, [x], [], options, open_axes=open_axes).check(tmp_path, "litert")
    assert ops == {"Transpose": 2, {"MaxPool": "MaxPool", "AveragePool": "AvgPool"}[op]: 1}


def test_an_average_with_a_border_is_few_ops(tmp_path: Path) -> None:
    x = w(np.random.default_rng(0), 2, 3, 8, 8)
    options = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    ops = Single("AveragePool", [x], [], options).check(tmp_path, "litert")
    assert ops == {"Transpose": 2, "Pad": 1, "AvgPool": 1, "Mul": 1}


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
@pytest.mark.parametrize("sizes", [(5,), (4, 5), (3, 4, 5)])
def test_global_pools(tmp_path: Path, op: str, sizes: tuple[int, ...]) -> None:
    x = w(np.random.default_rng(0), 2, 3, *sizes)
    Single(op, [x], open_axes=range(len(sizes) + 2)).check(tmp_path, "litert")


def test_integers_have_a_maximum_too(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(-128, 128, (1, 2, 6, 7), np.int8)
    Single("MaxPool", [x], [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}).check(
        tmp_path
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_convolutions(tmp_path: Path, seed: int, transposed: bool) -> None:
    case = convolution(seed, transposed=transposed)
    try:
        case.check(tmp_path, *(["litert"] if seed % 5 == 0 else []), tolerance=1e-4)
    except UnsupportedOp as refusal:
        if OPEN not in refusal.problem or len(case.open_axes) < 2:
            raise
        case.open_axes = ()
        case.check(tmp_path, tolerance=1e-4)


@pytest.mark.parametrize("mode", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("seed", range(8))
def test_transposed_convolutions_of_a_stated_size(tmp_path: Path, seed: int, mode: str) -> None:
    rng = np.random.default_rng(seed)
    kernel, strides, sizes = rng.integers(1, 5, 2), rng.integers(1, 4, 2), rng.integers(2, 5, 2)
    options: dict[str, Any] = {"strides": strides.tolist(), "auto_pad": mode}
    whole = (sizes - 1) * strides + kernel
    if seed % 2 or mode == "NOTSET":
        options["output_shape"] = np.maximum(whole - rng.integers(0, 3, 2), 1).tolist()
    constants = [w(rng, 3, 2, *kernel.tolist())]
    Single("ConvTranspose", [w(rng, 1, 3, *sizes.tolist())], constants, options, opset=22).check(tmp_path)


@pytest.mark.parametrize(("kernel", "pads"), [(4, 1), (2, 0)])
@pytest.mark.parametrize("open_axes", [(), (0, 2, 3)])
def test_a_transposed_convolution_that_doubles_is_one_op(
    tmp_path: Path, kernel: int, pads: int, open_axes: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    options = {"strides": [2, 2], "pads": [pads] * 4}
    case = Single("ConvTranspose", [w(rng, 2, 3, 4, 5)], [w(rng, 3, 2, kernel, kernel)], options)
    case.open_axes = open_axes
    ops = case.check(tmp_path, "litert", tolerance=1e-4)
    assert ops["Conv2DBackpropInput"] == 1
    assert not ops["StridedSlice"] or open_axes


@pytest.mark.parametrize("sizes", [(6,), (4, 5)])
def test_a_transposed_convolution_of_each_channel_is_one_op(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    options = {"strides": [2] * len(sizes), "group": 4, "pads": [1] * 2 * len(sizes)}
    constants = [w(rng, 4, 1, *[4] * len(sizes))]
    ops = Single("ConvTranspose", [w(rng, 2, 4, *sizes)], constants, options).check(tmp_path, "litert")
    assert ops["DepthwiseConv2dNativeBackpropInput"] == 1
    assert not ops["ConcatV2"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"kernel_shape": [2, 2], "auto_pad": "SAME"}, "it pads by 'SAME'"),
        ({"kernel_shape": [2, 2], "pads": [1, 1]}, "it has 2 pads, or negative ones, for 2 dimensions"),
        ({"kernel_shape": [2, 2], "strides": [2]}, "its strides, dilations and kernel do not fit together"),
        ({"kernel_shape": [2]}, "its window has 1 sizes, which its input does not"),
        ({}, "it has no kernel_shape"),
    ],
)
def test_what_is_no_window_is_refused(tmp_path: Path, options: Any, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        Single("MaxPool", [np.ones((1, 1, 4, 4), np.float32)], [], options).lifted(tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_columns_become_images(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    block, strides, dilations = (rng.integers(1, 4, count) for _ in range(3))
    pads = rng.integers(0, 2, 2 * count)
    reach = (block - 1) * dilations + 1
    image = reach + rng.integers(0, 5, count)
    outs = (image + pads[:count] + pads[count:] - reach) // strides + 1
    columns = w(rng, 2, 2 * int(block.prod()), int(outs.prod()))
    options = {"strides": strides.tolist(), "dilations": dilations.tolist(), "pads": pads.tolist()}
    case = Single("Col2Im", [columns], [image.astype(np.int64), block.astype(np.int64)], options)
    case.open_axes = [(), (0,)][seed % 2]
    # ONNX Runtime errs where lines or volumes have other pads behind than before.
    case.check(tmp_path, *(["litert"] if seed % 4 == 0 else []), by="definition")


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("open_axes", [(), (0,), (0, 2, 3)])
def test_maxima_go_back_to_their_places(tmp_path: Path, overlap: bool, open_axes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    stride = 1 if overlap else 2
    x = w(rng, 2, 3, 6, 6)
    options = {"kernel_shape": [2, 2], "strides": [stride, stride]}
    y, at = Single("MaxPool", [x], [], options, 2).expected()
    case = Single("MaxUnpool", [y, at], [], options, opset=22, open_axes=open_axes)
    case.check(tmp_path)


@pytest.mark.parametrize("sizes", [(6, 8), (8,), (4, 4, 6)])
def test_maxima_there_and_back(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """A pool and its inverse in one model, of which LiteRT runs all: places that are distinct for certain."""
    helper, count = onnx.helper, len(sizes)
    options = {"kernel_shape": [2] * count, "strides": [2] * count}
    nodes = [helper.make_node("MaxPool", ["x"], ["m", "at"], **options),
             helper.make_node("Relu", ["m"], ["r"]),
             helper.make_node("MaxUnpool", ["r", "at"], ["y"], **options)]  # fmt: skip
    ends = [helper.make_tensor_value_info(n, 1, (2, 3, *sizes)) for n in "xy"]
    made = helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:]),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=9,
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    feed = {"x": w(np.random.default_rng(0), 2, 3, *sizes)}
    (expected,) = thinflow.run(path, feed, engine="onnxruntime").values()
    graph = formats.load(path)
    infer_shapes(graph)
    graph = lift(graph)
    for engine in ("reference", "litert"):
        (found,) = thinflow.run(graph, feed, engine=engine).values()
        np.testing.assert_array_equal(found, expected)
    assert thinflow.Session(graph, engine="litert").reasons == {}


def test_maxima_in_a_larger_result(tmp_path: Path) -> None:
    # ONNX's own test: places are those of the size that the windows reach, whatever size is stated.
    x, at = np.float32([[[[5, 6], [7, 8]]]]), np.int64([[[[5, 7], [13, 15]]]])
    case = Single(
        "MaxUnpool", [x, at], [np.int64([1, 1, 5, 5])], {"kernel_shape": [2, 2], "strides": [2, 2]}, opset=11
    )
    (found,) = thinflow.run(case.lifted(tmp_path), case.feed, engine="reference").values()
    expected = np.zeros((1, 1, 5, 5), np.float32)
    expected[0, 0, [1, 1, 3, 3], [1, 3, 1, 3]] = 5, 6, 7, 8
    np.testing.assert_array_equal(found, expected)
    case.constants = [np.int64([1, 1, 3, 3])]
    with pytest.raises(UnsupportedOp, match="smaller than its windows reach"):
        case.lifted(tmp_path)
