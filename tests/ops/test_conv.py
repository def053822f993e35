"""Convolutions: padding, strides, dilations, groups, layouts, types and memory."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops._agreement import Case, check_agreement, infer, run, spec_of
from thinflow.errors import ShapeError
from thinflow.ir.types import FLOAT, TensorSpec
from thinflow.ops import _windows, registry
from thinflow.ops._shapes import same_padding

Array = np.ndarray[Any, Any]
ONES = {"strides": (1, 1, 1, 1), "padding": "SAME"}


def random(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def naive_conv(x: Array, w: Array, strides: tuple[int, int], dilations: tuple[int, int], pads: Any) -> Array:
    """The definition, one multiply-add at a time over the window."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)))
    (kh, kw, depth, filters), channels = w.shape, x.shape[3]
    out = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[1:3], (kh, kw), strides, dilations, strict=True)
    ]
    y = np.zeros((x.shape[0], *out, filters), np.float64)
    per_group = filters // (channels // depth)
    for i, j, m in itertools.product(range(out[0]), range(out[1]), range(filters)):
        start = m // per_group * depth
        rows = [i * strides[0] + a * dilations[0] for a in range(kh)]
        columns = [j * strides[1] + b * dilations[1] for b in range(kw)]
        seen = x[:, rows][:, :, columns, start : start + depth]
        y[:, i, j, m] = (seen * w[..., m]).sum(axis=(1, 2, 3))
    return y


CASES: dict[str, list[Case]] = {
    "Conv": [
        ([random(2, 5, 6, 3), random(3, 2, 3, 4)], {"strides": (1, 2, 1, 1), "padding": "VALID"}),
        (
            [random(2, 3, 5, 6), random(2, 2, 3, 4)],
            {"strides": (1, 1, 1, 1), "padding": "SAME", "data_format": "CHANNELS_FIRST"},
        ),
        ([random(1, 4, 5, 6, 2), random(2, 2, 2, 2, 3)], {"strides": (1,) * 5, "padding": "SAME"}),
        ([random(2, 3, 5, 6, 2), random(2, 2, 2, 3)], ONES | {"batch_dims": 2}),
    ],
    "Conv2D": [
        ([random(2, 5, 6, 3), random(3, 2, 3, 4)], {"strides": (1, 2, 1, 1), "padding": "VALID"}),
        ([random(1, 5, 6, 4, dtype=np.float16), random(3, 3, 2, 6, dtype=np.float16)], ONES),
        ([np.arange(36, dtype=np.int32).reshape(1, 3, 4, 3), np.ones((1, 1, 3, 2), np.int32)], ONES),
        (
            [random(1, 3, 5, 6), random(2, 2, 3, 1)],
            {
                "strides": (1, 1, 2, 2),
                "padding": "EXPLICIT",
                "explicit_paddings": (0, 0, 0, 0, 1, 2, 0, 1),
                "data_format": "NCHW",
            },
        ),
    ],
    "Conv3D": [
        ([random(1, 3, 4, 5, 2), random(2, 2, 2, 2, 3)], {"strides": (1, 1, 2, 1, 1), "padding": "SAME"}),
        (
            [random(1, 2, 3, 4, 5), random(2, 1, 2, 2, 3)],
            {"strides": (1,) * 5, "padding": "VALID", "data_format": "NCDHW"},
        ),
    ],
    "DepthwiseConv2dNative": [
        ([random(2, 5, 6, 3), random(3, 3, 3, 2)], {"strides": (1, 2, 2, 1), "padding": "SAME"}),
        (
            [random(1, 3, 6, 7), random(2, 2, 3, 1)],
            {"strides": (1,) * 4, "padding": "VALID", "data_format": "NCHW"},
        ),
        ([random(1, 5, 6, 2, dtype=ml_dtypes.bfloat16), random(3, 3, 2, 1, dtype=ml_dtypes.bfloat16)], ONES),
    ],
    "DepthwiseConv2dNativeV2": [([random(1, 5, 6, 1), random(3, 3, 1, 4)], ONES)],
    "Dilation2D": [
        (
            [random(1, 4, 5, 2), random(2, 2, 2)],
            {"strides": (1, 2, 1, 1), "rates": (1, 1, 2, 1), "padding": "VALID"},
        ),
        (
            [random(1, 4, 5, 2), random(3, 2, 2)],
            {"strides": (1, 1, 1, 1), "rates": (1, 1, 1, 1), "padding": "SAME"},
        ),
    ],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in CASES.items() for c in cases])
def test_agreement(name: str, case: Case) -> None:
    check_agreement(name, case)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dilations", [(1, 1), (2, 1)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 3)])
@pytest.mark.parametrize("filters", [(3, 2, 4, 6), (1, 1, 4, 6), (3, 3, 2, 6), (2, 3, 1, 8)], ids=str)
def test_conv2d_is_its_definition(padding: str, dilations: Any, strides: Any, filters: Any) -> None:
    x, w = random(2, 9, 8, 4), random(*filters)
    sizes = zip((9, 8), filters[:2], strides, dilations, strict=True)
    pads = [same_padding(*s) if padding == "SAME" else (0, 0) for s in sizes]
    attrs = {"strides": (1, *strides, 1), "dilations": (1, *dilations, 1), "padding": padding}
    expected = naive_conv(x, w, strides, dilations, pads)
    np.testing.assert_allclose(run("Conv2D", x, w, **attrs), expected, atol=1e-5)
    swapped = {**attrs, "strides": (1, 1, *strides), "dilations": (1, 1, *dilations), "data_format": "NCHW"}
    y = run("Conv2D", x.transpose(0, 3, 1, 2), w, **swapped)
    np.testing.assert_allclose(y.transpose(0, 2, 3, 1), expected, atol=1e-5)


