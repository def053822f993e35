"""ONNX Runtime's own ops against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.lift.onnx.contrib import MS, RNG, Case, f, file, s, u8
from tests.lift.onnx.models import agree, lifted, node, runtime, save
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
PICTURE, LAYER = f(1, 4, 6, 5), f(2, 3, 8)
CASES: dict[str, Case] = {
    "FusedConv": ("FusedConv", [PICTURE], [f(3, 4, 3, 3), f(3)],
            {"activation": "Relu", "pads": [1, 1, 1, 1]}, 1),
    "FusedConv and more": ("FusedConv", [PICTURE], [f(3, 4, 3, 3), f(3), f(1, 3, 4, 3)],
                           {"activation": "LeakyRelu", "activation_params": [0.3]}, 1),
    "FusedConv clip": ("FusedConv", [PICTURE], [f(4, 1, 3, 3)],
                       {"activation": "Clip", "activation_params": [-0.5, 0.7], "group": 4}, 1),
    "FusedConv hard": ("FusedConv", [PICTURE], [f(3, 4, 1, 1)],
                       {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]}, 1),
    "FusedGemm": ("FusedGemm", [f(3, 4)], [f(2, 4), f(2)],
                  {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1, "alpha": 0.5,
                   "beta": 2.0}, 1),
    "FusedMatMul": ("FusedMatMul", [f(2, 4, 3), f(2, 5, 4)], [], {"transA": 1, "transB": 1, "alpha": 0.5}, 1),
    "FusedMatMul flat": ("FusedMatMul", [f(4, 3), f(4, 5)], [], {"transA": 1}, 1),
    "FusedMatMul batch": ("FusedMatMul", [f(3, 2, 4), f(2, 4, 5)], [], {"transBatchA": 1}, 1),
    "FusedMatMul vector": ("FusedMatMul", [f(4), f(2, 4, 5)], [], {"alpha": 2.0}, 1),
    "TransposeMatMul": ("TransposeMatMul", [f(2, 4, 3), f(2, 4, 5)], [], {"transA": 1}, 1),
    "Gelu": ("Gelu", [LAYER], [], {}, 1),
    "BiasGelu": ("BiasGelu", [LAYER], [f(8)], {}, 1),
    "FastGelu": ("FastGelu", [LAYER], [], {}, 1),
    "FastGelu bias": ("FastGelu", [LAYER], [f(8)], {}, 1),
    "QuickGelu": ("QuickGelu", [LAYER], [], {"alpha": 1.3}, 1),
    "ExpandDims": ("ExpandDims", [LAYER], [s(-1, np.int32)], {}, 1),
    "CDist": ("CDist", [f(3, 4), f(5, 4)], [], {"metric": "euclidean"}, 1),
    "CDist squares": ("CDist", [f(3, 4), f(5, 4)], [], {"metric": "sqeuclidean"}, 1),
    "NhwcMaxPool": ("NhwcMaxPool", [u8(1, 6, 5, 3)], [], {"kernel_shape": [2, 2], "strides": [2, 1]}, 1),
    "Pad": ("Pad", [LAYER], [np.array([[0, 1, 2, 0, 0, 1]])], {"mode": "edge"}, 1),
    "Pad number": ("Pad", [LAYER], [np.array([0, 1, 2, 0, -1, 1]), s(3)], {}, 1),
    "Range": ("Range", [], [s(1), s(9), s(2)], {}, 1),
    "Inverse": ("Inverse", [f(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)], [], {}, 1),
    "GridSample": ("GridSample", [PICTURE], [np.tanh(f(1, 3, 2, 2))], {"padding_mode": "border"}, 1),
    "Trilu": ("Trilu", [f(4, 4)], [s(1, np.int64)], {}, 1),
    "GatherND": ("GatherND", [LAYER], [np.array([[0, 1], [1, 2]])], {}, 1),
    "SkipLayerNormalization": ("SkipLayerNormalization", [LAYER, f(2, 3, 8)], [f(8), f(8), f(8)],
                               {"epsilon": 1e-3}, 1),
    "SkipSimplifiedLayerNormalization": (
        "SkipSimplifiedLayerNormalization", [LAYER, f(2, 3, 8)], [f(8), f(8)], {"epsilon": 1e-3}, 1
    ),
    "EmbedLayerNormalization": (
        "EmbedLayerNormalization",
        [RNG.integers(0, 9, (2, 3)).astype(np.int32), RNG.integers(0, 2, (2, 3)).astype(np.int32)],
        [f(9, 8), f(5, 8), f(2, 8), f(8), f(8), np.array([[1, 2, 0], [1, 1, 1]], np.int32)],
        {"epsilon": 1e-3}, 2,
    ),
    "EmbedLayerNormalization places": (
        "EmbedLayerNormalization",
        [RNG.integers(0, 9, (2, 3)).astype(np.int32)],
        [None, f(9, 8), f(5, 8), None, f(8), f(8), None, RNG.integers(0, 5, (2, 3)).astype(np.int32)], {}, 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_they_give_what_onnxruntime_gives(case: str, tmp_path: Path) -> None:
    path, feed = file(tmp_path / "m.onnx", CASES[case])
    agree(runtime(path, feed), lifted(path, feed))


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_the_sum_of_a_residual_is_a_result(op: str, tmp_path: Path) -> None:
    feed, scale = {"x": LAYER, "k": f(2, 3, 8)}, {"s": f(8)}
    path = save(
        tmp_path / "m.onnx",
        [node(op, ["x", "k", "s"], ["y", "", "", "t"], MS)],
        feed,
        ["y", "t"],
        scale,
        opset=17,
    )
    agree(runtime(path, feed), lifted(path, feed))


def test_simplified_norms_of_the_standard_s_domain(tmp_path: Path) -> None:
    made = node("SimplifiedLayerNormalization", ["x", "s"], ["y"], axis=-1, epsilon=1e-3)
    path = save(tmp_path / "m.onnx", [made], {"x": LAYER}, ["y"], {"s": f(8)}, opset=17)
    agree(runtime(path, {"x": LAYER}), lifted(path, {"x": LAYER}))


def test_a_bias_before_a_softmax(tmp_path: Path) -> None:
    bias = f(2, 1, 8)
    made = node("BiasSoftmax", ["x", "b"], ["y"], MS, axis=2, is_inner_broadcast=0)
    path = save(tmp_path / "m.onnx", [made], {"x": LAYER}, ["y"], {"b": bias}, opset=17)
    powers = np.exp(LAYER + bias)
    agree([powers / powers.sum(-1, keepdims=True)], lifted(path, {"x": LAYER}))


def test_a_product_and_its_activation(tmp_path: Path) -> None:
    feed = {"a": f(3, 4), "b": f(4, 5)}
    for name, expected in (("Tanh", np.tanh(feed["a"] @ feed["b"])), ("Softmax", None)):
        made = node("FusedMatMulActivation", ["a", "b"], ["y"], MS, activation=name)
        powers = np.exp(feed["a"] @ feed["b"])
        known = powers / powers.sum(-1, keepdims=True) if expected is None else expected
        agree([known], lifted(save(tmp_path / "m.onnx", [made], feed, ["y"]), feed))


def test_a_bias_and_a_residual(tmp_path: Path) -> None:
    feed = {"x": LAYER, "k": f(2, 3, 8)}
    bias = f(8)
    path = save(tmp_path / "m.onnx", [node("BiasAdd", ["x", "b", "k"], ["y"], MS)], feed, ["y"], {"b": bias})
    agree([LAYER + bias + feed["k"]], lifted(path, feed))


@pytest.mark.parametrize("op", ["NhwcConv", "NhwcFusedConv"])
def test_convolutions_of_pictures_whose_channels_come_last(op: str, tmp_path: Path) -> None:
    """ONNX Runtime has kernels for these on some hardware only; it has those of channels first."""
    weights = {"w": f(6, 2, 3, 3), "b": f(6)}
    options = {"pads": [1, 1, 1, 1], "strides": [2, 1], "group": 2}
    made = node("Conv", ["x", "w", "b"], ["c"], **options)
    more = f(1, 6, 3, 5)
    path = save(tmp_path / "a.onnx", [made], {"x": PICTURE}, ["c"], weights)
    (expected,) = runtime(path, {"x": PICTURE})
    feed, names = {"x": PICTURE.transpose(0, 2, 3, 1)}, ["x", "w", "b"]
    if op == "NhwcFusedConv":
        expected = np.maximum(expected + more, 0)
        names, options = [*names, "z"], {**options, "activation": "Relu"}
        feed["z"] = more.transpose(0, 2, 3, 1)
    path = save(tmp_path / "b.onnx", [node(op, names, ["y"], MS, **options)], feed, ["y"], weights)
    agree([expected.transpose(0, 2, 3, 1)], lifted(path, feed))


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ["GroupNorm", "SkipGroupNorm"])
def test_groups_of_channels(op: str, last: int, tmp_path: Path) -> None:
    """As the standard's GroupNormalization, which a sum stands before and Swish behind."""
    x, scale, offset = f(2, 4, 3, 5), f(4), f(4)
    if op == "SkipGroupNorm" and not last:
        pytest.skip("what it adds has its channels last")
    skip, bias = f(2, 4), f(4)
    total = x + (skip + bias)[..., None, None] if op == "SkipGroupNorm" else x
    apart = total.reshape(2, 2, -1)
    normal = (apart - apart.mean(2, keepdims=True)) / np.sqrt(apart.var(2, keepdims=True) + 1e-3)
    y = normal.reshape(x.shape) * scale[:, None, None] + offset[:, None, None]
    y = y / (1 + np.exp(-y))
    feed = {"x": x.transpose(0, 2, 3, 1) if last else x}
    names = ["x", "s", "o", *(["k", "b"] if op == "SkipGroupNorm" else [])]
    options = {"groups": 2, "activation": 1, "epsilon": 1e-3, "channels_last": last}
    constants = {"s": scale, "o": offset, "k": skip, "b": bias}
    made = node(op, names, ["y"], MS, **options)
    path = save(tmp_path / "m.onnx", [made], feed, ["y"], {n: constants[n] for n in names[1:]})
    agree([y.transpose(0, 2, 3, 1) if last else y], lifted(path, feed))


