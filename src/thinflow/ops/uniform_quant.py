"""Uniformly quantized ops: real = (code - zero_point) * scale, per tensor or along one axis.

Scales and zero points are scalars, or vectors along the quantization axis. Rescaling multiplies by a 31-bit
fixed-point number and a power of two, rounding once, as LiteRT's single-rounding mode does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, QINT8, QINT32, DType, TensorSpec
from thinflow.ops._quantized import to_int32
from thinflow.ops._shapes import broadcast, merge, rank_of
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.typing import Array

_F = np.float32
_INT32 = np.iinfo(np.int32)


def _along(values: Array, rank: int, axis: int) -> Array:
    """Scales or zero points, so that they broadcast along the axis."""
    if axis < 0 or values.ndim == 0:
        require(values.size == 1, f"{values.size} values where one per tensor is needed")
        return values.reshape((1,) * rank)
    require(axis < rank, f"quantization axis {axis} is out of range for rank {rank}")
    return values.reshape([-1 if a == axis else 1 for a in range(rank)])


def _fixed_point(scale: Any) -> tuple[Array, Array]:
    """Positive factors as (multiplier, shift): multiplier * 2^(shift - 31), the multiplier below 2^31."""
    scale = np.asarray(scale, np.float64)
    require(bool((np.isfinite(scale) & (scale > 0)).all()), "a ratio of scales is not positive")
    fraction, shift = np.frexp(scale)
    multiplier = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64)
    # The fraction rounded up to 1: half of it, and one power of two more.
    full = multiplier == 1 << 31
    multiplier, shift = np.where(full, 1 << 30, multiplier), np.where(full, shift + 1, shift)
    # LiteRT's limits: factors below 2^-31 become 0, those above 2^30 the largest there is.
    tiny, huge = shift < -31, shift > 30
    multiplier = np.where(tiny, 0, np.where(huge, (1 << 31) - 1, multiplier))
    return multiplier, np.clip(shift, -31, 30).astype(np.int64) * ~tiny


def _rescaled(x: Array, scale: Any) -> Array:
    """x * scale, rounded to int64 within the range of int32."""
    multiplier, shift = _fixed_point(scale)
    places = 31 - shift
    # Half a unit is added and the rest cut off: to the nearest, halves upwards. int32 times 31 bits fits
    # int64.
    y = (x.astype(np.int64) * multiplier + (np.int64(1) << (places - 1))) >> places
    return np.asarray(np.clip(y, _INT32.min, _INT32.max))


def _clipped(y: Array, low: int, high: int, kind: DType) -> Array:
    return np.asarray(np.maximum(np.minimum(y, high), low)).astype(kind.numpy())


@op("UniformQuantize")
class UniformQuantize(OpDef):
    """y = floor(x / scale + 1/2) + zero_point, clipped.   x [...], scales and zero_points -> codes like x."""

    @staticmethod
    def infer(x: TensorSpec, scales: TensorSpec, zeros: TensorSpec, *, Tout: DType = QINT8) -> TensorSpec:
        return TensorSpec(Tout, x.shape)

    @staticmethod
    def kernel(
        x: Array, scales: Array, zeros: Array, *, quantization_min_val: int, quantization_max_val: int,
        quantization_axis: int = -1, Tout: DType = QINT8,
    ) -> Array:  # fmt: skip
        # TensorFlow multiplies by the inverse, which rounds differently from a division.
        inverse = _F(1) / _along(scales, x.ndim, quantization_axis)
        steps = to_int32(np.floor(x.astype(_F) * inverse + _F(0.5))).astype(np.int64)
        codes = steps + _along(zeros, x.ndim, quantization_axis)
        return _clipped(codes, quantization_min_val, quantization_max_val, Tout)

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, scales: TensorSpec, zeros: TensorSpec) -> Cost:
        return Cost(flops=3 * (y.size or 0))


@op("UniformDequantize")
class UniformDequantize(OpDef):
    """y = (x - zero_point) * scale.   Codes x [...], scales and zero_points -> float like x."""

    @staticmethod
    def infer(x: TensorSpec, scales: TensorSpec, zeros: TensorSpec, *, Tout: DType = FLOAT) -> TensorSpec:
        return TensorSpec(Tout, x.shape)

    @staticmethod
    def kernel(
        x: Array, scales: Array, zeros: Array, *, quantization_axis: int = -1, Tout: DType = FLOAT
    ) -> Array:
        steps = x.astype(np.int64) - _along(zeros, x.ndim, quantization_axis)
        return (steps.astype(_F) * _along(scales, x.ndim, quantization_axis)).astype(Tout.numpy())

    @staticmethod
    def cost(y: TensorSpec, x: TensorSpec, scales: TensorSpec, zeros: TensorSpec) -> Cost:
        return Cost(flops=2 * (y.size or 0))


@op("UniformRequantize")
class UniformRequantize(OpDef):
    """Codes of one scale as codes of another.   x [...], its scales and zero points, then the output's."""

    @staticmethod
    def infer(
        x: TensorSpec, scales: TensorSpec, zeros: TensorSpec, new_scales: TensorSpec, new_zeros: TensorSpec,
        *, Tout: DType = QINT8,
    ) -> TensorSpec:  # fmt: skip
        return TensorSpec(Tout, x.shape)

    @staticmethod
    def kernel(
        x: Array, scales: Array, zeros: Array, new_scales: Array, new_zeros: Array, *,
        output_quantization_min_val: int, output_quantization_max_val: int,
        input_quantization_axis: int = -1, output_quantization_axis: int = -1, Tout: DType = QINT8,
    ) -> Array:  # fmt: skip
        old, new = input_quantization_axis, output_quantization_axis
        ratio = _along(scales, x.ndim, old).astype(np.float64) / _along(new_scales, x.ndim, new)
        codes = _rescaled(x.astype(np.int64) - _along(zeros, x.ndim, old), ratio)
        codes = codes + _along(new_zeros, x.ndim, new)
        return _clipped(codes, output_quantization_min_val, output_quantization_max_val, Tout)