@pytest.mark.parametrize("multiple", [1, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_depthwise_is_a_grouped_convolution(multiple: int, stride: int) -> None:
    x, w = random(2, 9, 8, 4), random(3, 2, 4, multiple)
    attrs = {"strides": (1, stride, stride, 1), "padding": "SAME", "dilations": (1, 2, 2, 1)}
    pads = [same_padding(n, k, stride, 2) for n, k in ((9, 3), (8, 2))]
    expected = naive_conv(x, w.reshape(3, 2, 1, 4 * multiple), (stride, stride), (2, 2), pads)
    np.testing.assert_allclose(run("DepthwiseConv2dNative", x, w, **attrs), expected, atol=1e-5)


def test_patches_are_gathered_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = random(3, 9, 8, 4), random(3, 3, 4, 5)
    whole = run("Conv2D", x, w, **ONES)
    for limit in (1, 5000, 40_000):  # less than a row, some rows, some images
        monkeypatch.setattr(_windows, "_PATCH_BYTES", limit)
        np.testing.assert_allclose(run("Conv2D", x, w, **ONES), whole, atol=1e-5)
    depthwise = run("DepthwiseConv2dNative", x, w[..., :1], **ONES)
    monkeypatch.setattr(_windows, "_BLOCK_BYTES", 1)
    np.testing.assert_array_equal(run("DepthwiseConv2dNative", x, w[..., :1], **ONES), depthwise)


def test_integers_wrap() -> None:
    x = np.full((1, 1, 2, 1), 2**30, np.int32)
    assert run(
        "Conv2D", x, np.full((1, 2, 1, 1), 3, np.int32), strides=(1,) * 4, padding="VALID"
    ).item() == -(2**31)


def test_half_sums_in_float() -> None:
    """Ones added in half precision would stop at 2048."""
    x, w = np.ones((1, 1, 1, 4096), np.float16), np.ones((1, 1, 4096, 1), np.float16)
    assert run("Conv2D", x, w, **ONES).item() == 4096


def test_nothing_in_nothing_out() -> None:
    attrs = {"strides": (1, 1, 1, 1), "padding": "VALID"}
    assert run("Conv2D", random(0, 5, 5, 2), random(3, 3, 2, 4), **attrs).shape == (0, 3, 3, 4)
    assert run("Conv2D", random(1, 2, 2, 2), random(3, 3, 2, 4), **attrs).shape == (1, 0, 0, 4)
    assert run("DepthwiseConv2dNative", random(1, 2, 2, 2), random(3, 3, 2, 1), **attrs).shape == (1, 0, 0, 2)


def test_dilation_ignores_its_padding() -> None:
    x = np.full((1, 2, 2, 1), -5, np.float32)
    y = run(
        "Dilation2D", x, np.zeros((3, 3, 1), np.float32), strides=(1,) * 4, rates=(1,) * 4, padding="SAME"
    )
    np.testing.assert_array_equal(y, x)


def test_unknown_sizes() -> None:
    w = spec_of(random(3, 3, 2, 4))
    attrs = {"strides": (1, 2, 2, 1), "padding": "SAME"}
    assert infer("Conv2D", TensorSpec(FLOAT, (None, None, 9, 2)), w, **attrs).shape == (None, None, 5, 4)
    assert infer("Conv2D", TensorSpec(FLOAT), w, **attrs).shape == (None, None, None, 4)
    # SAME needs no filter, VALID does.
    x = TensorSpec(FLOAT, (1, 9, 9, 2))
    assert infer("Conv2D", x, TensorSpec(FLOAT), **attrs).shape == (1, 5, 5, None)
    assert infer("Conv2D", x, TensorSpec(FLOAT), **{**attrs, "padding": "VALID"}).shape == (
        1,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"padding": "MIRROR"}, "padding MIRROR"),
        ({"strides": (1, 0, 1, 1)}, "positive"),
        ({"strides": (1, 1)}, "strides has 2 values"),
        ({"strides": (2, 1, 1, 1)}, "along batch"),
        ({"data_format": "HWCN"}, "HWCN"),
        ({"padding": "EXPLICIT", "explicit_paddings": (1, 1)}, "explicit_paddings needs 8"),
    ],
)
def test_bad_attributes(attrs: dict[str, Any], words: str) -> None:
    for function in (
        lambda a: run("Conv2D", *a, **{**ONES, **attrs}),
        lambda a: infer("Conv2D", *map(spec_of, a), **{**ONES, **attrs}),
    ):
        with pytest.raises(ShapeError, match=words):
            function([random(1, 3, 3, 2), random(1, 1, 2, 1)])


def test_channels_must_fit() -> None:
    with pytest.raises(ShapeError, match="5 channels"):
        run("Conv2D", random(1, 3, 3, 5), random(1, 1, 2, 4), **ONES)
    with pytest.raises(ShapeError, match="the filter 2"):
        infer("DepthwiseConv2dNative", spec_of(random(1, 3, 3, 5)), spec_of(random(1, 1, 2, 4)), **ONES)


def test_cost_counts_multiply_adds() -> None:
    x, w = spec_of(random(1, 8, 8, 4)), spec_of(random(3, 3, 2, 6))
    y = infer("Conv2D", x, w, **ONES)
    assert registry.call_cost(registry.get("Conv2D"), [y], [x, w], ONES).macs == 8 * 8 * 6 * 3 * 3 * 2
    w = spec_of(random(3, 3, 4, 2))
    y = infer("DepthwiseConv2dNative", x, w, **ONES)
    assert (
        registry.call_cost(registry.get("DepthwiseConv2dNative"), [y], [x, w], ONES).flops
        == 2 * 8 * 8 * 8 * 9
    )
