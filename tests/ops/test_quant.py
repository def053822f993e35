"""Quantizing and dequantizing: published codes of every mode, ranges, rounding, odd inputs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import QUINT8, dtype
from thinflow.ops._quantized import kernels

Array = np.ndarray[Any, Any]


def f32(value: Any) -> Array:
    return np.array(value, np.float32)


X = f32([-1.5, -1, -0.75, -0.3, -0.004, 0, 0.0039, 0.2, 0.5, 0.9, 1.7, 2.5])
LOW, HIGH = f32(-1), f32(1.7)
RANGE = [LOW, HIGH]
PER_ROW = [f32([-1, -2]), f32([1, 3])]
ROWS = X.reshape(2, 6)
TYPES = ["quint8", "qint8", "quint16", "qint16", "qint32"]
CASES: dict[str, list[Case]] = {
    "QuantizeV2": [
        ([X, *RANGE], {"T": dtype(t), "mode": m})
        for t in TYPES
        for m in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
    ]
    + [([ROWS, *PER_ROW], {"T": dtype("qint8"), "mode": "SCALED", "axis": 0})],
    "Dequantize": [
        ([np.array([[0, 1, 100], [2, 3, 127]], dtype(t).numpy()), *RANGE], {"mode": m})
        for t in TYPES
        for m in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
    ]
    + [([np.array([0, 9], np.uint8), *RANGE], {"dtype": dtype("bfloat16")})],
    "QuantizeAndDequantizeV2": [
        ([X, *RANGE], {"range_given": True}),
        ([X.astype(np.float64), LOW.astype(np.float64), HIGH.astype(np.float64)], {"num_bits": 4}),
        ([ROWS, *PER_ROW], {"axis": 0}),
    ],
    "QuantizeAndDequantizeV3": [([ROWS, *PER_ROW, np.array(6, np.int32)], {"axis": 0})],
    "QuantizeAndDequantizeV4": [([X, *RANGE], {"round_mode": "HALF_UP"})],
    "QuantizeAndDequantize": [([X], {"range_given": True, "input_min": -1.0, "input_max": 1.7})],
    "FakeQuantWithMinMaxArgs": [([X], {}), ([X], {"num_bits": 4, "narrow_range": True})],
    "FakeQuantWithMinMaxVars": [([X, *RANGE], {})],
    "FakeQuantWithMinMaxVarsPerChannel": [([ROWS.T, *PER_ROW], {})],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


@pytest.mark.parametrize(
    ("kind", "mode", "codes", "low"),
    [
        ("quint8", "MIN_FIRST", [0, 0, 23, 66, 94, 94, 94, 113, 141, 179, 255, 255], -1),
        ("quint8", "MIN_COMBINED", [0, 0, 24, 66, 94, 94, 95, 113, 142, 179, 255, 255], -1),
        ("quint8", "SCALED", [0, 0, 0, 0, 0, 0, 1, 30, 75, 135, 255, 255], 0),
        ("qint8", "MIN_FIRST", [-128, -128, -105, -62, -34, -34, -34, -15, 13, 51, 127, 127], -1),
        ("qint8", "MIN_COMBINED", [-128, -128, -104, -62, -34, -34, -33, -15, 14, 51, 127, 127], -1),
        ("qint8", "SCALED", [-112, -75, -56, -22, 0, 0, 0, 15, 37, 67, 127, 127], -1.7133859),
    ],
)
def test_codes(kind: str, mode: str, codes: list[int], low: float) -> None:
    with kernels("native"):
        y, a, b = run("QuantizeV2", X, *RANGE, T=dtype(kind), mode=mode)
    assert y.tolist() == codes
    assert (a, b) == (f32(low), f32(1.7))


def test_onednn_rounds_on_its_own_grid() -> None:
    y, *_ = run("QuantizeV2", X, *RANGE, T=QUINT8, mode="MIN_FIRST")
    assert y.tolist() == [0, 0, 24, 66, 94, 94, 95, 113, 142, 179, 255, 255]
    y, *_ = run("QuantizeV2", f32(0.2), *RANGE, T=QUINT8, mode="MIN_FIRST")
    assert y == 113  # a scalar is truncated
    y, a, b = run("QuantizeV2", X, *RANGE, T=dtype("qint8"), mode="SCALED", round_mode="HALF_TO_EVEN")
    assert (y.min(), y.max(), a, b) == (-112, 127, f32(-1.7), f32(1.7))


@pytest.mark.parametrize(
    ("low", "high", "used"), [(3, 3, (0, 3)), (0, 0, (0, 0.01)), (-5, -1, (-5, 0)), (-200, 1, (-200, 1))]
)
def test_ranges_hold_zero_and_have_a_width(low: float, high: float, used: tuple[float, float]) -> None:
    _, a, b = run("QuantizeV2", X, f32(low), f32(high), mode="MIN_FIRST")
    assert (a, b) == (f32(used[0]), f32(used[1]))


def test_infinities_saturate() -> None:
    y, *_ = run("QuantizeV2", f32([-np.inf, np.inf]), *RANGE, mode="MIN_COMBINED")
    assert y.tolist() == [0, 255]


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"mode": "MIN_FIRST", "axis": 0}, "axis must be -1"),
        ({"round_mode": "HALF_TO_EVEN"}, "needs mode SCALED"),
        ({"mode": "LOG"}, "mode LOG"),
    ],
)
def test_refusals(attrs: dict[str, Any], words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        run("QuantizeV2", X, *RANGE, **attrs)


def test_backwards_ranges() -> None:
    with pytest.raises(ShapeError, match="below"):
        run("QuantizeV2", X, HIGH, LOW)
    with pytest.raises(ShapeError, match="above"):
        run("QuantizeAndDequantizeV2", X, HIGH, LOW, range_given=True)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("MIN_FIRST", [-0.9952941, -0.98470587, 0, 0.010588288, 0.36, 1.6941175, 1.704706]),
        ("MIN_COMBINED", [-1, -0.9894118, -0.004705906, 0.0058823824, 0.3552941, 1.6894116, 1.7]),
        ("SCALED", [0, 0.006666667, 0.62666667, 0.6333333, 0.85333335, 1.6933334, 1.7]),
    ],
)
def test_reals(mode: str, expected: list[float]) -> None:
    codes = np.array([0, 1, 94, 95, 128, 254, 255], np.uint8)
    np.testing.assert_array_equal(run("Dequantize", codes, *RANGE, mode=mode), f32(expected))


def test_large_32_bit_codes_overflow_when_scaled() -> None:
    y = run("Dequantize", np.array([2**31 - 1, 2**30], np.int32), *RANGE, mode="SCALED")
    assert y[0] < 0 < y[1]


def test_subnormal_steps_vanish() -> None:
    codes = np.array([0, 1], np.uint8)
    assert np.isnan(run("Dequantize", codes, f32(0), f32(1e-37), mode="MIN_FIRST")).all()
    assert run("Dequantize", codes, f32(2), f32(2), mode="MIN_FIRST").tolist() == [2, 2]


def test_bfloat16_output() -> None:
    y = run("Dequantize", np.array([255], np.uint8), *RANGE, dtype=dtype("bfloat16"))
    assert y.dtype == ml_dtypes.bfloat16


def test_quantize_and_dequantize() -> None:
    y = run("QuantizeAndDequantizeV2", X, *RANGE, range_given=True)
    expected = [
        -1.4992126,
        -1.003937,
        -0.7496063,
        -0.2944882,
        0,
        0,
        0,
        0.2007874,
        0.4952756,
        0.8968504,
        1.7,
        1.7,
    ]
    np.testing.assert_array_equal(y, f32(expected))
    x = f32([0.5, 1, -1])
    assert run("QuantizeAndDequantizeV2", x, *RANGE, num_bits=1, range_given=True).tolist() == [0, 0, -1]
    assert run("QuantizeAndDequantizeV2", x, *RANGE, num_bits=1).tolist() == [0, 1, -1]  # measured: no clamp


def test_fake_quantization_shifts_the_range_onto_zero() -> None:
    y = run("FakeQuantWithMinMaxArgs", X, min=-1.0, max=1.7)
    expected = (
        [-0.9952941] * 2 + [-0.7517647, -0.29647058, 0, 0, 0, 0.20117646, 0.49764705, 0.9] + [1.7047058] * 2
    )
    np.testing.assert_array_equal(y, f32(expected))
    y = run("FakeQuantWithMinMaxVars", f32([-3, 0.51, 3]), f32(1), f32(2))
    np.testing.assert_allclose(y, [0, 130 / 255, 1], rtol=1e-6)
    y = run("FakeQuantWithMinMaxVarsPerChannel", f32([[-3, -3]]), f32([-2, -1]), f32([-1, 1]))
    np.testing.assert_allclose(y, [[-1, -127 / 127.5]], rtol=1e-6)


def test_fake_quantization_of_nothing() -> None:
    assert run("FakeQuantWithMinMaxVars", f32([1, np.nan]), f32(0), f32(0)).tolist() == [0, 0]
    assert np.isnan(run("FakeQuantWithMinMaxVars", f32([np.nan]), *RANGE)).all()
    with pytest.raises(ShapeError, match="num_bits is 17"):
        run("FakeQuantWithMinMaxArgs", X, num_bits=17)


def test_specs() -> None:
    specs = [spec_of(v) for v in (ROWS, *PER_ROW)]
    codes, low, _ = infer("QuantizeV2", *specs, T=dtype("qint8"), axis=0)
    assert (str(codes), low.shape) == ("qint8[2,6]", (2,))