@op("UniformQuantizedClipByValue")
class UniformQuantizedClipByValue(OpDef):
    """Codes limited to [low, high], themselves codes of the scales' shape.   x [...] -> like x."""

    @staticmethod
    def infer(
        x: TensorSpec, low: TensorSpec, high: TensorSpec, scales: TensorSpec, zeros: TensorSpec
    ) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(
        x: Array, low: Array, high: Array, scales: Array, zeros: Array, *, quantization_axis: int = -1
    ) -> Array:
        least, most = (_along(v, x.ndim, quantization_axis) for v in (low, high))
        return np.asarray(np.maximum(np.minimum(x, most), least))


@op("UniformQuantizedAdd")
class UniformQuantizedAdd(OpDef):
    """The sum of two tensors of codes, as codes of the output's scales.   They broadcast."""

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, a_scales: TensorSpec, a_zeros: TensorSpec, b_scales: TensorSpec,
        b_zeros: TensorSpec, scales: TensorSpec, zeros: TensorSpec, *, T: DType = QINT32,
    ) -> TensorSpec:  # fmt: skip
        return TensorSpec(T, broadcast(a.shape, b.shape))

    @staticmethod
    def kernel(
        a: Array, b: Array, a_scales: Array, a_zeros: Array, b_scales: Array, b_zeros: Array, scales: Array,
        zeros: Array, *, output_quantization_min_val: int, output_quantization_max_val: int,
        lhs_quantization_axis: int = -1, rhs_quantization_axis: int = -1, output_quantization_axis: int = -1,
        T: DType = QINT32,
    ) -> Array:  # fmt: skip
        rank = max(a.ndim, b.ndim)
        new_scale = _along(scales, rank, output_quantization_axis)
        total: Any = _along(zeros, rank, output_quantization_axis).astype(np.int64)
        for x, old_scale, old_zero, axis in (
            (a, a_scales, a_zeros, lhs_quantization_axis),
            (b, b_scales, b_zeros, rhs_quantization_axis),
        ):
            # Broadcasting adds axes in front, which moves the quantization axis.
            axis = axis if axis < 0 else axis + rank - x.ndim
            wide = x.reshape((1,) * (rank - x.ndim) + x.shape).astype(np.int64)
            ratio = _along(old_scale, rank, axis).astype(np.float64) / new_scale
            total = total + _rescaled(wide - _along(old_zero, rank, axis), ratio)
        return _clipped(total, output_quantization_min_val, output_quantization_max_val, T)


def _product_shape(a: TensorSpec, b: TensorSpec) -> tuple[int | None, int | None]:
    (m, k), (inner, n) = rank_of(a, 2, "lhs"), rank_of(b, 2, "rhs")
    merge((k,), (inner,))
    return m, n


