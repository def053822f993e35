"""Arithmetic on integers that LiteRT's kernels do not take: in a wider type, or by other operators; exact."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL, INT32, INT64, DType
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, require
from thinflow.lower.tflite.kernels import types_of
from thinflow.tflite.model import Tensor

_WIDER = {1: INT32, 2: INT32, 4: INT64}
"""By the bytes of an element. Sums and products that overflow there wrap as they would have."""


def arithmetic(b: Builder, code: str, x: Tensor, y: Tensor) -> Tensor:
    """The result of an operator of two operands, computed in wider integers if it needs them."""
    wide = _wider(code, x)
    if wide is None or y.quantization is not None:
        return b.emit(code, x, y)
    operands = b.cast(x, wide), b.cast(y, wide)
    spec = b.result_spec()
    if spec.dtype is BOOL:
        return b.emit(code, *operands)
    made = b.step(code, *operands, shape=spec.shape, element=wide)
    return b.emit("CAST", made, in_data_type=wide, out_data_type=x.dtype)


@lower("LeftShift", to="tflite")
def left_shift(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """x * 2^y, whose bits beyond the type are cut off; y as far as TensorFlow goes, to the last bit."""
    bits = 8 * x.dtype.numpy().itemsize
    require(x.dtype is INT64 or bits < 64, f"LiteRT does not compute with {x.dtype}")
    places = b.cast(y, INT64)
    for code, end in (("MAXIMUM", 0), ("MINIMUM", bits - 1)):
        places = b.step(code, places, b.const(np.int64(end), "end"), shape=y.shape)
    powers = b.const(np.left_shift(np.int64(1), np.arange(bits)), "powers")
    factor = b.step("GATHER", powers, places, shape=y.shape)
    operands = b.cast(x, INT64), factor
    if x.dtype is INT64:
        return b.emit("MUL", *operands)
    made = b.step("MUL", *operands, shape=b.result_spec().shape)
    return b.emit("CAST", made, in_data_type=INT64, out_data_type=x.dtype)


def _wider(code: str, x: Tensor) -> DType | None:
    """The type in which a kernel computes for another one; None where it takes that, or none would do."""
    types = types_of(code)
    # Quantized numbers have kernels of their own.
    if not types or x.dtype.name in types or not x.dtype.is_integer or x.quantization is not None:
        return None
    wide = _WIDER.get(x.dtype.numpy().itemsize)
    return wide if wide is not None and wide.name in types else None
