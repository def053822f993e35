"""What an ONNX or LiteRT file says of an op is followed or refused by name, never passed over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.writer import to_bytes

onnx = pytest.importorskip("onnx")
helper, numpy_helper, TensorProto = onnx.helper, onnx.numpy_helper, onnx.TensorProto

X = np.random.default_rng(5).standard_normal((2, 4, 6, 4)).astype(np.float32)


def answers(
    folder: Path, op: str, fed: list[Any], constants: Sequence[Any] = (), opset: int = 20, **options: Any
) -> np.ndarray:
    """What the interpreter gives for one op."""
    names, inits = [f"x{i}" for i in range(len(fed))], [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(op, [*names, *inits], ["y"], **options)
    kinds = [helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype) for x in fed]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, k, np.shape(x)) for n, k, x in zip(names, kinds, fed, strict=True)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(c), n) for c, n in zip(constants, inits, strict=True)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path = folder / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return next(iter(thinflow.run(path, dict(zip(names, fed, strict=True)), engine="reference").values()))


def test_an_option_that_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match=r"node 'y' \(onnx.Relu\): its option 'slope' is 0\.5, which is"):
        answers(tmp_path, "Relu", [X], slope=0.5)
    with pytest.raises(UnsupportedOp, match=r"its option 'windows' is of 2 numbers"):
        answers(tmp_path, "Softmax", [X], windows=[1, 2])
    with pytest.raises(UnsupportedOp, match=r"its option 'spatial' is 0"):
        answers(tmp_path, "BatchNormalization", [X], [np.ones(4, np.float32)] * 4, opset=7, spatial=0)


def test_an_operand_that_is_not_known_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match=r"its operand 1 is not known here"):
        answers(tmp_path, "Relu", [X, X])


def test_options_that_say_what_is_so_anyway_do_not_disturb(tmp_path: Path) -> None:
    assert np.array_equal(answers(tmp_path, "Relu", [X], opset=1, consumed_inputs=[0]), X.clip(0))
    assert np.array_equal(answers(tmp_path, "Relu", [X], slope=0), X.clip(0))
    y = answers(
        tmp_path, "BatchNormalization", [X], [np.ones(4, np.float32)] * 4, opset=7, spatial=1, momentum=0.5
    )
    assert y.shape == X.shape


def test_an_operand_of_litert_that_is_not_known(tmp_path: Path) -> None:
    a, b, y = (Tensor(n, (1, 4), FLOAT) for n in "aby")
    path = tmp_path / "m.tflite"
    path.write_bytes(to_bytes(Program([Subgraph([a, b], [y], [Operator("EXP", [a, b], [y])])])))
    with pytest.raises(UnsupportedOp, match=r"\(tfl.EXP\): its operand 1 is not known here"):
        thinflow.run(path, {n: np.zeros((1, 4), np.float32) for n in "ab"}, engine="reference")


# --- single ops, by their definitions -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_go_to_the_depth_and_back(mode: str, tmp_path: Path) -> None:
    blocks = X.reshape(2, 4, 3, 2, 2, 2)  # n, c, h, by, w, bx
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    deep = blocks.transpose(order).reshape(2, 16, 3, 2)
    assert np.array_equal(answers(tmp_path, "SpaceToDepth", [X], opset=28, blocksize=2, mode=mode), deep)
    assert np.array_equal(answers(tmp_path, "DepthToSpace", [deep], blocksize=2, mode=mode), X)
    with pytest.raises(UnsupportedOp, match="its mode is 'XYZ'"):
        answers(tmp_path, "SpaceToDepth", [X], blocksize=2, mode="XYZ")


def test_indices_beyond_the_depth_are_nowhere(tmp_path: Path) -> None:
    indices, ends = np.array([0, -1, -4, 3, 4, -5, 99]), np.array([0.5, 2], np.float32)
    y = answers(tmp_path, "OneHot", [indices], [np.int64(4), ends])
    expected = np.full((7, 4), 0.5, np.float32)
    expected[[0, 1, 2, 3], [0, 3, 0, 3]] = 2
    assert np.array_equal(y, expected)


@pytest.mark.parametrize(("op", "of"), [("ReduceMax", np.any), ("ReduceMin", np.all)])
def test_extremes_of_truths(op: str, of: Any, tmp_path: Path) -> None:
    x = np.array([[True, True], [True, False], [False, False]])
    assert np.array_equal(answers(tmp_path, op, [x], [np.array([1])], keepdims=0), of(x, axis=1))


def test_slopes_of_old_go_along_the_channels(tmp_path: Path) -> None:
    slopes = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    expected = np.where(X < 0, X * slopes[:, None, None], X)
    np.testing.assert_allclose(answers(tmp_path, "PRelu", [X], [slopes], opset=6), expected, rtol=1e-6)
    np.testing.assert_allclose(
        answers(tmp_path, "PRelu", [X], [slopes], opset=9), np.where(X < 0, X * slopes, X), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("kind", "most", "beyond"),
    [("FLOAT8E4M3FN", 448, np.nan), ("FLOAT8E5M2", 57344, np.inf), ("FLOAT8E4M3FNUZ", 240, np.nan)],
)
def test_casts_to_eight_bit_floats(kind: str, most: float, beyond: float, tmp_path: Path) -> None:
    x = np.array([0.5, 1e6, -np.inf, np.nan, -1e6], np.float32)
    to = getattr(TensorProto, kind)
    like = onnx.helper.tensor_dtype_to_np_dtype(to)
    for op, constants, options in (("Cast", [], {"to": to}), ("CastLike", [np.zeros(1, like)], {})):
        y = answers(tmp_path, op, [x], constants, **options).astype(np.float32)
        np.testing.assert_array_equal(y, np.float32([0.5, most, -most, np.nan, -most]))
        y = answers(tmp_path, op, [x[:2]], constants, saturate=0, **options).astype(np.float32)
        np.testing.assert_array_equal(y, np.float32([0.5, beyond]))


def test_real_numbers_come_in_the_type_of_their_scale(tmp_path: Path) -> None:
    y = answers(tmp_path, "DequantizeLinear", [np.int8([[1, -2]])], [np.float16(0.5)])
    assert y.dtype == np.float16
    assert y.tolist() == [[0.5, -1.0]]


def test_dropout_in_training_is_refused(tmp_path: Path) -> None:
    half = np.float32(0.5)
    with pytest.raises(UnsupportedOp, match="it drops at random, as in training"):
        answers(tmp_path, "Dropout", [X], [half, np.array(True)])
    assert np.array_equal(answers(tmp_path, "Dropout", [X], [half, np.array(False)], seed=3), X)


def test_corners_between_sizes_with_fractions(tmp_path: Path) -> None:
    """ONNX's own example: of 4 columns times 0.6 there are 2.4, and 2 of them."""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    scales, roi = np.float32([1, 1, 0.6, 0.6]), np.zeros(0, np.float32)
    options = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    found = answers(tmp_path, "Resize", [x], [roi, scales], **options)
    np.testing.assert_allclose(found.ravel(), [1, 3.142857], rtol=1e-6)


