"""ONNX's quantized ops: operands become real numbers, results are quantized.

x -> scale * (x - zero_point)        y -> clip(round(y / scale) + zero_point)
"""

from __future__ import annotations

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32, INT64, UINT8, DType, dtype
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.math import matmul
from thinflow.lift.onnx.values import NUMBERS, integers, rank, typed
from thinflow.lift.onnx.windows import convolution
from thinflow.lift.rules import Rule, lifts

_DOUBLE = dtype("double")


def _sided(c: Call, parameter: Value, axis: int, count: int) -> Value:
    """A scale or zero point as it meets the tensor: a scalar, or along an axis."""
    shape = parameter.spec.shape
    if shape is None:
        raise UnsupportedOp("the size of its scale is not known")
    # A vector of one element is one scale for all, whatever axis is named.
    if shape in ((), (1,)):
        return c.emit("Reshape", parameter, integers(c, ()), Tshape=INT64)
    if len(shape) > 1:
        raise UnsupportedOp("it has a scale per block")
    sides = [1] * count
    sides[axis % count] = -1
    return c.emit("Reshape", parameter, integers(c, sides), Tshape=INT64)


def real(c: Call, x: int, scale: int, zero: int, axis: int = 1) -> Value:
    """The real numbers of an operand, whose scale and zero point are other operands; float32."""
    count = rank(c, x)
    # float32 holds integers of up to 24 bits exactly.
    y = typed(c, c[x], FLOAT)
    if c.has(zero):
        y = c.emit("Sub", y, typed(c, _sided(c, c[zero], axis, count), FLOAT))
    return c.emit("Mul", y, typed(c, _sided(c, c[scale], axis, count), FLOAT))


def quantized(c: Call, y: Value, scale: Value, zero: Value | None, kind: DType) -> Value:
    """Real numbers quantized to a type; scale and zero point go with them as they are shaped."""
    # TensorFlow's Round takes halves to even, as ONNX wants it.
    steps = c.emit("Round", c.emit("RealDiv", y, scale))
    if zero is not None:
        # Behind the rounding: with an odd zero point, halves would otherwise go the other way.
        steps = c.emit("AddV2", steps, typed(c, zero, FLOAT))
    info = np.iinfo(kind.numpy())
    low, high = (c.constant(np.array(n, np.float32)) for n in (info.min, info.max))
    bounded = c.emit("Minimum", c.emit("Maximum", steps, low), high)
    return c.emit("Cast", bounded, SrcT=FLOAT, DstT=kind)


def _rounded(c: Call, y: Value, scale: int, zero: int) -> Value:
    """The result quantized with a scale and a zero point among the operands, one of each."""
    # ONNX's type of quantized values where there is no zero point to tell it.
    kind = c[zero].dtype if c.has(zero) else UINT8
    if kind is None:
        raise UnsupportedOp("the type of its zero point is not known")
    shift = _sided(c, c[zero], 0, 1) if c.has(zero) else None
    return quantized(c, y, _sided(c, c[scale], 0, 1), shift, kind)


@lifts("onnx.QuantizeLinear")
def _quantize(c: Call) -> Value:
    asked = NUMBERS.get(c.get("output_dtype", 0))
    kind = c[2].dtype if c.has(2) else asked or UINT8
    if kind is None or kind.kind not in "iu" or asked not in (None, kind):
        raise UnsupportedOp("its quantized values are no integers")
    count, axis = rank(c), c.get("axis", 1)
    zero = _sided(c, c[2], axis, count) if c.has(2) else None
    return quantized(c, typed(c, c[0], FLOAT), _sided(c, c[1], axis, count), zero, kind)


@lifts("onnx.DequantizeLinear")
def _dequantize(c: Call) -> Value:
    """In the type of the scale, unless another is asked for."""
    kind = NUMBERS.get(c.get("output_dtype", 0)) or c[1].dtype or FLOAT
    return typed(c, real(c, 0, 1, 2, c.get("axis", 1)), kind)


