"""From 32-bit codes back to eight bits."""

from __future__ import annotations

import numpy as np

from thinflow.ir.types import QUINT8, DType, TensorSpec
from thinflow.ops._quantized import (
    F32,
    RANGE,
    QuantizedOp,
    QuantizedReader,
    by_blocks,
    codes_of,
    decode,
    encode,
    real_of,
    round_away,
    scalar,
    to_int64,
)
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

Three = tuple[TensorSpec, TensorSpec, TensorSpec]
Outputs = tuple[Array, Array, Array]


def _measured(q: Array, low: np.float32, high: np.float32) -> tuple[np.float32, np.float32]:
    """The reals of the least and greatest code in use; zero is kept in reach from below only."""
    # The neutral ends of minimum and maximum, with which TensorFlow starts.
    least, most = (int(q.min()), int(q.max())) if q.size else (2**31 - 1, -(2**31))
    real_least, real_most = (F32(real_of(np.array(c), low, high, np.int32)) for c in (least, most))
    return min(F32(0), real_least), real_most


def _to_quint8(q: Array, in_low: np.float32, in_high: np.float32, low: np.float32, high: np.float32) -> Array:
    """Fixed-point requantization to bytes, 16 fractional bits."""
    with np.errstate(all="ignore"):
        width_in, width = F32(in_high - in_low), F32(high - low)
        if width == 0:
            scale, reciprocal, offset = 0, F32(0), 0
        else:
            # Out codes per in code, times 2^32 and 2^16: the 32 bits are shifted out below, 16 stay
            # fractional.
            scale = int(to_int64(255.0 * 65536.0 * np.float64(width_in) / np.float64(width)))
            reciprocal = F32(F32(255) / width)
            offset = int(
                to_int64(round_away(np.float64(65536) * (np.float64(low) * 255) / np.float64(width)))
            )
        # 32-bit codes are signed: code 0 is the middle of the range.
        middle = F32(np.float64(F32(in_low + in_high)) / 2)
        in_offset = int(to_int64(F32(F32(middle * reciprocal) * F32(65536))))

    def moved(codes: Array) -> Array:
        # As in TensorFlow, 32-bit codes lose their low bits to float32.
        fixed = (codes.astype(F32) if codes.dtype == np.int32 else codes).astype(np.int64)
        fixed *= scale
        fixed >>= 32
        # Plus a half, then cut: the nearest, halves upwards.
        fixed += in_offset - offset + 32768
        fixed >>= 16
        return np.clip(fixed, 0, 255, out=fixed)

    return by_blocks(moved, q, np.uint8)


@op("RequantizationRange")
class RequantizationRange(QuantizedReader):
    """The range 32-bit codes really use.   codes qint32, min, max -> min, max."""

    traits = Trait.MEASURES_RANGE | Trait.GIVES_RANGE
    num_outputs = 2

    @staticmethod
    def infer(q: TensorSpec, low: TensorSpec, high: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return RANGE, RANGE

    @staticmethod
    def kernel(q: Array, low: Array, high: Array) -> tuple[Array, Array]:
        least, most = _measured(q, scalar(low), scalar(high))
        return np.asarray(least), np.asarray(most)

    @staticmethod
    def cost(y: TensorSpec, q: TensorSpec, *ranges: TensorSpec) -> Cost:
        return Cost(flops=2 * (q.size or 0))


@op("Requantize")
class Requantize(QuantizedOp):
    """Codes moved to another range and type.

    codes qint32, min, max, requested min, requested max -> out_type, min, max.
    """

    traits = Trait.QUANTIZED
    result_type = ("out_type", QUINT8)

    @staticmethod
    def infer(q: TensorSpec, *ranges: TensorSpec, out_type: DType = QUINT8) -> Three:
        return TensorSpec(out_type, q.shape), RANGE, RANGE

    @staticmethod
    def kernel(
        q: Array, low: Array, high: Array, wanted_low: Array, wanted_high: Array, *, out_type: DType = QUINT8
    ) -> Outputs:
        a, b, c, d = scalar(low), scalar(high), scalar(wanted_low), scalar(wanted_high)
        require(bool(c <= 0), f"requested_output_min is {c}, must be 0 or less")
        require(bool(d >= c), f"requested_output_max {d} is below requested_output_min {c}")
        if out_type is QUINT8:
            codes = _to_quint8(q, a, b, c, d)
        else:
            codes = encode(decode(q, a, b), c, d, out_type.numpy())
        return codes, np.asarray(c), np.asarray(d)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=4 * (y.size or 0))


