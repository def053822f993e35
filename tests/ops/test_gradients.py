"""Gradients: against TensorFlow's in the oracle tests, against differences of the functions here."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import DOUBLE, FLOAT, INT32, TensorSpec

rng = np.random.default_rng(9)
f32, f64, c64 = np.float32, np.float64, np.complex64
NARROW = (np.float16, ml_dtypes.bfloat16)


def normal(*shape: int, kind: Any = f32) -> np.ndarray:
    x = rng.normal(size=shape) * 2
    return (x + 1j * rng.normal(size=shape) if np.dtype(kind).kind == "c" else x).astype(kind)


def whole(*shape: int, kind: Any = np.int32) -> np.ndarray:
    return rng.integers(0, 9, shape).astype(kind)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def _pairs(*kinds: Any) -> list[Case]:
    return [([normal(3, 4, kind=k), normal(3, 4, kind=k)], {}) for k in kinds]


_FLOATS = _pairs(f32, f64, *NARROW)
_COMPLEX = _pairs(f32, f64, np.float16, c64)
_WHOLE: list[Case] = [([whole(3, 4, kind=k), whole(3, 4, kind=k)], {}) for k in (np.int32, np.uint8)]
_CONV: dict[str, Any] = {"strides": (1, 2, 1, 1), "padding": "SAME"}
_CONV3: dict[str, Any] = {"strides": (1, 1, 2, 1, 1), "padding": "SAME"}
_POOL: dict[str, Any] = {"ksize": (1, 3, 2, 1), "strides": (1, 2, 1, 1), "padding": "SAME"}
_POOL_VALID = _POOL | {"padding": "VALID"}
_POOL3: dict[str, Any] = {"ksize": (1, 2, 2, 2, 1), "strides": (1, 2, 1, 1, 1), "padding": "SAME"}
X, DY, OUT = normal(2, 5, 6, 3), normal(2, 3, 6, 3), normal(2, 3, 6, 3)
X3, DY3 = normal(1, 4, 5, 4, 2), normal(1, 2, 5, 4, 2)
TIES = whole(2, 5, 6, 3, kind=f32)
POOLED, POOLED3 = run("MaxPool", X, **_POOL), run("MaxPool3D", X3, **_POOL3)
TIED = run("MaxPool", TIES, **_POOL)
BATCH = [normal(2, 3, 4, 5), normal(2, 3, 4, 5), normal(5), normal(5), np.abs(normal(5))]
FIRST = [np.moveaxis(b, -1, 1) if b.ndim == 4 else b for b in BATCH]
RANGE = [normal(4, 6) * 3, normal(4, 6) * 3]
DIL: dict[str, Any] = {"strides": (1, 1, 2, 1), "rates": (1, 2, 1, 1), "padding": "SAME"}
LRN = normal(1, 2, 3, 6)

CROPS = np.array([[0.1, 0.2, 0.7, 0.9], [0.8, -0.3, 0.2, 1.2], [0, 0, 1, 1]], f32)
WHICH = ints(1, 0, 1)

CASES: dict[str, list[Case]] = {
    "CropAndResizeGradImage": [
        ([normal(3, 4, 3, 2), CROPS, WHICH, ints(2, 7, 6, 2)], {"method": method, "T": FLOAT})
        for method in ("bilinear", "nearest")
    ]
    + [([normal(3, 1, 1, 2), CROPS, WHICH, ints(2, 7, 6, 2)], {"T": DOUBLE})],
    "CropAndResizeGradBoxes": [
        ([normal(3, 4, 3, 2), normal(2, 7, 6, 2), CROPS, WHICH], {}),
        ([normal(3, 1, 4, 2), whole(2, 7, 6, 2), CROPS, WHICH], {}),
    ],
    "ReluGrad": _FLOATS + _WHOLE,
    "Relu6Grad": _FLOATS + _WHOLE,
    "LeakyReluGrad": [*_FLOATS, (_FLOATS[0][0], {"alpha": 0.01})],
    "EluGrad": _FLOATS,
    "SeluGrad": _FLOATS,
    "SoftplusGrad": _FLOATS,
    "SoftsignGrad": _FLOATS,
    "SigmoidGrad": _COMPLEX,
    "TanhGrad": _COMPLEX,
    "SqrtGrad": _COMPLEX,
    "RsqrtGrad": _COMPLEX,
    "ReciprocalGrad": _COMPLEX,
    "InvGrad": _COMPLEX,
    "BiasAddGrad": [
        ([normal(2, 3, 4)], {}),
        ([normal(2, 3, 4, 5, kind=f64)], {"data_format": "NCHW"}),
        ([normal(6, 4, kind=np.float16)], {}),
        ([whole(2, 3, 4)], {}),
    ],
    "BroadcastGradientArgs": [
        ([ints(2, 3, 1), ints(3, 4)], {}),
        ([ints(2, 3), ints(2, 3)], {}),
        ([ints(1, 3), ints(1, 1)], {}),
        ([ints(), ints(4)], {}),
    ],
    "Conv2DBackpropFilter": [
        ([X, ints(3, 3, 3, 4), normal(2, 3, 6, 4)], _CONV),
        ([X, ints(3, 3, 3, 4), normal(2, 2, 4, 4)], _CONV | {"padding": "VALID"}),
        (
            [X, ints(2, 2, 3, 4), normal(2, 4, 6, 4)],
            {"strides": (1, 2, 1, 1), "padding": "EXPLICIT", "explicit_paddings": (0, 0, 2, 1, 0, 1, 0, 0)},
        ),
        ([X.astype(np.float16), ints(3, 3, 3, 2), normal(2, 3, 6, 2, kind=np.float16)], _CONV),
        (
            [normal(1, 4, 4, 4), ints(2, 2, 2, 6), normal(1, 3, 3, 6)],
            {"strides": (1, 1, 1, 1), "padding": "VALID"},
        ),
    ],
    "Conv3DBackpropFilterV2": [([X3, ints(2, 2, 2, 2, 3), normal(1, 4, 3, 4, 3)], _CONV3)],
    "Conv3DBackpropFilter": [([X3, normal(2, 2, 2, 2, 3), normal(1, 4, 3, 4, 3)], _CONV3)],
    "Conv3DBackpropInput": [([X3, normal(2, 2, 2, 2, 3), normal(1, 4, 3, 4, 3)], _CONV3)],
    "DepthwiseConv2dNativeBackpropFilter": [
        ([X, ints(3, 3, 3, 2), normal(2, 5, 6, 6)], {"strides": (1, 1, 1, 1), "padding": "SAME"}),
        (
            [X.astype(f64), ints(2, 3, 3, 1), normal(2, 2, 2, 3, kind=f64)],
            {"strides": (1, 2, 2, 1), "padding": "VALID"},
        ),
    ],
    "Dilation2DBackpropInput": [([X, normal(2, 2, 3), normal(2, 5, 3, 3)], DIL)],
    "Dilation2DBackpropFilter": [([X, normal(2, 2, 3), normal(2, 5, 3, 3)], DIL)],
    "MaxPoolGrad": [
        ([X, POOLED, DY], _POOL),
        ([TIES, TIED, DY], _POOL),
        ([X, run("MaxPool", X, **_POOL_VALID), normal(2, 2, 5, 3)], _POOL_VALID),
        ([X.astype(np.float16), POOLED.astype(np.float16), DY.astype(np.float16)], _POOL),
    ],
    "MaxPoolGradV2": [([X, POOLED, DY, ints(1, 3, 2, 1), ints(1, 2, 1, 1)], {"padding": "SAME"})],
    "MaxPoolGradGrad": [([X, POOLED, normal(2, 5, 6, 3)], _POOL), ([TIES, TIED, normal(2, 5, 6, 3)], _POOL)],
    "MaxPoolGradGradV2": [
        ([X, POOLED, normal(2, 5, 6, 3), ints(1, 3, 2, 1), ints(1, 2, 1, 1)], {"padding": "SAME"})
    ],
    "MaxPool3DGrad": [([X3, POOLED3, DY3], _POOL3)],
    "MaxPool3DGradGrad": [([X3, POOLED3, normal(1, 4, 5, 4, 2)], _POOL3)],
    "MaxPoolGradWithArgmax": [
        ([X, DY, run("MaxPoolWithArgmax", X, **_POOL)[1]], _POOL),
        (
            [X, DY, run("MaxPoolWithArgmax", X, **_POOL, include_batch_in_index=True)[1]],
            _POOL | {"include_batch_in_index": True},
        ),
    ],
    "AvgPoolGrad": [
        ([ints(2, 5, 6, 3), DY], _POOL),
        ([ints(2, 5, 6, 3), normal(2, 2, 5, 3, kind=f64)], _POOL_VALID),
        ([ints(2, 5, 6, 3), DY.astype(np.float16)], _POOL),
    ],
    "AvgPool3DGrad": [([ints(1, 4, 5, 4, 2), DY3], _POOL3)],
    "FusedBatchNormGrad": [
        (BATCH, {}),
        (BATCH, {"is_training": False, "epsilon": 0.01}),
        (FIRST, {"data_format": "NCHW"}),
    ],
    "FusedBatchNormGradV2": [([*(b.astype(np.float16) for b in BATCH[:2]), *BATCH[2:]], {})],
    "FusedBatchNormGradV3": [([*BATCH, normal(0)], {}), ([*BATCH, normal(0)], {"is_training": False})],
    "BatchNormWithGlobalNormalizationGrad": [
        (
            [BATCH[0], BATCH[3], BATCH[4], BATCH[2], BATCH[1]],
            {"variance_epsilon": 0.01, "scale_after_normalization": scaled},
        )
        for scaled in (True, False)
    ],
    "LRNGrad": [
        (
            [normal(1, 2, 3, 6), LRN, run("LRN", LRN, depth_radius=2, alpha=0.5)],
            {"depth_radius": 2, "alpha": 0.5},
        )
    ],
    "MirrorPadGrad": [
        ([normal(5, 6), ints(1, 1, 0, 2).reshape(2, 2)], {"mode": "REFLECT"}),
        ([normal(5, 6, kind=f64), ints(2, 1, 3, 0).reshape(2, 2)], {"mode": "SYMMETRIC"}),
        ([whole(5, 6), ints(2, 1, 3, 0).reshape(2, 2)], {"mode": "SYMMETRIC"}),
    ],
    "StridedSliceGrad": [
        ([ints(4, 5), ints(1, 4), ints(3, 0), ints(1, -2), normal(2, 2)], {}),
        ([ints(4, 5), ints(1), ints(2), ints(1), normal(5)], {"shrink_axis_mask": 1}),
        ([ints(4, 5), ints(0, 0), ints(0, 3), ints(1, 1), normal(4, 3)], {"ellipsis_mask": 1}),
        ([ints(4), ints(0, 0), ints(0, 3), ints(1, 1), normal(1, 3)], {"new_axis_mask": 1, "begin_mask": 2}),
    ],
    "TileGrad": [([normal(4, 6), ints(2, 3)], {}), ([whole(4, 6), ints(1, 1)], {})],
    "FakeQuantWithMinMaxArgsGradient": [(RANGE, {}), (RANGE, {"min": -1.0, "max": 2.5, "num_bits": 4})],
    "FakeQuantWithMinMaxVarsGradient": [
        ([*RANGE, f32(-2), f32(3)], {}),
        ([*RANGE, f32(-1), f32(4)], {"narrow_range": True}),
        ([*RANGE, f32(0), f32(0)], {}),
    ],
    "FakeQuantWithMinMaxVarsPerChannelGradient": [
        ([*RANGE, -np.arange(1, 7, dtype=f32), np.arange(6, dtype=f32)], {"num_bits": 6})
    ],
    "QuantizeAndDequantizeV4Grad": [
        ([*RANGE, f32(-2), f32(3)], {}),
        ([*RANGE, -np.arange(1, 5, dtype=f32), np.arange(1, 5, dtype=f32)], {"axis": 0}),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def slope(function: Any, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """The gradient of sum(dy * function(x)) by central differences."""
    dx = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        dx[place] = (dy * (function(x + step) - function(x - step))).sum() / 2e-6
    return dx


@pytest.mark.parametrize("name", ["Relu", "Elu", "Selu", "Softplus", "Softsign", "Sigmoid", "Tanh"])
def test_activations_have_these_slopes(name: str) -> None:
    x, dy = normal(7, kind=f64), normal(7, kind=f64)
    y = run(name, x)
    operands = {"Sigmoid": (y, dy), "Tanh": (y, dy), "Elu": (dy, y), "Selu": (dy, y)}.get(name, (dy, x))
    np.testing.assert_allclose(
        run(f"{name}Grad", *operands), slope(lambda v: run(name, v), x, dy), rtol=1e-6, atol=1e-8
    )


def test_convolution_filters_have_these_slopes() -> None:
    x, w = normal(1, 4, 4, 2, kind=f64), normal(2, 3, 2, 2, kind=f64)
    dy = normal(1, 2, 4, 2, kind=f64)
    expected = slope(lambda v: run("Conv2D", x, v, **_CONV), w, dy)
    found = run("Conv2DBackpropFilter", x, ints(*w.shape), dy, **_CONV)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_pools_have_these_slopes() -> None:
    x, dy = normal(1, 5, 4, 2, kind=f64), normal(1, 3, 4, 2, kind=f64)
    expected = slope(lambda v: run("AvgPool", v, **_POOL), x, dy)
    np.testing.assert_allclose(
        run("AvgPoolGrad", ints(1, 5, 4, 2), dy, **_POOL), expected, rtol=1e-6, atol=1e-7
    )
    expected = slope(lambda v: run("MaxPool", v, **_POOL), x, dy)
    y = run("MaxPool", x, **_POOL)
    np.testing.assert_allclose(run("MaxPoolGrad", x, y, dy, **_POOL), expected, rtol=1e-6, atol=1e-7)


def test_crops_of_a_ramp_have_these_slopes() -> None:
    """Bilinear interpolation has no kinks on 3 rows + 5 columns: outputs are linear in the corners."""
    ramp = (3 * np.arange(7)[:, None] + 5 * np.arange(6)).astype(f32).reshape(1, 7, 6, 1)
    box, dy = np.array([[0.13, 0.21, 0.68, 0.83]], f32), np.ones((1, 4, 3, 1), f32)
    found = run("CropAndResizeGradBoxes", dy, ramp, box, ints(0))
    # Half of the 12 outputs' weight goes to either end of an axis of 6 or 5 steps.
    np.testing.assert_allclose(found, [[3 * 6 * 6, 5 * 5 * 6, 3 * 6 * 6, 5 * 5 * 6]], rtol=1e-5)


def test_the_first_of_equals_gets_the_gradient() -> None:
    x, one = np.ones((1, 1, 2, 1), f32), np.ones((1, 1, 1, 1), f32)
    attrs = {"ksize": (1, 1, 2, 1), "strides": (1, 1, 2, 1), "padding": "VALID"}
    assert run("MaxPoolGrad", x, one, one, **attrs).ravel().tolist() == [1, 0]


def test_broadcast_axes_are_known_before_the_run() -> None:
    first, second = infer("BroadcastGradientArgs", spec_of(ints(2, 3, 1)), spec_of(ints(3, 4)))
    assert (first.elements, second.elements) == ((2,), (0,))
    unknown, _ = infer("BroadcastGradientArgs", TensorSpec(INT32, (2,)), spec_of(ints(3, 4)))
    assert unknown.shape == (None,)


def test_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="differ"):
        run("ReluGrad", normal(2), normal(3))
    with pytest.raises(ShapeError, match="do not broadcast"):
        run("BroadcastGradientArgs", ints(2), ints(3))
    with pytest.raises(ShapeError, match="the slice is"):
        run("StridedSliceGrad", ints(4), ints(0), ints(2), ints(1), normal(3))
    with pytest.raises(ShapeError, match="outside the input"):
        run("MaxPoolGradWithArgmax", normal(1, 2, 2, 1), normal(1, 1, 1, 1), np.full((1, 1, 1, 1), 9))
    with pytest.raises(ShapeError, match="not tiled"):
        run("TileGrad", normal(3), ints(2))
    with pytest.raises(ShapeError, match="the input gives"):
        run("Conv2DBackpropFilter", X, ints(3, 3, 3, 4), normal(1, 1, 1, 4), **_CONV)
    assert infer("AvgPoolGrad", TensorSpec(INT32, (4,)), TensorSpec(FLOAT, None)).shape == (None,) * 4


_NAN_INF = [[1, np.nan, 3, 2, 5, 4], [np.nan, np.nan, np.nan, 2, 5, np.nan], [np.nan, -np.inf, 3, 3, 3, 3]]


@pytest.mark.parametrize(
    ("row", "dx", "dx_3d", "second"),
    # What TensorFlow 2.21 gives on a CPU.
    list(
        zip(
            _NAN_INF,
            [[1, 0, 2, 0, 3, 0]] * 3,
            [[1, 0, 2, 0, 3, 0], [0, 0, 0, 2, 3, 0], [0, 0, 2, 2, 3, 3]],
            [[1, 3, 5], [0, 4, 5], [0, 3, 5]],
            strict=True,
        )
    ),
)
def test_max_pools_pass_gradients_as_tensorflow_does_where_there_is_nan(
    row: list[float], dx: list[int], dx_3d: list[int], second: list[int]
) -> None:
    x, dy = np.float32([row]).reshape(1, 1, 6, 1), np.float32([1, 2, 3]).reshape(1, 1, 3, 1)
    ddx = np.float32([1, 2, 3, 4, 5, 6]).reshape(x.shape)
    window = {"ksize": (1, 1, 2, 1), "strides": (1, 1, 2, 1), "padding": "VALID"}
    y = run("MaxPool", x, **window)
    assert run("MaxPoolGrad", x, y, dy, **window).ravel().tolist() == dx
    assert run("MaxPoolGradGrad", x, y, ddx, **window).ravel().tolist() == second
    window = {"ksize": (1, 1, 1, 2, 1), "strides": (1, 1, 1, 2, 1), "padding": "VALID"}
    x, y, dy, ddx = x[:, None], y[:, None], dy[:, None], ddx[:, None]
    assert run("MaxPool3DGrad", x, y, dy, **window).ravel().tolist() == dx_3d
    assert run("MaxPool3DGradGrad", x, y, ddx, **window).ravel().tolist() == second


def test_the_place_of_the_largest_is_the_first_where_it_is_nan_or_infinite() -> None:
    x = np.float32([np.nan, 2, 5, np.nan, -np.inf, -np.inf]).reshape(1, 1, 6, 1)
    window = {"ksize": (1, 1, 2, 1), "strides": (1, 1, 2, 1), "padding": "VALID"}
    y, places = run("MaxPoolWithArgmax", x, **window)
    assert str(y.ravel().tolist()) == "[nan, 5.0, -inf]"
    assert places.ravel().tolist() == [0, 2, 4]


def test_dilation_leaves_nan_out() -> None:
    x, w = np.float32([1, np.nan, 3, 2]).reshape(1, 1, 4, 1), np.float32([0.5, 1]).reshape(1, 2, 1)
    window = {"strides": (1, 1, 2, 1), "rates": (1, 1, 1, 1), "padding": "VALID"}
    assert run("Dilation2D", x, w, **window).ravel().tolist() == [1.5, 3.5]
