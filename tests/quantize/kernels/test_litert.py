"""Every row of the kernel tables, run by LiteRT: the op computes in integers and its numbers are right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.quantize.programs import INT, POOL, Builder, codes, quantize, run, samples, scale_of
from thinflow.ir.types import BOOL, FLOAT, INT64
from thinflow.quantize.kernels.litert import BY_SCHEME, INT8_KERNELS, INT16_KERNELS
from thinflow.tflite.model import Tensor

Build = Callable[[Builder], Tensor | list[Tensor]]
HWC = (1, 6, 6, 4)
ACT = {"fused_activation_function": "NONE"}


def unary(code: str, *shape: int, **options) -> Build:
    return lambda b: b.op(code, b.input(*(shape or HWC)), **options)


def binary(code: str, out=(FLOAT,), **options) -> Build:
    return lambda b: b.op(code, b.input(*HWC), b.input(*HWC), out=out, **options)


def shaped(code: str, *arguments, shape=HWC, out=(FLOAT,), **options) -> Build:
    return lambda b: b.op(code, b.input(*shape), *map(b.const, arguments), out=out, **options)


BLOCKS = np.array([2, 2]), np.zeros((2, 2), np.int32)
BORDER = np.array([[0, 0], [1, 1], [2, 0], [0, 0]])
CASES: dict[str, Build] = {
    "CONV_2D": lambda b: b.conv(b.input(*HWC), 5),
    "DEPTHWISE_CONV_2D": lambda b: b.depthwise(b.input(*HWC)),
    "FULLY_CONNECTED": lambda b: b.op("FULLY_CONNECTED", b.input(2, 8), b.normal(5, 8), b.normal(5), **ACT),
    "TRANSPOSE_CONV": lambda b: b.op(
        "TRANSPOSE_CONV", b.const(np.array([1, 12, 12, 5])), b.normal(5, 3, 3, 4), b.input(*HWC), b.normal(5),
        padding="SAME", stride_w=2, stride_h=2,
    ),
    "BATCH_MATMUL": lambda b: b.op("BATCH_MATMUL", b.input(2, 4, 6), b.input(2, 6, 3)),
    **{c: binary(c, **ACT) for c in ("ADD", "SUB", "MUL")},
    "MEAN": shaped("MEAN", np.array([1, 2]), keep_dims=True),
    "SUM": shaped("SUM", np.array([1, 2]), keep_dims=False),
    **{c: unary(c) for c in ("RELU", "RELU6", "RELU_N1_TO_1", "ELU", "HARD_SWISH", "GELU", "ABS")},
    "LEAKY_RELU": unary("LEAKY_RELU", alpha=0.2),
    "PRELU": lambda b: b.op("PRELU", b.input(*HWC), b.normal(1, 1, 4, scale=0.3)),
    **{c: binary(c, out=(BOOL,)) for c in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")},
    **{c: shaped(c, np.array([3]), out=(INT64,), output_type=INT64) for c in ("ARG_MAX", "ARG_MIN")},
    "AVERAGE_POOL_2D": unary("AVERAGE_POOL_2D", **POOL),
    "MAX_POOL_2D": unary("MAX_POOL_2D", **POOL),
    "MAXIMUM": binary("MAXIMUM"),
    "MINIMUM": lambda b: b.op("MINIMUM", b.input(*HWC), b.const(np.float32([0.5]))),
    "REDUCE_MAX": shaped("REDUCE_MAX", np.array([1, 2])),
    "REDUCE_MIN": shaped("REDUCE_MIN", np.array([1, 2])),
    "RESIZE_BILINEAR": shaped("RESIZE_BILINEAR", np.array([12, 12]), half_pixel_centers=True),
    "RESIZE_NEAREST_NEIGHBOR": shaped("RESIZE_NEAREST_NEIGHBOR", np.array([9, 9])),
    "CONCATENATION": binary("CONCATENATION", axis=3, **ACT),
    "RESHAPE": shaped("RESHAPE", np.array([1, 144]), new_shape=[1, 144]),
    "SQUEEZE": unary("SQUEEZE", squeeze_dims=[0]),
    "EXPAND_DIMS": shaped("EXPAND_DIMS", np.array(0)),
    "TRANSPOSE": shaped("TRANSPOSE", np.array([0, 3, 1, 2])),
    "PAD": shaped("PAD", BORDER),
    "PADV2": shaped("PADV2", BORDER, np.float32([-0.5])),
    "MIRROR_PAD": shaped("MIRROR_PAD", BORDER, mode="REFLECT"),
    "SLICE": shaped("SLICE", np.array([0, 1, 1, 0]), np.array([1, 2, 2, 4])),
    "STRIDED_SLICE": shaped("STRIDED_SLICE", *map(np.array, ([0, 1, 1, 0], [1, 5, 5, 4], [1, 2, 2, 1]))),
    "SPLIT": lambda b: b.op("SPLIT", b.const(np.array(3)), b.input(*HWC), out=(FLOAT, FLOAT), num_splits=2),
    "SPLIT_V": shaped("SPLIT_V", np.array([3, 1]), np.array(3), out=(FLOAT, FLOAT), num_splits=2),
    "GATHER": shaped("GATHER", np.array([0, 2]), axis=3),
    "GATHER_ND": shaped("GATHER_ND", np.array([[0, 1], [0, 3]])),
    "PACK": binary("PACK", axis=0, values_count=2),
    "UNPACK": shaped("UNPACK", shape=(2, 3, 4), out=(FLOAT, FLOAT), axis=0, num=2),
    "TILE": shaped("TILE", np.array([1, 2, 1, 1])),
    "BROADCAST_TO": shaped("BROADCAST_TO", np.array([4, 4, 4]), shape=(1, 1, 4)),
    "REVERSE_V2": shaped("REVERSE_V2", np.array([1])),
    "SPACE_TO_DEPTH": unary("SPACE_TO_DEPTH", block_size=2),
    "DEPTH_TO_SPACE": unary("DEPTH_TO_SPACE", block_size=2),
    "SPACE_TO_BATCH_ND": shaped("SPACE_TO_BATCH_ND", *BLOCKS),
    "BATCH_TO_SPACE_ND": shaped("BATCH_TO_SPACE_ND", *BLOCKS, shape=(4, 3, 3, 4)),
    "TOPK_V2": shaped("TOPK_V2", np.array(3), shape=(1, 10), out=(FLOAT, INT)),
    **{
        c: lambda b, c=c: b.op(c, b.const(np.arange(144).reshape(HWC) % 3 > 0), b.input(*HWC), b.input(*HWC))
        for c in ("SELECT", "SELECT_V2")
    },
    "DYNAMIC_UPDATE_SLICE": lambda b: b.op(
        "DYNAMIC_UPDATE_SLICE", b.input(4, 4), b.input(1, 2), b.const(np.array([1, 1]))
    ),
    "LOGISTIC": unary("LOGISTIC"),
    "TANH": unary("TANH"),
    "L2_NORMALIZATION": unary("L2_NORMALIZATION", **ACT),
    "SOFTMAX": unary("SOFTMAX", 1, 10, beta=1.0),
    "LOG_SOFTMAX": unary("LOG_SOFTMAX", 1, 10),
}  # fmt: skip


def test_every_kernel_has_a_case() -> None:
    assert set(CASES) == set(INT8_KERNELS.table)


@pytest.mark.parametrize("plain", [False, True], ids=["xnnpack", "builtin"])
@pytest.mark.parametrize(("scheme", "code"), [(s, c) for s in BY_SCHEME for c in BY_SCHEME[s].table])
def test_kernel(scheme: str, code: str, plain: bool) -> None:
    builder = Builder()
    made = CASES[code](builder)
    outputs = made if isinstance(made, list) else [made]
    program = builder.program(*outputs)
    feeds = samples(program)
    result = quantize(program, feeds, scheme=scheme, float_parts=())
    assert not result.float_operators
    assert [c for c in codes(result.program) if c not in {"QUANTIZE", "DEQUANTIZE"}] == [code]
    expected = run(program, *feeds[0].values(), plain=plain)
    found = run(result.program, *feeds[0].values(), plain=plain)
    operator = next(o for o in result.program.subgraphs[0].operators if o.code == code)
    for y, float_y, integer_y in zip(operator.outputs, expected, found, strict=True):
        assert float_y.shape == integer_y.shape
        if float_y.dtype == np.float32:
            assert y.dtype is BY_SCHEME[scheme].arithmetic.activation
            allowed = scale_of(y) * tolerance(code, operator)
            if scheme == "int16x8" and INT8_KERNELS.table[code].weighted:
                allowed = np.abs(float_y).max() / 100  # int8 weights, not activations, make the error
            assert np.abs(integer_y - float_y).max() <= allowed
        else:
            assert np.mean(integer_y == float_y) >= 0.9


@pytest.mark.parametrize("code", sorted(set(INT8_KERNELS.table) - set(INT16_KERNELS.table)))
def test_no_int16_kernel(code: str) -> None:
    builder = Builder()
    made = CASES[code](builder)
    program = builder.program(*(made if isinstance(made, list) else [made]))
    ((operator, why),) = quantize(program, scheme="int16x8").float_operators
    assert (operator.code, why) == (code, INT16_KERNELS.why_not(code))
    assert "int16" in why


def tolerance(code: str, operator) -> float:
    """Codes of the output: one for its own rounding, the rest for that of the inputs."""
    if code in {"CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED", "BATCH_MATMUL"}:
        return 4
    return 4 if INT8_KERNELS.table[code].fixed or not INT8_KERNELS.table[code].same_scale else 1.01


def test_reasons() -> None:
    assert INT8_KERNELS.why_not("RSQRT") == "its results span more orders of magnitude than 8 bits hold"
    assert INT16_KERNELS.why_not("DIV") == "its results span more orders of magnitude than 16 bits hold"
    assert INT8_KERNELS.why_not("CONV_3D") == "LiteRT has no int8 kernel for CONV_3D"


def test_op_without_kernel_stays_float() -> None:
    builder = Builder()
    program = builder.program(builder.op("NEG", builder.input(*HWC)))
    assert (
        quantize(program).float_operators[0][1] == "LiteRT's int8 kernel for it ignores scale and zero point"
    )
