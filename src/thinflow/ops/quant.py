"""From reals to codes and back: QuantizeV2, Dequantize and the QuantizeAndDequantize ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from thinflow.ir.types import FLOAT, QINT8, QUINT8, DType, TensorSpec
from thinflow.ops._quantized import (
    F32,
    Codes,
    QuantizedOp,
    QuantizedReader,
    codes_of,
    decode,
    encode,
    flush,
    is_native,
    round_away,
    to_int32,
)
from thinflow.ops._shapes import Dim
from thinflow.ops.registry import Cost, OpDef, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array


def _range_spec(x: TensorSpec, axis: int) -> TensorSpec:
    """The spec of a range: scalar, or one value per slice along the axis."""
    if axis < 0:
        return TensorSpec(FLOAT, ())
    size: Dim = None
    if x.shape is not None:
        require(axis < len(x.shape), f"axis {axis} is out of range for rank {len(x.shape)}")
        size = x.shape[axis]
    return TensorSpec(FLOAT, (size,))


def _along(values: Array, x: Array, axis: int) -> Array:
    """Range values shaped to broadcast against x."""
    if axis < 0:
        require(values.size == 1, f"a range has shape {list(values.shape)}, a scalar is needed")
        return values.reshape(())
    require(axis < x.ndim, f"axis {axis} is out of range for rank {x.ndim}")
    require(
        values.shape == (x.shape[axis],),
        f"a range has shape {list(values.shape)}, [{x.shape[axis]}] is needed",
    )
    return values.reshape((-1,) + (1,) * (x.ndim - 1 - axis))


def _min_combined(x: Array, a: Array, b: Array, t: Codes, dtype: np.dtype[Any]) -> Array:
    # Signed codes are shifted down by half their number and rounded; unsigned ones get a half and are cut.
    k = (np.float64(t.high - t.low) / (b - a).astype(np.float64)).astype(F32)
    scaled = (np.maximum(np.minimum(x, b), a) - a) * k
    return to_int32(scaled + F32(0.5) if not t.low else round_away(scaled - F32(t.half))).astype(dtype)


def _scaled(
    x: Array, a: Array, b: Array, t: Codes, dtype: np.dtype[Any], even: bool, narrow: bool
) -> tuple[Array, Array, Array]:
    """Codes and the range they really span; zero is code 0."""
    low, high = F32(t.low + (1 if narrow else 0)), F32(t.high)
    limit = np.finfo(F32).max
    # The end that needs the coarser grid decides; one of the wrong sign or 0 (the product is not positive)
    # has no say.
    by_low = np.where(low * a > 0, low / a, limit)
    by_high = np.where(high * b > 0, high / b, limit)
    s = np.minimum(by_low, by_high).astype(F32)
    a, b = np.asarray(flush((low / s).astype(F32))), np.asarray(flush((high / s).astype(F32)))
    v = np.maximum(np.minimum(x, b), a) * s
    return to_int32(np.rint(v) if even else round_away(v)).astype(dtype), a, b


def _has_onednn_kernel(mode: str, even: bool, T: DType) -> bool:
    return (mode == "MIN_FIRST" and T is QUINT8) or (mode == "SCALED" and even and T in {QUINT8, QINT8})


def _onednn(
    x: Array, a: np.float32, b: np.float32, mode: str, dtype: np.dtype[Any]
) -> tuple[Array, Any, Any]:
    """Codes as oneDNN rounds them: to even, on a grid that is not moved to hold zero."""
    t = codes_of(dtype)
    if mode == "SCALED":
        # 127.5, not 127: oneDNN's scale for int8, which does not match the range it reports.
        most = max(abs(a), abs(b))
        k = F32(F32(127.5 if t.low else 255) / most)
        codes = np.minimum(np.maximum(np.rint(x * k), F32(t.low)), F32(t.high))
        return to_int32(codes).astype(dtype), -most if t.low else F32(0), most
    k = F32(F32(255) / F32(b - a))
    if x.ndim == 0:
        return (
            to_int32((x - a) * k).astype(dtype),
            a,
            b,
        )  # a kernel of its own, without rounding or saturation
    # The grid starts at a, wherever zero falls: some 6 % of random values get another code than from the
    # kernel that oneDNN replaces.
    codes = np.rint(x * k + F32(F32(-a) * k))
    return np.where(np.isnan(codes), F32(255), np.clip(codes, 0, 255)).astype(np.int32).astype(dtype), a, b


@op("QuantizeV2")
class QuantizeV2(QuantizedOp):
    """Codes of reals, and the range in use.   x float, min, max -> codes T like x, min, max.

    MIN_FIRST puts zero on the grid, MIN_COMBINED does not, SCALED is symmetric. The range is first widened to
    hold zero and to be at least ensure_minimum_range of its magnitude.
    """

    traits = Trait.QUANTIZE
    operands = ()

    @staticmethod
    def infer(
        x: TensorSpec, low: TensorSpec, high: TensorSpec, *, T: DType = QUINT8, axis: int = -1
    ) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        spec = _range_spec(x, axis)
        return TensorSpec(T, x.shape), spec, spec

    @staticmethod
    def kernel(
        x: Array,
        low: Array,
        high: Array,
        *,
        T: DType = QUINT8,
        mode: str = "MIN_COMBINED",
        round_mode: str = "HALF_AWAY_FROM_ZERO",
        narrow_range: bool = False,
        axis: int = -1,
        ensure_minimum_range: float = 0.01,
    ) -> tuple[Array, Array, Array]:
        require(mode in {"MIN_COMBINED", "MIN_FIRST", "SCALED"}, f"mode {mode} is not known")
        require(mode == "SCALED" or round_mode != "HALF_TO_EVEN", "HALF_TO_EVEN needs mode SCALED")
        require(mode != "MIN_FIRST" or axis < 0, "MIN_FIRST quantizes the whole tensor; axis must be -1")
        low, high = _along(low, x, axis), _along(high, x, axis)
        require(not np.any(high < low), "max_range is below min_range")
        dtype = T.numpy()
        t = codes_of(dtype)
        with np.errstate(all="ignore"):
            a = np.minimum(F32(0), low)
            # Zero is inside from here on. A range of no width would divide by 0, so it is made at least that
            # share of its magnitude wide.
            margin = np.maximum(F32(1), np.maximum(np.abs(low), np.abs(high))) * F32(ensure_minimum_range)
            b = np.maximum(F32(0), np.maximum(high, a + margin))
            even = round_mode == "HALF_TO_EVEN"
            if axis < 0 and not narrow_range and not is_native() and _has_onednn_kernel(mode, even, T):
                codes, a, b = _onednn(x, F32(a), F32(b), mode, dtype)
            elif mode == "MIN_FIRST":
                codes = encode(x, F32(a), F32(b), dtype)
            elif mode == "MIN_COMBINED":
                codes = _min_combined(x, a, b, t, dtype)
            else:
                codes, a, b = _scaled(x, a, b, t, dtype, even, narrow_range)
        shape = () if axis < 0 else (-1,)
        return codes, np.asarray(a, F32).reshape(shape), np.asarray(b, F32).reshape(shape)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=3 * (y.size or 0))


@op("Dequantize")
class Dequantize(QuantizedReader):
    """Reals of codes.

    codes T, min, max -> float (or bfloat16) like codes. The modes are those of QuantizeV2.
    """

    traits = Trait.DEQUANTIZE

    @staticmethod
    def infer(q: TensorSpec, low: TensorSpec, high: TensorSpec, *, dtype: DType = FLOAT) -> TensorSpec:
        return TensorSpec(dtype, q.shape)

    @staticmethod
    def kernel(
        q: Array,
        low: Array,
        high: Array,
        *,
        mode: str = "MIN_COMBINED",
        narrow_range: bool = False,
        axis: int = -1,
        dtype: DType = FLOAT,
    ) -> Array:
        require(mode in {"MIN_COMBINED", "MIN_FIRST", "SCALED"}, f"mode {mode} is not known")
        require(mode != "MIN_FIRST" or axis < 0, "MIN_FIRST decodes the whole tensor; axis must be -1")
        t = codes_of(q.dtype)
        a, b = _along(low, q, axis), _along(high, q, axis)
        with np.errstate(all="ignore"):
            if mode == "MIN_FIRST":
                y = decode(q, F32(a), F32(b))
            elif mode == "MIN_COMBINED":
                k = flush((b - a) / F32(F32(t.high) - F32(t.low)))
                y = (q.astype(F32) + F32(t.half)) * k + a
            else:
                k = b / F32(t.high)
                least = t.low + (1 if narrow_range else 0)
                if t.low or (narrow_range and q.dtype == np.uint8 and not is_native()):
                    k = np.maximum(a / F32(least), k)
                # A 32-bit code hops through int32 once more, where the largest ones overflow.
                values = q.astype(F32)
                y = (to_int32(values).astype(F32) if q.dtype == np.int32 and axis < 0 else values) * k
        return np.asarray(y).astype(dtype.numpy(), copy=False)

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=2 * (y.size or 0))


def _quantize_and_dequantize(
    x: Array,
    low: Array,
    high: Array,
    bits: int,
    signed: bool,
    given: bool,
    half_up: bool,
    narrow: bool,
    axis: int,
) -> Array:
    """Round x to the grid that `bits` bits span over the range, in the type of x."""
    # TensorFlow's limits: 2^bits must stay within int64.
    require(1 <= bits <= (61 if signed else 62), f"num_bits is {bits}")
    kind = x.dtype.type
    if given:
        low, high = _along(low, x, axis), _along(high, x, axis)
        require(not np.any(low > high), "input_min is above input_max")
    elif not x.size:
        return x
    else:
        others = tuple(i for i in range(x.ndim) if i != axis) if axis >= 0 else None
        low, high = (np.asarray(f(x, axis=others, keepdims=axis >= 0), x.dtype) for f in (np.min, np.max))
    least = kind((-(1 << (bits - 1)) + (1 if narrow else 0)) if signed else 0)
    most = kind((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    limit = np.finfo(x.dtype).max
    with np.errstate(all="ignore"):
        by_low = np.where(least * low > 0, least / low, limit)
        by_high = np.where(most * high > 0, most / high, limit)
        # scale and its inverse are both divided from the deciding end, as 1 / scale would round twice.
        low_decides = by_low < by_high
        scale = np.where(low_decides, by_low, by_high).astype(x.dtype)
        inverse = np.where(low_decides, low / least, high / most).astype(x.dtype)
        if given:
            adjusted_low = np.where(low_decides, low, least * inverse).astype(x.dtype)
            adjusted_high = np.where(low_decides, most * inverse, high).astype(x.dtype)
            # A measured range needs no clamp: nothing lies outside it.
            x = np.maximum(np.minimum(x, adjusted_high), adjusted_low)
        scaled = x * scale
        return np.asarray((np.floor(scaled + kind(0.5)) if half_up else np.rint(scaled)) * inverse)


@op("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
class QuantizeAndDequantizeV2(OpDef):
    """x rounded to the grid of num_bits over a symmetric range; stays float.

    x, input_min, input_max -> like x.

    Without range_given the range is measured: of the whole tensor, or of each slice along axis.
    """

    traits = Trait.SIMULATES_QUANTIZATION

    @staticmethod
    def infer(x: TensorSpec, low: TensorSpec, high: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(
        x: Array,
        low: Array,
        high: Array,
        *,
        signed_input: bool = True,
        num_bits: int = 8,
        range_given: bool = False,
        round_mode: str = "HALF_TO_EVEN",
        narrow_range: bool = False,
        axis: int = -1,
    ) -> Array:
        half_up = round_mode == "HALF_UP"
        return _quantize_and_dequantize(
            x, low, high, num_bits, signed_input, range_given, half_up, narrow_range, axis
        )

    @staticmethod
    def cost(y: TensorSpec, *xs: TensorSpec) -> Cost:
        return Cost(flops=5 * (y.size or 0))


@op("QuantizeAndDequantizeV3")
class QuantizeAndDequantizeV3(OpDef):
    """As V2 with num_bits an int32 input; the range is given unless stated otherwise."""

    traits = Trait.SIMULATES_QUANTIZATION

    @staticmethod
    def infer(x: TensorSpec, low: TensorSpec, high: TensorSpec, bits: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(
        x: Array,
        low: Array,
        high: Array,
        bits: Array,
        *,
        signed_input: bool = True,
        range_given: bool = True,
        narrow_range: bool = False,
        axis: int = -1,
    ) -> Array:
        return _quantize_and_dequantize(
            x, low, high, int(bits), signed_input, range_given, False, narrow_range, axis
        )


@op("QuantizeAndDequantize")
class QuantizeAndDequantize(OpDef):
    """The first version, whose range is two attributes."""

    traits = Trait.SIMULATES_QUANTIZATION

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    @staticmethod
    def kernel(
        x: Array,
        *,
        signed_input: bool = True,
        num_bits: int = 8,
        range_given: bool = False,
        input_min: float = 0.0,
        input_max: float = 0.0,
    ) -> Array:
        low, high = np.asarray(input_min, x.dtype), np.asarray(input_max, x.dtype)
        return _quantize_and_dequantize(x, low, high, num_bits, signed_input, range_given, False, False, -1)
