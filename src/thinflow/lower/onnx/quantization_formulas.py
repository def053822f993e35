"""Quantization and dequantization bit for bit, as formulas.

The quantization parameters are those of `thinflow.ops._quantized`, step by step in the same precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thinflow.analysis.quant_params import QuantParams, params_of_range
from thinflow.ir.types import DOUBLE, FLOAT, INT8, INT32, INT64, QINT8, QUINT8, UINT8, DType
from thinflow.lower.onnx.builder import Builder, require, shape_of
from thinflow.lower.onnx.terms import Term, choose
from thinflow.onnx.program import Tensor
from thinflow.ops._quantized import Codes, codes_of

Three = tuple[Tensor, Tensor, Tensor]
"""Quantized values and the ends of their range."""


@dataclass(frozen=True)
class Range:
    """The range of the quantized values of one type.

    Attributes:
        low, high: the real values of the lowest and the highest value, float [].
        values: of the type.
        dtype: the integer type that holds them.
    """

    low: Term
    high: Term
    codes: Codes
    dtype: DType

    @property
    def width(self) -> Term:
        """In double, but rounded to float first."""
        # TensorFlow subtracts in float and divides in double: the last bit of a width decides where values
        # round.
        return (self.high - self.low).cast(DOUBLE)

    @property
    def is_empty(self) -> Term:
        return self.low.equals(self.high)


def range_of(b: Builder, low: Tensor | Term, high: Tensor | Term, element: DType) -> Range:
    """A range given by two tensors of one element."""
    ends = [t if isinstance(t, Term) else Term(b, b.reshaped(t, ())) for t in (low, high)]
    plain = b.plain(element)
    return Range(ends[0], ends[1], codes_of(plain.numpy()), plain)


def as_type(x: Term, element: DType) -> Term:
    """Whole numbers within the range of a type, in that type."""
    return x.cast(INT32).cast(element) if element is not INT32 else x.cast(INT32)


def dequantize_exactly(q: Term, r: Range) -> Term:
    """Quantized values as real ones, float (the mode MIN_FIRST)."""
    w = (r.width / float(r.codes.steps - 1)).cast(FLOAT)
    # The lower end moves to a multiple of the step, so that 0 is exact.
    least = choose(r.is_empty, r.low, (r.low / w).rounded_away() * w)
    base = least - w * float(r.codes.low)
    return q.cast(FLOAT) * w + base


def quantize_exactly(x: Term, r: Range) -> Term:
    """Real values quantized (the same mode)."""
    k = choose(r.is_empty, r.low * 0, (float(r.codes.steps - 1) / r.width).cast(FLOAT))
    zero = (r.low * k).rounded_away()
    v = (x * k).rounded_away() - (zero - float(r.codes.low))
    # 2**31 - 128 is the greatest float32 that int32 holds.
    return as_type(v.most(float(r.codes.low)).least(float(min(r.codes.high, 2147483520))), r.dtype)


def _per_code(t: Codes) -> float:
    """The part of a range that one step covers. `steps` is a power of two, so dividing by it first is exact.

    The factor steps / (steps - 1) alone is so near to 1 that ONNX Runtime would take it for 1.
    """
    return t.steps / (t.steps - 1.0) / t.steps


def unclamped_value(x: Term, r: Range) -> Term:
    """A real value (double) quantized, before saturation, int64."""
    t = r.codes
    # TensorFlow's steps / (width * (steps / (steps - 1))) to the last bit: a power of two scales exactly. It
    # rounds both products by themselves, too.
    k = 1.0 / (r.width * _per_code(t))
    code = (x * k).rounded_away() - (r.low.cast(DOUBLE) * k).rounded_away()
    return choose(r.is_empty, Term(x.b, x.b.int64(t.low)), code.cast(INT64) + t.low)


def quantized_value(x: Term, r: Range) -> Term:
    """A real value (double) quantized, int64."""
    return unclamped_value(x, r).most(r.codes.low).least(r.codes.high)


def real_value(q: Term, r: Range) -> Term:
    """The real value of a quantized one, float (as the scalar helpers of TensorFlow's kernels have it)."""
    t = r.codes
    w = r.width * _per_code(t)
    single = w.cast(FLOAT)
    least = ((r.low / single).rounded_away() * single).cast(DOUBLE)
    value = ((in_double(q, r) - float(t.low)) * w + least).cast(FLOAT)
    return choose(r.is_empty, r.low, value)


def in_double(q: Term, r: Range) -> Term:
    """Values in double. As in TensorFlow, 32-bit values lose their low bits to float."""
    return (q.cast(FLOAT) if r.dtype is INT32 else q).cast(DOUBLE)


def zero_point(r: Range) -> Term:
    """The zero point, not saturated, int64."""
    zero = Term(r.low.b, r.low.b.const(np.float64(0), "zero"))
    return unclamped_value(zero, r).cast(INT32).cast(INT64)


def scale_of(r: Range, steps: int | None = None) -> Term:
    """The scale."""
    count = r.codes.high - r.codes.low if steps is None else steps
    return (r.high - r.low) / float(count)


def wrapped(x: Term) -> Term:
    """Whole numbers reduced to int32."""
    return x.cast(INT64).cast(INT32)


def along(b: Builder, values: Tensor, x: Tensor, axis: int) -> Term:
    """Ends of ranges, shaped to broadcast against x."""
    if axis < 0:
        return Term(b, b.reshaped(values, ()))
    rank = len(shape_of(x, "x"))
    require(axis < rank, f"axis {axis} is out of range for rank {rank}")
    # Broadcasting lines axes up from the end, so sizes of 1 stand for the axes behind this one.
    return Term(b, b.unsqueezed(values, range(1, rank - axis)))


def three(b: Builder, values: Term, low: Term, high: Term) -> Three:
    """The outputs of a node: quantized values and the ends of their range."""
    return b.result(values.tensor), b.result(low.tensor, 1), b.result(high.tensor, 2)


def known_parameters(low: Tensor, high: Tensor, element: DType) -> QuantParams | None:
    """The quantization parameters of 8-bit values whose range is constant."""
    if element not in (UINT8, INT8) or not (low.is_constant and high.is_constant):
        return None
    least, most = low.array(), high.array()
    if least.size != 1 or most.size != 1:
        return None
    return params_of_range(
        float(least.reshape(())), float(most.reshape(())), QINT8 if element is INT8 else QUINT8
    )


def is_same(x: Tensor, y: Tensor) -> bool:
    """True if two ends of ranges are one tensor, or equal constants."""
    if x is y or not (x.is_constant and y.is_constant):
        return x is y
    return x.array().size == y.array().size == 1 and bool(x.array().reshape(()) == y.array().reshape(()))
