"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, require_nhwc
from thinflow.lower.tflite.pad import grown
from thinflow.lower.tflite.program import Tensor


def _pool(
    b: Builder, code: str, x: Tensor, ksize: Sequence[int], strides: Sequence[int], padding: str
) -> Tensor:
    require(len(ksize) == 4 and len(strides) == 4, "ksize and strides need four values")
    outer = (ksize[0], ksize[3], strides[0], strides[3])
    require(outer == (1, 1, 1, 1), "TFLite does not pool over batch or channels")
    return b.emit(
        code,
        x,
        padding=padding,
        stride_h=strides[1],
        stride_w=strides[2],
        filter_height=ksize[1],
        filter_width=ksize[2],
    )


@lower("AvgPool", to="tflite")
def avg_pool(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    data_format: str = "NHWC",
) -> Tensor:
    """The border does not count in the average, as in TensorFlow."""
    require_nhwc(data_format, "pools")
    return _pool(b, "AVERAGE_POOL_2D", x, ksize, strides, padding)


@lower("MaxPool", to="tflite")
def max_pool(
    b: Builder,
    node: Node,
    x: Tensor,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
) -> Tensor:
    """Explicit padding becomes a border of the lowest number."""
    require_nhwc(data_format, "pools")
    if padding == "EXPLICIT":
        require(x.dtype is FLOAT, f"LiteRT has no MAX_POOL_2D for {x.dtype}, only for float")
        pairs = [(explicit_paddings[2 * a], explicit_paddings[2 * a + 1]) for a in range(4)]
        # No finite pixel is less, so the border never wins.
        lowest = b.scalar(float(np.finfo(np.float32).min), x, "lowest")
        border = b.const(np.array(pairs, np.int32), "paddings")
        x = b.step("PADV2", x, border, lowest, shape=grown(x.shape, pairs))
        padding = "VALID"
    return _pool(b, "MAX_POOL_2D", x, ksize, strides, padding)


@lower("MaxPoolV2", to="tflite")
def max_pool_v2(
    b: Builder,
    node: Node,
    x: Tensor,
    ksize: Tensor,
    strides: Tensor,
    *,
    padding: str,
    data_format: str = "NHWC",
) -> Tensor:
    require_nhwc(data_format, "pools")
    return _pool(b, "MAX_POOL_2D", x, ints(ksize, "ksize"), ints(strides, "strides"), padding)
