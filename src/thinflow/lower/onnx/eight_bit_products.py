"""Convolutions and matrix products of eight-bit codes, brought back to eight bits by the kernel itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from thinflow.ir.types import FLOAT, INT8, INT32, UINT8
from thinflow.lower.onnx.builder import Builder
from thinflow.lower.onnx.eight_bit import Coded, Target, Wide, constant_reals, decoded, scaled
from thinflow.lower.onnx.eight_bit_layers import products_of
from thinflow.lower.onnx.integers import Conv, as_product, is_product
from thinflow.lower.onnx.merged_columns import merged
from thinflow.onnx.program import Tensor

_DEEP = 96
"""Products per sum from which on those of eight bits are worth copying what windows see."""
_MOST = 2**30
"""A bias beyond might overflow the sum that it is added to."""


def convolution(
    b: Builder, conv: Conv, x: Coded, w: Coded, sums: Callable[[], Tensor], low: Tensor, high: Tensor
) -> Wide:
    """The forms of a convolution whose 32-bit sums are given."""
    layer = products_of(conv, x, w)

    def narrow(to: Target) -> Tensor:
        found = None if layer is None or not to.scale.is_constant else layer.narrow(b, to)
        if found is not None:
            return found
        rest = (w.scale, w.zero, to.scale, to.zero, *_bias(b, x, w, to, conv.shape[3]))
        code = "com.microsoft.QLinearConv" if b.extended else "QLinearConv"
        return conv.emit(b, code, w.codes, *rest, of_x=(x.scale, x.zero), element=UINT8)

    def reals() -> Tensor:
        if is_product(conv, w.codes):
            return scaled(b, sums(), x.scale, w.scale)
        found = _of_blocks(b, conv, x, w)
        return _of_reals(b, conv, x, w) if found is None else found

    return Wide(low, high, narrow, reals, products=layer)


def _of_blocks(b: Builder, conv: Conv, x: Coded, w: Coded) -> Tensor | None:
    """A convolution of few channels as a product of blocks of columns; None where that is no quicker."""
    if not (w.codes.is_constant and w.zero.is_constant) or "group" in conv.options:
        return None
    zero = int(w.zero.array())
    codes = w.codes.array().astype(np.int16) - zero
    found = merged(b, conv, codes) if math.prod(codes.shape[:3]) >= _DEEP else None
    if found is None:
        return None
    blocks, filters, _ = found
    weights = b.const((filters + zero).astype(np.int8), "blocks", INT8)
    product = as_product(b, blocks, weights, (x.zero, w.zero))
    return b.reshaped(scaled(b, product, x.scale, w.scale), conv.shape)


def _of_reals(b: Builder, conv: Conv, x: Coded, w: Coded) -> Tensor:
    """The convolution of what codes stand for, by a kernel for floats: quicker where sums are short."""
    image = decoded(b, replace(x, codes=conv.x))
    weights = constant_reals(w)
    filters = decoded(b, w) if weights is None else b.const(weights.astype(np.float32), "filters")
    return replace(conv, x=image).emit(b, "Conv", filters, element=FLOAT)


def _bias(b: Builder, x: Coded, w: Coded, to: Target, count: int | None) -> tuple[Tensor, ...]:
    """What to add to the sums, int32 [k]; nothing if the width of a sum is not known."""
    if x.unit is None or w.unit is None or not count:
        return ()
    bias = round(to.shift / (x.unit * w.unit))
    return (b.const(np.full(count, bias, np.int32), "bias", INT32),) if 0 < abs(bias) < _MOST else ()


def matrix_product(b: Builder, x: Coded, w: Coded, low: Tensor, high: Tensor) -> tuple[Tensor, Wide]:
    """The 32-bit sums of a matrix product, int32 [m,n], and their other forms."""
    shape = b.result_spec().shape
    q = b.step("MatMulInteger", x.codes, w.codes, x.zero, w.zero, shape=shape, element=INT32)

    def narrow(to: Target) -> Tensor:
        inputs = (x.codes, x.scale, x.zero, w.codes, w.scale, w.zero, to.scale, to.zero)
        return b.step("QLinearMatMul", *inputs, shape=shape, element=UINT8)

    return q, Wide(low, high, narrow, lambda: scaled(b, q, x.scale, w.scale))