REFUSED: dict[str, tuple[Case, str]] = {
    "activation": (("FusedConv", [PICTURE], [f(3, 4, 1, 1)],
            {"activation": "Odd"}, 1), "activation 'Odd' is not known"),
    "batch": (("FusedMatMul", [f(3, 4), f(4, 5)], [],
            {"transBatchA": 1}, 1), "operand 0 has no batch to turn"),
    "vector": (("FusedMatMul", [f(4), f(5, 4)], [], {"transB": 1}, 1), "it turns one side"),
    "axis": (("FusedMatMulActivation", [f(3, 4), f(4, 5)], [],
            {"activation": "Softmax", "activation_axis": 0}, 1),
             "its Softmax is not along the last axis"),
    "rank": (("BiasSoftmax", [LAYER], [f(8)], {}, 1), "its bias does not have the rank"),
    "metric": (("CDist", [f(3, 4), f(5, 4)], [],
            {"metric": "cosine"}, 1), "its metric 'cosine' is not known here"),
    "mean": (("SkipSimplifiedLayerNormalization", [LAYER, LAYER], [f(8)], {}, 2), "its mean is read"),
    "segments": (("EmbedLayerNormalization", [np.zeros((1, 2), np.int32)],
                  [None, f(9, 8), f(5, 8), f(2, 8), f(8), f(8)], {}, 1),
                 "it has segments without their embedding"),
    "mask index": (("EmbedLayerNormalization", [np.zeros((1, 2), np.int32)],
                    [None, f(9, 8), f(5, 8), None, f(8), f(8)], {"mask_index_type": 2}, 1),
                   "its mask_index_type is 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str, tmp_path: Path) -> None:
    made, said = REFUSED[case]
    path, feed = file(tmp_path / "m.onnx", made)
    with pytest.raises(UnsupportedOp, match=said):
        lifted(path, feed)
