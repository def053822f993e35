"""A program around each op that has an integer kernel in LiteRT."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.quantize.programs import INT, POOL, Builder
from thinflow.ir.types import BOOL, FLOAT, INT64
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