@lifts("onnx.DynamicQuantizeLinear")
def _dynamic(c: Call) -> list[Value]:
    """DynamicQuantizeLinear: uint8 values, scale and zero point of the range that holds x and 0."""
    zero = c.constant(np.array(0, np.float32))
    every = integers(c, tuple(range(rank(c))))
    # The range holds zero, so that 0 is quantized exactly.
    low = c.emit("Minimum", c.emit("Min", c[0], every, Tidx=INT64), zero)
    high = c.emit("Maximum", c.emit("Max", c[0], every, Tidx=INT64), zero)
    span = c.emit("Sub", high, low)
    # ONNX's definition divides by a scale of 0 where all are 0; its runtime takes a scale of 1 then.
    scale = c.emit("RealDiv", span, c.constant(np.array(255, np.float32)))
    scale = c.emit(
        "SelectV2", c.emit("Equal", span, zero), c.constant(np.array(1, np.float32)), scale, T=FLOAT
    )
    point = c.emit("Round", c.emit("RealDiv", c.emit("Neg", low), scale))
    bounded = c.emit("Minimum", c.emit("Maximum", point, zero), c.constant(np.array(255, np.float32)))
    shift = c.emit("Cast", bounded, SrcT=FLOAT, DstT=UINT8)
    return [quantized(c, c[0], scale, shift, UINT8), scale, shift]


@lifts("onnx.QLinearConv", ignores=("kernel_shape", "pads"))
def _conv(c: Call) -> Value:
    """QLinearConv: the bias has the scale of the products."""
    # Weights may have a scale per output channel, their first axis.
    x, w = real(c, 0, 1, 2), real(c, 3, 4, 5, axis=0)
    bias = None
    if c.has(8):
        products = c.emit("Mul", _sided(c, c[1], 0, 1), _sided(c, c[4], 0, 1))
        # The bias is int32 of scale x times scale w, without a zero point.
        bias = c.emit("Mul", typed(c, c[8], FLOAT), products)
    return _rounded(c, convolution(c, x, w, bias), 6, 7)


@lifts("onnx.QLinearMatMul")
def _matmul(c: Call) -> Value:
    # A scale per column of the second matrix, which is a unit of the result.
    y = matmul(c, real(c, 0, 1, 2), real(c, 3, 4, 5, axis=-1), (rank(c), rank(c, 3)))
    return _rounded(c, y, 6, 7)


def _pairwise(op: str) -> Rule:
    return lambda c: _rounded(c, c.emit(op, real(c, 0, 1, 2), real(c, 3, 4, 5)), 6, 7)


def _mapped(op: str) -> Rule:
    return lambda c: _rounded(c, c.emit(op, real(c, 0, 1, 2)), 3, 4)


@lifts("onnx.com.microsoft.QLinearGlobalAveragePool")
def _global_average(c: Call) -> Value:
    count = rank(c)
    axes = tuple(range(1, count - 1)) if c.get("channels_last", 0) else tuple(range(2, count))
    y = c.emit("Mean", real(c, 0, 1, 2), integers(c, axes), keep_dims=True, Tidx=INT64)
    return _rounded(c, y, 3, 4)


@lifts("onnx.com.microsoft.QLinearConcat")
def _concat(c: Call) -> Value:
    """QLinearConcat: scale and zero point of the result, then tensor, scale, zero point of each part."""
    parts = [real(c, i, i + 1, i + 2) for i in range(2, len(c.xs), 3)]
    y = c.emit("ConcatV2", *parts, c.constant(c.get("axis")), N=len(parts), Tidx=INT32)
    return _rounded(c, y, 0, 1)


def _centred(c: Call, place: int, zero: int, axis: int) -> Value:
    """Quantized values less their zero point, exactly."""
    # In double: sums of products of eight-bit integers fit 32 bits, which float32 does not hold exactly.
    y = typed(c, c[place], _DOUBLE)
    if c.has(zero):
        y = c.emit("Sub", y, typed(c, _sided(c, c[zero], axis, rank(c, place)), _DOUBLE))
    return y


@lifts("onnx.ConvInteger", ignores=("kernel_shape", "pads"))
def _conv_integer(c: Call) -> Value:
    return typed(c, convolution(c, _centred(c, 0, 2, 1), _centred(c, 1, 3, 0), None), INT32)


@lifts("onnx.MatMulInteger")
def _matmul_integer(c: Call) -> Value:
    # Zero points may go by row of the first matrix and by column of the second.
    y = matmul(c, _centred(c, 0, 2, -2), _centred(c, 1, 3, -1), (rank(c), rank(c, 1)))
    return typed(c, y, INT32)


lifts("onnx.com.microsoft.QLinearAdd")(_pairwise("AddV2"))
lifts("onnx.com.microsoft.QLinearMul")(_pairwise("Mul"))
lifts("onnx.com.microsoft.QLinearSigmoid")(_mapped("Sigmoid"))
