"""LiteRT's integer results against the same arithmetic in numpy: at most one code apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.quantize.programs import CONV, Builder, interpreter, quantize, samples
from thinflow.quantize.kernels.litert import CLAMPS, INT8_KERNELS
from thinflow.tflite.model import Operator, Program


def integer_result(program: Program, x: np.ndarray, plain: bool) -> tuple[Operator, np.ndarray, np.ndarray]:
    """The only weighted operator, its input codes and its output codes."""
    session = interpreter(program, plain=plain)
    session.set_tensor(session.get_input_details()[0]["index"], x)
    session.invoke()
    main = program.subgraphs[0]
    operator = next(o for o in main.operators if o.code in INT8_KERNELS.weighted)
    x_tensor = operator.inputs[INT8_KERNELS.table[operator.code].weighted.x]
    assert main.inputs == [x_tensor]
    assert main.outputs == operator.outputs
    return operator, x, session.get_tensor(session.get_output_details()[0]["index"])


def simulate(operator: Operator, x: np.ndarray, accumulate) -> np.ndarray:
    """Output codes from input codes: int64 sums, one multiplication, one rounding, one clamp."""
    numbers = INT8_KERNELS.table[operator.code].weighted
    t_x, t_w = operator.inputs[numbers.x], operator.inputs[numbers.weights]
    t_b = operator.inputs[numbers.bias] if len(operator.inputs) > numbers.bias else None
    t_y = operator.outputs[0]
    acc = accumulate(x.astype(np.int64) - int(t_x.quantization.zero_point[0]), t_w.data.astype(np.int64))
    if t_b is not None:
        assert t_b.data.dtype == (np.int32 if x.dtype == np.int8 else np.int64)
        expected_scale = t_x.quantization.scale.astype(np.float64) * t_w.quantization.scale
        np.testing.assert_allclose(t_b.quantization.scale, expected_scale, rtol=1e-6)
        acc = acc + t_b.data
    s_y, z_y = t_y.quantization.scale.astype(np.float64), int(t_y.quantization.zero_point[0])
    y = np.rint(acc * (t_x.quantization.scale.astype(np.float64) * t_w.quantization.scale / s_y)) + z_y
    low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    clamp = CLAMPS.get(operator.options.get("fused_activation_function", "NONE"))
    if clamp is not None:
        low = max(low, round(clamp[0] / s_y[0]) + z_y)
        high = int(min(high, np.rint(clamp[1] / s_y[0]) + z_y))
    return np.clip(y, low, high)


def padded(x: np.ndarray, sizes, strides, dilations, padding: str) -> np.ndarray:
    if padding == "VALID":
        return x
    pads = [(0, 0)]
    for n, k, s, d in zip(x.shape[1:3], sizes, strides, dilations, strict=True):
        total = max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
        pads.append((total // 2, total - total // 2))
    return np.pad(x, [*pads, (0, 0)])


def windows(x: np.ndarray, sizes, strides, dilations, padding: str) -> np.ndarray:
    """[n, oh, ow, c, kh, kw]"""
    x = padded(x, sizes, strides, dilations, padding)
    spans = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(1, 2))
    return view[:, :: strides[0], :: strides[1], :, :: dilations[0], :: dilations[1]]


def conv(operator: Operator):
    o = operator.options
    strides = o["stride_h"], o["stride_w"]
    dilations = o.get("dilation_h_factor", 1), o.get("dilation_w_factor", 1)

    def accumulate(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        view = windows(x, w.shape[1:3], strides, dilations, o["padding"])
        if operator.code == "DEPTHWISE_CONV_2D":
            multiplier = w.shape[3] // x.shape[3]
            grouped = w[0].reshape(*w.shape[1:3], x.shape[3], multiplier)
            return np.einsum("nxychw,hwcm->nxycm", view, grouped).reshape(*view.shape[:3], -1)
        groups = x.shape[3] // w.shape[3]
        parts = zip(np.split(view, groups, 3), np.split(w, groups, 0), strict=True)
        return np.concatenate([np.einsum("nxychw,khwc->nxyk", v, k) for v, k in parts], -1)

    return accumulate


def transpose_conv(operator: Operator):
    """Every input pixel adds its kernel to the output; SAME cuts (k - s) off, the smaller half first."""
    stride = operator.options["stride_h"]
    _, rows, columns, _ = operator.outputs[0].shape

    def accumulate(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        k, kh, kw, _ = w.shape
        n, height, width, _ = x.shape
        full = np.zeros((n, (height - 1) * stride + kh, (width - 1) * stride + kw, k), np.int64)
        for i in range(height):
            for j in range(width):
                full[:, i * stride : i * stride + kh, j * stride : j * stride + kw] += np.einsum(
                    "nc,khwc->nhwk", x[:, i, j], w
                )
        top, left = ((f - m) // 2 for f, m in zip(full.shape[1:3], (rows, columns), strict=True))
        return full[:, top : top + rows, left : left + columns]

    return accumulate


def check(program: Program, accumulate_for, plain: bool, **choices) -> None:
    for scheme, border in (("int8", "int8"), ("int16x8", "int16")):
        check_scheme(program, accumulate_for, plain, border, scheme=scheme, **choices)


def check_scheme(program: Program, accumulate_for, plain: bool, border: str, **choices) -> None:
    result = quantize(program, input_type=border, output_type=border, **choices)
    assert not result.float_operators
    limits = np.iinfo(border)
    shape = program.subgraphs[0].inputs[0].shape
    x = np.random.default_rng(5).integers(limits.min, limits.max + 1, shape, border)
    operator, x, found = integer_result(result.program, x, plain)
    expected = simulate(operator, x, accumulate_for(operator))
    difference = np.abs(expected - found.astype(np.int64))
    assert difference.max() <= 1
    # The 16-bit kernels multiply by a factor of 15 bits.
    assert np.mean(difference > 0) < (0.02 if border == "int8" else 0.35)
    assert len(np.unique(found)) > 20


both = pytest.mark.parametrize("plain", [False, True], ids=["xnnpack", "builtin"])


@both
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"act": "NONE", "padding": "VALID", "stride_h": 2, "stride_w": 2},
        {"act": "RELU", "dilation_h_factor": 2, "dilation_w_factor": 2},
        {"act": "RELU_N1_TO_1", "size": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("per_channel", [True, False])
def test_conv(options, per_channel: bool, plain: bool) -> None:
    builder = Builder()
    program = builder.program(builder.conv(builder.input(1, 9, 9, 6), 7, **options))
    check(program, conv, plain, per_channel=per_channel)


@both
@pytest.mark.parametrize(
    "options",
    [{}, {"act": "NONE", "stride_h": 2, "stride_w": 2}, {"dilation_h_factor": 2, "dilation_w_factor": 2}],
    ids=str,
)
@pytest.mark.parametrize("per_channel", [True, False])
def test_depthwise(options, per_channel: bool, plain: bool) -> None:
    builder = Builder()
    program = builder.program(builder.depthwise(builder.input(1, 9, 9, 8), **options))
    check(program, conv, plain, per_channel=per_channel)


@both
def test_depthwise_with_multiplier(plain: bool) -> None:
    builder = Builder()
    w, b = builder.normal(1, 3, 3, 8), builder.normal(8)
    y = builder.op("DEPTHWISE_CONV_2D", builder.input(1, 5, 5, 4), w, b, **CONV, depth_multiplier=2)
    check(builder.program(y), conv, plain)


@both
def test_grouped_conv(plain: bool) -> None:
    builder = Builder()
    w, b = builder.normal(8, 3, 3, 3), builder.normal(8)
    y = builder.op("CONV_2D", builder.input(1, 6, 6, 6), w, b, **CONV)
    check(builder.program(y), conv, plain)


@both
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
def test_fully_connected(has_bias: bool, per_channel: bool, plain: bool) -> None:
    builder = Builder()
    bias = [builder.normal(40)] if has_bias else []
    y = builder.op("FULLY_CONNECTED", builder.input(3, 16), builder.normal(40, 16), *bias)
    check(builder.program(y), lambda o: lambda x, w: x @ w.T, plain, per_channel=per_channel)


@both
@pytest.mark.parametrize("per_channel", [True, False])
def test_transpose_conv(per_channel: bool, plain: bool) -> None:
    builder = Builder()
    shape, w = builder.const(np.array([1, 10, 10, 5])), builder.normal(5, 4, 4, 6)
    y = builder.op(
        "TRANSPOSE_CONV",
        shape,
        w,
        builder.input(1, 5, 5, 6),
        builder.normal(5),
        padding="SAME",
        stride_h=2,
        stride_w=2,
    )
    check(builder.program(y), transpose_conv, plain, per_channel=per_channel)


@both
def test_dead_and_nearly_dead_channels(plain: bool) -> None:
    """A channel of zeros keeps its bias precisely; tiny weights and large biases stay within int32."""
    builder = Builder()
    w = builder.rng.standard_normal((6, 3, 3, 4)).astype(np.float32)
    w[0], w[1], w[2] = 0, 1e-30, w[2] * 1e-9
    b = np.float32([0.37, -0.41, 3.3, 0, 1, -1])
    x = builder.input(1, 6, 6, 4)
    program = builder.program(builder.op("CONV_2D", x, builder.const(w), builder.const(b), **CONV))
    check(program, conv, plain)
    feeds = samples(program)
    result = quantize(program, feeds)
    operator = next(o for o in result.program.subgraphs[0].operators if o.code == "CONV_2D")
    scale = operator.outputs[0].quantization.scale[0]
    session = interpreter(result.program, plain=plain)
    session.set_tensor(session.get_input_details()[0]["index"], feeds[0]["in0"])
    session.invoke()
    y = session.get_tensor(session.get_output_details()[0]["index"])
    assert np.abs(y[..., :3] - b[:3]).max() <= scale
