"""Ops on eight-bit and 32-bit codes: published results, borders, ranges handed on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import QINT32, TensorSpec, dtype
from thinflow.ops._quantized import kernels, round_away

Array = np.ndarray[Any, Any]


def f32(value: Any) -> Array:
    return np.array(value, np.float32)


def codes(*shape: int, kind: Any = np.uint8) -> Array:
    info = np.iinfo(kind)
    return np.random.default_rng(sum(shape)).integers(info.min, info.max, shape, kind, endpoint=True)


def test_requantize_scales_in_double() -> None:
    """In float32 this code, which lies close to the border of two, would be 77."""
    limits = [f32(x) for x in (-466064.21875, 466064.21875, -0.00010851404, 3.553726)]
    limits[2] = f32(float.fromhex("-0x1.c72410p-14"))
    limits[3] = f32(float.fromhex("0x1.c6e07ep+1"))
    assert run("Requantize", np.array([4912], np.int32), *limits)[0].tolist() == [76]


A = np.array([[0, 100, 255], [7, 94, 200]], np.uint8)
B = np.array([[10, 250], [128, 0], [77, 90]], np.uint8)
RA, RB, RC = [f32(-1), f32(1.7)], [f32(-0.5), f32(0.25)], [f32(-0.1), f32(0.2)]
IMAGE, WIDE = codes(1, 5, 6, 2), codes(2, 3, 4, kind=np.int32)
CONV = {"strides": (1, 2, 2, 1), "padding": "SAME"}
POOL = {"ksize": (1, 2, 2, 1), **CONV}
VECTORS = [codes(2), *RA, codes(2) // 2, f32(0), f32(4), codes(2), *RA, codes(2), *RB]
CASES: dict[str, list[Case]] = {
    "QuantizedMatMul": [
        ([A, B, *RA, *RB], {}),
        ([A.T, B.T, *RA, *RB], {"transpose_a": True, "transpose_b": True}),
    ],
    "QuantizedConv2D": [
        ([IMAGE, codes(3, 3, 2, 4), *RA, *RB], CONV),
        ([IMAGE, codes(3, 3, 2, 4, kind=np.int8), *RA, *RB], {**CONV, "dilations": (1, 1, 1, 1)}),
    ],
    "QuantizedDepthwiseConv2D": [([IMAGE, codes(3, 3, 2, 2, kind=np.int8), *RA, *RB], CONV)],
    "QuantizedBiasAdd": [
        ([A, A[0], *RA, *RC], {}),
        ([codes(2, 3, kind=np.int8), codes(3, kind=np.int8), *RA, *RC], {}),
    ],
    "QuantizedAdd": [([A, A[0], *RA, *RC], {}), ([A[:1, :1], A, *RA, *RC], {})],
    "QuantizedMul": [([A, A[0], *RA, *RC], {})],
    "QuantizedBatchNormWithGlobalNormalization": [
        ([IMAGE, *RA, *VECTORS], {"variance_epsilon": 0.01, "scale_after_normalization": s})
        for s in (False, True)
    ],
    "RequantizationRange": [([WIDE, *RA], {}), ([WIDE[:0], *RA], {})],
    "Requantize": [([WIDE, *RA, *RB], {}), ([WIDE, *RA, *RB], {"out_type": dtype("qint8")})],
    "QuantizeDownAndShrinkRange": [([WIDE, *RA], {})],
    "RequantizationRangePerChannel": [
        ([WIDE, f32([1, 2, 3, 4]), f32([1, 2, 3, 4])], {"clip_value_max": 3.0})
    ],
    "RequantizePerChannel": [
        ([WIDE, f32([1, 2, 3, 4]), f32([1, 2, 3, 4]), *RB], {"out_type": dtype(t)})
        for t in ("quint8", "qint8")
    ],
    "QuantizedRelu": [([A, *RA], {}), ([WIDE, *RA], {"out_type": QINT32})],
    "QuantizedRelu6": [([A, *RA], {})],
    "QuantizedReluX": [([A, f32(1), *RA], {})],
    "QuantizedMaxPool": [([IMAGE, *RA], POOL)],
    "QuantizedAvgPool": [([IMAGE, *RA], POOL), ([IMAGE.astype(np.int8), *RA], POOL)],
    "QuantizedReshape": [([A, np.array([3, -1], np.int32), *RA], {}), ([A, np.array([6]), *RA], {})],
    "QuantizedConcat": [([np.array(1, np.int32), A, A, f32(-1), f32(-1), f32(1), f32(3)], {})],
    "QuantizedResizeBilinear": [
        ([IMAGE, np.array([3, 9], np.int32), *RA], {}),
        ([IMAGE.astype(np.int32), np.array([3, 9], np.int32), *RA], {"half_pixel_centers": True}),
        ([IMAGE.astype(np.float32), np.array([3, 9], np.int32), *RA], {"align_corners": True}),
    ],
    "QuantizedInstanceNorm": [
        ([IMAGE, *RA], {}),
        ([IMAGE, *RA], {"output_range_given": True, "given_y_max": 2.0}),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


def test_matmul_and_what_follows() -> None:
    y, low, high = run("QuantizedMatMul", A, B, *RA, *RB)
    assert y.tolist() == [[-185, -21420], [4062, -15440]]
    np.testing.assert_allclose([low, high], [-66876.66, 66876.66], rtol=1e-6)
    used = run("RequantizationRange", y, low, high)
    np.testing.assert_array_equal(used, f32([-0.66704327, 0.12651385]))
    assert run("Requantize", y, low, high, *used)[0].tolist() == [[212, 0], [255, 60]]
    assert run("Requantize", y, low, high, *used, out_type=dtype("qint8"))[0].tolist() == [
        [84, -128],
        [127, -69],
    ]
    assert run("QuantizeDownAndShrinkRange", y, low, high)[0].tolist() == [[212, 0], [255, 60]]


def test_sums_and_products() -> None:
    y, _, high = run("QuantizedBiasAdd", A, np.array([0, 128, 255], np.uint8), *RA, *RC)
    assert y.tolist() == [[-10812, 844, 18101], [-10098, 232, 12489]]
    assert high == f32(222822.4)
    other = np.array([3, 128, 250], np.uint8)
    y, _, high = run("QuantizedAdd", A, other, *RA, *RC)
    assert y.tolist() == [[-84175, 8800, 146382], [-78463, 3904, 101502]]
    assert high == f32(27852.8)
    y, _, high = run("QuantizedMul", A, other, *RA, *RC)
    assert y.tolist() == [[7708, 258, 26565], [7134, 0, 17490]]
    assert high == f32(26750.662)


def test_products_beyond_double_wrap() -> None:
    """A range far from zero has a huge zero code."""
    far = [f32(1e6), f32(1e6 + 0.5)]
    y, *_ = run("QuantizedMatMul", A, B, *far, *far)
    assert y.dtype == np.int32


def test_convolution_pads_with_real_zero() -> None:
    x, w = np.full((1, 1, 1, 1), 200, np.uint8), np.full((3, 3, 1, 1), 255, np.uint8)
    y, *_ = run("QuantizedConv2D", x, w, f32(-1), f32(1), f32(0), f32(1), strides=(1,) * 4, padding="SAME")
    assert y.item() == (200 - 128) * 255


def test_convolution_moves_to_the_centre_when_strides_leave_pixels_over() -> None:
    x = np.arange(8, dtype=np.uint8).reshape(1, 1, 8, 1)
    w, unit = np.ones((1, 1, 1, 1), np.uint8), [f32(0), f32(255)]
    y, *_ = run("QuantizedConv2D", x, w, *unit, *unit, strides=(1, 4, 4, 1), padding="SAME")
    assert y.ravel().tolist() == [1, 5]


@pytest.mark.parametrize("attrs", [{"dilations": (1, 2, 2, 1)}, {"strides": (1, 1, 2, 1)}])
def test_convolution_refuses_what_tensorflow_cannot(attrs: dict[str, Any]) -> None:
    with pytest.raises(ShapeError, match="quantized convolutions"):
        run("QuantizedConv2D", IMAGE, codes(3, 3, 2, 4), *RA, *RB, **{**CONV, **attrs})


def test_average_rounds_as_its_kernels_do() -> None:
    x = np.array([[1, 2, 4], [8, 16, 32], [64, 128, 255]], np.uint8)[None, :, :, None]
    assert run("QuantizedAvgPool", x, *RA, **POOL)[0].ravel().tolist() == [7, 18, 96, 255]
    with kernels("native"):
        assert run("QuantizedAvgPool", x, *RA, **POOL)[0].ravel().tolist() == [6, 18, 96, 255]


def test_clamps() -> None:
    x = np.array([0, 25, 26, 178, 179, 255], np.uint8)
    assert run("QuantizedRelu6", x, f32(-1), f32(9))[0].tolist() == [26, 26, 26, 178, 179, 179]
    assert run("QuantizedReluX", x, f32(6), f32(-1), f32(9))[0].tolist() == [26, 26, 26, 178, 179, 179]
    assert run("QuantizedRelu", x, f32(1), f32(1))[0].tolist() == x.tolist()


def test_concat_moves_to_the_union() -> None:
    x, y = np.array([0, 94, 255], np.uint8), np.array([0, 85, 255], np.uint8)
    out, low, high = run("QuantizedConcat", np.array(0, np.int32), x, y, RA[0], RC[0], RA[1], RC[1])
    assert out.tolist() == [0, 94, 255, 85, 94, 113]
    assert (low, high) == (RA[0], RA[1])
    with pytest.raises(ShapeError, match="concat_dim -1"):
        run("QuantizedConcat", np.array(-1, np.int32), x, y, RA[0], RC[0], RA[1], RC[1])


def test_resize() -> None:
    x = np.array([[10, 200], [40, 90]], np.uint8)[None, :, :, None]
    y, *_ = run("QuantizedResizeBilinear", x, np.array([3, 5], np.int32), *RA)
    assert y[0, ..., 0].tolist() == [[10, 86, 161, 200, 200], [30, 69, 108, 127, 127], [40, 60, 80, 90, 90]]


def test_per_channel_range() -> None:
    x = np.array([[-1000000, 5], [200000, 30]], np.int32)
    low, high = run(
        "RequantizationRangePerChannel", x, f32([-300, -200]), f32([300, 200]), clip_value_max=1e9
    )
    assert (low, high) == (f32(-0.13969839), f32(0.13969839))


def test_requests_must_be_ranges() -> None:
    for request, words in (((0.5, 1), "0 or less"), ((-1, -2), "below"), ((np.nan, 1), "0 or less")):
        with pytest.raises(ShapeError, match=words):
            run("Requantize", WIDE, *RA, f32(request[0]), f32(request[1]))
    with pytest.raises(ShapeError, match="is empty"):
        run("QuantizedMatMul", A, B, f32(1), f32(1), *RB)


def test_reshape_of_unknown_size() -> None:
    shape = spec_of(np.array([4, -1], np.int32))
    x = TensorSpec(dtype("quint8"), (None, 8))
    assert infer("QuantizedReshape", x, shape, *map(spec_of, RA))[0].shape == (4, None)


def test_large_tensors_are_worked_on_piecewise() -> None:
    """Stretches that stay in the cache give what single elements give."""
    q = codes(1, 70_001, kind=np.int32)
    limits = [f32(-70000.0), f32(90000.0)]
    narrow = run("Requantize", q, *limits, f32(-3), f32(5))[0]
    wide = run("QuantizedBiasAdd", q, q[0] * 0, *limits, *RA)[0]
    for i in (0, 32_767, 32_768, 70_000):
        one = q[:, i : i + 1]
        assert run("Requantize", one, *limits, f32(-3), f32(5))[0] == narrow[0, i]
        assert run("QuantizedBiasAdd", one, one[0] * 0, *limits, *RA)[0] == wide[0, i]


@pytest.mark.parametrize("depth", [200, 300, 33_000])
def test_products_are_exact_at_every_depth(depth: int) -> None:
    """Up to 2**24 the sums are made in float32, then in double."""
    a, b = np.full((1, depth), 255, np.uint8), np.full((depth, 1), 255, np.uint8)
    b[-1] = 254
    y = run("QuantizedMatMul", a, b, f32(0), f32(1), f32(0), f32(1))[0]
    assert y.tolist() == [[255 * 255 * depth - 255]]


def test_sums_wrap() -> None:
    """Also those of a single number."""
    most = f32(2.0**31 * 2.0**-17)
    q = np.full((1, 1), 2**31 - 1, np.int32)
    y = run("QuantizedBiasAdd", q, q[0], -most, most, -most, most)[0]
    assert y.dtype == np.int32
    assert run("QuantizedAdd", np.uint8(255), np.uint8(255), *RA, *RA)[0].shape == ()


def test_halves_round_away_from_zero() -> None:
    below = np.nextafter(np.float32(0.5), np.float32(0))
    x = np.array([0.5, -0.5, below, -below, 2.5, -1.5, 2**23 - 0.5, np.inf, -0.0], np.float32)
    rounded = round_away(x)
    assert rounded.tolist() == [1, -1, 0, 0, 3, -2, 2**23, np.inf, 0]
    assert not np.signbit(rounded[[2, 3, 8]]).any()
    assert np.isnan(round_away(np.float64("nan")))