def test_a_zero_among_computed_sizes_keeps_the_size(tmp_path: Path) -> None:
    sizes = np.array([0, -1, 4, 1], np.int64)
    assert answers(tmp_path, "Reshape", [X, sizes]).shape == (2, 24, 4, 1)
    assert answers(tmp_path, "Reshape", [X, sizes[:2]]).shape == (2, 96)
    longer = np.array([0, 0, 0, -1, 1], np.int64)
    assert answers(tmp_path, "Reshape", [X, longer]).shape == (2, 4, 6, 4, 1)


def test_a_transposed_convolution_of_a_stated_size(tmp_path: Path) -> None:
    w = np.ones((1, 1, 3, 3), np.float32)
    x = np.ones((1, 1, 3, 3), np.float32)
    y = answers(tmp_path, "ConvTranspose", [x], [w], strides=[3, 2], output_shape=[10, 8])
    assert y.shape == (1, 1, 10, 8)
    assert (y[0, 0, 9], y[0, 0, :, 7]) == (pytest.approx(0), pytest.approx(0))
    with pytest.raises(UnsupportedOp, match="larger than its windows reach"):
        answers(tmp_path, "ConvTranspose", [x], [w], strides=[3, 2], output_shape=[12, 8])


def test_pads_of_the_first_version(tmp_path: Path) -> None:
    y = answers(tmp_path, "Pad", [X[0, 0]], opset=1, paddings=[1, 0, 0, 2])
    assert y.shape == (7, 6)