@op("QuantizeDownAndShrinkRange")
class QuantizeDownAndShrinkRange(QuantizedOp):
    """RequantizationRange and Requantize in one.   codes qint32, min, max -> quint8, min, max."""

    traits = Trait.MEASURES_RANGE
    result_type = ("out_type", QUINT8)

    @staticmethod
    def infer(q: TensorSpec, low: TensorSpec, high: TensorSpec, *, out_type: DType = QUINT8) -> Three:
        return TensorSpec(out_type, q.shape), RANGE, RANGE

    @staticmethod
    def kernel(q: Array, low: Array, high: Array) -> Outputs:
        a, b = scalar(low), scalar(high)
        least, most = _measured(q, a, b)
        return _to_quint8(q, a, b, least, most), np.asarray(least), np.asarray(most)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=6 * (y.size or 0))


@op("RequantizationRangePerChannel")
class RequantizationRangePerChannel(OpDef):
    """The range that per-channel codes use, symmetric, at most clip_value_max.

    codes qint32 [...,c], min [c], max [c] -> min, max.
    """

    traits = Trait.MEASURES_RANGE | Trait.GIVES_RANGE
    num_outputs = 2

    @staticmethod
    def infer(q: TensorSpec, low: TensorSpec, high: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return RANGE, RANGE

    @staticmethod
    def kernel(q: Array, low: Array, high: Array, *, clip_value_max: float) -> tuple[Array, Array]:
        flat = np.abs(q.reshape(-1, q.shape[-1]).astype(np.int64))
        with np.errstate(all="ignore"):
            used = (
                np.maximum(np.abs(low), np.abs(high)) * flat.max(axis=0, initial=0).astype(F32) / F32(2.0**31)
            )
            # Not 0, by which the requantization divides.
            most = min(max(np.finfo(F32).tiny, F32(used.max(initial=0))), F32(clip_value_max))
        return np.asarray(F32(-most) if (q < 0).any() else F32(0)), np.asarray(F32(most))


@op("RequantizePerChannel")
class RequantizePerChannel(OpDef):
    """Per-channel codes moved to one range.

    codes qint32 [...,c], min [c], max [c], requested min, requested max -> out_type, min, max.
    """

    num_outputs = 3

    @staticmethod
    def infer(q: TensorSpec, *ranges: TensorSpec, out_type: DType = QUINT8) -> Three:
        return TensorSpec(out_type, q.shape), RANGE, RANGE

    @staticmethod
    def kernel(
        q: Array, low: Array, high: Array, wanted_low: Array, wanted_high: Array, *, out_type: DType = QUINT8
    ) -> Outputs:
        c, d = scalar(wanted_low), scalar(wanted_high)
        dtype = out_type.numpy()
        t = codes_of(dtype)
        with np.errstate(all="ignore"):
            each = np.maximum(np.abs(low), np.abs(high)).astype(F32)
            # oneDNN's: symmetric, so one factor per channel and no offset; rounded to even.
            k = F32(t.high) * (each / max(abs(c), abs(d)) / F32(2.0**31))
            codes = np.clip(np.rint(q.astype(F32) * k), t.low, t.high).astype(dtype)
        return codes, np.asarray(c), np.asarray(d)
