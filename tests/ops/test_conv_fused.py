"""Fused convolutions equal their parts, run one after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, run
from thinflow.errors import ShapeError, UnsupportedOp

Array = np.ndarray[Any, Any]
ONES = {"strides": (1, 1, 1, 1), "padding": "VALID"}
PADS = np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


X, W, B = random(1, 5, 6, 2), random(3, 3, 2, 4), random(4)
CASES: dict[str, list[Case]] = {
    "FusedPadConv2D": [([X, PADS, W], {**ONES, "mode": m}) for m in ("REFLECT", "SYMMETRIC")],
    "FusedResizeAndPadConv2D": [
        ([X, np.array([7, 4], np.int32), PADS, W], {**ONES, "mode": "REFLECT", "resize_align_corners": a})
        for a in (False, True)
    ],
    "_FusedConv2D": [
        ([X, W, B], {**ONES, "fused_ops": ("BiasAdd", "Relu")}),
        ([X, W, B, B, B, np.abs(B)], {**ONES, "fused_ops": ("FusedBatchNorm",), "epsilon": 0.01}),
    ],
    "_FusedDepthwiseConv2dNative": [([X, W, random(8)], {**ONES, "fused_ops": ("BiasAdd", "Relu6")})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
def test_resize_pad_conv(mode: str) -> None:
    size = np.array([8, 9], np.int32)
    resized = run("ResizeBilinear", X, size, align_corners=True)
    padded = np.pad(resized, PADS, mode=mode.lower())  # type: ignore[call-overload]
    expected = run("Conv2D", padded, W, **ONES)
    fused = {**ONES, "mode": mode}
    y = run("FusedResizeAndPadConv2D", X, size, PADS, W, resize_align_corners=True, **fused)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(run("FusedPadConv2D", resized, PADS, W, **fused), expected)


def test_reflection_needs_room() -> None:
    with pytest.raises(ShapeError, match=r"\(5, 0\) does not fit"):
        run("FusedPadConv2D", X, PADS * 0 + [[0, 0], [5, 0], [0, 0], [0, 0]], W, mode="REFLECT", **ONES)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Relu", lambda y: np.maximum(y, 0)),
        ("Relu6", lambda y: np.clip(y, 0, 6)),
        ("Elu", lambda y: np.where(y < 0, np.expm1(y), y)),
        ("LeakyRelu", lambda y: np.where(y < 0, y * np.float32(0.1), y)),
        ("Tanh", np.tanh),
        ("GeluExact", lambda y: 0.5 * y * (1 + np.vectorize(math.erf)(y / np.sqrt(2)))),
        ("GeluApproximate", lambda y: 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))),
        ("Sigmoid", lambda y: 1 / (1 + np.exp(-y))),
    ],
)
def test_activations(name: str, function: Any) -> None:
    expected = function(run("Conv2D", X, W, **ONES) + B)
    y = run("_FusedConv2D", X, W, B, fused_ops=("BiasAdd", name), leakyrelu_alpha=0.1, **ONES)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_unknown_fused_op() -> None:
    with pytest.raises(UnsupportedOp, match="'Swish'"):
        run("_FusedConv2D", X, W, fused_ops=("Swish",), **ONES)