@op("UniformQuantizedDot")
class UniformQuantizedDot(OpDef):
    """Codes of a @ b at the output's scales.   a [m,k], b [k,n] qint8 -> [m,n] qint32.

    b may have a scale per column, then the output too.
    """

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, a_scales: TensorSpec, a_zeros: TensorSpec, b_scales: TensorSpec,
        b_zeros: TensorSpec, scales: TensorSpec, zeros: TensorSpec, *, Tout: DType = QINT32,
    ) -> TensorSpec:  # fmt: skip
        return TensorSpec(Tout, _product_shape(a, b))

    @staticmethod
    def kernel(
        a: Array, b: Array, a_scales: Array, a_zeros: Array, b_scales: Array, b_zeros: Array, scales: Array,
        zeros: Array, *, output_quantization_min_val: int, output_quantization_max_val: int,
        Tout: DType = QINT32,
    ) -> Array:  # fmt: skip
        require(a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0], "the matrices do not multiply")
        total = (a.astype(np.int64) - a_zeros) @ (b.astype(np.int64) - b_zeros)
        # The accumulator is int32 in TensorFlow, and wraps.
        wrapped = total.astype(np.int32)
        codes = _rescaled(wrapped, a_scales.astype(np.float64) * b_scales / scales) + zeros
        return _clipped(codes, output_quantization_min_val, output_quantization_max_val, Tout)

    @staticmethod
    def cost(
        y: TensorSpec, a: TensorSpec, b: TensorSpec, a_scales: TensorSpec, a_zeros: TensorSpec,
        b_scales: TensorSpec, b_zeros: TensorSpec, scales: TensorSpec, zeros: TensorSpec,
    ) -> Cost:  # fmt: skip
        macs = (y.size or 0) * ((a.shape or (0, 0))[1] or 0)
        return Cost(flops=2 * macs, macs=macs)


def _quantized_rows(x: Array) -> tuple[Array, Array, Array]:
    """(codes, scales, zero points) of rows [m,k], each by its own range, which includes 0; -128 to 127."""
    low = np.minimum(x.min(axis=1, initial=0), 0).astype(np.float64)
    high = np.maximum(x.max(axis=1, initial=0), 0).astype(np.float64)
    empty = low == high
    # Rows of zeros have no range; any scale gives them code 0.
    scale = np.where(empty, 1.0, (high - low) / 255)
    from_low, from_high = -128 - low / scale, 127 - high / scale
    # LiteRT's choice of the zero point: from the end of the range at which rounding errs less.
    nearer = 128 + np.abs(low / scale) < 127 + np.abs(high / scale)
    exact = np.where(nearer, from_low, from_high)
    zero = np.where(empty, 0, np.clip(np.floor(exact + 0.5), -128, 127)).astype(np.int64)
    inverse = (1 / scale).astype(_F)[:, None]
    codes = np.floor(x * inverse + _F(0.5)).astype(np.int64) + zero[:, None]
    return np.clip(codes, -128, 127), scale.astype(_F), zero


@op("UniformQuantizedDotHybrid")
class UniformQuantizedDotHybrid(OpDef):
    """a @ b with b of codes; the rows of a are quantized too.   a float [m,k], b [k,n] -> [m,n]."""

    @staticmethod
    def infer(
        a: TensorSpec, b: TensorSpec, b_scales: TensorSpec, b_zeros: TensorSpec, *, Tout: DType = FLOAT
    ) -> TensorSpec:
        return TensorSpec(Tout, _product_shape(a, b))

    @staticmethod
    def kernel(a: Array, b: Array, b_scales: Array, b_zeros: Array, *, Tout: DType = FLOAT) -> Array:
        require(a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0], "the matrices do not multiply")
        codes, scales, zeros = _quantized_rows(a)
        total = (codes - zeros[:, None]) @ (b.astype(np.int64) - b_zeros)
        y = total.astype(np.int32).astype(_F) * scales[:, None] * b_scales
        return y.astype(Tout.numpy())

    @staticmethod
    def cost(y: TensorSpec, a: TensorSpec, b: TensorSpec, b_scales: TensorSpec, b_zeros: TensorSpec) -> Cost:
        macs = (y.size or 0) * ((a.shape or (0, 0))[1] or 0)
        return Cost(flops=2 * macs, macs=macs)
