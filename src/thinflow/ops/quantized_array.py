"""Ops on eight-bit codes that hand their range on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thinflow.ir.types import QUINT8, DType, TensorSpec
from thinflow.ops._interpolate import infer_resize, linear, target_size
from thinflow.ops._quantized import (
    F32,
    RANGE,
    SECOND_INPUT_IS_PLAIN,
    QuantizedOp,
    code_of,
    codes_of,
    decode,
    encode,
    is_native,
    number,
    scalar,
    truncated_division,
)
from thinflow.ops._shapes import Dim, product
from thinflow.ops.pool import MaxPool, window_sums
from thinflow.ops.registry import Cost, op, require
from thinflow.ops.resize import resize_bilinear
from thinflow.ops.traits import Trait
from thinflow.typing import Array

Three = tuple[TensorSpec, TensorSpec, TensorSpec]
Outputs = tuple[Array, Array, Array]


class _Activation(QuantizedOp):
    traits = Trait.QUANTIZED | Trait.KEEPS_RANGE | Trait.RECTIFIER
    result_type = ("out_type", QUINT8)

    @staticmethod
    def infer(q: TensorSpec, *rest: TensorSpec, out_type: DType = QUINT8) -> Three:
        return TensorSpec(out_type, q.shape), RANGE, RANGE


def _clamped(q: Array, low: Array, high: Array, top: float | None) -> Outputs:
    """Codes clamped to those of 0 and top, in this order."""
    a, b = scalar(low), scalar(high)
    # A top below 0 wins, as it is taken last.
    y = np.maximum(q, code_of(0.0, a, b, q.dtype).astype(q.dtype))
    if top is not None:
        y = np.minimum(y, code_of(top, a, b, q.dtype).astype(q.dtype))
    return y, low, high


@op("QuantizedRelu")
class QuantizedRelu(_Activation):
    """max(q, code of 0).   codes, min, max -> codes, min, max."""

    @staticmethod
    def kernel(q: Array, low: Array, high: Array) -> Outputs:
        return _clamped(q, low, high, None)


@op("QuantizedRelu6")
class QuantizedRelu6(_Activation):
    """Codes clamped to those of 0 and 6.   codes, min, max -> codes, min, max."""

    @staticmethod
    def kernel(q: Array, low: Array, high: Array) -> Outputs:
        return _clamped(q, low, high, 6.0)


@op("QuantizedReluX")
class QuantizedReluX(_Activation):
    """Codes clamped to those of 0 and max_value.   codes, max_value, min, max -> codes, min, max."""

    operands = SECOND_INPUT_IS_PLAIN

    @staticmethod
    def kernel(q: Array, top: Array, low: Array, high: Array) -> Outputs:
        return _clamped(q, low, high, float(scalar(top)))


class _Pool(QuantizedOp):
    traits = Trait.QUANTIZED | Trait.KEEPS_RANGE

    @staticmethod
    def infer(
        q: TensorSpec,
        low: TensorSpec,
        high: TensorSpec,
        *,
        ksize: Sequence[int],
        strides: Sequence[int],
        padding: str,
    ) -> Three:
        return MaxPool.infer(q, ksize=ksize, strides=strides, padding=padding), RANGE, RANGE

    @staticmethod
    def cost(y: TensorSpec, q: TensorSpec, *ranges: TensorSpec, ksize: Sequence[int]) -> Cost:
        return MaxPool.cost(y, q, ksize=ksize)


@op("QuantizedMaxPool")
class QuantizedMaxPool(_Pool):
    """MaxPool of codes.   codes [n,h,w,c], min, max -> codes [n,oh,ow,c], min, max."""

    @staticmethod
    def kernel(
        q: Array, low: Array, high: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str
    ) -> Outputs:
        return MaxPool.kernel(q, ksize=ksize, strides=strides, padding=padding), low, high


@op("QuantizedAvgPool")
class QuantizedAvgPool(_Pool):
    """Mean of codes, rounded to even (truncated by native kernels).

    codes [n,h,w,c], min, max -> codes [n,oh,ow,c], min, max.
    """

    @staticmethod
    def kernel(
        q: Array, low: Array, high: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str
    ) -> Outputs:
        total, count = window_sums(q.astype(np.int64), ksize, strides, padding)
        mean = truncated_division(total, count) if is_native() else np.rint(total / count)
        return mean.astype(q.dtype), low, high


@op("QuantizedReshape")
class QuantizedReshape(QuantizedOp):
    """Codes in another shape.   codes, shape [r], min, max -> codes, min, max."""

    traits = Trait.QUANTIZED | Trait.KEEPS_RANGE
    operands = SECOND_INPUT_IS_PLAIN

    @staticmethod
    def infer(q: TensorSpec, shape: TensorSpec, low: TensorSpec, high: TensorSpec) -> Three:
        return TensorSpec(q.dtype, _reshaped(q, shape)), RANGE, RANGE

    @staticmethod
    def kernel(q: Array, shape: Array, low: Array, high: Array) -> Outputs:
        return q.reshape(tuple(int(d) for d in shape.reshape(-1))), low, high

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost()


def _reshaped(q: TensorSpec, shape: TensorSpec) -> tuple[Dim, ...] | None:
    """The shape asked for, with -1 settled where possible."""
    if shape.elements is None:
        rank = shape.shape[0] if shape.shape else None
        return None if rank is None else (None,) * rank
    wanted: list[Dim] = list(shape.elements)
    if -1 in wanted:
        at = wanted.index(-1)
        others = product(wanted[:at] + wanted[at + 1 :])
        wanted[at] = q.size // others if q.size is not None and others else None
    return tuple(wanted)


@op("QuantizedConcat")
class QuantizedConcat(QuantizedOp):
    """Codes joined along an axis, in the union of their ranges.

    axis, n codes, n mins, n maxes -> codes, min, max.
    """

    traits = Trait.QUANTIZED
    operands = ()  # three inputs for each part: all values, then all lower ends, then all upper ones

    @staticmethod
    def infer(axis: TensorSpec, *rest: TensorSpec) -> Three:
        parts = rest[: len(rest) // 3]
        shapes = [p.shape for p in parts if p.shape is not None]
        dtype = parts[0].dtype if parts else None
        if not shapes:
            return TensorSpec(dtype, None), RANGE, RANGE
        rank = len(shapes[0])
        require(all(len(s) == rank for s in shapes), "the inputs have different ranks")
        dims: list[Dim] = [next((s[i] for s in shapes if s[i] is not None), None) for i in range(rank)]
        if not axis.ints:
            return TensorSpec(dtype, (None,) * rank), RANGE, RANGE
        require(0 <= axis.ints[0] < rank, f"concat_dim {axis.ints[0]} is out of range for rank {rank}")
        along = [s[axis.ints[0]] for s in shapes]
        dims[axis.ints[0]] = (
            sum(d or 0 for d in along) if None not in along and len(shapes) == len(parts) else None
        )
        return TensorSpec(dtype, tuple(dims)), RANGE, RANGE

    @staticmethod
    def kernel(axis: Array, *rest: Array) -> Outputs:
        require(
            len(rest) >= 3 and len(rest) % 3 == 0, f"there are {len(rest) + 1} inputs, 3 n + 1 are needed"
        )
        n = len(rest) // 3
        parts, lows, highs = (
            rest[:n],
            [scalar(v) for v in rest[n : 2 * n]],
            [scalar(v) for v in rest[2 * n :]],
        )
        dim = int(axis)
        require(0 <= dim < parts[0].ndim, f"concat_dim {dim} is out of range for rank {parts[0].ndim}")
        low, high = min(lows), max(highs)
        # 32-bit codes stand for symmetric ranges, in which real 0 is code 0.
        if parts[0].dtype == np.int32:
            high = max(abs(low), abs(high))
            low = F32(-high)
        moved = [
            # A part that has the range already keeps its codes exactly.
            q if (a, b) == (low, high) else encode(decode(q, a, b), low, high, q.dtype)
            for q, a, b in zip(parts, lows, highs, strict=True)
        ]
        return np.concatenate(moved, axis=dim), np.asarray(low), np.asarray(high)


@op("QuantizedResizeBilinear")
class QuantizedResizeBilinear(QuantizedOp):
    """ResizeBilinear of codes in fixed point.

    codes [n,h,w,c], size [2], min, max -> codes [n,*size,c], min, max.
    """

    traits = Trait.QUANTIZED | Trait.KEEPS_RANGE
    operands = SECOND_INPUT_IS_PLAIN

    @staticmethod
    def infer(q: TensorSpec, size: TensorSpec, low: TensorSpec, high: TensorSpec) -> Three:
        return infer_resize(q, size, q.dtype), RANGE, RANGE

    @staticmethod
    def kernel(
        q: Array,
        size: Array,
        low: Array,
        high: Array,
        *,
        align_corners: bool = False,
        half_pixel_centers: bool = False,
    ) -> Outputs:
        height, width = target_size(q, size)
        if q.shape[1:3] == (height, width):
            return q, low, high
        if q.dtype == np.float32:
            return resize_bilinear(q, height, width, align_corners, half_pixel_centers), low, high
        # Fractional bits of TensorFlow's kernel: 8-bit codes and 7 bits fit into 16, 32-bit codes and 30 into
        # 64.
        bits = 7 if q.dtype == np.uint8 else 30
        rows = linear(q.shape[1], height, align_corners, half_pixel_centers)
        columns = linear(q.shape[2], width, align_corners, half_pixel_centers)
        wy, wx = (np.trunc(by.fraction * F32(1 << bits)).astype(np.int64) for by in (rows, columns))
        codes = number(q).astype(np.int64)
        left, right = codes[:, :, columns.low], codes[:, :, columns.high]
        across = (left << bits) + (right - left) * wx[:, None]
        top, bottom = across[:, rows.low], across[:, rows.high]
        # Divided before it is multiplied, at the cost of low bits: else 30 and 30 bits would leave int64.
        y = top + truncated_division(bottom - top, 1 << bits) * wy[:, None, None]
        return truncated_division(y + (1 << (bits - 1)), 1 << bits).astype(q.dtype), low, high


@op("QuantizedInstanceNorm")
class QuantizedInstanceNorm(QuantizedOp):
    """(x - mean) / sqrt(variance + eps) per image and channel.

    codes quint8 [n,h,w,c], min, max -> codes, min, max.
    """

    traits = Trait.QUANTIZED

    @staticmethod
    def infer(q: TensorSpec, low: TensorSpec, high: TensorSpec) -> Three:
        return q.with_shape(q.shape), RANGE, RANGE

    @staticmethod
    def kernel(
        q: Array,
        low: Array,
        high: Array,
        *,
        output_range_given: bool = False,
        given_y_min: float = 0.0,
        given_y_max: float = 0.0,
        variance_epsilon: float = 1e-5,
        min_separation: float = 1e-3,
    ) -> Outputs:
        require(q.ndim == 4 and q.size > 0, f"codes have shape {list(q.shape)}, a filled [n,h,w,c] is needed")
        a, b = scalar(low), scalar(high)
        require(bool(a < b), f"range {a} to {b} is empty")
        t = codes_of(q.dtype)
        scale = F32(F32(b - a) / F32(t.high - t.low))
        # The mean of codes, so the zero point cancels out; sums in double, as TensorFlow's own order cannot
        # be repeated.
        deviation = (q - q.mean(axis=(1, 2), keepdims=True, dtype=np.float64)).astype(F32) * scale
        variance = np.mean(np.square(deviation), axis=(1, 2), keepdims=True, dtype=np.float64)
        y = (deviation / np.sqrt(variance + variance_epsilon)).astype(F32)
        least, most = (F32(given_y_min), F32(given_y_max)) if output_range_given else (y.min(), y.max())
        # A flat image has no range to quantize in.
        if most - least < min_separation:
            most = F32(least + F32(min_separation))
        return encode(y, least, most, q.dtype), np.asarray(least), np.asarray(most)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=8 * (y.size or 0))
