"""Eight-bit products and sums, which widen to 32-bit codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from thinflow.ir.types import QINT32, DType, TensorSpec
from thinflow.ops._quantized import (
    F32,
    RANGE,
    TWO_OPERANDS,
    QuantizedOp,
    QuantizedOperand,
    by_blocks,
    code_of,
    decode,
    encode,
    level,
    product_range,
    real_of,
    scalar,
    truncated_division,
    unclamped_code,
    wrap,
    zero_code,
)
from thinflow.ops._shapes import broadcast
from thinflow.ops._windows import convolve, depthwise, layout, window
from thinflow.ops.conv import Conv2D, DepthwiseConv2dNative
from thinflow.ops.linear import MatMul
from thinflow.ops.registry import Cost, op, require
from thinflow.ops.traits import Trait
from thinflow.typing import Array

Three = tuple[TensorSpec, TensorSpec, TensorSpec]
Outputs = tuple[Array, Array, Array]


def _ordered(*pairs: tuple[np.float32, np.float32]) -> None:
    for low, high in pairs:
        require(bool(high > low), f"range {low} to {high} is empty")


def _wide(x: Array, w: Array) -> tuple[Array, Array]:
    """Both in the narrowest floats in which every sum of products is exact, however BLAS orders them.

    As wrapping int32 where even double might round.

    Args:
        x: integers in any type.
        w: likewise, [..., m]; a sum takes each of one m at most once.
    """
    # Sums of integers in float32 are exact until they reach 2**24, and never come back from there.
    kind = np.float32 if w.dtype == np.float32 or w.dtype.itemsize == 1 else np.float64
    weights = np.abs(w.astype(kind, copy=False)).sum(axis=tuple(range(w.ndim - 1)), dtype=kind)
    largest = float(weights.max(initial=0)) * _largest(x)
    # Below these bounds every partial sum is a whole number that the type holds exactly, in whatever order
    # BLAS adds.
    wide = np.float32 if largest < 2**24 else np.float64 if largest < 2**52 else np.int32
    return x.astype(wide, copy=False), w.astype(wide, copy=False)


def _largest(x: Array) -> float:
    return max(-float(x.min()), float(x.max())) if x.size else 0.0


def _centred(q: Array, low: np.float32, high: np.float32) -> Array:
    """Codes minus the code of zero: float32 if that is exact, else int64."""
    # The code of 0 is not saturated: a range far from 0 has it far outside the bytes.
    zero = zero_code(low, high, q.dtype)
    is_exact = q.dtype.itemsize == 1 and abs(zero) < 2**23
    centred: Array = q.astype(np.float32 if is_exact else np.int64)
    return np.subtract(centred, zero, out=centred)


@op("QuantizedMatMul")
class QuantizedMatMul(QuantizedOp):
    """sum (a - zero_a)(b - zero_b).

    a [m,k], b [k,n] quint8, min_a, max_a, min_b, max_b -> qint32 [m,n], min, max.
    """

    traits = Trait.QUANTIZED | Trait.QUANTIZED_PRODUCT | Trait.REFUSES_EMPTY_RANGE
    operands = TWO_OPERANDS
    result_type = ("Toutput", QINT32)
    operand_ranks = (2, 2)

    @staticmethod
    def infer(
        a: TensorSpec,
        b: TensorSpec,
        *ranges: TensorSpec,
        Toutput: DType = QINT32,
        transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> Three:
        shape = MatMul.infer(a, b, transpose_a=transpose_a, transpose_b=transpose_b).shape
        return TensorSpec(Toutput, shape), RANGE, RANGE

    @staticmethod
    def kernel(
        a: Array,
        b: Array,
        min_a: Array,
        max_a: Array,
        min_b: Array,
        max_b: Array,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
    ) -> Outputs:
        la, ha, lb, hb = scalar(min_a), scalar(max_a), scalar(min_b), scalar(max_b)
        _ordered((la, ha), (lb, hb))
        x, w = _centred(a.T if transpose_a else a, la, ha), _centred(b.T if transpose_b else b, lb, hb)
        y = wrap(np.matmul(*_wide(x, w)))
        return y, *product_range(level(la, ha, a.dtype), level(lb, hb, b.dtype))

    @staticmethod
    def cost(
        y: TensorSpec, a: TensorSpec, b: TensorSpec, *ranges: TensorSpec, transpose_a: bool = False
    ) -> Cost:
        return MatMul.cost(y, a, b, transpose_a=transpose_a)


def _code_level(low: np.float32, high: np.float32, q: Array) -> np.float32:
    """Width of one code; signed filters are symmetric and never use the lowest."""
    return level(low, high, q.dtype, 254 if q.dtype == np.int8 else None)


def origin_pads(size: int, k: int, stride: int, padding: str) -> tuple[int, int, int]:
    """Pixels before, pixels after (negative: cut off) and output size along one axis.

    This is not the geometry of the float convolution: when the stride leaves pixels over, windows move to the
    centre.
    """
    out = -(-size // stride) if padding == "SAME" else max(-(-(size - k + 1) // stride), 0)
    # TensorFlow's reference convolution divides (C, towards zero) the pixels that windows miss or exceed by
    # two.
    total = (out - 1) * stride + k - size
    before = int(truncated_division(total if padding == "SAME" else total + 1, 2))
    return before, total - before, out


def _bordered(x: Array, pads: Sequence[tuple[int, int]], value: int) -> Array:
    """x [n,h,w,c] with borders of a value added, or cut where negative."""
    for axis, (before, after) in enumerate(pads, 1):
        cut = slice(max(-before, 0), x.shape[axis] - max(-after, 0))
        x = x[(slice(None),) * axis + (cut,)]
    grown = [(0, 0), *((max(b, 0), max(a, 0)) for b, a in pads), (0, 0)]
    return np.pad(x, grown, constant_values=value)


class _QuantizedConvolution(QuantizedOp):
    """Base of the convolutions of codes: shapes and cost are those of the float op `plain`."""

    traits = Trait.QUANTIZED | Trait.QUANTIZED_PRODUCT
    operands = TWO_OPERANDS
    result_type = ("out_type", QINT32)
    operand_ranks = (4, 4)
    plain: ClassVar[type[Conv2D | DepthwiseConv2dNative]]

    @classmethod
    def infer(
        cls,
        x: TensorSpec,
        w: TensorSpec,
        *ranges: TensorSpec,
        strides: Sequence[int],
        padding: str,
        dilations: Sequence[int] = (1, 1, 1, 1),
        out_type: DType = QINT32,
    ) -> Three:
        y = cls.plain.infer(x, w, strides=strides, padding=padding, dilations=dilations)
        return TensorSpec(out_type, y.shape), RANGE, RANGE

    @classmethod
    def cost(cls, y: TensorSpec, x: TensorSpec, w: TensorSpec, *ranges: TensorSpec) -> Cost:
        return cls.plain.cost(y, x, w)


@op("QuantizedConv2D")
class QuantizedConv2D(_QuantizedConvolution):
    """sum (x - zero_x)(w - zero_w).

    x [n,h,w,c], filter [kh,kw,c,m], four range ends -> qint32 [n,oh,ow,m], min, max.

    A qint8 filter has zero at code 0, and so has then x; the geometry is that of Conv2D in that case.
    """

    plain = Conv2D

    @staticmethod
    def kernel(
        x: Array,
        w: Array,
        min_x: Array,
        max_x: Array,
        min_w: Array,
        max_w: Array,
        *,
        strides: Sequence[int],
        padding: str,
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> Outputs:
        lx, hx, lw, hw = scalar(min_x), scalar(max_x), scalar(min_w), scalar(max_w)
        win = window(layout("NHWC"), w.shape[:2], strides, padding, dilations)
        limits = product_range(_code_level(lx, hx, x), _code_level(lw, hw, w))
        # oneDNN's kernel (quint8 by qint8): raw codes without zero offsets, the geometry of the float
        # convolution.
        if w.dtype == np.int8:
            return wrap(convolve(*_wide(x, w), win)), *limits
        require(win.dilations == (1, 1), "quantized convolutions have no dilations")
        require(win.strides[0] == win.strides[1], "quantized convolutions need equal strides")
        zero = zero_code(lx, hx, x.dtype)
        # Padding is real zero, but a zero code above 255 is written into a byte on the way.
        border = (zero % 256) - zero if zero > 255 else 0
        axes = [
            origin_pads(n, k, s, padding) for n, k, s in zip(x.shape[1:3], win.size, win.strides, strict=True)
        ]
        if min(out for _, _, out in axes) == 0:
            return np.zeros((x.shape[0], *(out for _, _, out in axes), w.shape[3]), np.int32), *limits
        bordered = _bordered(_centred(x, lx, hx), [(before, after) for before, after, _ in axes], border)
        y = convolve(*_wide(bordered, _centred(w, lw, hw)), win, pads=((0, 0), (0, 0)))
        return wrap(y), *limits


@op("QuantizedDepthwiseConv2D")
class QuantizedDepthwiseConv2D(_QuantizedConvolution):
    """sum x * w per channel, zero being code 0.

    x [n,h,w,c] quint8, filter [kh,kw,c,m] qint8 -> qint32 [n,oh,ow,c*m], min, max.
    """

    plain = DepthwiseConv2dNative

    @staticmethod
    def kernel(
        x: Array,
        w: Array,
        min_x: Array,
        max_x: Array,
        min_w: Array,
        max_w: Array,
        *,
        strides: Sequence[int],
        padding: str,
        dilations: Sequence[int] = (1, 1, 1, 1),
    ) -> Outputs:
        win = window(layout("NHWC"), w.shape[:2], strides, padding, dilations)
        y = wrap(depthwise(*_wide(x, w), win))
        limits = product_range(
            _code_level(scalar(min_x), scalar(max_x), x), _code_level(scalar(min_w), scalar(max_w), w)
        )
        return y, *limits


@op("QuantizedBiasAdd")
class QuantizedBiasAdd(QuantizedOp):
    """x + bias as reals, in a range wide enough for sums.

    x [...,c], bias [c], four range ends -> qint32 like x, min, max.
    """

    traits = Trait.QUANTIZED
    operands = TWO_OPERANDS
    result_type = ("out_type", QINT32)
    operand_ranks = (2, 1)

    @staticmethod
    def infer(x: TensorSpec, bias: TensorSpec, *ranges: TensorSpec, out_type: DType = QINT32) -> Three:
        return TensorSpec(out_type, x.shape), RANGE, RANGE

    @staticmethod
    def kernel(x: Array, bias: Array, min_x: Array, max_x: Array, min_b: Array, max_b: Array) -> Outputs:
        require(
            x.ndim >= 2 and bias.shape == x.shape[-1:],
            f"bias {list(bias.shape)} does not fit x {list(x.shape)}",
        )
        lx, hx, lb, hb = scalar(min_x), scalar(max_x), scalar(min_b), scalar(max_b)
        with np.errstate(over="ignore", invalid="ignore"):
            # 2^17 times the inputs' range: each takes 14 of 31 bits, and sums have room; symmetric, so that 0
            # + 0 is 0.
            most = F32(max(hx, -lx, hb, -lb) * F32(1 << 17))

        def widened(q: Array, low: np.float32, high: np.float32) -> Array:
            return encode(decode(q, low, high), -most, most, np.int32)

        total = by_blocks(lambda q: widened(q, lx, hx), x, np.int32)
        total += widened(bias, lb, hb)  # int32 wraps, as it does there
        # TensorFlow adds the code of 0 once more, which is 0 unless rounding makes it another.
        total += code_of(0.0, -most, most, np.int32).astype(np.int32)
        return total, np.asarray(-most), np.asarray(most)


def widened(q: Array, low: np.float32, high: np.float32, most: np.float32, as_scalar: bool) -> Array:
    """Codes moved to the 32-bit range -most..most, int32."""
    if as_scalar:
        return code_of(real_of(q, low, high, q.dtype), -most, most, np.int32).astype(np.int32)
    # Many codes are moved linearly, by the images of codes 0 and 1; a single one by its own real value.
    # TensorFlow has both ways, and they round differently.
    zero, one = (
        int(unclamped_code(real_of(np.array(c), low, high, q.dtype), -most, most, np.int32)) for c in (0, 1)
    )

    def moved(codes: Array) -> Array:
        return np.clip(zero + codes.astype(np.int64) * (one - zero), -(2**31), 2**31 - 1).astype(np.int32)

    # 256 products instead of one per element.
    return moved(np.arange(256))[q] if q.dtype == np.uint8 else moved(q)


class _Binary(QuantizedOp):
    traits = Trait.QUANTIZED | Trait.REFUSES_EMPTY_RANGE
    operands = TWO_OPERANDS
    result_type = ("Toutput", QINT32)
    operand_ranks = (1, 1)

    @staticmethod
    def infer(x: TensorSpec, y: TensorSpec, *ranges: TensorSpec, Toutput: DType = QINT32) -> Three:
        return TensorSpec(Toutput, broadcast(x.shape, y.shape)), RANGE, RANGE


@op("QuantizedAdd")
class QuantizedAdd(_Binary):
    """x + y as reals.   x, y quint8 of broadcastable shapes, four range ends -> qint32, min, max."""

    @staticmethod
    def kernel(x: Array, y: Array, min_x: Array, max_x: Array, min_y: Array, max_y: Array) -> Outputs:
        lx, hx, ly, hy = scalar(min_x), scalar(max_x), scalar(min_y), scalar(max_y)
        _ordered((lx, hx), (ly, hy))
        with np.errstate(over="ignore"):
            # 2^14 here: each input takes 17 of 31 bits.
            most = F32(max(abs(min(lx, ly)), abs(max(hx, hy))) * F32(1 << 14))
        x_alone = x.size == 1
        total = np.add(
            widened(x, lx, hx, most, x_alone), widened(y, ly, hy, most, y.size == 1 and not x_alone)
        )
        return total, np.asarray(-most), np.asarray(most)


@op("QuantizedMul")
class QuantizedMul(_Binary):
    """(x - zero_x)(y - zero_y).

    x, y quint8 of broadcastable shapes, four range ends -> qint32, min, max.
    """

    @staticmethod
    def kernel(x: Array, y: Array, min_x: Array, max_x: Array, min_y: Array, max_y: Array) -> Outputs:
        lx, hx, ly, hy = scalar(min_x), scalar(max_x), scalar(min_y), scalar(max_y)
        _ordered((lx, hx), (ly, hy))
        product = _centred(x, lx, hx).astype(np.int64) * _centred(y, ly, hy)
        return wrap(product), *product_range(level(lx, hx, x.dtype), level(ly, hy, y.dtype))


@op("QuantizedBatchNormWithGlobalNormalization")
class QuantizedBatchNormWithGlobalNormalization(QuantizedOp):
    """(t - mean) / sqrt(variance + eps) [* gamma] + beta in 32-bit fixed point.

    t [n,h,w,c], mean, variance, beta, gamma [c], all quint8 and each followed by its range -> qint32 like t,
    min, max.
    """

    traits = Trait.QUANTIZED
    operands = tuple(QuantizedOperand(i, i + 1, i + 2) for i in range(0, 15, 3))
    result_type = ("out_type", QINT32)
    operand_ranks = (4, 1, 1, 1, 1)

    @staticmethod
    def infer(t: TensorSpec, *rest: TensorSpec, out_type: DType = QINT32) -> Three:
        return TensorSpec(out_type, t.shape), RANGE, RANGE

    @staticmethod
    def kernel(*inputs: Array, variance_epsilon: float, scale_after_normalization: bool) -> Outputs:
        require(len(inputs) == 15, f"there are {len(inputs)} inputs, 15 are needed")
        t, mean, variance, beta, gamma = (
            real_of(inputs[i], scalar(inputs[i + 1]), scalar(inputs[i + 2]), inputs[i].dtype)
            for i in range(0, 15, 3)
        )
        # 2^31 codes over 2^20: 11 fractional bits for everything.
        most = F32(1 << 20)
        with np.errstate(all="ignore"):
            scale = F32(1) / np.sqrt(variance + F32(variance_epsilon))
            if scale_after_normalization:
                scale = scale * gamma
            offset = -mean * scale + beta
        codes = [code_of(v, -most, most, np.int32) for v in (t, scale, offset, F32(1))]
        product = wrap(codes[0] * codes[1]).astype(np.int64)
        return (
            # The product of two codes has the scale twice; the code of 1 takes one out.
            wrap(truncated_division(product, int(codes[3])) + codes[2]),
            np.asarray(-most),
            np.asarray(most),
        )
