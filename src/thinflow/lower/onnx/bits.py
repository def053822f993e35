"""Bits of integers."""

from __future__ import annotations

import numpy as np

from thinflow.ir.graph import Node
from thinflow.ir.types import DType, dtype
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.lower.rules import lower
from thinflow.onnx.program import Tensor

_UNSIGNED = {"int8": "uint8", "int16": "uint16", "int32": "uint32", "int64": "uint64"}
# The types of ONNX Runtime's kernels of BitShift.
_SHIFTED = frozenset({"uint8", "uint32", "uint64"})


def _unsigned(b: Builder, x: Tensor) -> Tensor:
    """The same bits as an unsigned number of a type that ONNX Runtime shifts."""
    name = _UNSIGNED.get(x.dtype.name, x.dtype.name)
    return b.cast(b.cast(x, dtype(name)), dtype(name if name in _SHIFTED else "uint32"))


def _distance(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The distance, clamped as TensorFlow does it: at least 0, and at most one less than all bits."""
    bits = 8 * x.dtype.itemsize
    if y.dtype.name == "uint64":
        # Beyond int64 it would turn negative.
        return Term(b, y).least(bits - 1).index().tensor
    far = Term(b, b.cast(y, dtype("int64")))
    positive = choose(far > 0, far, 0)
    return choose(positive < bits, positive, bits - 1).tensor


@lower("LeftShift", to="onnx")
def left_shift(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    require(x.dtype.is_integer, f"bits of {x.dtype} cannot be shifted")
    low = _unsigned(b, x)
    shifted = b.step("BitShift", low, b.cast(_distance(b, x, y), low.dtype), direction="LEFT")
    # Through the unsigned type of x's own size, which cuts off what was shifted beyond it.
    return b.result(b.cast(b.cast(shifted, dtype(_UNSIGNED.get(x.dtype.name, x.dtype.name))), x.dtype))


@lower("RightShift", to="onnx")
def right_shift(b: Builder, node: Node, x: Tensor, y: Tensor) -> Tensor:
    """The sign moves in from above: of a negative number the complement is shifted."""
    require(x.dtype.is_integer, f"bits of {x.dtype} cannot be shifted")
    low = _unsigned(b, x)
    distance = b.cast(_distance(b, x, y), low.dtype)
    if x.dtype.name not in _UNSIGNED:
        return b.result(b.cast(b.step("BitShift", low, distance, direction="RIGHT"), x.dtype))
    # -x - 1 is the complement of x, and is not negative where x is; int64's least wraps around to the right
    # number.
    wide = Term(b, b.cast(x, dtype("int64")))
    negative = wide < 0
    positive = b.step("Where", negative.tensor, (wide * -1 - 1).tensor, wide.tensor)
    unsigned = _unsigned(b, b.cast(positive, x.dtype))
    shifted = Term(b, b.cast(b.step("BitShift", unsigned, distance, direction="RIGHT"), dtype("int64")))
    back = b.step("Where", negative.tensor, (shifted * -1 - 1).tensor, shifted.tensor)
    return b.result(b.cast(back, x.dtype))


@lower("PopulationCount", to="onnx")
def population_count(b: Builder, node: Node, x: Tensor) -> Tensor:
    """The sum of the bits, each shifted to the lowest place."""
    require(x.dtype.is_integer, f"{x.dtype} has no bits to count")
    low = _unsigned(b, x)
    bits = 8 * x.dtype.itemsize
    rank = len(shape_of(x, "x"))
    places = b.const(np.arange(bits).astype(low.dtype.numpy()), "places", low.dtype)
    shifted = b.step("BitShift", b.unsqueezed(low, [rank]), places, direction="RIGHT")
    if low.dtype.name == "uint64":  # the low half is enough, and has kernels
        shifted = b.cast(shifted, dtype("uint32"))
    odd = b.step("Mod", b.cast(shifted, dtype("int64")), b.int64(2))
    return b.result(b.cast(b.reduce("ReduceSum", odd, [rank]), dtype("uint8")))


@lower("Bitcast", to="onnx")
def bitcast(b: Builder, node: Node, x: Tensor, *, type: DType) -> Tensor:
    """Between integers of one size, where converting keeps the bits."""
    wanted = b.plain(type)
    # Between floats and integers a Cast would convert, and up to opset 21 no operator of ONNX reads bits.
    both_whole = x.dtype.kind in "iu" and wanted.kind in "iu"
    require(
        x.dtype is wanted or (both_whole and x.dtype.itemsize == wanted.itemsize),
        f"the bytes of {x.dtype} cannot be read as {type} in ONNX",
    )
    return b.result(b.cast(x, wanted))
